//! Connections that are accepted from one loop's own socket (`reuseport`) for other loops: because that loop is late
//! (`rescue.rs`), or takes no new connections (`drain.rs`).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::loops::LoopStats;
use rustix::io::Errno;

use super::{BUSY, Listener, REST, SHARE, accept, is_of_one, loop_listeners};
use crate::address::Address;
use crate::listen::ListenSpec;
use crate::loop_local::LoopLocal;
use crate::loop_services::LoopServices;
use crate::shared::Shared;

/// The loop with the fewest connections, of those that take new ones, that `may` help, and that have room besides `taken`
/// connections which they may have been given already; never the loop `not`.
pub(super) fn helper(shared: &Shared, not: usize, taken: usize, may: impl Fn(&LoopStats) -> bool) -> Option<usize> {
    let loops = shared.loops.load();
    let others = loops.taking().filter(|(index, stats)| {
        *index != not
            && !shared.drained.has(*index)
            && may(stats)
            && stats.active.get() + (taken as u64) < shared.connections as u64
    });
    others.min_by_key(|(_, stats)| stats.active.get()).map(|(index, _)| index)
}

/// Gives an accepted connection to another loop. False: that loop has ended, and the connection is closed.
pub(super) fn give(shared: &Shared, helper: usize, one: (OwnedFd, Address), spec: Arc<ListenSpec>) -> bool {
    loop_listeners::tell(shared, helper, move |services| {
        if let Some(service) = services.of(&spec) {
            services.accepted(service, one, &LoopLocal::new(spec), false);
        }
    })
}

/// Accepts the connections that wait at this loop's own socket, a few at a time, for other loops. `Some`: there is no room
/// for them, or nothing can be accepted, so it is to be tried again after this time.
pub(super) fn away(services: &LoopServices, listener: &Listener) -> Option<Duration> {
    let loop_state = &services.loop_state;
    let shared = &loop_state.shared;
    for taken in 0..SHARE {
        let Some(helper) = helper(shared, loop_state.index, taken, |_| true) else { return Some(BUSY) };
        match accept(&listener.fd) {
            Ok(one) => {
                loop_state.stats.rescued.add();
                give(shared, helper, one, listener.spec.shared());
            }
            Err(Errno::AGAIN) => break,
            Err(error) if is_of_one(error) => {}
            Err(error) => {
                services.accept_failed(error);
                return Some(REST);
            }
        }
    }
    None
}
