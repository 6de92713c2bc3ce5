//! `split_clients`: a variable with one of several values, by percentages.

use freerun_conf::{group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_serve::values::lookups::Splits;

settings! {
    /// Variables with one of several values, by percentages.
    #[module = "split_clients"]
    pub struct SplitClientsSettings {
        /// Defines a variable whose value depends on the MurmurHash2 of a text, so that each value gets its percentage.
        ///
        /// Percentages have at most two decimals; `*` gets the rest.
        split_clients: Splits<Request>, in HTTP;
    }
}

/// The module `split_clients`.
pub static MODULE: Module =
    Module { name: "split_clients", groups: &[group::<SplitClientsSettings>()], ..Module::EMPTY };
