//! `geo`: a variable whose value depends on the client's address.

use freerun_conf::{group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_serve::values::lookups::Geos;

settings! {
    /// Variables whose values depend on the client's address.
    #[module = "geo"]
    pub struct GeoSettings {
        /// Defines a variable whose value is looked up by the client's address, or one in another variable.
        ///
        /// The longest matching network counts. `default` is the value of all other addresses, `delete` removes a
        /// network, `include` reads entries from a file. With `ranges` first, entries are IPv4 ranges (`first-last`).
        /// If the address is in a network named by `proxy`, the last address in `X-Forwarded-For` is used instead, with
        /// `proxy_recursive` the last address outside such networks.
        geo: Geos<Request>, in HTTP, fidelity = Differs("binary tables of ranges (.bin) are neither written nor read");
    }
}

/// The module `geo`.
pub static MODULE: Module = Module { name: "geo", groups: &[group::<GeoSettings>()], ..Module::EMPTY };
