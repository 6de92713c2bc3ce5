//! A connection that has left HTTP: WebSocket and others, or a tunnel that CONNECT asks for. Bytes go both ways until
//! one of the ends has closed, or no bytes come for too long. The time counts for the upstream server, with CONNECT for
//! either side.
//!
//! When one end has closed, the other end gets the bytes that have come before, and is closed, too. RFC 9110 section
//! 9.3.6 requires this of tunnels. So a client that has gone leaves nothing open towards a server that does not close.
//!
//! A client with a stream of HTTP/2 or HTTP/3 may end its sending alone: `END_STREAM` stands for the FIN of TCP (RFC 9113
//! section 8.5). A client that has gone resets the stream, or its connection ends. Chromium ends its stream with the
//! `Close` frame of a WebSocket and waits for the server's.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use freerun_http::connection::takeover::Takeover;
use freerun_http::connection::tunnel_end::TunnelEnd;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_runtime::log::Errno;
use freerun_runtime::loops;
use freerun_serve::upstream::relay::{HalfClose, News, Over, Relay, RelayEnd, RelaySettings, RelaySide};
use freerun_transport::Transport;
use freerun_upstream::Lease;

use crate::client::error::{TryStage, UpstreamError};
use crate::client::plan::Plan;
use crate::state::record::Record;

/// The most bytes that are read at a time behind `101 Switching Protocols`.
const PIECE: usize = 16 * 1024;

/// A tunnel.
pub struct Tunnel {
    upstream: Transport,
    /// The lease, until the end.
    lease: Option<Lease>,
    record: Rc<Record>,
    relay: Relay,
    /// The reason of its end, if it is to be logged.
    why: Option<Box<TunnelClose>>,
}

/// The reason why a tunnel has ended that neither side has closed.
enum TunnelClose {
    /// The client accepts no bytes.
    ClientLate,
    /// An error of the upstream server.
    Upstream(UpstreamError),
}

impl Tunnel {
    /// A tunnel between the client and the server that has sent 101, or that the client has asked for by CONNECT.
    /// `send_timeout` is the timeout of the client's connection, and `half_close` says whether the client may end its
    /// sending before the server does. `upstream` is the connection to the server, with the
    /// bytes that have come on it.
    pub fn new(
        upstream: (Transport, Vec<u8>),
        lease: Lease,
        plan: Plan,
        send_timeout: Duration,
        half_close: HalfClose,
    ) -> Tunnel {
        let patience = plan.table().proxy_send_timeout;
        let Plan { record, options, .. } = plan;
        let (upstream, rest) = upstream;
        let mut relay = Relay::new(&RelaySettings {
            piece: options.tunnel.map_or(PIECE, |tunnel| tunnel.piece),
            half_close,
            timeout: options.read_timeout,
            news: if options.tunnel.is_some() { News::OfBoth } else { News::OfServer },
            client_patience: Some(send_timeout),
            server_patience: Some(patience),
        });
        relay.begin_with(RelaySide::Upstream, rest);
        Tunnel { upstream, lease: Some(lease), record, relay, why: None }
    }

    /// Records the bytes that went through the tunnel.
    fn note(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let (down, up) = (self.relay.sent(RelaySide::Client), self.relay.sent(RelaySide::Upstream));
        self.record.with(|last| {
            last.received += down;
            last.sent += up;
        });
        self.record.end(loops::nanos());
        lease.bytes(up, down);
        lease.over(loops::millis());
    }
}

impl Takeover<Request> for Tunnel {
    fn begin(&mut self, rest: Vec<u8>) {
        self.relay.begin_with(RelaySide::Client, rest);
    }

    fn poll(&mut self, client: TunnelEnd<'_>, context: &mut Context<'_>) -> Poll<bool> {
        let why = match ready!(self.relay.poll(&client, &self.upstream, context)) {
            Over::Ended(side) => {
                // The end is in order if the client has all bytes; a stream of a shared connection has to say so itself.
                let is_in_order = side == RelaySide::Upstream || self.relay.is_delivered(RelaySide::Client);
                if is_in_order {
                    client.shutdown_write();
                }
                return Poll::Ready(is_in_order);
            }
            Over::Receive(RelaySide::Client, _) | Over::Send(RelaySide::Client, _) => {
                // The server is not to take what it has for the whole.
                self.upstream.cut_on_close();
                return Poll::Ready(false);
            }
            Over::Blocked(RelaySide::Client) => {
                self.upstream.cut_on_close();
                TunnelClose::ClientLate
            }
            Over::Receive(RelaySide::Upstream, error) => TunnelClose::Upstream(UpstreamError::Receive(error)),
            Over::Send(RelaySide::Upstream, error) => TunnelClose::Upstream(UpstreamError::Send(error)),
            Over::Blocked(RelaySide::Upstream) | Over::Silent => TunnelClose::Upstream(UpstreamError::TimedOut),
        };
        self.why = Some(Box::new(why));
        Poll::Ready(false)
    }

    fn end(&mut self, request: &Request) -> u64 {
        let stage = TryStage::Tunnelling;
        match self.why.take().map(|why| *why) {
            None => {}
            Some(TunnelClose::ClientLate) => {
                let late = io::Error::from_raw_os_error(rustix::io::Errno::TIMEDOUT.raw_os_error());
                log_error!(request, Info, "client timed out ({}) while {stage}", Errno(&late));
            }
            Some(TunnelClose::Upstream(error)) => error.log(request, stage),
        }
        self.note();
        self.relay.sent(RelaySide::Client)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // The tunnel may never have begun.
        self.note();
    }
}
