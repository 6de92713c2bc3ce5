//! Variables and the rewrite module.

pub mod captures;
pub mod geoip2;
pub mod scripts;
