//! The caches of a configuration: `path.rs` and `values.rs` are the directives' values, `zones.rs` is what their zones declare, and
//! what goes on from one configuration to the next.

pub mod path;
pub mod values;
pub mod zones;
