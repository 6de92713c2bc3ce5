//! Whether the client of a request is still there, for work that would be in vain without it.

use freerun_runtime::files::Gone;

use super::client::ClientStream;

/// The client as a pool watches it; what goes on without its client is never given up.
pub struct ClientGone<'c>(&'c ClientStream);

impl<'c> ClientGone<'c> {
    /// For work on behalf of this client's request.
    pub fn of(client: &'c ClientStream) -> ClientGone<'c> {
        ClientGone(client)
    }
}

impl Gone for ClientGone<'_> {
    fn gone(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.0.gone())
    }
}
