//! `geo`: a variable whose value depends on the client's address.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_geo_module.html>

use freerun_conf::{group, settings};
use freerun_serve::values::lookups::Geos;

use crate::module::Module;
use crate::session::Session;

settings! {
    /// Variables of sessions whose values depend on the client's address.
    #[module = "stream/geo"]
    pub struct GeoSettings {
        /// Defines a variable whose value is looked up by the client's address, or one in another variable, as `geo` in
        /// `http` does.
        geo: Geos<Session>, in STREAM, fidelity = Differs("binary tables of ranges (.bin) are neither written nor read; `proxy` is accepted and means nothing");
    }
}

/// The module.
pub static MODULE: Module = Module { name: "stream/geo", groups: &[group::<GeoSettings>()], ..Module::EMPTY };
