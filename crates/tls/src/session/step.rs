//! What rustls's callbacks know of the session whose step runs: they have no argument for it. A step runs on one thread from
//! its beginning to its end, so it stands in a variable of the thread meanwhile.

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::cell::{Cell, RefCell};
use std::time::Duration;

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static SERVER_NAME: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// The time that the running step was given.
#[derive(Debug)]
pub(super) struct StepTime;

impl TimeProvider for StepTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(NOW.get()))
    }
}

/// Begins a step, at a time since 1970.
pub(super) fn begin(now: Duration) {
    NOW.set(now);
    SERVER_NAME.take();
}

/// Takes what the step has learned: the name that the client asked for.
pub(super) fn end() -> Option<Box<str>> {
    SERVER_NAME.take()
}

/// Notes the name that the client asks for.
pub(super) fn asked_for(name: Option<&str>) {
    SERVER_NAME.replace(name.map(Box::from));
}
