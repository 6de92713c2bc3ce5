//! The error log's messages about connections that end before the first byte of a request, in nginx's words.

use std::fmt;
use std::io;

use freerun_runtime::log::{Errno, Level};

use crate::http_loop::HttpLoop;
use crate::log::Peer;
use crate::request::ClientConnection;
use crate::settings::server::ServerSettings;

/// The manner in which the connection ended.
pub enum End {
    /// The client closed it, or the server closed it while it was idle, which looks the same here.
    Closed,
    /// The connection broke.
    Broken(io::Error),
    /// No byte came in time.
    TimedOut,
}

/// The data that was waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AwaitedData {
    /// The PROXY protocol header.
    ProxyHeader,
    /// The beginning of a TLS handshake.
    Handshake,
    /// The first request.
    First,
    /// A further request.
    Next,
}

impl fmt::Display for AwaitedData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            AwaitedData::ProxyHeader => "reading PROXY protocol",
            AwaitedData::Handshake => "SSL handshaking",
            AwaitedData::First | AwaitedData::Next => "waiting for request",
        })
    }
}

/// Logs the end of a connection where nginx does: not if it is closed to make room, or because its keep-alive time is
/// over.
pub fn log(http: &HttpLoop, connection: &ClientConnection, awaited: AwaitedData, end: &End) {
    let Some((generation, servers, _)) = http.servers(connection) else { return };
    let log = servers.entry.error_log(&generation);
    let own = connection.own_log_level();
    if !log.admits(Level::Info, own) {
        return;
    }
    let has_no_session = || connection.transport.tls().is_some_and(|tls| !tls.is_established());
    let awaited = match awaited {
        AwaitedData::First if servers.tls && has_no_session() => AwaitedData::Handshake,
        awaited => awaited,
    };
    let write = |message: fmt::Arguments<'_>| log.write_about(Level::Info, own, Some(connection.number), message);
    let client = Peer(&connection.first_peer);
    let timeout = servers.entry.settings.get::<ServerSettings>().client_header_timeout;
    let timed_out = match end {
        // An idle client that has sent nothing yet and whose time is over is woken by the end of the receiving side.
        End::Closed if connection.is_closing() => {
            if connection.idle_since.elapsed() < timeout {
                return;
            }
            true
        }
        end => matches!(end, End::TimedOut),
    };
    match (awaited, end) {
        (AwaitedData::Next, _) if timed_out => {}
        (AwaitedData::Next, End::Broken(error)) => {
            write(format_args!("client {client} closed keepalive connection ({})", Errno(error)))
        }
        (AwaitedData::Next, _) => write(format_args!("client {client} closed keepalive connection")),
        (awaited, end) => {
            let context = format_args!("while {awaited}, client: {client}, server: {}", connection.listen.name);
            match end {
                _ if timed_out => write(format_args!("client timed out (110: Connection timed out) {context}")),
                End::Broken(error) => write(format_args!("recv() failed ({}) {context}", Errno(error))),
                _ => write(format_args!("client closed connection {context}")),
            }
        }
    }
}
