//! The errors of a try, and all their consequences: the side to blame, the status, the text and level of the log line,
//! and whether another server may be asked. All of this is decided here alone.

use std::fmt;
use std::io;
use std::rc::Rc;

use freerun_http::body::BodyError;
use freerun_http::log::DetachedLog;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_proto::Status;
use freerun_proto::h1::CloseReason;
use freerun_runtime::log::{Errno, Level};
use freerun_serve::tls::handshake::HandshakeError;
use freerun_serve::tls::handshake::outgoing_session::OutgoingError;
use freerun_upstream::connect::ConnectError;
use freerun_upstream::{AttemptFailure, NoPeer};

use crate::exchange::Fault;
use crate::exchange::http2::UnprocessedReason;
use crate::settings::next::NextUpstream;

/// The stage of a try at which an error happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryStage {
    /// Choosing a server, or connecting to it.
    Connecting,
    /// Agreeing with the server on a TLS session.
    Handshaking,
    /// Sending the request.
    Sending,
    /// Waiting for the response's head.
    ReadingHead,
    /// Reading the response's body.
    ReadingBody,
    /// Passing bytes both ways.
    Tunnelling,
}

impl fmt::Display for TryStage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            TryStage::Connecting => "connecting to upstream",
            TryStage::Handshaking => "SSL handshaking to upstream",
            TryStage::Sending => "sending request to upstream",
            TryStage::ReadingHead => "reading response header from upstream",
            TryStage::ReadingBody => "reading upstream",
            TryStage::Tunnelling => "proxying upgraded connection",
        })
    }
}

/// The error of a try.
#[derive(Debug)]
pub enum UpstreamError {
    /// There was no server to ask.
    NoPeer(NoPeer),
    /// The server may not be asked (`proxy_allow_upstream`).
    Denied,
    /// No connection could be made.
    Connect(ConnectError),
    /// There is no TLS session with the server.
    Tls(OutgoingError),
    /// The server with TLS has not agreed to HTTP/2.
    NoHttp2,
    /// The connection that this request and others have waited for could not be made.
    Common(Rc<UpstreamError>),
    /// Sending failed.
    Send(io::Error),
    /// Receiving failed.
    Receive(io::Error),
    /// The server did nothing for too long.
    TimedOut,
    /// The bytes from the server are wrong.
    Fault(Fault),
    /// The client has gone.
    ClientGone,
    /// The request's body could not be read from the client.
    Body(BodyError),
    /// The request's body was passed on to another server as it came, and is gone; the request had this status before. That
    /// is logged already.
    BodySpent(Status),
    /// An operation of this server failed, and is logged already.
    Ours,
    /// A bug in this program: an impossible state was found.
    Internal(&'static str),
}

/// The side that is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The client.
    Client,
    /// The upstream server.
    Upstream,
    /// The proxy itself.
    Us,
}

impl UpstreamError {
    /// The error itself, without the wrapper of an error that several requests share.
    fn itself(&self) -> &UpstreamError {
        match self {
            UpstreamError::Common(error) => error.itself(),
            error => error,
        }
    }

    /// Whether others that have waited for the same connection failed for the same reason.
    pub fn is_common(&self) -> bool {
        match self {
            UpstreamError::Connect(error) => error.is_of_peer(),
            UpstreamError::Tls(OutgoingError::Handshake(HandshakeError::TimedOut)) => false,
            UpstreamError::Tls(_) | UpstreamError::NoHttp2 => true,
            _ => false,
        }
    }

    /// Whether the server has said that it has not looked at the request: it may be sent again, whatever it asks for (RFC 9113
    /// section 8.7).
    pub fn is_unprocessed(&self) -> bool {
        matches!(self, UpstreamError::Fault(Fault::Unprocessed(_)))
    }

    /// The side that is to blame.
    pub fn blame(&self) -> Blame {
        match self.itself() {
            UpstreamError::ClientGone | UpstreamError::Body(_) => Blame::Client,
            UpstreamError::BodySpent(_)
            | UpstreamError::Ours
            | UpstreamError::Internal(_)
            | UpstreamError::Fault(Fault::Request(_)) => Blame::Us,
            UpstreamError::Connect(error) if !error.is_of_peer() => Blame::Us,
            _ => Blame::Upstream,
        }
    }

