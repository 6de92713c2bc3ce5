//! What rustls's callbacks know of the session whose step runs: they have no argument for it. A step runs on one thread from
//! its beginning to its end, so it stands in a variable of the thread meanwhile.

use super::resume::PeerSessions;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::cell::{Cell, RefCell};
use std::time::Duration;

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// What a session keeps for the callbacks, and learns from them.
#[derive(Default)]
pub(super) struct Kept {
    /// The name that the client asks for; only on the server's side.
    pub(super) server_name: Option<Box<str>>,
    /// Earlier sessions with the same peer; only on the client's side.
    pub(super) peer: Option<PeerSessions>,
}

/// The time that the running step was given.
#[derive(Debug)]
pub(super) struct StepTime;

impl TimeProvider for StepTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(NOW.get()))
    }
}

/// Runs a step, or a part of one, at a time since 1970.
pub(super) fn run<T>(now: Duration, kept: Kept, work: impl FnOnce() -> T) -> (T, Kept) {
    NOW.set(now);
    KEPT.replace(kept);
    let done = work();
    (done, KEPT.take())
}

/// Notes the name that the client asks for.
pub(super) fn asked_for(name: Option<&str>) {
    KEPT.with_borrow_mut(|kept| kept.server_name = name.map(Box::from));
}

/// Looks at the earlier sessions with the peer, if there may be any.
pub(super) fn with_peer<T>(look: impl FnOnce(&PeerSessions) -> T) -> Option<T> {
    KEPT.with_borrow(|kept| kept.peer.as_ref().map(look))
}
