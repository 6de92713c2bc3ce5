//! Tables to choose from: a server by its name, a location by the path. They know neither: they are generic over what they
//! find.

pub mod locations;
pub mod names;

pub use locations::{Found, Locations};

#[cfg(test)]
pub mod tests;
