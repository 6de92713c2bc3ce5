//! Configurations: what `-t` takes, what it says to mistakes, and the defaults.

pub mod config_errors;
pub mod corpus;
pub mod hints;
pub mod limit_errors;
pub mod log_errors;
pub mod quic_errors;
pub mod script_errors;
pub mod upstream_errors;
pub mod written_defaults;
