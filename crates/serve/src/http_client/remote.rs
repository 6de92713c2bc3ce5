//! Requests of threads that are no loops: a loop does the work for them.

use std::fmt;
use std::sync::Arc;

use freerun_runtime::files::{FileSystem, SocketPaths};
use freerun_runtime::loops::{self, Remote};
use freerun_runtime::pool::PoolSet;
use freerun_upstream::UpstreamAddress;
use tokio::sync::oneshot;

use super::error::HttpClientError;
use super::exchange::{ExchangeTls, HttpClient, TransferLimits};
use super::request::OutgoingRequest;
use super::response::WholeResponse;
use crate::tls::handshake::HandshakeHelpers;
use crate::tls::handshake::figures::TlsFigures;
use crate::tls::handshake::outgoing_session::OutgoingTls;

/// A request with all that is needed to send it.
#[derive(Clone)]
pub struct RemoteExchange {
    /// The addresses of the server, which are tried in this order.
    pub addresses: Vec<UpstreamAddress>,
    /// TLS with the server, if it has TLS.
    pub tls: Option<OutgoingTls>,
    /// The bounds.
    pub limits: TransferLimits,
    /// The request.
    pub request: OutgoingRequest,
}

/// The HTTP client for threads that are no loops. It is cheap to clone.
#[derive(Clone)]
pub struct RemoteClient {
    remote: Remote,
    files: Arc<FileSystem>,
    pools: PoolSet,
    /// The figures of these handshakes, which nobody reads: upstream servers have figures of their own.
    figures: Arc<TlsFigures>,
}

impl RemoteClient {
    /// A client that sends its requests from this loop.
    pub fn new(remote: Remote, files: Arc<FileSystem>, pools: PoolSet) -> RemoteClient {
        RemoteClient { remote, files, pools, figures: Arc::default() }
    }

    /// Sends a request, and waits for the end of the response. Dropping the future closes the connection.
    ///
    /// # Errors
    /// [`HttpClientError`].
    pub fn send(
        &self,
        exchange: RemoteExchange,
    ) -> impl Future<Output = Result<WholeResponse, HttpClientError>> + Send + use<> {
        let (mut sender, receiver) = oneshot::channel();
        let this = self.clone();
        let job = move || {
            loops::spawn(0, "an HTTP request of the server", async move {
                let response = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    response = this.exchange(&exchange) => response,
                };
                // Nobody waits any more if this fails.
                let _ = sender.send(response);
            });
        };
        // A job that is not taken, or that ends with its loop, drops the sender.
        let _ = self.remote.tell(job);
        async move { receiver.await.unwrap_or(Err(HttpClientError::NoLoop)) }
    }

    async fn exchange(&self, exchange: &RemoteExchange) -> Result<WholeResponse, HttpClientError> {
        let RemoteExchange { addresses, tls, limits, request } = exchange;
        let helpers = HandshakeHelpers { pool: self.pools.handshakes(), lane: 0, figures: &self.figures };
        let tls = tls.as_ref().map(|tls| ExchangeTls { tls, helpers });
        let paths = SocketPaths { files: &self.files, pool: self.pools.default(), client: 0 };
        let client = HttpClient { limits: *limits, tls, paths };
        client.send(addresses, request).await?.body().await
    }
}

impl fmt::Debug for RemoteClient {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("RemoteClient").finish_non_exhaustive()
    }
}
