//! The errors of a try to reach a server, and all their consequences: the status, the text and level of the log line, what
//! counts against the server, and whether another one may be asked.

use std::fmt;
use std::io;

use freerun_runtime::log::{Errno, Level};
use freerun_serve::tls::outgoing::OutgoingError;
use freerun_upstream::connect::ConnectError;
use freerun_upstream::{Failure, NoPeer};

/// The stage of a try at which an error happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Choosing a server, or connecting to it.
    Connecting,
    /// Sending the header of the PROXY protocol.
    SendingHeader,
    /// Agreeing with the server on a TLS session.
    Handshaking,
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Stage::Connecting => "connecting to upstream",
            Stage::SendingHeader => "sending PROXY protocol header to upstream",
            Stage::Handshaking => "SSL handshaking to upstream",
        })
    }
}

/// The error of a try.
#[derive(Debug)]
pub enum TryError {
    /// There was no server to ask.
    NoPeer(NoPeer),
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
    pub fn status(&self) -> u16 {
        if self.is_of_server() { 502 } else { 500 }
    }

    /// The failure that counts against the server.
    pub fn failure(&self) -> Option<Failure> {
        match self {
            _ if !self.is_of_server() => None,
            TryError::NoPeer(_) => None,
            TryError::TimedOut => Some(Failure::Timeout),
            TryError::Send(_) => Some(Failure::Closed),
            _ => Some(Failure::Connect),
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

    /// The text for the log.
    pub fn words(&self, stage: Stage) -> impl fmt::Display {
        Words(self, stage)
    }
}

struct Words<'t>(&'t TryError, Stage);

impl fmt::Display for Words<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(error, stage) = self;
        match error {
            TryError::NoPeer(_) => write!(formatter, "no live upstreams while {stage}"),
            TryError::Connect(error) => write!(formatter, "{error} ({}) while {stage}", Errno(error.io())),
            TryError::Tls(error) => write!(formatter, "{error} while {stage}"),
            TryError::Send(error) => write!(formatter, "send() failed ({}) while {stage}", Errno(error)),
            TryError::TimedOut => write!(formatter, "upstream timed out (110: Connection timed out) while {stage}"),
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
        for (error, stage, status, level, failure, words) in [
            (
                TryError::Connect(ConnectError::Failed(os(E::CONNREFUSED))),
                Stage::Connecting,
                502,
                Some(Level::Error),
                Some(Failure::Connect),
                "connect() failed (111: Connection refused) while connecting to upstream",
            ),
            (
                TryError::Connect(bind),
                Stage::Connecting,
                500,
                Some(Level::Crit),
                None,
                "bind(192.0.2.1:0) failed (99: Cannot assign requested address) while connecting to upstream",
            ),
            (
                TryError::TimedOut,
                Stage::Handshaking,
                502,
                Some(Level::Error),
                Some(Failure::Timeout),
                "upstream timed out (110: Connection timed out) while SSL handshaking to upstream",
            ),
            (
                TryError::NoPeer(NoPeer::NoneLive),
                Stage::Connecting,
                502,
                Some(Level::Error),
                None,
                "no live upstreams while connecting to upstream",
            ),
            (
                TryError::Send(os(E::CONNRESET)),
                Stage::SendingHeader,
                502,
                Some(Level::Error),
                Some(Failure::Closed),
                "send() failed (104: Connection reset by peer) while sending PROXY protocol header to upstream",
            ),
            (TryError::Ours, Stage::Connecting, 500, None, None, ""),
        ] {
            assert_eq!(error.words(stage).to_string(), words);
            assert_eq!((error.status(), error.level(), error.failure()), (status, level, failure), "{words}");
        }
    }
}
