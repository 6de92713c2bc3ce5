//! The PROXY protocol header before the first byte of a connection (`listen … proxy_protocol`): reading it, and the variables
//! that it gives.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use freerun_conf::parse_address;
use freerun_proto::ProxyHeader;
use freerun_proto::proxy_protocol::{self, Ends, ProxyError};
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, loops};
use freerun_transport::Transport;

use crate::values::subject::Subject;
use crate::values::{Variable, VariableValue};

/// Number of bytes of a broken header that are logged: the length of the longest line of version 1.
const SHOWN: usize = 107;

/// The reason that there is no header.
#[derive(Debug)]
pub enum HeaderError {
    /// The client has closed the connection before it sent anything.
    Closed,
    /// The connection broke.
    Broken(io::Error),
    /// The header did not come in time.
    TimedOut,
    /// The header cannot be read.
    Refused(HeaderRefusal),
}

/// A header that cannot be read, with the words of nginx's error log.
#[derive(Debug)]
pub struct HeaderRefusal {
    error: ProxyError,
    /// The first line of a broken header. The rest may be anything, such as a request with its secrets.
    line: Box<[u8]>,
}

/// Refuses the header that the buffer begins with.
fn refused(error: ProxyError, buffer: &[u8]) -> HeaderError {
    let line = memchr::memchr2(b'\r', b'\n', buffer).unwrap_or(buffer.len());
    HeaderError::Refused(HeaderRefusal { error, line: buffer[..line.min(SHOWN)].into() })
}

impl fmt::Display for HeaderRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            ProxyError::Broken => write!(formatter, "{}: \"{}\"", self.error, self.line.escape_ascii()),
            error => error.fmt(formatter),
        }
    }
}

/// Reads the header behind the bytes in `buffer`, and leaves the bytes after it there. The whole header has to come within
/// `timeout`.
///
/// # Errors
/// See [`HeaderError`].
pub async fn read(
    transport: &Transport,
    timer: &mut Timer,
    timeout: Duration,
    buffer: &mut Vec<u8>,
) -> Result<ProxyHeader, HeaderError> {
    let start = loops::now();
    loop {
        match proxy_protocol::parse(buffer) {
            Ok(Some((header, len))) => {
                buffer.drain(..len);
                return Ok(header);
            }
            Ok(None) => {}
            Err(error) => return Err(refused(error, buffer)),
        }
        if buffer.capacity() == 0 {
            *buffer = buffers::take();
        }
        if buffer.len() == buffer.capacity() {
            buffer.reserve_exact(proxy_protocol::MAX_HEADER);
        }
        let left = timeout.saturating_sub(loops::now().saturating_duration_since(start));
        match timer.within(left, transport.read(buffer)).await {
            Some(Ok(1..)) => {}
            Some(Ok(0)) if buffer.is_empty() => return Err(HeaderError::Closed),
            Some(Ok(0)) => return Err(refused(ProxyError::Broken, buffer)),
            Some(Err(error)) => return Err(HeaderError::Broken(error)),
            None => return Err(HeaderError::TimedOut),
        }
    }
}

/// A subject whose client may come with a header.
pub trait ProxiedSubject: Subject {
    /// The header, if there was one.
    fn proxied(&self) -> Option<&ProxyHeader>;

    /// The client's address as the header names it, if it is one.
    fn proxied_client(&self) -> Option<SocketAddr> {
        let ends = ends(self)?;
        let mut address = parse_address(&ends.client)?;
        address.set_port(ends.client_port);
        Some(address)
    }
}

/// The variables `$proxy_protocol_…` of a kind of subject.
pub struct ProxyVariables<S>(PhantomData<fn(&S)>);

impl<S: ProxiedSubject> ProxyVariables<S> {
    /// The table of these variables.
    pub const VARIABLES: &'static [Variable<S>] = &[
        Variable::named(
            "proxy_protocol_addr",
            "The client's address in the header of the PROXY protocol (`listen … proxy_protocol`).",
            |s, _| ends(s).map(|ends| Cow::Borrowed(ends.client.as_bytes())),
        ),
        Variable::named("proxy_protocol_port", "The client's port in the header of the PROXY protocol.", |s, _| {
            port(ends(s)?.client_port)
        }),
        Variable::named(
            "proxy_protocol_server_addr",
            "The server's address in the header of the PROXY protocol.",
            |s, _| ends(s).map(|ends| Cow::Borrowed(ends.server.as_bytes())),
        ),
        Variable::named(
            "proxy_protocol_server_port",
            "The server's port in the header of the PROXY protocol.",
            |s, _| port(ends(s)?.server_port),
        ),
        Variable::family(
            "proxy_protocol_tlv_",
            "A field (TLV) of the header of the PROXY protocol, by its name (`alpn`, `authority`, `unique_id`, \
             `ssl`, `netns`, `ssl_version`, `ssl_cn`, `ssl_cipher`, `ssl_sig_alg`, `ssl_key_alg`, `ssl_verify`) \
             or by its number in hexadecimal (`0x01`).",
            |s, name| s.proxied()?.tlv(name),
        ),
    ];
}

/// The addresses that the header names for the client's connection.
fn ends<S: ProxiedSubject>(subject: &S) -> Option<&Ends> {
    subject.proxied()?.ends.as_ref()
}

/// The value of a port; empty if it is not known.
fn port<'s>(port: u16) -> VariableValue<'s> {
    Some(if port == 0 { Cow::Borrowed(b"") } else { Cow::Owned(port.to_string().into_bytes()) })
}
