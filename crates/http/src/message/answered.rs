//! What has become of a request so far.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;

use super::Field;
use super::persistence::{CloseReason, Persistence};

/// How much was sent, for the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    /// Status of the response, 0 before there is one.
    pub status: u16,
    /// All bytes.
    pub bytes: u64,
    /// Bytes of the body, with chunk framing not counted.
    pub body_bytes: u64,
    /// Whether the whole response went out.
    pub complete: bool,
}

/// Parts of the head of a response that go with another one.
#[derive(Debug, Default)]
pub struct Carried {
    /// `Location`
    pub location: Option<Bytes>,
    /// Media type and character set, of a response that was replaced by another URI's (`X-Accel-Redirect`).
    pub content_type: Option<(Bytes, Option<Bytes>)>,
    /// Further fields.
    pub fields: Vec<Field>,
}

/// What goes with the response, or is kept of it for the log.
pub struct Answered {
    /// Whether the connection can be used again afterwards, as far as known.
    pub persistence: Persistence,
    /// Whether its log lines are being written.
    pub is_logged: bool,
    /// The fields of the response's head as they were sent, but for the server's own `Server` and `Date`, for `$sent_http_…`;
    /// kept only where a log may ask.
    pub head: Vec<u8>,
    /// `Location` as it was before the server's own address was put before it, until that is sent; kept where `head` is.
    pub location: Option<Bytes>,
    /// The fields that were sent after the body, for `$sent_trailer_…`.
    pub trailers: Vec<Field>,
    /// What the error that an error page replaced had in its head, and goes with the page.
    pub carried: Carried,
    /// The values of `WWW-Authenticate`, once a request was refused for want of credentials: none as a rule, which takes
    /// no memory. They go with the answer, error page or not.
    pub challenges: Vec<Bytes>,
    /// The upstream server that it is passed to, as the log names it.
    pub passed_to: Option<Rc<dyn fmt::Display>>,
}

impl Default for Answered {
    #[inline(always)]
    fn default() -> Answered {
        Answered {
            persistence: Persistence::Closed(CloseReason::BadHead),
            is_logged: false,
            head: Vec::new(),
            location: None,
            trailers: Vec::new(),
            carried: Carried::default(),
            challenges: Vec::new(),
            passed_to: None,
        }
    }
}

impl Answered {
    /// That of a request which is made for this one: nothing yet, on the same connection.
    pub fn fork(&self) -> Answered {
        Answered { persistence: self.persistence, ..Answered::default() }
    }
}
