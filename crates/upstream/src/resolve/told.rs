//! What name servers do that no single request is told of: in the error log, but not more often than it can be read.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use freerun_runtime::log::{ErrorLog, Level};

/// The shortest time between two lines: whoever can send datagrams can cause them.
const PAUSE: Duration = Duration::from_secs(1);

/// Where it is told.
static LOG: ArcSwapOption<ErrorLog> = ArcSwapOption::const_empty();

thread_local! {
    /// On the thread that asks: when the last line was written, and how many were left out since.
    static LAST: Cell<(Option<Instant>, u64)> = const { Cell::new((None, 0)) };
}

/// From now on it is told in `log`, that of the current configuration.
pub fn report_to(log: ErrorLog) {
    LOG.store(Some(log.into()));
}

/// Tells it, unless something was told just now. On the thread that asks.
pub(super) fn say(what: fmt::Arguments<'_>) {
    let Some(log) = LOG.load_full() else { return };
    let (last, more) = LAST.get();
    if last.is_some_and(|since| since.elapsed() < PAUSE) {
        LAST.set((last, more + 1));
        return;
    }
    match more {
        0 => log.write(Level::Warn, None, what),
        more => log.write(Level::Warn, None, format_args!("{what} ({more} more such lines were left out)")),
    }
    LAST.set((Some(Instant::now()), 0));
}
