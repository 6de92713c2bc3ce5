//! `geoip2`: variables from a MaxMind database, looked up by the client's address. Directives and variables are the
//! same as in the third-party module for nginx with this name.

use freerun_conf::{group, settings};
use freerun_serve::values::lookups::Databases;

use crate::module::Module;
use crate::session::Session;

settings! {
    /// Variables of sessions from MaxMind databases (`.mmdb`), as in the third-party module geoip2.
    #[module = "stream/geoip2"]
    pub struct GeoIp2Settings {
        /// A database, and the variables with values from it, as `geoip2` in `http` defines them.
        geoip2: Databases<Session>, in STREAM,
            fidelity = Differs("the file is read into memory and not mapped; `auto_reload` needs a valid time, `metadata` one of the three names; numbers over 64 bits are 32 hexadecimal digits");
    }
}

/// The module.
pub static MODULE: Module = Module { name: "stream/geoip2", groups: &[group::<GeoIp2Settings>()], ..Module::EMPTY };
