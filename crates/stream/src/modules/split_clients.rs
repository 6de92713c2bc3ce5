//! `split_clients`: a variable with one of several values, by percentages.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_split_clients_module.html>

use freerun_conf::{group, settings};
use freerun_serve::values::lookups::Splits;

use crate::module::Module;
use crate::session::Session;

settings! {
    /// Variables of sessions with one of several values, by percentages.
    #[module = "stream/split_clients"]
    pub struct SplitClientsSettings {
        /// Defines a variable whose value depends on the MurmurHash2 of a text, as `split_clients` in `http` does.
        split_clients: Splits<Session>, in STREAM;
    }
}

/// The module.
pub static MODULE: Module =
    Module { name: "stream/split_clients", groups: &[group::<SplitClientsSettings>()], ..Module::EMPTY };
