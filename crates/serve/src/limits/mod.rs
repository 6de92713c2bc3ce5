//! Limits on subjects: which addresses may come, keys of limits, and the counting of `limit_conn`.

pub mod access;
pub mod bucket;
mod counts;
mod key;
pub mod key_table;
pub mod leases;
mod limit_conn;

pub use key::{Hasher, LimitKey, RefusalLevel, SECRETS};
pub use limit_conn::{ConnLimits, ConnPlaces, ConnVerdict, ConnZones};
