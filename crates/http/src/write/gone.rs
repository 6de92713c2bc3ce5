//! Whether the client of a request is still there, for work that would be in vain without it.

use freerun_runtime::files::Gone;

use crate::connection::client::ClientStream;
use crate::request::Request;

/// The client as a pool watches it; what goes on without its client is never given up.
pub struct ClientGone<'c>(&'c ClientStream);

impl<'c> ClientGone<'c> {
    /// For work on behalf of a request.
    pub fn of(request: &'c Request) -> ClientGone<'c> {
        ClientGone(&request.client)
    }

    /// For work on behalf of a client whose request is not at hand.
    pub fn on(client: &'c ClientStream) -> ClientGone<'c> {
        ClientGone(client)
    }
}

impl Gone for ClientGone<'_> {
    fn gone(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.0.gone())
    }
}
