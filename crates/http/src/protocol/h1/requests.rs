//! The requests of a connection, until it waits for the next one.

use std::rc::Rc;

use freerun_runtime::timer::Timer;
use freerun_runtime::{arrival_era, loops};

use crate::connection::idle::Keep;
use crate::http_loop::HttpLoop;
use crate::message::scratch::RequestScratch;
use crate::protocol::h1::linger;
use crate::protocol::h1::one_request::{After, one_request};
use crate::protocol::h1::upgraded_connection::UpgradedConnection;
use crate::request::ClientConnection;

/// The continuation of a connection whose requests have all been answered.
pub enum Continuation {
    /// The connection waits for its next request.
    Idle(Keep),
    /// The connection has left HTTP.
    Upgraded(Box<UpgradedConnection>),
    /// The connection is closed.
    Close,
}

/// Serves requests until there is none. `buffer` has the bytes of the first request that have come. `is_announced` says that
/// an event has announced its first byte.
pub async fn requests(
    http: &HttpLoop,
    connection: &Rc<ClientConnection>,
    timer: &mut Timer,
    mut buffer: Vec<u8>,
    mut is_announced: bool,
    scratch: &mut RequestScratch,
) -> Continuation {
    loop {
        // A client that always has its next request ready must not keep the others waiting.
        loops::consume_budget().await;
        if !std::mem::take(&mut is_announced) {
            arrival_era::begin();
        }
        let serial = connection.requests.get() + 1;
        connection.requests.set(serial);
        connection.sending.expect_response();
        match one_request(http, connection, timer, buffer, serial, scratch).await {
            After::Next(rest, keep) if rest.is_empty() => return Continuation::Idle(keep),
            After::Next(rest, _) => buffer = rest,
            After::Linger(pause, total) => {
                linger::linger(connection, timer, pause, total).await;
                return Continuation::Close;
            }
            After::Upgraded(upgraded) => return Continuation::Upgraded(upgraded),
            After::Close => return Continuation::Close,
        }
    }
}
