//! The response of a request so far.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;

use super::Field;
use super::persistence::{CloseReason, Persistence};

/// The amounts that were sent, for the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct SentAmounts {
    /// The status of the response, 0 before there is one.
    pub status: u16,
    /// The number of all bytes sent.
    pub bytes: u64,
    /// The number of bytes that are not of the response's head, as `$body_bytes_sent` has it: those of the body with its
    /// framing, and those of interim responses.
    pub body_bytes: u64,
    /// Whether the whole response was sent.
    pub complete: bool,
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
pub struct AnsweredResponse {
    /// Whether the connection can be used again after the response, as far as is known.
    pub persistence: Persistence,
    /// Whether the connection ends after the response though its head does not say so, as that of a 412 in nginx.
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

impl Default for AnsweredResponse {
    #[inline(always)]
    fn default() -> AnsweredResponse {
        AnsweredResponse {
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

impl AnsweredResponse {
    /// Adds a value of `WWW-Authenticate`. Each handler that refuses the request may have its own (`satisfy any`), and the
    /// client chooses among them (RFC 9110 section 11.6.1).
    pub fn add_challenge(&mut self, challenge: Bytes) {
        if !self.challenges.contains(&challenge) {
            self.challenges.push(challenge);
        }
    }

    /// The state for a request that is made for this one: no response yet, on the same connection.
    pub fn fork(&self) -> AnsweredResponse {
        AnsweredResponse { persistence: self.persistence, ..AnsweredResponse::default() }
    }
}
