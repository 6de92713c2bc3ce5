//! Which servers are well: what checks that are sent to them say, and what their answers to requests do.

pub mod checks;
pub mod outlier;

pub use checks::{CheckRules, Checked, Watch};
pub use outlier::OutlierRules;
