//! Connections that are accepted from one loop's own socket (`reuseport`) for other loops: because that loop is late
//! (`rescue.rs`), takes no new connections (`drain.rs`), or has no room for them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::loops::LoopStats;
use rustix::io::Errno;

use super::{BUSY, Listener, REST, SHARE, accept, is_of_one, loop_listeners};
use crate::accept::loop_services::LoopServices;
use crate::listen::ListenSpec;
use crate::listen::address::Address;
use crate::loops::local::LoopLocal;
use crate::loops::shared::SharedState;

/// The loops that may take connections in place of another one: those that take new ones, and have room.
pub(super) struct Helpers {
    /// Their indices, and how many connections they have; those that they are given count at once.
    loops: Vec<(usize, u64)>,
    most: u64,
}

impl Helpers {
    /// The loops that `may` help; never the loop `not`.
    pub(super) fn of(shared: &SharedState, not: usize, may: impl Fn(&LoopStats) -> bool) -> Helpers {
        let loops = shared.loops.load();
        let others = loops.taking().filter(|(index, stats)| *index != not && !shared.drained.has(*index) && may(stats));
        let loops = others.map(|(index, stats)| (index, stats.active.get())).collect();
        Helpers { loops, most: shared.connections as u64 }
    }

    /// The loop that is to take the next connection: the loop with fewest. `None`: none has room.
    pub(super) fn next(&mut self) -> Option<usize> {
        let fewest = self.loops.iter_mut().min_by_key(|(_, open)| *open);
        let (index, open) = fewest.filter(|(_, open)| *open < self.most)?;
        *open += 1;
        Some(*index)
    }
}

/// Gives an accepted connection to another loop. False: that loop has ended, and the connection is closed.
pub(super) fn give(shared: &SharedState, helper: usize, one: (OwnedFd, Address), spec: Arc<ListenSpec>) -> bool {
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
    let mut helpers = Helpers::of(shared, loop_state.index, |_| true);
    for _ in 0..SHARE {
        let Some(helper) = helpers.next() else { return Some(BUSY) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_have_fewest_are_given_connections_until_all_are_full() {
        let mut helpers = Helpers { loops: vec![(1, 7), (2, 5), (5, 9)], most: 9 };
        let given: Vec<usize> = std::iter::from_fn(|| helpers.next()).collect();
        assert_eq!(given, [2, 2, 1, 2, 1, 2]);
    }
}
