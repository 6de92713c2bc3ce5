//! `proxy_cache` and its like: responses of upstream servers kept on disk and in memory, for all members of the family.
//!
//! `path.rs` and `values.rs` are the directives, `zones.rs` the caches that a configuration has.

pub mod path;
pub mod values;
pub mod zones;

#[cfg(test)]
mod tests;
