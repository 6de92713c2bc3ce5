//! Whether the client of a request is still there, for work that would be in vain without it.

use freerun_runtime::files::Gone;

use crate::request::{Connection, Request};

/// The client's socket as the pool watches it; none for what goes on without its client.
pub struct ClientGone<'c>(Option<&'c Connection>);

impl<'c> ClientGone<'c> {
    /// For work on behalf of a request.
    pub fn of(request: &'c Request) -> ClientGone<'c> {
        ClientGone::on(&request.connection, request.is_background)
    }

    /// The same where the request is not at hand.
    pub fn on(connection: &'c Connection, is_background: bool) -> ClientGone<'c> {
        ClientGone((!is_background).then_some(connection))
    }
}

impl Gone for ClientGone<'_> {
    fn gone(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
        match self.0 {
            Some(connection) => Box::pin(connection.transport.gone()),
            None => Box::pin(std::future::pending()),
        }
    }
}
