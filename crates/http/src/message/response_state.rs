//! The response of a request so far.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use freerun_proto::Status;
use freerun_proto::h1::{CloseReason, Persistence};

use super::Field;

/// The amounts that were sent, for the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct SentAmounts {
    /// The status of the response; `None` before there is one.
    pub status: Option<Status>,
    /// The number of all bytes sent.
    pub bytes: u64,
    /// The number of bytes without the response's head, as in `$body_bytes_sent`: bytes of the body with its framing,
    /// and of interim responses.
    pub body_bytes: u64,
    /// Whether the whole response was sent.
    pub complete: bool,
}

impl SentAmounts {
    /// The code of the status; 0 before there is one, as the log writes it.
    #[inline]
    pub fn code(&self) -> u16 {
        self.status.map_or(0, Status::code)
    }
}

/// Parts of a response's head that are sent with another response.
#[derive(Debug, Default)]
pub struct CarriedHead {
    /// `Location`.
    pub location: Option<Bytes>,
    /// The media type and character set of a response that was replaced by the response of another URI
    /// (`X-Accel-Redirect`).
    pub content_type: Option<(Bytes, Option<Bytes>)>,
    /// Whether the response that was replaced depended on `Accept-Encoding`.
    pub vary: bool,
    /// Further fields.
    pub fields: Vec<Field>,
}

/// The data that goes with the response, or is kept of it for the log.
pub struct ResponseState {
    /// Whether the connection can be used again after the response, as far as is known.
    pub persistence: Persistence,
    /// Whether the connection ends after the response though its head does not say so, as after a 412 in nginx.
    pub ends_untold: bool,
    /// Whether the log lines of the request are being written.
    pub is_logged: bool,
    /// The fields of the response's head as they were sent, for `$sent_http_…`, without the server's own `Server` and
    /// `Date`. They are kept only where a log may use them.
    pub head: Vec<u8>,
    /// `Location` as it was before the server's own address was prepended, until it is sent; kept where `head` is.
    pub location: Option<Bytes>,
    /// The fields that were sent after the body, for `$sent_trailer_…`.
    pub trailers: Vec<Field>,
    /// The parts of an error response's head that the error page which replaced it carries on.
    pub carried: CarriedHead,
    /// The values of `WWW-Authenticate`, if the request was refused for want of credentials. There are none as a rule,
    /// which takes no memory. They go with the response, error page or not.
    pub challenges: Vec<Bytes>,
    /// The upstream server that the request is passed to, as the log names it.
    pub passed_to: Option<Rc<dyn fmt::Display>>,
}

impl Default for ResponseState {
    #[inline(always)]
    fn default() -> ResponseState {
        ResponseState {
            persistence: Persistence::Closed(CloseReason::BadHead),
            ends_untold: false,
            is_logged: false,
            head: Vec::new(),
            location: None,
            trailers: Vec::new(),
            carried: CarriedHead::default(),
            challenges: Vec::new(),
            passed_to: None,
        }
    }
}

impl ResponseState {
    /// Adds a value of `WWW-Authenticate`. Each handler that refuses the request may have its own (`satisfy any`), and the
    /// client chooses among them (RFC 9110 section 11.6.1).
    pub fn add_challenge(&mut self, challenge: Bytes) {
        if !self.challenges.contains(&challenge) {
            self.challenges.push(challenge);
        }
    }

    /// The state for a request that is made for this one: no response yet, on the same connection.
    pub fn fork(&self) -> ResponseState {
        ResponseState { persistence: self.persistence, ..ResponseState::default() }
    }
}
