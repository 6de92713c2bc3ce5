//! `num_map`: a variable whose value depends on a number.

use freerun_conf::{group, settings};
use freerun_serve::values::lookups::NumMaps;

use crate::module::Module;
use crate::session::Session;

settings! {
    /// Variables of sessions whose values depend on numbers.
    #[module = "stream/num_map"]
    pub struct NumMapSettings {
        /// Defines a variable whose value depends on the range that a number is in, as `num_map` in `http` does.
        num_map: NumMaps<Session>, in STREAM, fidelity = Differs("the number has to be given"), since = "1.29.3";
    }
}

/// The module.
pub static MODULE: Module = Module { name: "stream/num_map", groups: &[group::<NumMapSettings>()], ..Module::EMPTY };
