//! The PROXY protocol header before the first request (`listen … proxy_protocol`).

use std::time::Duration;

use freerun_proto::ProxyHeader;
use freerun_proto::proxy_protocol::{self, ProxyError};
use freerun_runtime::log::Level;
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, loops};

use crate::http_loop::HttpLoop;
use crate::log::Peer;
use crate::protocol::unanswered::{self, Awaited, End};
use crate::request::Connection;

/// How much of a broken header is logged: the length of the longest line of version 1.
const SHOWN: usize = 107;

/// Reads the header, all of which has to come within `timeout`, behind the bytes in `buffer`; leaves the bytes after it
/// there. `None` if the connection is to be closed, which is logged.
pub async fn read(
    http: &HttpLoop,
    connection: &Connection,
    timer: &mut Timer,
    timeout: Duration,
    buffer: &mut Vec<u8>,
) -> Option<ProxyHeader> {
    loops::note(connection.number, "reading a PROXY protocol header");
    let start = loops::now();
    loop {
        match proxy_protocol::parse(buffer) {
            Ok(Some((header, len))) => {
                buffer.drain(..len);
                return Some(header);
            }
            Ok(None) => {}
            Err(error) => {
                refuse(connection, buffer, error);
                return None;
            }
        }
        if buffer.capacity() == 0 {
            *buffer = buffers::take();
        }
        if buffer.len() == buffer.capacity() {
            buffer.reserve_exact(proxy_protocol::MAX_HEADER);
        }
        let left = timeout.saturating_sub(loops::now().saturating_duration_since(start));
        match timer.within(left, connection.transport.read(buffer)).await {
            Some(Ok(1..)) => {}
            Some(Ok(0)) if buffer.is_empty() => {
                unanswered::log(http, connection, Awaited::ProxyHeader, &End::Closed);
                return None;
            }
            Some(Ok(0)) => {
                refuse(connection, buffer, ProxyError::Broken);
                return None;
            }
            Some(Err(error)) => {
                unanswered::log(http, connection, Awaited::ProxyHeader, &End::Broken(error));
                return None;
            }
            None => {
                unanswered::log(http, connection, Awaited::ProxyHeader, &End::TimedOut);
                return None;
            }
        }
    }
}

fn refuse(connection: &Connection, buffer: &[u8], error: ProxyError) {
    if error != ProxyError::Broken {
        log(connection, Level::Error, format_args!("{error}"));
        return;
    }
    // Only the first line is logged; the rest may be anything, such as a request with its secrets.
    let line = memchr::memchr2(b'\r', b'\n', buffer).unwrap_or(buffer.len());
    log(connection, Level::Error, format_args!("{error}: \"{}\"", buffer[..line.min(SHOWN)].escape_ascii()));
}

fn log(connection: &Connection, level: Level, message: std::fmt::Arguments<'_>) {
    let (client, server) = (Peer(&connection.peer), &connection.listen.name);
    let context = format_args!(" while reading PROXY protocol, client: {client}, server: {server}");
    connection.log(level, format_args!("{message}{context}"));
}
