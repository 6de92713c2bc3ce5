//! A session while its bytes go both ways.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use freerun_runtime::log::{Errno, Level};
use freerun_runtime::loops;
use freerun_serve::Subject;
use freerun_serve::relay::{News, Over, Relay, RelaySettings, Side};
use freerun_transport::Transport;
use freerun_upstream::peer::State;
use freerun_upstream::{Failure, Lease, now};

use super::reach::Reached;
use super::record::Record;
use super::settings::ProxySettings;
use crate::session::Session;
use crate::upstream::Upstream;

/// A session whose server was reached. It holds nothing that was needed only to reach it.
pub struct Relayed {
    upstream: Transport,
    /// The server, until the end.
    lease: Option<Lease>,
    record: Rc<Record>,
    relay: Relay,
    /// The group, if the session ends when its server leaves it (`proxy_session_drop`).
    dropped_with: Option<Arc<Upstream>>,
    /// Whether the server has sent anything.
    was_heard: bool,
    over: Option<Box<Finish>>,
}

/// How a session has ended.
enum Finish {
    Relay(Over),
    /// The server has left its group, or is unhealthy.
    Dropped,
}

impl Relayed {
    /// A session that begins with these bytes of the client.
    pub(super) fn new(
        session: &Session,
        settings: &ProxySettings,
        group: &Arc<Upstream>,
        reached: Reached,
        record: Rc<Record>,
        preread: &[u8],
    ) -> Relayed {
        let mut relay = Relay::new(&RelaySettings {
            piece: usize::try_from(settings.proxy_buffer_size.0).unwrap_or(usize::MAX),
            half_close: settings.proxy_half_close,
            timeout: settings.proxy_timeout,
            news: News::OfAnyKind,
            client_patience: None,
            server_patience: None,
        });
        relay.limit(Side::Client, settings.proxy_upload_rate.of(session));
        relay.limit(Side::Upstream, settings.proxy_download_rate.of(session));
        let Reached { transport, lease, mut header } = reached;
        header.extend_from_slice(preread);
        relay.begin_with(Side::Client, header);
        let dropped_with = settings.proxy_session_drop.then(|| group.clone());
        Relayed { upstream: transport, lease: Some(lease), record, relay, dropped_with, was_heard: false, over: None }
    }

    /// Passes bytes on; ready when the session is over. It has to be the same task each time.
    pub fn poll(&mut self, client: &Transport, context: &mut Context<'_>) -> Poll<()> {
        if self.is_dropped() {
            self.over = Some(Box::new(Finish::Dropped));
            return Poll::Ready(());
        }
        let over = self.relay.poll(client, &self.upstream, context);
        if !self.was_heard && self.relay.received(Side::Upstream) > 0 {
            self.was_heard = true;
            let took = self.record.first_byte(loops::nanos());
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
        matches!(peer.state(now()), State::Unhealthy | State::Down)
            || group.group.replaced() > 0 && !group.group.peers().peers().any(|one| one.id == peer.id)
    }

    /// How many bytes of the client were read, and how many it was sent.
    pub fn of_client(&self) -> (u64, u64) {
        (self.relay.received(Side::Client), self.relay.sent(Side::Client))
    }

    /// Notes how many bytes have gone, for the log.
    pub fn note(&self) {
        let (received, sent) = (self.relay.received(Side::Upstream), self.relay.sent(Side::Upstream));
        self.record.with(loops::nanos(), |last| {
            last.received = received;
            // The header that went before a session of TLS was counted when it was sent.
            last.sent = last.sent.max(sent);
        });
    }

    /// Logs how the session has ended, and tells the server's account. The bytes of the session are noted already.
    pub fn end(&mut self, session: &Session) {
        let Some(lease) = self.lease.take() else { return };
        let took = self.record.end(loops::nanos());
        let (received, sent) = self.record.bytes();
        lease.bytes(sent, received);
        let mut failure = None;
        match self.over.take().map(|over| *over) {
            // The worker is shutting down.
            None => {}
            Some(Finish::Dropped) => {
                session.log(Level::Info, format_args!("upstream server is no longer used, session is closed"));
            }
            Some(Finish::Relay(over)) => {
                failure = tell(session, &over);
            }
        }
        match failure {
            Some(failure) => drop(lease.broken(failure, now())),
            None => drop(lease.succeeded(took, now())),
        }
    }
}

/// Logs why a session is over. Returns the failure of the server, if it was one.
fn tell(session: &Session, over: &Over) -> Option<Failure> {
    let broken = |operation: &str, error: &std::io::Error, from: &str| {
        session.log(level(error), format_args!("{operation} failed ({}) while {from}", Errno(error)));
    };
    match over {
        Over::Ended(Side::Client) => session.log(Level::Info, format_args!("client disconnected")),
        Over::Ended(Side::Upstream) => session.log(Level::Info, format_args!("upstream disconnected")),
        Over::Receive(Side::Client, error) => broken("recv()", error, "proxying and reading from client"),
        Over::Receive(Side::Upstream, error) => {
            broken("recv()", error, "proxying and reading from upstream");
            return Some(Failure::Closed);
        }
        Over::Send(Side::Client, error) => broken("send()", error, "proxying and sending to client"),
        Over::Send(Side::Upstream, error) => {
            broken("send()", error, "proxying and sending to upstream");
            return Some(Failure::Closed);
        }
        Over::Blocked(_) | Over::Silent => {
            session.log(Level::Info, format_args!("connection timed out (110: Connection timed out) while proxying connection"));
        }
    }
    None
}

/// The level of an error of a connection.
fn level(error: &std::io::Error) -> Level {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    if matches!(error.kind(), ConnectionReset | BrokenPipe) { Level::Info } else { Level::Error }
}
