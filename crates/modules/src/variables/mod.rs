//! Modules that define variables.

pub mod browser;
pub mod geo;
pub mod geoip2;
pub mod keyval;
pub mod map;
pub mod num_map;
pub mod predicate;
pub mod referer;
pub mod secure_link;
pub mod split_clients;
