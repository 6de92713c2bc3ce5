//! What is kept with a request while it is passed on: `record.rs` is its way through upstream servers, which `variables.rs` shows;
//! `cache_fetch.rs` says how it is passed on for a cache, `cache_status.rs` what a cache had to do with it.

pub mod cache_fetch;
pub mod cache_status;
pub mod record;
pub mod variables;
