//! The errors of a try to reach a server, and all their consequences. These are the status, the text and level of the
//! log line, what counts against the server, and whether another one may be asked.

use std::fmt;
use std::io;

use freerun_proto::Status;
use freerun_runtime::log::{Errno, Level};
use freerun_serve::Subject;
use freerun_serve::tls::handshake::outgoing_session::OutgoingError;
use freerun_upstream::connect::ConnectError;
use freerun_upstream::{AttemptFailure, FailureVerdict};

use crate::session::Session;

/// Steps of a session, in the words of the error log.
pub mod step {
    /// Choosing a server, or connecting to it.
    pub const CONNECTING: &str = "connecting to upstream";
    /// Sending the header of the PROXY protocol.
    pub const SENDING_HEADER: &str = "sending PROXY protocol header to upstream";
    /// Agreeing with the server on a TLS session.
    pub const HANDSHAKING: &str = "SSL handshaking to upstream";
    /// Passing bytes both ways.
    pub const PROXYING: &str = "proxying connection";
}

/// Logs the consequence of a session for its server, if there is one.
pub fn tell_consequence(session: &Session, verdict: FailureVerdict) {
    for words in verdict.words() {
        session.log(Level::Warn, format_args!("{words}"));
    }
}

/// The error of a try.
#[derive(Debug)]
pub enum TryError {
    /// There was no server to ask.
    NoPeer,
    /// No connection could be made.
    Connect(ConnectError),
    /// There is no TLS session with the server.
    Tls(OutgoingError),
    /// Sending failed.
    Send(io::Error),
    /// The server did nothing for too long.
    TimedOut,
    /// An operation of this server failed, and is logged already.
    Ours,
}

impl TryError {
    /// Whether it is the server, or the way to it, that is to blame.
    pub fn is_of_server(&self) -> bool {
        match self {
            TryError::Connect(error) => error.is_of_peer(),
            TryError::Ours => false,
            _ => true,
        }
    }

    /// `$status` of a session that ends with it.
    pub fn status(&self) -> Status {
        if self.is_of_server() { Status::BAD_GATEWAY } else { Status::INTERNAL_SERVER_ERROR }
    }

    /// The failure that counts against the server.
    pub fn failure(&self) -> Option<AttemptFailure> {
        match self {
            _ if !self.is_of_server() => None,
            TryError::NoPeer => None,
            TryError::TimedOut => Some(AttemptFailure::Timeout),
            TryError::Send(_) => Some(AttemptFailure::Closed),
            _ => Some(AttemptFailure::Connect),
        }
    }

    /// The level of the log line. `None`: there is none.
    pub fn level(&self) -> Option<Level> {
        match self {
            TryError::Ours => None,
            TryError::Connect(error) => Some(error.level()),
            _ => Some(Level::Error),
        }
    }
}

/// The text for the log, without what was being done.
impl fmt::Display for TryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryError::NoPeer => write!(formatter, "no live upstreams"),
            TryError::Connect(error) => write!(formatter, "{error} ({})", Errno(error.io())),
            TryError::Tls(error) => write!(formatter, "{error}"),
            TryError::Send(error) => write!(formatter, "send() failed ({})", Errno(error)),
            TryError::TimedOut => write!(formatter, "upstream timed out (110: Connection timed out)"),
            TryError::Ours => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno as E;

    use super::*;

    fn os(errno: E) -> io::Error {
        io::Error::from_raw_os_error(errno.raw_os_error())
    }

    #[test]
    fn status_words_and_blame_follow_from_what_it_was() {
        let bind = ConnectError::Bind("192.0.2.1:0".parse().unwrap(), os(E::ADDRNOTAVAIL));
        for (error, status, level, failure, words) in [
            (
                TryError::Connect(ConnectError::Failed(os(E::CONNREFUSED))),
                502,
                Some(Level::Error),
                Some(AttemptFailure::Connect),
                "connect() failed (111: Connection refused)",
            ),
            (
                TryError::Connect(bind),
                500,
                Some(Level::Crit),
                None,
                "bind(192.0.2.1:0) failed (99: Cannot assign requested address)",
            ),
            (
                TryError::TimedOut,
                502,
                Some(Level::Error),
                Some(AttemptFailure::Timeout),
                "upstream timed out (110: Connection timed out)",
            ),
            (TryError::NoPeer, 502, Some(Level::Error), None, "no live upstreams"),
            (
                TryError::Send(os(E::CONNRESET)),
                502,
                Some(Level::Error),
                Some(AttemptFailure::Closed),
                "send() failed (104: Connection reset by peer)",
            ),
            (TryError::Ours, 500, None, None, ""),
        ] {
            assert_eq!(error.to_string(), words);
            assert_eq!((error.status().code(), error.level(), error.failure()), (status, level, failure), "{words}");
        }
    }
}
