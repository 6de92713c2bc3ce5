//! Watches the client whose request is passed on while the upstream server is waited for.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use freerun_http::request::ClientStream;

use crate::client::error::UpstreamError;

/// A watch over the client while the upstream server is waited for.
#[derive(Clone)]
pub struct ClientWatch {
    stream: ClientStream,
    /// Whether the request is given up when the client goes.
    watched: bool,
}

impl ClientWatch {
    /// A watch over this connection. `watched`: the request is given up when the client goes.
    pub fn new(stream: ClientStream, watched: bool) -> ClientWatch {
        ClientWatch { stream, watched }
    }

    /// A watch that does not give the request up when the client goes.
    pub fn unwatched(&self) -> ClientWatch {
        ClientWatch { stream: self.stream.clone(), watched: false }
    }

    /// Whether the request is given up when the client goes.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// The number of bytes that the client's socket would certainly accept now.
    pub fn room(&self) -> usize {
        self.stream.certain_room()
    }

    /// Waits for `future`, unless the client goes before.
    ///
    /// # Errors
    /// [`UpstreamError::ClientGone`]
    pub async fn unless_gone<T>(&self, future: impl Future<Output = T>) -> Result<T, UpstreamError> {
        let mut future = pin!(future);
        let mut gone = pin!(self.gone());
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => gone.as_mut().poll(context).map(|()| Err(UpstreamError::ClientGone)),
        })
        .await
    }

    /// Waits for `future`, whatever the client does. Calls `tell` at once if the client goes meanwhile, and returns
    /// whether it has gone, too.
    pub async fn noting_gone<T>(&self, future: impl Future<Output = T>, tell: impl Fn()) -> (T, bool) {
        let mut future = pin!(future);
        let mut gone = pin!(self.gone());
        let mut has_gone = false;
        let output = poll_fn(|context| {
            if !has_gone && gone.as_mut().poll(context).is_ready() {
                has_gone = true;
                tell();
            }
            future.as_mut().poll(context)
        })
        .await;
        (output, has_gone)
    }

    /// Waits for the client to go. Only the client's own task may call it, because that task reads from the client.
    pub async fn gone(&self) {
        if self.watched { self.stream.gone_for_reader().await } else { std::future::pending().await }
    }
}
