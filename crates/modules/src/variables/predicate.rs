//! `predicate`: variables that choose locations.

use freerun_conf::{group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_serve::values::lookups::Predicates;

settings! {
    /// Variables that say whether conditions hold, for `location $variable`.
    #[module = "predicate"]
    pub struct PredicateSettings {
        /// Defines a variable that is `1` for requests for which all conditions of the block hold, and empty for others.
        ///
        /// A condition is `match $variable` (it has a value other than `0`), or `match $variable operator value`, with the
        /// operators of `if`: `=`, `!=`, `~`, `~*`, `!~` and `!~*`.
        predicate: Predicates<Request>, in HTTP, since = "1.31.5",
            fidelity = Differs("nginx has not documented it yet: that all conditions have to hold is our reading");
    }
}

/// The module `predicate`.
pub static MODULE: Module = Module { name: "predicate", groups: &[group::<PredicateSettings>()], ..Module::EMPTY };
