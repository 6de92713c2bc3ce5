//! The health of servers: according to the checks sent to them, and to their answers to requests.

pub mod checks;
pub mod outlier;

pub use checks::{CheckRules, CheckedState, ServerCheck};
pub use outlier::OutlierRules;
