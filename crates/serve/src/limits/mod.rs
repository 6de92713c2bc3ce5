//! Limits on subjects: which addresses may come, keys of limits, and the counting of `limit_conn`.

pub mod access;
mod counts;
mod key;
mod limit_conn;

pub use key::{Hasher, KeyFingerprint, LimitKey, RefusalLevel, SECRETS};
pub use limit_conn::{ConnLimits, ConnPlaces, ConnVerdict, ConnZones};
