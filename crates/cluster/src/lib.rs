//! State that several nodes share: pairs of `keyval_zone`, and purges of caches.
//!
//! The state stands in an *engine*, a server that speaks the protocol of Redis (Redis from 7.0 on, or Valkey). A thread for
//! each process talks to it. An event loop never sends to the engine and never waits for it. Loops read tables in memory, and
//! hand changes to the thread over a bounded queue.
//!
//! | module | holds |
//! |---|---|
//! | `address` | the address of the engine, as the configuration writes it |
//! | `directives` | the directives of the main level that name the engine |
//! | `settings` | everything that the thread has to know of a configuration |
//! | `figures` | counts, for `status` and the API |
//! | `log_entry` | entries of the engine's logs: changes of pairs, and purges |
//! | `seal` | encryption of what is in the engine, and keyed hashes |
//! | `purge_record` | the file of a cache that says which purges it has seen, and which others have not |
//! | `engine` | connections to the engine, and its commands |
//! | `state` | what the thread and the handle share, and the orders of the thread |
//! | `thread` | the thread: one session with the engine after the other |
//! | `cluster` | the handle that the rest of the server has |
//!
//! docs/design/0050-cluster.md says why it is so.

pub mod address;
mod cluster;
pub mod directives;
mod engine;
mod figures;
mod log_entry;
mod purge_record;
mod seal;
pub mod settings;
mod state;
mod thread;

pub use cluster::Cluster;
pub use figures::{CacheReport, ClusterReport, EngineState, LOG_WORD, LimitReport, NodeReport, ZoneReport};
pub use log_entry::EntryId;
pub use state::{PairWriteError, PurgeDelivery};
