//! The error log's messages about connections that end before the first byte of a request, in nginx's words.

use std::fmt;
use std::io;
use std::time::Duration;

use freerun_runtime::log::{Errno, Level};
use freerun_runtime::loops;

use crate::http_loop::HttpLoop;
use crate::log::Peer;
use crate::request::ClientConnection;
use crate::settings::server::ServerSettings;

/// How the connection ended.
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
pub enum Awaited {
    /// The PROXY protocol header.
    ProxyHeader,
    /// The beginning of a TLS handshake.
    Handshake,
    /// The first request.
    First,
    /// A further request.
    Next,
}

impl fmt::Display for Awaited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Awaited::ProxyHeader => "reading PROXY protocol",
            Awaited::Handshake => "SSL handshaking",
            Awaited::First | Awaited::Next => "waiting for request",
        })
    }
}

/// Logs the end of a connection where nginx does: not if it is closed to make room, or because its keep-alive time is
/// over.
pub fn log(http: &HttpLoop, connection: &ClientConnection, awaited: Awaited, end: &End) {
    let Some((generation, servers, _)) = http.servers(connection) else { return };
    let log = servers.entry.error_log(&generation);
    let own = connection.own_log_level();
    if !log.admits(Level::Info, own) {
        return;
    }
    let has_no_session = || connection.transport.tls().is_some_and(|tls| !tls.is_established());
    let awaited = match awaited {
        Awaited::First if servers.tls && has_no_session() => Awaited::Handshake,
        awaited => awaited,
    };
    let write = |message: fmt::Arguments<'_>| log.write_about(Level::Info, own, Some(connection.number), message);
    let client = Peer(&connection.peer);
    let timeout = servers.entry.settings.get::<ServerSettings>().client_header_timeout;
    let timed_out = match end {
        // An idle client that has sent nothing yet and whose time is over is woken by the end of the receiving side.
        End::Closed if connection.is_closing() => match idle_for(connection) >= timeout {
            true => true,
            false => return,
        },
        end => matches!(end, End::TimedOut),
    };
    match (awaited, end) {
        (Awaited::Next, _) if timed_out => {}
        (Awaited::Next, End::Broken(error)) => {
            write(format_args!("client {client} closed keepalive connection ({})", Errno(error)))
        }
        (Awaited::Next, _) => write(format_args!("client {client} closed keepalive connection")),
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

/// How long the connection was idle the last time; zero if it never was.
fn idle_for(connection: &ClientConnection) -> Duration {
    match connection.idle_since.get() {
        0 => Duration::ZERO,
        since => Duration::from_nanos(loops::nanos().saturating_sub(since)),
    }
}
