//! The modules of stream, and the list that registers them.

pub mod access;
pub mod access_log;
#[cfg(debug_assertions)]
pub mod debug_block;
pub mod geo;
pub mod geoip2;
pub mod keyval;
pub mod limit_conn;
pub mod map;
pub mod num_map;
pub mod pass;
pub mod realip;
pub mod returns;
pub mod set;
pub mod split_clients;
pub mod ssl_preread;
pub mod zone_sync;

use crate::module::Module;

/// All modules. Handlers of one phase run in this order.
pub static MODULES: &[&Module] = &[
    &realip::MODULE,
    #[cfg(debug_assertions)]
    &debug_block::MODULE,
    &limit_conn::MODULE,
    &access::MODULE,
    &set::MODULE,
    &ssl_preread::MODULE,
    &returns::MODULE,
    &pass::MODULE,
    &crate::proxy::MODULE,
    &crate::upstream::MODULE,
    &crate::health::MODULE,
    &zone_sync::MODULE,
    &keyval::MODULE,
    &map::MODULE,
    &num_map::MODULE,
    &geo::MODULE,
    &geoip2::MODULE,
    &split_clients::MODULE,
    &access_log::MODULE,
];
