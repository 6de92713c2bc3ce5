//! Log lines about name servers that belong to no single request. They go to the error log, at a bounded rate.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use freerun_runtime::log::{ErrorLog, Level};

/// The shortest time between two lines, because anyone who can send datagrams can cause them.
const PAUSE: Duration = Duration::from_secs(1);

/// The log that the lines go to.
static LOG: ArcSwapOption<ErrorLog> = ArcSwapOption::const_empty();

thread_local! {
    /// Moment of the last line, and the number of lines left out since. Used on the resolver thread.
    static LAST: Cell<(Option<Instant>, u64)> = const { Cell::new((None, 0)) };
}

/// Sets the log for the lines: the current configuration's log.
pub fn report_to(log: ErrorLog) {
    LOG.store(Some(log.into()));
}

/// Logs a line, unless one was logged just now. To be called on the resolver thread.
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
