//! `num_map`: a variable whose value depends on a number.

use freerun_conf::{group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_serve::values::lookups::NumMaps;

settings! {
    /// Variables whose values depend on numbers.
    #[module = "num_map"]
    pub struct NumMapSettings {
        /// Defines a variable whose value depends on the range that a number is in.
        ///
        /// A range is `5`, `1-5`, `<5`, `<=5`, `>5` or `>=5`; the first range with the number counts. `default` is the
        /// value for other numbers and for what is no number, and is empty if it is not given. `include` reads entries
        /// from a file. The value is evaluated once for each request, except with `volatile`.
        num_map: NumMaps<Request>, in HTTP, fidelity = Differs("the number has to be given"), since = "1.29.3";
    }
}

/// The module `num_map`.
pub static MODULE: Module = Module { name: "num_map", groups: &[group::<NumMapSettings>()], ..Module::EMPTY };
