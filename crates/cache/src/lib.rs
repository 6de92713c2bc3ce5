//! Caches of responses, as nginx's `proxy_cache_path` declares them: one [`Cache`](cache::Cache) for each `keys_zone`,
//! shared by all loops and kept over reloads.
//!
//! The crate knows nothing of requests. Decisions (what may be stored, how long it is fresh, which object is evicted)
//! are pure code with the time as an argument. Files are reached through `freerun_runtime`, or from the cache's own
//! thread.

pub mod cache;
mod compare;
mod config;
mod disk;
pub mod fill;
mod folder_watch;
pub mod health;
mod index;
mod journal;
pub mod key;
mod manager;
pub mod memory;
mod name_locks;
pub mod object;
pub mod purge;
mod read;
pub mod record;
mod reporter;
pub mod rules;
mod store;
pub mod usage;
mod work;

pub use index::simulate;
