//! A server that was chosen for one attempt: its connection is counted while the lease exists.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::clock::Millis;
use crate::failure::{AttemptFailure, FailureVerdict};
use crate::peer::{AdmittedConnection, Peer};

/// A server that was chosen. Dropping the lease gives the connection's place back without a verdict.
pub struct Lease {
    peer: Arc<Peer>,
    begun: Millis,
    /// Whether this request tries a server that was unavailable, and the result is not known yet. Only one request at a
    /// time does.
    probe: Cell<bool>,
    /// Whether the response's status was 500 or above.
    error: Cell<bool>,
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Lease").field(&self.peer.name).finish()
    }
}

impl Lease {
    /// Counts a connection of the server, unless its last free place is taken, or another request already tries the
    /// server.
    pub(crate) fn acquire(peer: &Arc<Peer>, now: Millis) -> Option<Lease> {
        let AdmittedConnection { probe } = peer.admit(now)?;
        peer.figures.mine().request();
        peer.selected.store(now.max(1), Relaxed);
        peer.on_its_way(now);
        Some(Lease { peer: peer.clone(), begun: now, probe: Cell::new(probe), error: Cell::new(false) })
    }

    /// The chosen server.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Reports that there is a connection: an idle one (`reused`), or a new connection after the given time.
    pub fn connected(&self, reused: bool, took: Duration) {
        let figures = &self.peer.figures;
        if reused {
            figures.mine().reused();
        } else {
            figures.connects.fetch_add(1, Relaxed);
            figures.mine().connected(took);
        }
    }

    /// Reports the head of the response, which came the given time after the attempt began. Unless its status speaks
    /// against it, a server that was unavailable is available again from now on, because the response may take long to
    /// end.
    pub fn header(&self, status: u16, took: Duration, now: Millis) {
        self.error.set(status >= 500);
        if status < 500 && status != 429 {
            self.good(now);
        }
        self.peer.figures.mine().header(status, took);
        self.peer.averaged(&self.peer.header_average, took, now);
    }

    /// Reports that there is a new connection for a session, which took the given time. A server that was unavailable is
    /// available again from now on, because the session may last long.
    pub fn opened(&self, took: Duration, now: Millis) {
        self.connected(false, took);
        self.peer.averaged(&self.peer.connect_average, took, now);
        self.good(now);
    }

    /// Reports the first byte of a session, which came the given time after the attempt began.
    pub fn first_byte(&self, took: Duration, now: Millis) {
        self.peer.figures.mine().first_byte(took);
        self.peer.averaged(&self.peer.header_average, took, now);
    }

    /// Reports the bytes sent to the server and received from it.
    pub fn bytes(&self, sent: u64, received: u64) {
        self.peer.figures.mine().bytes(sent, received);
    }

    /// Reports the end of the response, which came the given time after the attempt began. With outlier detection a
    /// complete response may still be an error, because of its status.
    pub fn succeeded(self, took: Duration, now: Millis) -> FailureVerdict {
        self.peer.figures.mine().response(took);
        self.peer.averaged(&self.peer.last_byte_average, took, now);
        self.over(now)
    }

    /// Reports success like [`Lease::succeeded`], but after a time that says nothing about the server, as the time of a
    /// tunnel.
    pub fn over(self, now: Millis) -> FailureVerdict {
        self.good(now);
        FailureVerdict { ejected: self.peer.answered(self.error.get(), now), disabled: false }
    }

    /// Reports that the attempt failed.
    pub fn failed(self, failure: AttemptFailure, now: Millis) -> FailureVerdict {
        self.peer.figures.failed(failure, now);
        if failure == AttemptFailure::Stale {
            return FailureVerdict::default();
        }
        let ejected = self.peer.answered(true, now);
        FailureVerdict { ejected, ..self.peer.bad(now) }
    }

    /// Reports that the body of the response broke off. Other requests may still be answered, so it counts for the
    /// outlier detection but not for `max_fails`, which is about connecting, sending and the response's head
    /// (`proxy_next_upstream`).
    pub fn broken(self, failure: AttemptFailure, now: Millis) -> FailureVerdict {
        self.peer.figures.failed(failure, now);
        FailureVerdict { ejected: self.peer.answered(true, now), disabled: false }
    }

    fn good(&self, now: Millis) {
        if self.probe.take() {
            self.peer.good(now);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.peer.arrived(self.begun);
        self.peer.release();
    }
}