    /// The status of the response to the client.
    pub fn status(&self) -> Status {
        match self.itself() {
            UpstreamError::TimedOut => Status::GATEWAY_TIMEOUT,
            UpstreamError::ClientGone => Status::CLIENT_CLOSED_REQUEST,
            UpstreamError::BodySpent(status) => *status,
            UpstreamError::Body(error) => error.status(),
            error => match error.blame() {
                Blame::Us => Status::INTERNAL_SERVER_ERROR,
                _ => Status::BAD_GATEWAY,
            },
        }
    }

    /// The status of the try in `$upstream_status`: the response's status, unless the server has nothing to do with the
    /// error; then 0.
    pub fn upstream_status(&self) -> u16 {
        if self.blame() == Blame::Upstream { self.status().code() } else { 0 }
    }

    /// The outcome of the request.
    pub fn outcome(&self, request: &mut Request) -> Outcome {
        if let UpstreamError::Body(_) = self {
            // The state of the rest of the body is unknown.
            request.answered.persistence.close(CloseReason::BadBody);
        }
        Outcome::Status(self.status())
    }

    /// The condition of `proxy_next_upstream` under which another server may be asked. `None`: never.
    pub fn next(&self) -> Option<NextUpstream> {
        match self.itself() {
            UpstreamError::TimedOut => Some(NextUpstream::Timeout),
            UpstreamError::Denied => Some(NextUpstream::Denied),
            // A server that resets a stream may have worked on the request, as a server that sends a wrong head may.
            UpstreamError::Fault(Fault::Invalid(_) | Fault::TooBig | Fault::Reset(_)) => {
                Some(NextUpstream::InvalidHeader)
            }
            UpstreamError::Connect(_)
            | UpstreamError::Tls(_)
            | UpstreamError::NoHttp2
            | UpstreamError::Send(_)
            | UpstreamError::Receive(_)
            | UpstreamError::Fault(Fault::Cut | Fault::Unprocessed(_)) => {
                (self.blame() == Blame::Upstream).then_some(NextUpstream::Error)
            }
            _ => None,
        }
    }

    /// The condition of `cache_use_stale` under which a stale response may be used. `None`: never.
    pub fn cause(&self) -> Option<NextUpstream> {
        // The documentation says that this, too, is an error.
        if matches!(self, UpstreamError::NoPeer(_)) { Some(NextUpstream::Error) } else { self.next() }
    }

    /// The failure that counts against the server.
    pub fn failure(&self) -> Option<AttemptFailure> {
        if self.blame() != Blame::Upstream {
            return None;
        }
        Some(match self.itself() {
            // It is about to be restarted, for example.
            UpstreamError::Fault(Fault::Unprocessed(UnprocessedReason::GoneAway(0))) => return None,
            UpstreamError::Fault(Fault::Reset(_) | Fault::Unprocessed(_)) => AttemptFailure::Closed,
            UpstreamError::TimedOut => AttemptFailure::Timeout,
            UpstreamError::Denied => AttemptFailure::Denied,
            UpstreamError::Connect(_) | UpstreamError::Tls(_) | UpstreamError::NoHttp2 => AttemptFailure::Connect,
            UpstreamError::Fault(Fault::Cut) | UpstreamError::Receive(_) | UpstreamError::Send(_) => {
                AttemptFailure::Closed
            }
            UpstreamError::Fault(_) => AttemptFailure::Invalid,
            _ => AttemptFailure::Other,
        })
    }

    fn level(&self) -> Level {
        match self.itself() {
            UpstreamError::ClientGone => Level::Info,
            UpstreamError::Connect(error) => error.level(),
            UpstreamError::Fault(Fault::Request(_)) | UpstreamError::Internal(_) => Level::Alert,
            _ => Level::Error,
        }
    }

    /// Whether the error is not logged from here.
    fn is_silent(&self) -> bool {
        matches!(self, UpstreamError::Ours | UpstreamError::Body(_) | UpstreamError::BodySpent(_))
    }

    /// The text for the log.
    pub fn words(&self, stage: TryStage) -> impl fmt::Display {
        Words(self, stage)
    }

    /// Logs the error.
    pub fn log(&self, request: &Request, stage: TryStage) {
        // Clients cancel streams all the time, and may do so thousands of times a second; the access log has status 499.
        let is_canceled = matches!(self.itself(), UpstreamError::ClientGone) && request.client.is_multiplexed();
        if !self.is_silent() && !is_canceled {
            freerun_http::log::write(&request, self.level(), format_args!("{}", self.words(stage)));
        }
    }

    /// Logs the error while the response is sent.
    pub fn log_detached(&self, log: &DetachedLog, stage: TryStage) {
        if !self.is_silent() {
            log.write(self.level(), format_args!("{}", self.words(stage)));
        }
    }
}

