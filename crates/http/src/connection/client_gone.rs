//! Whether the client of a request is still there, for work that would be useless without it.

use freerun_runtime::files::ClientPresence;

use super::client::ClientView;

/// The client as a thread pool watches it. Work that goes on without its client is never given up.
pub struct ClientGone<'c, C>(&'c ClientView<C>);

impl<'c, C> ClientGone<'c, C> {
    /// Watches this client, for work on behalf of its request.
    pub fn of(client: &'c ClientView<C>) -> ClientGone<'c, C> {
        ClientGone(client)
    }
}

impl<C> ClientPresence for ClientGone<'_, C> {
    fn gone(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.0.gone())
    }
}
