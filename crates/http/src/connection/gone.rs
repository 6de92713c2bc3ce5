//! Whether the client of a request is still there, for work that would be in vain without it.

use freerun_runtime::files::Gone;

use super::client::ClientStream;

/// The client as a pool watches it; what goes on without its client is never given up.
pub struct ClientGone<'c, C>(&'c ClientStream<C>);

impl<'c, C> ClientGone<'c, C> {
    /// For work on behalf of this client's request.
    pub fn of(client: &'c ClientStream<C>) -> ClientGone<'c, C> {
        ClientGone(client)
    }
}

impl<C> Gone for ClientGone<'_, C> {
    fn gone(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.0.gone())
    }
}
