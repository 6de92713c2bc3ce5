//! Choosing the server and the location.

pub mod arrive;
pub mod locations;
pub mod names;

pub use locations::{Found, Locations};

#[cfg(test)]
pub mod tests;
