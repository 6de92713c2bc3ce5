//! The report of panics: in the error log, with their place.

use std::sync::{Mutex, PoisonError};

use freerun_runtime::log::{ErrorLog, Level};

static LOG: Mutex<Option<ErrorLog>> = Mutex::new(None);

/// Reports panics to this log from now on.
pub fn report_to(log: ErrorLog) {
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
}

/// Replaces the standard library's report on stderr, which a daemon does not have.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("?");
        // The lock is held by `report_to` for one store, and by other panics.
        match &*LOG.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(log) => log.write(Level::Alert, None, format_args!("thread {name} panicked at {place}: {text}")),
            None => eprintln!("nginx: [alert] thread {name} panicked at {place}: {text}"),
        }
    }));
}
