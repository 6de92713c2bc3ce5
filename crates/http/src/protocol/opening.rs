//! The opening of a connection, in the order of the wire: its first bytes, the PROXY protocol header, TLS, and which
//! version of HTTP follows.
//!
//! A connection whose client has sent nothing yet waits among the idle ones, and its opening begins again there. So every
//! step looks first whether it is done already.

use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use freerun_runtime::buffers;
use freerun_runtime::timer::Timer;
use freerun_serve::loops::predictor::SampledPredictor;
use freerun_serve::tls::handshake::Speaks;

use crate::http_loop::HttpLoop;
use crate::protocol::early_end::{self, AwaitedData, End};
use crate::protocol::{h2, proxy_header, tls};
use crate::request::ClientConnection;
use crate::request::generation::AnsweringServers;
use crate::settings::server::ServerSettings;

/// The decision about a connection at the end of its opening.
pub(super) enum Decision {
    /// Requests of HTTP/1 follow. The buffer has the bytes that have come already.
    Http1,
    /// HTTP/2 follows, whose first bytes may be in the buffer.
    Http2,
    /// The connection waits among the idle ones, at most for this time. The buffer is empty.
    Wait(Duration),
    /// The connection is closed, for a reason that is logged.
    Close,
}

/// The experience of a loop with the first bytes of its connections.
pub(super) struct FirstReads {
    /// Whether a connection's first bytes are usually there when it is accepted. Most clients send a request right
    /// after the handshake. A loop that was busy finds it there, and reading it at once saves a registration, which
    /// costs three times as much as a read that finds nothing. A loop that was waiting for the connection comes too
    /// early.
    are_there: SampledPredictor,
}

impl Default for FirstReads {
    fn default() -> FirstReads {
        FirstReads { are_there: SampledPredictor::new(3, 1) }
    }
}

/// Opens a connection that has had no request.
pub(super) async fn open(
    http: &HttpLoop,
    first_reads: &FirstReads,
    connection: &Rc<ClientConnection>,
    timer: &mut Timer,
    buffer: &mut Vec<u8>,
) -> Decision {
    if connection.polls.begin()
        && let Some(ended) = read_first(http, first_reads, connection, buffer)
    {
        return ended;
    }
    let Some((_, mut servers, _)) = http.servers(connection) else { return close(buffer) };
    if servers.proxy_protocol && connection.proxied().is_none() {
        if let Some(ended) = expect_proxy_header(http, &servers, connection, timer, buffer).await {
            return ended;
        }
        // There may be another configuration meanwhile.
        let Some((_, newest, _)) = http.servers(connection) else { return close(buffer) };
        servers = newest;
    }
    let session = connection.transport.tls();
    if servers.tls && session.is_some_and(|session| !session.is_established()) {
        return expect_handshake(http, header_timeout(&servers), connection, timer, buffer).await;
    }
    // Where another service has established the session, nobody has looked yet whether the client speaks HTTP/2.
    if servers.accepts_preface() && (session.is_none() || connection.was_passed_on()) {
        return expect_preface(http, header_timeout(&servers), connection, timer, buffer).await;
    }
    Decision::Http1
}

/// Reads the bytes that are there when the connection is polled for the first time. `None` if there are some.
fn read_first(
    http: &HttpLoop,
    first_reads: &FirstReads,
    connection: &ClientConnection,
    buffer: &mut Vec<u8>,
) -> Option<Decision> {
    let first = &first_reads.are_there;
    let read = if connection.was_passed_on() {
        *buffer = connection.take_received();
        if buffer.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(buffer.len()) }
    } else if first.pays() {
        *buffer = buffers::take();
        let read = connection.transport.try_read(buffer);
        first.came_out(matches!(read, Ok(1..)));
        read
    } else {
        Err(ErrorKind::WouldBlock.into())
    };
    if matches!(read, Ok(1..)) {
        return None;
    }
    let Some((_, servers, _)) = http.servers(connection) else { return Some(close(buffer)) };
    let end = match read {
        // A client that has sent nothing yet waits among the idle connections: without a buffer, and the first to
        // be closed when there are too many connections.
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(wait(header_timeout(&servers), buffer)),
        Err(error) => End::Broken(error),
        Ok(_) => End::Closed,
    };
    let awaited = if servers.proxy_protocol { AwaitedData::ProxyHeader } else { AwaitedData::First };
    early_end::log(http, connection, awaited, &end);
    Some(close(buffer))
}

/// Reads the PROXY protocol header. `None` if the opening goes on.
async fn expect_proxy_header(
    http: &HttpLoop,
    servers: &AnsweringServers,
    connection: &ClientConnection,
    timer: &mut Timer,
    buffer: &mut Vec<u8>,
) -> Option<Decision> {
    let timeout = header_timeout(servers);
    let Some(header) = proxy_header::read(http, connection, timer, timeout, buffer).await else {
        return Some(close(buffer));
    };
    connection.set_proxied(header);
    buffer.is_empty().then(|| wait(timeout, buffer))
}

/// Lets the client have a TLS session. ALPN (RFC 7301) says what follows.
async fn expect_handshake(
    http: &HttpLoop,
    timeout: Duration,
    connection: &Rc<ClientConnection>,
    timer: &mut Timer,
    buffer: &mut Vec<u8>,
) -> Decision {
    match tls::open(http, connection, timer, timeout, buffer).await {
        Some(Speaks::Tls) if tls::is_http2(connection) => Decision::Http2,
        // The connection waits for its first request as any other one, without a buffer.
        Some(Speaks::Tls) => wait(timeout, buffer),
        // The request is answered with 497.
        Some(Speaks::Plain) => Decision::Http1,
        None => close(buffer),
    }
}

/// Reads until it is clear whether the client has sent the preface of HTTP/2.
async fn expect_preface(
    http: &HttpLoop,
    timeout: Duration,
    connection: &ClientConnection,
    timer: &mut Timer,
    buffer: &mut Vec<u8>,
) -> Decision {
    match h2::read_preface(connection, timer, timeout, buffer).await {
        h2::FirstBytes::Http2 => Decision::Http2,
        h2::FirstBytes::Other => Decision::Http1,
        h2::FirstBytes::Nothing(end) => {
            early_end::log(http, connection, AwaitedData::First, &end);
            close(buffer)
        }
    }
}

/// The time that each step of the opening may take.
fn header_timeout(servers: &AnsweringServers) -> Duration {
    servers.entry.settings.get::<ServerSettings>().client_header_timeout
}

fn wait(time: Duration, buffer: &mut Vec<u8>) -> Decision {
    buffers::give_back(std::mem::take(buffer));
    Decision::Wait(time)
}

fn close(buffer: &mut Vec<u8>) -> Decision {
    buffers::give_back(std::mem::take(buffer));
    Decision::Close
}
