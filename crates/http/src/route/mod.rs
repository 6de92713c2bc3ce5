//! The table for routing: a location by the path. It does not depend on the type of locations: it is generic over it. A
//! server by its name: [`freerun_serve::build::names`].

pub mod locations;
mod prefix_keys;

pub use locations::{LocationChoice, LocationTrial, Locations, TrialKind};

#[cfg(test)]
pub mod tests;
