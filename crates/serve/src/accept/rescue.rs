//! Rescue of connections, and datagrams, that a loop which is late keeps waiting.
//!
//! The kernel gives a connection to a loop before it knows whether that loop has time. With a socket for each loop
//! (`reuseport`) it chooses the socket by a hash. Of loops that share a socket it notifies one, and with `accept_mutex` only
//! the loop that has the turn is ever notified. During one slow step of that loop, connections wait that another loop could
//! serve. All sockets are in this process, so a thread that finds a loop in the same step for longer than a few milliseconds
//! sees to them. It has the other loops look at a socket that they share, and accepts for them from a socket that they do not
//! look at. Datagrams are read in the loop's place (`rescue_datagrams.rs`). Connections that the loop has accepted before are
//! taken from it when their first bytes come (`rescue_silent.rs`). No loop waits for this thread, nor this thread for a loop.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::balance::Balance;
use super::give::{self, Helpers};
use super::rescue_datagrams::RescueReader;
use super::{Between, LATE, accept, rescue_silent};
use crate::accept::datagrams::SharedPart;
use crate::listen::ListenSpec;
use crate::loops::shared::SharedState;

/// Time between two looks at the loops while one of them runs.
const PERIOD: Duration = Duration::from_millis(5);

/// Time between two looks at them while none of them runs: a loop that becomes late is then noticed after this time.
const IDLE_PERIOD: Duration = Duration::from_millis(20);

/// Number of looks in a row without a running loop after which the thread sleeps until one runs. A busy loop is seen at some
/// of them.
const QUIET: usize = 5;

/// The longest sleep. A loop that begins to run in the very moment may not see that it is to wake the thread.
const REST: Duration = Duration::from_secs(10);

const _: () =
    assert!(PERIOD.as_millis() < IDLE_PERIOD.as_millis(), "a thread that has less to look at looks less often");
const _: () = assert!(IDLE_PERIOD.as_millis() < REST.as_millis(), "a thread that has nothing to look at sleeps");

/// The most connections taken from one socket at a time.
const BATCH: usize = 64;

/// A listening socket.
pub struct WatchedSocket {
    /// The specification of the socket.
    pub spec: Arc<ListenSpec>,
    /// The socket.
    pub fd: Arc<OwnedFd>,
    /// The loops that take its connections or datagrams.
    pub taken_by: TakenBy,
}

/// The loops that take the connections or datagrams of a socket.
pub enum TakenBy {
    /// A loop that accepts the connections alone.
    Loop(usize),
    /// All loops accept connections; what they share about it.
    All(Arc<Between>),
    /// The loop of this part receives datagrams.
    Part(SharedPart),
}

/// The sockets that are watched; replaced with each configuration.
pub type AllWatched = ArcSwap<Vec<WatchedSocket>>;

/// An action of the rescue for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RescueAction {
    /// The loop that is late has it for itself: what comes there is taken in its place.
    Take(usize),
    /// The other loops have it too, and are to look at it.
    Tell,
}

impl WatchedSocket {
    /// The action if something waits, since these loops are late; `others`: there are more.
    fn way(&self, takes_turns: bool, late: &[usize], others: bool) -> Option<RescueAction> {
        let only = match &self.taken_by {
            TakenBy::Loop(index) => *index,
            TakenBy::Part(at) => at.part.reader(),
            // Whoever has no turn waits for one, and is not late for it. When nobody has it, it may have been passed to a loop that
            // has not run since.
            TakenBy::All(between) if takes_turns => between.holder().or(late.first().copied())?,
            TakenBy::All(_) => return others.then_some(RescueAction::Tell),
        };
        late.contains(&only).then_some(RescueAction::Take(only))
    }
}

/// Starts the watching thread. It ends when the worker is gone.
///
/// # Errors
/// The thread could not be made.
pub fn start(shared: &Arc<SharedState>, watched: &Arc<AllWatched>) -> std::io::Result<()> {
    let (shared, watched) = (Arc::downgrade(shared), Arc::downgrade(watched));
    std::thread::Builder::new().name("rescue".to_owned()).spawn(move || watch(&shared, &watched))?;
    Ok(())
}

fn watch(shared: &Weak<SharedState>, watched: &Weak<AllWatched>) {
    let (mut period, mut quiet) = (PERIOD, 0);
    let (mut reader, mut balance) = (RescueReader::default(), Balance::new());
    loop {
        std::thread::park_timeout(period);
        let (Some(shared), Some(watched)) = (shared.upgrade(), watched.upgrade()) else { return };
        let loops = shared.loops.load_full();
        if quiet >= QUIET && !loops.running().all(|(_, stats)| stats.is_awaited()) {
            quiet = 0;
        }
        let run = || loops.running().any(|(_, stats)| !stats.in_poll_for().is_zero());
        let mut runs = run();
        quiet = if runs { 0 } else { quiet + 1 };
        if quiet >= QUIET {
            loops.running().for_each(|(_, stats)| stats.await_run());
            // One may have begun to run just before that.
            runs = run();
        }
        period = if runs {
            PERIOD
        } else if quiet < QUIET {
            IDLE_PERIOD
        } else {
            REST
        };
        if runs {
            rescue(&shared, &watched.load(), &mut reader);
        }
        // Without sockets the worker ends, and so do its connections.
        if !watched.load().is_empty() {
            balance.look(&shared);
        }
    }
}

