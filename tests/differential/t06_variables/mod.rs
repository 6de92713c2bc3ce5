//! Variables and the rewrite module.

pub mod assigned_variables;
pub mod geoip2;
pub mod maps;
pub mod rewrite;
pub mod scripts;
pub mod variables;
