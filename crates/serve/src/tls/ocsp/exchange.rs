//! One request to a responder at one address, and its response.

use std::io::{self, IoSlice};
use std::time::Duration;

use freerun_proto::body::BodyDecoder;
use freerun_proto::chunked::Step;
use freerun_proto::response::{Asked, HeadKind, ResponseHead, ResponseParser};
use freerun_runtime::files::SocketPaths;
use freerun_runtime::log::Errno;
use freerun_runtime::timer;
use freerun_tls::verify::MAX_OCSP_RESPONSE;
use freerun_transport::Transport;
use freerun_upstream::UpstreamAddress;
use freerun_upstream::connect::{ConnectError, ConnectOptions, connect};

/// How long an exchange may take; nginx has the same.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest head of a response in bytes; nginx has room for as much of head and body together.
const MAX_HEAD: usize = 16 << 10;

/// The fewest bytes that there is room for when more are received.
const ROOM: usize = 4 << 10;

/// The type of a response (RFC 6960 appendix A.2).
const MEDIA_TYPE: &[u8] = b"application/ocsp-response";

/// Why there is no response. The text is that of nginx, where nginx has one.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    /// No connection could be made.
    #[error("{0} ({error})", error = Errno(.0.io()))]
    Connect(ConnectError),
    /// The connection broke.
    #[error("{0} failed ({error})", error = Errno(.1))]
    Broken(&'static str, io::Error),
    /// It took too long.
    #[error("OCSP responder timed out (110: Connection timed out)")]
    TimedOut,
    /// The responder closed the connection before its response was complete.
    #[error("OCSP responder prematurely closed connection")]
    Closed,
    /// What it sends is no response of HTTP.
    #[error("OCSP responder sent invalid response")]
    Invalid,
    /// The response is of another type.
    #[error("OCSP responder sent invalid \"Content-Type\" header: \"{0}\"")]
    Type(String),
    /// It has another status than 200.
    #[error("OCSP responder sent status {0}")]
    Status(u16),
    /// It is larger than any that is of use.
    #[error("OCSP responder sent too large response")]
    TooLarge,
}

impl ExchangeError {
    /// Whether another address of the responder may do better.
    pub(super) fn is_of_address(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Broken(..) | Self::TimedOut | Self::Closed => true,
            Self::Invalid | Self::Type(_) | Self::Status(_) | Self::TooLarge => false,
        }
    }
}

/// Sends a request to the responder at this address, and receives what it answers: a response of OCSP, as far as HTTP
/// tells.
pub(super) async fn exchange(
    address: &UpstreamAddress,
    request: &[u8],
    paths: SocketPaths<'_>,
) -> Result<Vec<u8>, ExchangeError> {
    let exchanged = timer::timeout(TIMEOUT, async {
        let transport = connect(address, &ConnectOptions::default(), paths).await.map_err(ExchangeError::Connect)?;
        send(&transport, request).await?;
        receive(&transport).await
    });
    exchanged.await.unwrap_or(Err(ExchangeError::TimedOut))
}

async fn send(transport: &Transport, mut rest: &[u8]) -> Result<(), ExchangeError> {
    let broken = |error| ExchangeError::Broken("send()", error);
    while !rest.is_empty() {
        match transport.try_write(&[IoSlice::new(rest)], false) {
            Ok(sent) => rest = &rest[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                transport.writable_after_full().await.map_err(broken)?;
            }
            Err(error) => return Err(broken(error)),
        }
    }
    Ok(())
}

/// What has come of a response.
enum ResponseReader {
    Head(ResponseParser),
    Body(BodyDecoder),
}

/// A response while it comes.
struct Response {
    reading: ResponseReader,
    /// What has come and was not looked at.
    input: Vec<u8>,
    body: Vec<u8>,
}

impl Response {
    fn new() -> Response {
        let reading = ResponseReader::Head(ResponseParser::new(HeadKind::Http, MAX_HEAD));
        Response { reading, input: Vec::new(), body: Vec::new() }
    }

    /// Looks at what has come. Returns whether the response is complete.
    fn advance(&mut self) -> Result<bool, ExchangeError> {
        loop {
            match &mut self.reading {
                ResponseReader::Head(parser) => {
                    let Some(head) = parser.advance(&self.input).map_err(|_| ExchangeError::Invalid)? else {
                        return Ok(false);
                    };
                    let decoder = begin(&head, &self.input)?;
                    self.input.drain(..head.len);
                    if let Some(decoder) = decoder {
                        self.reading = ResponseReader::Body(decoder);
                    }
                }
                ResponseReader::Body(decoder) => match decoder.step(&self.input).map_err(|_| ExchangeError::Invalid)? {
                    Step::Done(_) => return Ok(true),
                    Step::More => {
                        self.input.clear();
                        return Ok(decoder.is_done());
                    }
                    Step::Data(range) => {
                        if self.body.len() + range.len() > MAX_OCSP_RESPONSE {
                            return Err(ExchangeError::TooLarge);
                        }
                        self.body.extend_from_slice(&self.input[range.clone()]);
                        self.input.drain(..range.end);
                    }
                },
            }
        }
    }

    /// What came of it, now that the responder has closed the connection.
    fn closed(self) -> Result<Vec<u8>, ExchangeError> {
        match self.reading {
            ResponseReader::Body(decoder) if decoder.is_done_when_closed() => Ok(self.body),
            _ => Err(ExchangeError::Closed),
        }
    }
}

/// Looks at a head; `None` if another one follows it.
fn begin(head: &ResponseHead, input: &[u8]) -> Result<Option<BodyDecoder>, ExchangeError> {
    if head.is_interim() {
        return Ok(None);
    }
    if head.status != 200 {
        return Err(ExchangeError::Status(head.status));
    }
    match head.value(input, b"content-type") {
        Some(other) if !other.eq_ignore_ascii_case(MEDIA_TYPE) => {
            Err(ExchangeError::Type(other.escape_ascii().to_string()))
        }
        _ => Ok(Some(freerun_proto::response::Framing::of(head, Asked::Other).decoder())),
    }
}

async fn receive(transport: &Transport) -> Result<Vec<u8>, ExchangeError> {
    let mut response = Response::new();
    loop {
        response.input.reserve(ROOM);
        match transport.read(&mut response.input).await {
            Ok(0) => return response.closed(),
            Ok(_) if response.advance()? => return Ok(response.body),
            Ok(_) => {}
            Err(error) => return Err(ExchangeError::Broken("recv()", error)),
        }
    }
}
