//! Progress of a body's source while the client is waited for.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use crate::request::response::BodySource;
use crate::write::WriteError;

/// Waits for the client, and lets the source go on while that takes time.
pub async fn meanwhile<T>(source: &mut Option<&mut Box<dyn BodySource>>, waiting: impl Future<Output = T>) -> T {
    let Some(source) = source else { return waiting.await };
    let mut waiting = pin!(waiting);
    // Some waits are ready at once: then asking the source is wasted time.
    if let Poll::Ready(output) = poll_once(&mut waiting).await {
        return output;
    }
    {
        let mut ahead = source.ahead();
        let either = poll_fn(|context| match waiting.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => ahead.as_mut().poll(context).map(|()| None),
        });
        if let Some(output) = either.await {
            return output;
        }
    }
    waiting.await
}

/// Waits for `sending`, and polls for the `next` piece beside it: a source may have more work to do for that than to
/// wait. Returns the piece if it has come.
pub async fn sent_beside<T>(
    sending: impl Future<Output = Result<(), WriteError>>,
    mut next: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Result<Option<T>, WriteError> {
    let mut sending = pin!(sending);
    let mut come = None;
    let sent = poll_fn(|context| {
        let sent = sending.as_mut().poll(context);
        if sent.is_pending()
            && come.is_none()
            && let Poll::Ready(next) = next.as_mut().poll(context)
        {
            come = Some(next);
        }
        sent
    });
    sent.await.map(|()| come)
}

/// Polls a future once.
pub async fn poll_once<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn what_comes_next_is_asked_for_while_something_is_sent() {
        let mut context = Context::from_waker(Waker::noop());
        // The client takes the bytes only after the source has been polled.
        let asked = Cell::new(false);
        let mut next = pin!(poll_fn(|_| Poll::Ready(asked.replace(true))));
        let sending = poll_fn(|_| if asked.get() { Poll::Ready(Ok(())) } else { Poll::Pending });
        let mut both = pin!(sent_beside(sending, next.as_mut()));
        assert!(both.as_mut().poll(&mut context).is_pending());
        assert!(matches!(both.as_mut().poll(&mut context), Poll::Ready(Ok(Some(false)))));
        // A future that is ready at once must not poll the source.
        let mut unasked = pin!(poll_fn(|_| -> Poll<()> { panic!("it is asked") }));
        let mut sent = pin!(sent_beside(async { Ok(()) }, unasked.as_mut()));
        assert!(matches!(sent.as_mut().poll(&mut context), Poll::Ready(Ok(None))));
    }
}
