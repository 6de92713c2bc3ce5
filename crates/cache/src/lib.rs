//! Caches of responses, as nginx's `proxy_cache_path` declares them: one [`Cache`](cache::Cache) for each `keys_zone`,
//! shared by all loops and kept over reloads.
//!
//! The crate knows nothing of requests. Decisions (what may be stored, how long it is fresh, who is evicted) are pure code
//! with the time as an argument; files are reached through `freerun_runtime`, or from the cache's own thread.

pub mod cache;
pub mod key;
pub mod record;
pub mod rules;
