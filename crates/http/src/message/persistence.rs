//! Whether a connection can be used for another request, and why not.

/// Whether the connection is kept for another request. It begins with the wish of the request's head; each later reason
/// to close the connection is added, and none is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// The connection is kept (RFC 9112 section 9.3).
    Kept,
    /// The connection is closed after the response.
    Closed(CloseReason),
}

/// Why a connection is closed after a response; the first reason counts.
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

impl Persistence {
    /// The wish of a request's head: `keep_alive` is the result of its version and its `Connection` fields
    /// ([`ConnectionOptions`](freerun_proto::ConnectionOptions)), `still_listens` whether the newest configuration
    /// listens at the address.
    #[inline]
    pub fn asked(keep_alive: bool, still_listens: bool) -> Persistence {
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
}

#[cfg(test)]
mod tests {
    use freerun_proto::{ConnectionOptions, Version};

    use super::*;

    /// RFC 9112 section 9.3: the wish of the head comes first.
    #[test]
    fn the_head_is_asked_first() {
        let (asked, gone) =
            (Persistence::Closed(CloseReason::ClientAsked), Persistence::Closed(CloseReason::AddressGone));
        for (version, field, still_listens, expected) in [
            (Version::Http11, "", true, Persistence::Kept),
            (Version::Http11, "upgrade", true, Persistence::Kept),
            (Version::Http11, "close", true, asked),
            (Version::Http11, "close", false, asked),
            (Version::Http11, "", false, gone),
            (Version::Http10, "", true, asked),
            (Version::Http10, "", false, asked),
            (Version::Http10, "keep-alive", true, Persistence::Kept),
            (Version::Http10, "keep-alive", false, gone),
            (Version::Http10, "keep-alive, close", true, asked),
        ] {
            let mut options = ConnectionOptions::default();
            options.add(field.as_bytes());
            let found = Persistence::asked(options.persists(version), still_listens);
            assert_eq!(found, expected, "{version:?} {field:?} {still_listens}");
        }
    }

    #[test]
    fn the_first_reason_counts_and_none_is_taken_back() {
        let mut persistence = Persistence::Kept;
        assert!(persistence.is_kept());
        persistence.close(CloseReason::BadBody);
        persistence.close(CloseReason::Draining);
        assert_eq!(persistence, Persistence::Closed(CloseReason::BadBody));
    }
}
