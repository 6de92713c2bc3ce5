//! A server that was chosen for one attempt: while the lease is there, the connection counts.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::clock::Millis;
use crate::failure::{Failure, Verdict};
use crate::peer::{Admitted, Peer};

/// A server that was chosen. Dropping it gives the connection's place back without a verdict.
pub struct Lease {
    peer: Arc<Peer>,
    begun: Millis,
    /// Whether this is the one request that tries a server again that was unavailable, and does not know yet.
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
    /// Counts a connection of the server, unless others have taken the last one, or another request tries the server already.
    pub(crate) fn acquire(peer: &Arc<Peer>, now: Millis) -> Option<Lease> {
        let Admitted { probe } = peer.admit(now)?;
        peer.figures.mine().request();
        peer.on_its_way(now);
        Some(Lease { peer: peer.clone(), begun: now, probe: Cell::new(probe), error: Cell::new(false) })
    }

    /// The server.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// There is a connection: an idle one (`reused`), or a new one that took that long.
    pub fn connected(&self, reused: bool, took: Duration) {
        let figures = &self.peer.figures;
        if reused {
            figures.mine().reused();
        } else {
            figures.connects.fetch_add(1, Relaxed);
            figures.connect_times.record(took);
        }
    }

    /// The head of the response is there, that long after the attempt began. Unless its status speaks against it, a server
    /// that was unavailable is available again from now on: the response may take long to end.
    pub fn header(&self, status: u16, took: Duration, now: Millis) {
        self.error.set(status >= 500);
        if status < 500 && status != 429 {
            self.good(now);
        }
        self.peer.figures.mine().header(status, took);
        self.peer.averaged(&self.peer.header_average, took, now);
    }

    /// Bytes that went to the server and came from it.
    pub fn bytes(&self, sent: u64, received: u64) {
        self.peer.figures.mine().bytes(sent, received);
    }

    /// The whole response is there, that long after the attempt began.
    /// With outlier detection even that may be an error, if the status says so.
    pub fn succeeded(self, took: Duration, now: Millis) -> Verdict {
        self.peer.figures.mine().response(took);
        self.peer.averaged(&self.peer.last_byte_average, took, now);
        self.over(now)
    }

    /// As [`Lease::succeeded`], after a time that says nothing about the server: that of a tunnel.
    pub fn over(self, now: Millis) -> Verdict {
        self.good(now);
        Verdict { ejected: self.peer.answered(self.error.get(), now), disabled: false }
    }

    /// The attempt failed.
    pub fn failed(self, failure: Failure, now: Millis) -> Verdict {
        self.peer.figures.failures[failure as usize].fetch_add(1, Relaxed);
        if failure == Failure::Stale {
            return Verdict::default();
        }
        let ejected = self.peer.answered(true, now);
        Verdict { ejected, ..self.peer.bad(now) }
    }

    /// The body of the response broke. Other requests may well be answered: it counts for the outlier detection, and not for
    /// `max_fails`, which is about connecting, sending and the response's head (`proxy_next_upstream`).
    pub fn broken(self, failure: Failure, now: Millis) -> Verdict {
        self.peer.figures.failures[failure as usize].fetch_add(1, Relaxed);
        Verdict { ejected: self.peer.answered(true, now), disabled: false }
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