/// Sees to what waits for loops that are late.
fn rescue(shared: &SharedState, watched: &[WatchedSocket], reader: &mut RescueReader) {
    let loops = shared.loops.load();
    let all = loops.stats.iter().enumerate();
    let late: Vec<usize> = all.filter(|(_, stats)| stats.in_poll_for() >= LATE).map(|(index, _)| index).collect();
    if late.is_empty() {
        return;
    }
    late.iter().for_each(|late| rescue_silent::take_over(shared, watched, *late));
    let others = loops.taking().any(|(index, _)| !late.contains(&index));
    let is_here = |socket: &&WatchedSocket| !is_read_elsewhere(shared, &socket.spec);
    let concerned: Vec<(&WatchedSocket, RescueAction)> = watched
        .iter()
        .filter(is_here)
        .filter_map(|socket| Some((socket, socket.way(shared.accept_mutex, &late, others)?)))
        .collect();
    let mut fds: Vec<PollFd<'_>> =
        concerned.iter().map(|(socket, _)| PollFd::from_borrowed_fd(socket.fd.as_fd(), PollFlags::IN)).collect();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if fds.is_empty() || poll(&mut fds, Some(&at_once)).is_err() {
        return;
    }
    let waiting: Vec<bool> = fds.iter().map(|fd| fd.revents().contains(PollFlags::IN)).collect();
    for ((socket, way), _) in concerned.into_iter().zip(waiting).filter(|(_, waits)| *waits) {
        match (&socket.taken_by, way) {
            (TakenBy::All(between), RescueAction::Tell) => between.have_looked_at(),
            (_, RescueAction::Tell) => debug_assert!(false, "{} is not shared", socket.spec.name),
            (TakenBy::Part(at), RescueAction::Take(late)) => {
                let taken = reader.rescue(shared, at, &socket.fd);
                if let Some(late) = loops.stats.get(late) {
                    late.rescued_datagrams.add_n(taken as u64);
                }
            }
            (_, RescueAction::Take(late)) => accept_for(shared, socket, late),
        }
    }
}

/// Whether another process reads the sockets of this address.
fn is_read_elsewhere(shared: &SharedState, spec: &ListenSpec) -> bool {
    spec.quic && shared.boxes.get().is_some_and(|boxes| boxes.is_read_elsewhere(&spec.name))
}

/// Accepts the connections that wait at a late loop's socket, for other loops.
fn accept_for(shared: &SharedState, socket: &WatchedSocket, late: usize) {
    let loops = shared.loops.load();
    let mut helpers = Helpers::of(shared, late, |stats| stats.in_poll_for() < LATE);
    for _ in 0..BATCH {
        let Some(helper) = helpers.next() else { break };
        // There is no connection, or no descriptor left: the loop itself will handle that.
        let Ok(one) = accept(&socket.fd) else { break };
        if !give::give(shared, helper, one, socket.spec.clone()) {
            break;
        }
        if let Some(late) = loops.stats.get(late) {
            late.rescued.add();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::datagrams::directory::Directory;

    fn watched(taken_by: TakenBy) -> WatchedSocket {
        let address = "127.0.0.1:0";
        let spec = Arc::new(ListenSpec::new("http", address.parse().ok(), address.to_owned()));
        let fd = Arc::new(std::net::TcpListener::bind(address).unwrap().into());
        WatchedSocket { spec, fd, taken_by }
    }

    #[test]
    fn what_is_done_depends_on_who_is_notified() {
        let own = watched(TakenBy::Loop(1));
        assert_eq!(own.way(false, &[1], true), Some(RescueAction::Take(1)));
        assert_eq!(own.way(true, &[1], true), Some(RescueAction::Take(1)));
        assert_eq!(own.way(false, &[0, 2], true), None);
        let between = Arc::new(Between::default());
        let shared = watched(TakenBy::All(between.clone()));
        assert_eq!(shared.way(false, &[2], true), Some(RescueAction::Tell));
        assert_eq!(shared.way(false, &[0, 1, 2], false), None, "nobody is there who could look");
        // With turns, only the one that has it counts, or may have been given it.
        assert_eq!(shared.way(true, &[2], true), Some(RescueAction::Take(2)));
        between.hold(0);
        assert_eq!(shared.way(true, &[0], true), Some(RescueAction::Take(0)));
        assert_eq!(shared.way(true, &[1], true), None);
        // The socket of datagrams is that of the loop that reads it.
        let directory = Arc::new(Directory::default());
        directory.extend(2);
        let part = directory.part(1).unwrap();
        part.set_reader(2);
        let datagrams = watched(TakenBy::Part(SharedPart { directory, part }));
        assert_eq!(datagrams.way(true, &[2], true), Some(RescueAction::Take(2)));
        assert_eq!(datagrams.way(true, &[1], true), None);
    }
}
