//! The PROXY protocol header before the first request (`listen … proxy_protocol`).

use std::time::Duration;

use freerun_proto::ProxyHeader;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::values::proxy_header::{self, HeaderError};

use crate::http_loop::HttpLoop;
use crate::log::Peer;
use crate::protocol::early_end::{self, AwaitedData, End};
use crate::request::ClientConnection;

/// Reads the header behind the bytes in `buffer`; all of it has to come within `timeout`. Leaves the bytes after it in
/// `buffer`. `None` if the connection is to be closed, which is logged.
pub async fn read(
    http: &HttpLoop,
    connection: &ClientConnection,
    timer: &mut Timer,
    timeout: Duration,
    buffer: &mut Vec<u8>,
) -> Option<ProxyHeader> {
    loops::note(connection.number, "reading a PROXY protocol header");
    let end = match proxy_header::read(&connection.transport, timer, timeout, buffer).await {
        Ok(header) => return Some(header),
        Err(HeaderError::Closed) => End::Closed,
        Err(HeaderError::Broken(error)) => End::Broken(error),
        Err(HeaderError::TimedOut) => End::TimedOut,
        Err(HeaderError::Refused(refused)) => {
            let (client, server) = (Peer(&connection.first_peer), &connection.listen.name);
            let context = format_args!(" while reading PROXY protocol, client: {client}, server: {server}");
            connection.log(Level::Error, format_args!("{refused}{context}"));
            return None;
        }
    };
    early_end::log(http, connection, AwaitedData::ProxyHeader, &end);
    None
}
