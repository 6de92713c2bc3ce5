//! The caches of a configuration: `path.rs` and `values.rs` are the directives' values; `zones.rs` has the declared
//! zones, and the state that is kept from one configuration to the next.

pub mod path;
pub mod purge_rule;
pub mod values;
pub mod zones;
