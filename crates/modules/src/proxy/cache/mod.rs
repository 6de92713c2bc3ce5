//! `proxy_cache` and its like: responses of upstream servers kept on disk and in memory, for all members of the family.
//!
//! `path.rs` and `values.rs` are the directives, `zones.rs` the caches that a configuration has. A request comes to `flow.rs`: it
//! makes the key (`sums.rs` remembers those of late), finds what there is (`find.rs`), and decides whether that is the answer
//! (`answer.rs`; `ready.rs` for one that was made before), whether another request's is waited for, or a server asked (`ask.rs`).
//! `keep.rs` judges the response of a server, and takes its body as the engine's tee; `followed.rs` is that body as a client follows it. `asking.rs` is what a server is told when it is asked for a
//! cache, `background.rs` asks without a client, `purge.rs` removes, `status.rs` is `$upstream_cache_status`.

pub mod answer;
pub mod ask;
pub mod asking;
pub mod background;
pub mod find;
pub mod flow;
pub mod followed;
pub mod keep;
pub mod path;
pub mod purge;
mod ready;
pub mod status;
mod sums;
pub mod values;
pub mod zones;

#[cfg(test)]
mod tests;
