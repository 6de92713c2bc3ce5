//! A session while its bytes go both ways.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use freerun_runtime::log::{Errno, Level};
use freerun_runtime::loops;
use freerun_serve::Subject;
use freerun_serve::upstream::relay::{HalfClose, News, Over, Relay, RelaySettings, RelaySide};
use freerun_transport::Transport;
use freerun_upstream::peer::PeerState;
use freerun_upstream::{AttemptFailure, Lease, now};

use super::error::tell_consequence;
use super::record::{CountedConnection, Record};
use super::settings::ProxySettings;
use crate::session::Session;
use crate::upstream::StreamUpstream;

/// A session whose server was reached. It holds nothing that was needed only to reach it.
pub struct RelayedStream {
    upstream: Transport,
    /// The server, until the end.
    lease: Option<Lease>,
    record: Rc<Record>,
    relay: Relay,
    /// The group, if the session ends when its server leaves it (`proxy_session_drop`).
    dropped_with: Option<Arc<StreamUpstream>>,
    /// Whether the server has sent anything.
    was_heard: bool,
    over: Option<Box<Finish>>,
}

/// The end of a session.
enum Finish {
    Relay(Over),
    /// The server has left its group, or is unhealthy.
    Dropped,
}

impl RelayedStream {
    /// A session that begins with these bytes of the client.
    pub(super) fn new(
        session: &Session,
        settings: &ProxySettings,
        group: &Arc<StreamUpstream>,
        (transport, lease, mut header): (Transport, Lease, Vec<u8>),
        record: Rc<Record>,
        preread: &[u8],
    ) -> RelayedStream {
        let mut relay = Relay::new(&RelaySettings {
            piece: usize::try_from(settings.proxy_buffer_size.0).unwrap_or(usize::MAX),
            half_close: if settings.proxy_half_close { HalfClose::Both } else { HalfClose::Neither },
            timeout: settings.proxy_timeout,
            news: News::OfAnyKind,
            client_patience: None,
            server_patience: None,
        });
        relay.limit(RelaySide::Client, settings.proxy_upload_rate.of(session), preread.len() as u64);
        relay.limit(RelaySide::Upstream, settings.proxy_download_rate.of(session), 0);
        header.extend_from_slice(preread);
        relay.begin_with(RelaySide::Client, header);
        transport.expect_nothing();
        let dropped_with = settings.proxy_session_drop.then(|| group.clone());
        RelayedStream {
            upstream: transport,
            lease: Some(lease),
            record,
            relay,
            dropped_with,
            was_heard: false,
            over: None,
        }
    }

    /// Passes bytes on; ready when the session is over. It has to be the same task each time.
    pub fn poll(&mut self, client: &Transport, context: &mut Context<'_>) -> Poll<()> {
        debug_assert!(self.lease.is_some(), "a session that has ended goes on");
        if self.is_dropped() {
            self.over = Some(Box::new(Finish::Dropped));
            return Poll::Ready(());
        }
        let over = self.relay.poll(client, &self.upstream, context);
        if !self.was_heard && self.relay.received(RelaySide::Upstream) > 0 {
            self.was_heard = true;
            let at = loops::nanos();
            self.record.with(|last| last.answered(at));
            let took = self.record.since(at);
            if let Some(lease) = &self.lease {
                lease.first_byte(took, now());
            }
        }
        self.over = Some(Box::new(Finish::Relay(ready!(over))));
        Poll::Ready(())
    }

    /// Whether the server has left its group or is unhealthy, if that ends the session.
    fn is_dropped(&self) -> bool {
        let (Some(group), Some(lease)) = (&self.dropped_with, &self.lease) else { return false };
        let peer = lease.peer();
        matches!(peer.state(now()), PeerState::Unhealthy | PeerState::Down)
            || group.group.replaced() > 0 && !group.group.peers().peers().any(|one| one.id == peer.id)
    }

    /// Counts and logs how the session has ended.
    pub fn end(&mut self, session: &Session) {
        let Some(lease) = self.lease.take() else { return };
        let relay = &self.relay;
        // What was read before the relay began is counted already.
        session.received.set(session.received.get() + relay.received(RelaySide::Client));
        session.sent.set(session.sent.get() + relay.sent(RelaySide::Client));
        self.record.with(|last| {
            last.received += relay.received(RelaySide::Upstream);
            // So is the header that went before a session of TLS.
            last.sent += relay.sent(RelaySide::Upstream);
        });
        let at = loops::nanos();
        self.record.end(at);
        let took = self.record.since(at);
        self.record.count(&lease);
        let mut failure = None;
        if let Some(Finish::Relay(Over::Receive(..) | Over::Send(..) | Over::Blocked(_))) = self.over.as_deref() {
            // Neither side is to take what it has for the whole.
            self.upstream.cut_on_close();
            session.client.transport().into_iter().for_each(Transport::cut_on_close);
        }
        match self.over.take().map(|over| *over) {
            // The worker is shutting down.
            None => {}
            Some(Finish::Dropped) => {
                session.log(Level::Info, format_args!("upstream server is no longer used, session is closed"));
            }
            Some(Finish::Relay(over)) => failure = tell(session, &self.record, &over),
        }
        let verdict = match failure {
            Some(failure) => lease.broken(failure, now()),
            None => lease.succeeded(took, now()),
        };
        tell_consequence(session, verdict);
    }
}

/// Logs why a session is over. Returns the failure of the server, if it was one.
fn tell(session: &Session, record: &Record, over: &Over) -> Option<AttemptFailure> {
    // Clients break off all the time.
    let level = |is_server| if is_server { Level::Error } else { Level::Info };
    let broken = |what: &str, error: &io::Error, is_server| {
        session.log(level(is_server), format_args!("{what} failed ({})", Errno(error)));
    };
    let disconnected = |who: &str| {
        session.log_bare(Level::Info, format_args!("{who} disconnected, {}", CountedConnection { record, session }));
    };
    match over {
        Over::Ended(RelaySide::Client) => disconnected("client"),
        Over::Ended(RelaySide::Upstream) => disconnected("upstream"),
        Over::Receive(side, error) | Over::Send(side, error) => {
            let (is_reading, is_server) = (matches!(over, Over::Receive(..)), *side == RelaySide::Upstream);
            session.set_step(match (is_reading, is_server) {
                (true, false) => "proxying and reading from client",
                (true, true) => "proxying and reading from upstream",
                (false, false) => "proxying and sending to client",
                (false, true) => "proxying and sending to upstream",
            });
            broken(if is_reading { "recv()" } else { "writev()" }, error, is_server);
            if is_reading {
                disconnected(if is_server { "upstream" } else { "client" });
            }
            return is_server.then_some(AttemptFailure::Closed);
        }
        Over::Blocked(_) | Over::Silent => {
            session.log(Level::Info, format_args!("connection timed out (110: Connection timed out)"));
        }
    }
    None
}
