//! Stopping early: SIGINT and SIGTERM set a flag that every wait looks at, so that servers, cgroups and mounts are
//! cleaned up on the way out.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorContext, Result};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The time between two looks at the flag while waiting.
const STEP: Duration = Duration::from_millis(50);

/// Starts catching SIGINT and SIGTERM.
pub fn install() -> Result<()> {
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag)).doing("catch signals")?;
    }
    Ok(())
}

/// Fails when a signal has arrived.
pub fn check() -> Result<()> {
    match FLAG.get() {
        Some(flag) if flag.load(Relaxed) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}

/// Waits for `duration`, or fails as soon as a signal arrives.
pub fn pause(duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(STEP));
    }
}

/// Asks `done` every `step` until it answers something, for at most `limit`.
pub fn wait_for<T>(limit: Duration, step: Duration, mut done: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let end = Instant::now() + limit;
    loop {
        check()?;
        if let Some(value) = done()? {
            return Ok(Some(value));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(step);
    }
}
