//! Variables and the rewrite module.

pub mod geoip2;
pub mod scripts;
