//! Tables for routing: a server by its name, a location by the path. They depend on neither type: they are generic over
//! it.

pub mod locations;
pub mod names;

pub use locations::{Found, Locations};

#[cfg(test)]
pub mod tests;
