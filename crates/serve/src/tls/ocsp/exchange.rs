//! A request to a responder at one address, and its response.

use std::io;
use std::time::Duration;

use freerun_runtime::files::SocketPaths;
use freerun_runtime::log::Errno;
use freerun_tls::verify::MAX_OCSP_RESPONSE;
use freerun_upstream::UpstreamAddress;
use freerun_upstream::connect::ConnectError;

use crate::http_client::{HttpClient, HttpClientError, OutgoingRequest, ReceivedHead, TransferLimits};

/// The longest duration of an exchange; nginx has the same.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The bounds of an exchange. nginx has room for 16 KiB of head and body together.
const LIMITS: TransferLimits =
    TransferLimits { total: TIMEOUT, connect: TIMEOUT, head: 16 << 10, body: MAX_OCSP_RESPONSE };

/// The type of a response (RFC 6960 appendix A.2).
const MEDIA_TYPE: &[u8] = b"application/ocsp-response";

/// Reason why there is no response. The text is nginx's, where nginx has one.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    /// No connection could be made.
    #[error("{0} ({error})", error = Errno(.0.io()))]
    Connect(ConnectError),
    /// The connection broke.
    #[error("{0} failed ({error})", error = Errno(.1))]
    Broken(&'static str, io::Error),
    /// The exchange took too long.
    #[error("OCSP responder timed out (110: Connection timed out)")]
    TimedOut,
    /// The responder closed the connection before its response was complete.
    #[error("OCSP responder prematurely closed connection")]
    Closed,
    /// The responder sends no HTTP response.
    #[error("OCSP responder sent invalid response")]
    Invalid,
    /// The response is of another type.
    #[error("OCSP responder sent invalid \"Content-Type\" header: \"{0}\"")]
    Type(String),
    /// The response has another status than 200.
    #[error("OCSP responder sent status {0}")]
    Status(u16),
    /// The response is larger than any that is of use.
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

impl From<HttpClientError> for ExchangeError {
    fn from(error: HttpClientError) -> ExchangeError {
        match error {
            HttpClientError::Connect(_, error) => Self::Connect(error),
            HttpClientError::Broken(call, error) => Self::Broken(call, error),
            HttpClientError::TimedOut | HttpClientError::ConnectTimedOut(_) => Self::TimedOut,
            HttpClientError::Closed => Self::Closed,
            HttpClientError::TooLarge => Self::TooLarge,
            HttpClientError::Head(_) | HttpClientError::Chunked => Self::Invalid,
            // Responders are asked without TLS, at one address, from a loop.
            HttpClientError::NoAddress | HttpClientError::Tls(_) | HttpClientError::NoLoop => Self::Invalid,
        }
    }
}

/// Sends a request to the responder at this address, and receives what it answers: a response of OCSP, as far as HTTP
/// tells.
pub(super) async fn exchange(
    address: &UpstreamAddress,
    request: &OutgoingRequest,
    paths: SocketPaths<'_>,
) -> Result<Vec<u8>, ExchangeError> {
    let client = HttpClient { limits: LIMITS, tls: None, paths };
    let response = client.send(std::slice::from_ref(address), request).await?;
    check(&response.head)?;
    Ok(response.body().await?.body)
}

/// Checks that this is the head of a response of OCSP.
fn check(head: &ReceivedHead) -> Result<(), ExchangeError> {
    if head.status() != 200 {
        return Err(ExchangeError::Status(head.status()));
    }
    match head.value("content-type") {
        Some(other) if !other.eq_ignore_ascii_case(MEDIA_TYPE) => {
            Err(ExchangeError::Type(other.escape_ascii().to_string()))
        }
        _ => Ok(()),
    }
}
