//! TLS of listeners.

mod acme;
mod acme_errors;
mod choice;
mod clients;
mod early_data;
mod files;
mod hellos;
mod kept;
mod key_logs;
mod locked_keys;
mod ocsp;
pub(crate) mod pebble;
mod programs;
mod resumed;
mod servers;
mod serving;
mod status;
mod watched;

use servers::{secure, secure_with};
