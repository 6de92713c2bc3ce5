//! `map`: a variable whose value depends on other variables.

use freerun_conf::{group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_serve::values::lookups::Maps;

settings! {
    /// Variables whose values depend on other variables.
    #[module = "map"]
    pub struct MapSettings {
        /// Defines a variable whose value is looked up in a table.
        ///
        /// Keys are compared ignoring case; `~` begins a regular expression, and `~*` an expression that ignores case.
        /// Expressions are tried in their order after all other keys, and not on an empty value. With `hostnames`, keys
        /// may have a wildcard at one end. `default` is the value for other texts, `include` reads entries from a file,
        /// and a backslash in front makes a special key like these an ordinary one. The value is evaluated once for
        /// each request, except with `volatile`.
        map: Maps<Request>, in HTTP;
        /// Size of the table.
        map_hash_max_size: u32 = "2048", in HTTP, fidelity = NoEffect("tables size themselves");
        /// Bucket size of the table.
        map_hash_bucket_size: u32 = "64", in HTTP, fidelity = NoEffect("tables size themselves");
    }
}

/// The module `map`.
pub static MODULE: Module = Module { name: "map", groups: &[group::<MapSettings>()], ..Module::EMPTY };
