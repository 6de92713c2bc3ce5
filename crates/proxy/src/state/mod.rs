//! The state of a request while it is passed on. `record.rs` is the record of its tries, and `variables.rs` shows it.
//! `cache_fetch.rs` says how the request is passed on for a cache, `cache_status.rs` how a cache was used for it.

pub mod cache_fetch;
pub mod cache_status;
pub mod record;
pub mod variables;
