//! Limits on the number of subjects: keys of limits, and the counting of `limit_conn`.

mod counts;
mod key;
mod limit_conn;

pub use key::{Fingerprint, Hasher, Key, RefusalLevel, SECRETS};
pub use limit_conn::{ConnLimits, ConnZones, Places, Verdict};
