//! Rescue of connections that a late loop has accepted, and from which nothing had come by then: when the first bytes come,
//! another loop serves them.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::give::Helpers;
use super::{LATE, loop_listeners};
use crate::shared::Shared;

/// Has other loops take over the connections of a late loop whose first bytes have come, as long as these loops have room.
pub(super) fn take_over(shared: &Shared, late: usize) {
    let loops = shared.loops.load();
    let (Some(silent), Some(stats)) = (loops.silent.get(late), loops.stats.get(late)) else { return };
    let sockets = silent.sockets();
    let mut fds: Vec<PollFd<'_>> =
        sockets.iter().map(|(_, fd)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if fds.is_empty() || poll(&mut fds, Some(&at_once)).is_err() {
        return;
    }
    let speak = sockets.iter().zip(&fds).filter(|(_, fd)| fd.revents().contains(PollFlags::IN));
    let mut helpers = Helpers::of(shared, late, |stats| stats.in_poll_for() < LATE);
    let mut has_taken = false;
    for ((number, _), _) in speak {
        let Some(helper) = helpers.next() else { break };
        let Some(taken) = silent.take(*number) else { continue };
        has_taken = true;
        stats.rescued.add();
        // It takes connections, so it does not end before it has this one.
        loop_listeners::tell(shared, helper, move |services| services.taken_over(taken));
    }
    if has_taken {
        loop_listeners::tell(shared, late, |services| services.all().for_each(|service| service.let_go()));
    }
}
