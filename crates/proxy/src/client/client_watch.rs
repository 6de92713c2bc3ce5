//! The client whose request is passed on, as far as it has to be there while the upstream server is waited for.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use freerun_http::request::ClientStream;

use crate::client::error::UpstreamError;

/// The client, as far as it has to be there while the upstream server is waited for.
#[derive(Clone)]
pub struct ClientWatch {
    stream: ClientStream,
    /// Whether anything depends on it.
    watched: bool,
}

impl ClientWatch {
    /// Of this connection. `watched`: what is done for it is given up when it goes.
    pub fn new(stream: ClientStream, watched: bool) -> ClientWatch {
        ClientWatch { stream, watched }
    }

    /// A watch over the client that gives nothing up when it goes.
    pub fn unwatched(&self) -> ClientWatch {
        ClientWatch { stream: self.stream.clone(), watched: false }
    }

    /// Whether what is done for it is given up when it goes.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// How many bytes its socket would certainly take now.
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

    /// Waits for the client to go. Only its own task does so, which is the one that reads from it.
    pub async fn gone(&self) {
        match self.watched {
            true => self.stream.gone_for_reader().await,
            false => std::future::pending().await,
        }
    }
}