struct Words<'t>(&'t UpstreamError, TryStage);

impl fmt::Display for Words<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(error, stage) = self;
        match error.itself() {
            UpstreamError::NoPeer(_) => write!(formatter, "no live upstreams while {stage}"),
            UpstreamError::Denied => write!(formatter, "access to upstream denied by \"allow_upstream\" while {stage}"),
            UpstreamError::Connect(error) => write!(formatter, "{error} ({}) while {stage}", Errno(error.io())),
            UpstreamError::Tls(error) => write!(formatter, "{error} while {stage}"),
            UpstreamError::NoHttp2 => write!(formatter, "upstream does not speak HTTP/2 (ALPN \"h2\") while {stage}"),
            UpstreamError::Send(error) => write!(formatter, "writev() failed ({}) while {stage}", Errno(error)),
            UpstreamError::Receive(error) => write!(formatter, "recv() failed ({}) while {stage}", Errno(error)),
            UpstreamError::TimedOut => {
                write!(formatter, "upstream timed out (110: Connection timed out) while {stage}")
            }
            UpstreamError::Fault(fault) => write!(formatter, "{fault} while {stage}"),
            UpstreamError::ClientGone => write!(
                formatter,
                "epoll_wait() reported that client prematurely closed connection, so upstream connection is closed too \
                 while {stage}"
            ),
            UpstreamError::Internal(what) => write!(formatter, "{what} while {stage}"),
            UpstreamError::Body(_) | UpstreamError::BodySpent(_) | UpstreamError::Ours | UpstreamError::Common(_) => {
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(errno: rustix::io::Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.raw_os_error())
    }

    #[test]
    fn status_words_and_permission_follow_from_what_it_was() {
        use rustix::io::Errno as E;
        let refused = || UpstreamError::Connect(ConnectError::Failed(os(E::CONNREFUSED)));
        let bind = || UpstreamError::Connect(ConnectError::Bind("1.2.3.4:0".parse().unwrap(), os(E::ADDRNOTAVAIL)));
        let invalid = || UpstreamError::Fault(Fault::invalid("upstream sent invalid header"));
        for (error, stage, status, next, words) in [
            (
                refused(),
                TryStage::Connecting,
                502,
                Some(NextUpstream::Error),
                "connect() failed (111: Connection refused) while connecting to upstream",
            ),
            (
                bind(),
                TryStage::Connecting,
                500,
                None,
                "bind(1.2.3.4:0) failed (99: Cannot assign requested address) while connecting to upstream",
            ),
            (
                UpstreamError::TimedOut,
                TryStage::ReadingHead,
                504,
                Some(NextUpstream::Timeout),
                "upstream timed out (110: Connection timed out) while reading response header from upstream",
            ),
            (
                invalid(),
                TryStage::ReadingHead,
                502,
                Some(NextUpstream::InvalidHeader),
                "upstream sent invalid header while reading response header from upstream",
            ),
            (
                UpstreamError::Fault(Fault::Cut),
                TryStage::ReadingBody,
                502,
                Some(NextUpstream::Error),
                "upstream prematurely closed connection while reading upstream",
            ),
            (
                UpstreamError::Denied,
                TryStage::Connecting,
                502,
                Some(NextUpstream::Denied),
                "access to upstream denied by \"allow_upstream\" while connecting to upstream",
            ),
            (
                UpstreamError::NoPeer(NoPeer::NoneLive),
                TryStage::Connecting,
                502,
                None,
                "no live upstreams while connecting to upstream",
            ),
            (
                UpstreamError::Receive(os(E::CONNRESET)),
                TryStage::ReadingHead,
                502,
                Some(NextUpstream::Error),
                "recv() failed (104: Connection reset by peer) while reading response header from upstream",
            ),
        ] {
            assert_eq!(error.words(stage).to_string(), words);
            assert_eq!((error.status().code(), error.next()), (status, next), "{words}");
        }
        assert_eq!((refused().level(), bind().level()), (Level::Error, Level::Crit));
        assert_eq!(UpstreamError::ClientGone.status(), Status::CLIENT_CLOSED_REQUEST);
        assert_eq!((UpstreamError::ClientGone.upstream_status(), bind().upstream_status()), (0, 0));
        assert_eq!((refused().upstream_status(), UpstreamError::TimedOut.upstream_status()), (502, 504));
        assert!(UpstreamError::ClientGone.failure().is_none() && bind().failure().is_none());
    }
}
