//! Regular expressions in nginx's dialect, and their captures in a request.

pub use freerun_serve::values::captures::{Captures, Groups};
pub use freerun_serve::values::{GaveUp, MATCH_LIMIT, Pattern};
