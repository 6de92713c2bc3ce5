//! The state behind a response: what becomes of the connection.

use super::persistence::Persistence;
use super::request_body::RequestBody;
use super::response::ResponseFraming;

/// The choice of the connections that linger (`lingering_close`): the bytes that a client still sends are read and discarded for
/// a while. Closing a socket with unread bytes resets the connection, which can destroy the response before the client has
/// read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LingerMode {
    /// No connection lingers.
    Off,
    /// A connection lingers if its client may still be sending.
    On,
    /// Every connection lingers.
    Always,
}

/// The next thing to do with the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStep {
    /// Read to the end of the request's body, and answer by [`ExchangeEnd::body_discarded`].
    DiscardBody,
    /// Look whether unread bytes have come, and answer by [`ExchangeEnd::input_found`].
    LookForInput,
    /// Tell the client that the response was whole (`close_notify`), and answer by [`ExchangeEnd::session_ended`].
    EndSession,
    /// Serve the next request; bytes of it may have come ([`RequestBody::next_request`]). This is a last step.
    NextRequest,
    /// End the sending side, and discard bytes until the client closes or for some time; then close. This is a last step.
    Linger,
    /// Close the connection. This is a last step.
    Close,
}

impl EndStep {
    /// Whether the exchange is over.
    pub const fn is_last(self) -> bool {
        matches!(self, EndStep::NextRequest | EndStep::Linger | EndStep::Close)
    }
}

/// The result of reading to the end of a body that nobody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscardResult {
    /// The end has come.
    Complete,
    /// The client is silent, or its connection is broken.
    Silent,
    /// The framing is wrong, so that there is no end.
    Faulty,
}

/// The state of a connection whose response was sent whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeEnd {
    is_kept: bool,
    framing: ResponseFraming,
    linger: LingerMode,
    phase: EndPhase,
    /// Whether unread bytes of the client may be there, or on their way.
    may_be_sending: bool,
}

/// The part of the state that is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndPhase {
    /// The end of the request's body.
    Body,
    /// Whether there are unread bytes.
    Input,
    /// The end of the session of a response that only the end of the connection ends.
    Session,
    /// The end of the connection.
    Connection,
    /// The end of the connection, without waiting for the client.
    Close,
}

impl ExchangeEnd {
    /// The state after the last byte of a response. `ends_untold` says that the connection is closed though the response's
    /// head does not say so.
    #[inline]
    pub fn new(
        persistence: Persistence,
        ends_untold: bool,
        framing: ResponseFraming,
        linger: LingerMode,
    ) -> ExchangeEnd {
        let is_kept = persistence.is_kept() && !ends_untold;
        debug_assert!(!is_kept || framing != ResponseFraming::UntilEnd, "the end of the response would not be seen");
        ExchangeEnd { is_kept, framing, linger, phase: EndPhase::Body, may_be_sending: false }
    }

    /// The next step. The buffer has `received` bytes: the head, what is there of the body, and the bytes behind it.
    #[inline]
    pub fn step<E>(&mut self, body: &RequestBody<E>, received: usize) -> EndStep {
        if self.phase == EndPhase::Body {
            if self.is_kept && body.is_done() {
                return EndStep::NextRequest;
            }
            if !body.is_done() && (self.is_kept || self.awaits(body)) {
                return EndStep::DiscardBody;
            }
            self.may_be_sending = !body.is_done() || received > body.used();
            self.phase = if self.may_be_sending { EndPhase::Session } else { EndPhase::Input };
        }
        self.last_steps()
    }

    /// Whether a connection that ends after the response waits first for the body that nobody wanted, as in nginx. A client
    /// that is about to send it finds the connection whole. If the connection's end is the end of the response, the client
    /// must see it.
    fn awaits<E>(&self, body: &RequestBody<E>) -> bool {
        body.received() == 0 && self.framing != ResponseFraming::UntilEnd
    }

    fn last_steps(&mut self) -> EndStep {
        match self.phase {
            EndPhase::Input => EndStep::LookForInput,
            EndPhase::Session if self.framing == ResponseFraming::UntilEnd => EndStep::EndSession,
            EndPhase::Body | EndPhase::Session | EndPhase::Connection => match self.linger {
                LingerMode::Off => EndStep::Close,
                LingerMode::On if !self.may_be_sending => EndStep::Close,
                LingerMode::On | LingerMode::Always => EndStep::Linger,
            },
            EndPhase::Close => EndStep::Close,
        }
    }

    /// Answers [`EndStep::DiscardBody`]. A body that is complete is so in the next call of [`ExchangeEnd::step`], too.
    pub fn body_discarded(&mut self, discarded: DiscardResult) {
        debug_assert_eq!(self.phase, EndPhase::Body, "the body was not awaited");
        match discarded {
            DiscardResult::Complete => {}
            DiscardResult::Silent => self.phase = EndPhase::Close,
            DiscardResult::Faulty => {
                self.may_be_sending = true;
                self.phase = EndPhase::Connection;
            }
        }
    }

    /// Answers [`EndStep::LookForInput`].
    pub fn input_found(&mut self, is_found: bool) {
        debug_assert_eq!(self.phase, EndPhase::Input, "nobody looked for input");
        self.may_be_sending = is_found;
        self.phase = EndPhase::Session;
    }

    /// Answers [`EndStep::EndSession`]. Without `close_notify`, a client that reads until the connection ends cannot tell a
    /// whole response from a truncated one (RFC 8446 section 6.1). So the connection lingers until there is room for it.
    pub fn session_ended(&mut self, is_ended: bool) {
        debug_assert_eq!(self.phase, EndPhase::Session, "no session was to end");
        self.may_be_sending |= !is_ended;
        self.phase = EndPhase::Connection;
    }

    /// Compares the parts of the state with each other, for tests and fuzzing.
    pub fn check_invariants(&self) {
        debug_assert!(!self.is_kept || self.framing != ResponseFraming::UntilEnd, "the response has no end");
        let is_decided = !matches!(self.phase, EndPhase::Body | EndPhase::Input | EndPhase::Close);
        debug_assert!(is_decided || !self.may_be_sending, "unread bytes were found before anybody has looked");
        debug_assert!(!self.is_kept || !matches!(self.phase, EndPhase::Input | EndPhase::Session), "it goes on");
    }
}
