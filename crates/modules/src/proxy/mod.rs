//! The proxy family: requests that other servers answer.
//!
//! `exchange.rs` is what its members (HTTP, FastCGI, …) tell the engine; `engine/` has one request answered, whatever the
//! member; `variables.rs` is what the log wants to know of it.

pub mod engine;
pub mod exchange;
pub mod variables;
