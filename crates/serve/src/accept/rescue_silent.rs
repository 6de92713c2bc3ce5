//! Rescue of connections that a late loop has accepted, and from which nothing had come by then: when the first bytes come,
//! another loop serves them.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::give::Helpers;
use super::rescue::WatchedSocket;
use super::{LATE, loop_listeners};
use crate::loops::idle_since_accept::{SeenConnection, SilentPlaces};
use crate::loops::shared::SharedState;

/// Has other loops take over the connections of a late loop whose first bytes have come, as long as these loops have room.
pub(super) fn take_over(shared: &SharedState, watched: &[WatchedSocket], late: usize) {
    let loops = shared.loops.load();
    let (Some(silent), Some(stats)) = (loops.silent.get(late), loops.stats.get(late)) else { return };
    let speak = speaking(silent);
    if speak.is_empty() {
        return;
    }
    let mut helpers = Helpers::of(shared, late, |stats| stats.in_poll_for() < LATE);
    let mut has_taken = false;
    for seen in speak {
        let Some(helper) = helpers.next() else { break };
        // Only the late loop knows the configuration of an address that is no longer listened on.
        let is_watched = |spec: &_| watched.iter().any(|watched| watched.spec.has_key_of(spec));
        let Some(taken) = silent.take(seen, is_watched) else { continue };
        has_taken = true;
        stats.rescued.add();
        // That loop takes connections; a loop that a reload lets go stays for a second at least.
        loop_listeners::tell(shared, helper, move |services| services.taken_over(taken));
    }
    if has_taken && silent.tell() {
        let silent = silent.clone();
        loop_listeners::tell(shared, late, move |services| {
            silent.is_heard();
            services.all().for_each(|service| service.release());
        });
    }
}

/// The connections from which something has come.
fn speaking(silent: &SilentPlaces) -> Vec<SeenConnection> {
    // The sockets are held for the time of the call alone: while they are, nobody else can close them.
    let sockets = silent.sockets();
    let mut fds: Vec<PollFd<'_>> =
        sockets.iter().map(|(_, fd)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if fds.is_empty() || poll(&mut fds, Some(&at_once)).is_err() {
        return Vec::new();
    }
    let all = sockets.iter().zip(&fds);
    all.filter(|(_, fd)| fd.revents().contains(PollFlags::IN)).map(|((seen, _), _)| *seen).collect()
}
