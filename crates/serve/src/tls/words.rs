//! Messages for the administrator about TLS.

use std::collections::HashSet;
use std::io;

use freerun_conf::{Cx, Place, Problem};
use freerun_tls::openssl::{Remark, RemarkLevel};

use super::values::Spot;

/// The warnings that were told already, with their places; lives in the configuration's context.
#[derive(Default)]
struct ReportedWarnings(HashSet<(String, Place)>);

/// A file that cannot be read.
pub(super) fn unreadable(what: &str, error: &io::Error) -> Problem {
    Problem::new(format!("{what} ({})", freerun_runtime::log::Errno(error)))
}

/// Makes a problem of a refusal.
pub(super) fn problem(refused: impl std::fmt::Display) -> Problem {
    Problem::new(refused.to_string())
}

/// Warns of what a value asks for in vain, once for each value, however many servers have it; what loses nothing that matters
/// is not told.
pub(super) fn tell(remark: Option<Remark>, spot: Spot, cx: &mut Cx) {
    if let Some(remark) = remark.filter(|remark| remark.level == RemarkLevel::Warn) {
        warn(remark.text, spot, cx);
    }
}

/// Warns of a value, once.
pub(super) fn warn(text: String, spot: Spot, cx: &mut Cx) {
    if cx.extensions.get_or_default::<ReportedWarnings>().0.insert((text.clone(), spot.place())) {
        cx.warn(spot.blamed(Problem::warning(text)));
    }
}
