//! `map`: a variable whose value depends on other variables.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_map_module.html>

use freerun_conf::{group, settings};
use freerun_serve::values::lookups::Maps;

use crate::module::Module;
use crate::session::Session;

settings! {
    /// Variables of sessions whose values depend on other variables.
    #[module = "stream/map"]
    pub struct MapSettings {
        /// Defines a variable whose value is looked up in a table, as `map` in `http` does.
        map: Maps<Session>, in STREAM;
        /// Size of the table.
        map_hash_max_size: u32 = "2048", in STREAM, fidelity = NoEffect("tables size themselves");
        /// Bucket size of the table.
        map_hash_bucket_size: u32 = "64", in STREAM, fidelity = NoEffect("tables size themselves");
    }
}

/// The module.
pub static MODULE: Module = Module { name: "stream/map", groups: &[group::<MapSettings>()], ..Module::EMPTY };
