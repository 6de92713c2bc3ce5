//! Configurations: what `-t` takes, what it says to mistakes, and the defaults.

pub mod checks;
pub mod malformed_text;
pub mod proxy_checks;
pub mod upstream_checks;
pub mod verdicts;
