//! Whether a connection can be used for another request, and why not (RFC 9112 section 9.3).

/// Whether the connection is kept for another request. It begins with the wish of the request's head; each later reason
/// to close the connection is added, and none is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// The connection is kept (RFC 9112 section 9.3).
    Kept,
    /// The connection is closed after the response.
    Closed(CloseReason),
}

/// The reason to close a connection after a response; the first reason counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The client asked for it, by its version or by `Connection`.
    ClientAsked,
    /// The head was not understood, or did not come in time: the meaning of the next bytes is not known.
    BadHead,
    /// The new configuration does not listen at the address any more.
    AddressGone,
    /// The method is one after which no bytes of the connection can be trusted (`TRACE`, `CONNECT`).
    RefusedMethod,
    /// The body was wrong, too large, or did not come: its end is not known.
    BadBody,
    /// A handler, or the status of the response, demands it.
    Response,
    /// Only the end of the connection can mark the end of the body.
    EndsBody,
    /// HTTP/0.9 has one request for each connection.
    Version09,
    /// `keepalive_timeout`, `keepalive_requests` or `keepalive_disable` of a location.
    Settings,
    /// `keepalive_time`.
    Age,
    /// The worker is shutting down.
    Draining,
    /// The connection was asked to close as soon as it has no request, to make room for others.
    MakesRoom,
    /// Another protocol follows (`101 Switching Protocols`).
    Upgraded,
    /// There is no response (`return 444`, a client that timed out).
    NoResponse,
}

/// The state of a connection and of its server when a response begins, whatever protocol has the connection. Each `true` is
/// a reason to close it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReuseFacts {
    /// The configuration keeps no connections here.
    pub is_unwanted: bool,
    /// The connection has had as many requests as it may have.
    pub is_spent: bool,
    /// The connection is as old as connections may become.
    pub is_old: bool,
    /// The server is shutting down.
    pub is_draining: bool,
    /// The connection makes room for others.
    pub makes_room: bool,
}

impl ReuseFacts {
    /// Whether a connection that may have `requests_max` requests gets none after the request with this number, from 1.
    #[inline]
    pub const fn is_last(serial: u64, requests_max: u64) -> bool {
        serial >= requests_max
    }

    /// Whether there is no reason to close the connection.
    #[inline]
    pub const fn keep(self) -> bool {
        !(self.is_unwanted || self.is_spent || self.is_old || self.is_draining || self.makes_room)
    }
}

impl Persistence {
    /// The wish of a request's head: `keep_alive` is the result of its version and its `Connection` fields
    /// ([`ConnectionOptions`](crate::ConnectionOptions)), `still_listens` whether the newest configuration
    /// listens at the address.
    #[inline]
    pub const fn asked(keep_alive: bool, still_listens: bool) -> Persistence {
        match (keep_alive, still_listens) {
            (true, true) => Persistence::Kept,
            (false, _) => Persistence::Closed(CloseReason::ClientAsked),
            (true, false) => Persistence::Closed(CloseReason::AddressGone),
        }
    }

    /// Whether the connection is kept.
    #[inline]
    pub fn is_kept(self) -> bool {
        self == Persistence::Kept
    }

    /// Adds a reason to close the connection.
    #[inline]
    pub fn close(&mut self, reason: CloseReason) {
        if self.is_kept() {
            *self = Persistence::Closed(reason);
        }
    }

    /// Applies the settings of a location to the request with this number on its connection, from 1. A connection has
    /// `requests_max` requests. If one location does not want the connection kept, later locations of the request cannot
    /// overrule it.
    #[inline]
    pub fn apply_location(&mut self, is_wanted: bool, serial: u64, requests_max: u64) {
        if !is_wanted || ReuseFacts::is_last(serial, requests_max) {
            self.close(CloseReason::Settings);
        }
    }

    /// Applies the state of the connection, before the head of the response is written. An earlier reason to close stays: the
    /// wish of the request's head comes first (RFC 9112 section 9.3).
    #[inline]
    pub fn apply_connection(&mut self, facts: ReuseFacts) {
        if facts.is_unwanted || facts.is_spent {
            self.close(CloseReason::Settings);
        }
        if facts.is_old {
            self.close(CloseReason::Age);
        }
        if facts.is_draining {
            self.close(CloseReason::Draining);
        }
        if facts.makes_room {
            self.close(CloseReason::MakesRoom);
        }
    }

    /// Applies the answer to a CONNECT that gets no tunnel. A client that did not wait for it has sent bytes that are meant
    /// for the other end of the tunnel, and may be somebody else's choice. They must not be taken for its next request, so the
    /// connection ends; `has_early_bytes` says that such bytes have come. It ends with a success, too, which the client takes
    /// for a tunnel.
    pub fn apply_refused_tunnel(&mut self, is_success: bool, has_early_bytes: bool) {
        if is_success || has_early_bytes {
            self.close(CloseReason::RefusedMethod);
        }
    }
}
