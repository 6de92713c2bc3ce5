//! What an administrator is told.

use std::io;

use freerun_conf::{Cx, Problem};
use freerun_tls::openssl::{Level, Remark};

/// A file that cannot be read.
pub(super) fn unreadable(what: &str, error: &io::Error) -> Problem {
    Problem::new(format!("{what} ({})", freerun_runtime::log::Errno(error)))
}

/// What was refused, as a problem.
pub(super) fn problem(refused: impl std::fmt::Display) -> Problem {
    Problem::new(refused.to_string())
}

/// Warns of what is asked for in vain; what loses nothing that matters is not told.
pub(super) fn tell(remark: Option<Remark>, cx: &mut Cx) {
    if let Some(remark) = remark.filter(|remark| remark.level == Level::Warn) {
        cx.warn(Problem::warning(remark.text));
    }
}
