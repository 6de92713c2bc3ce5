//! Changing the binary while the server runs, and service managers.

mod between;
pub mod daemon;
mod log_lines;
mod manager;
mod procedure;
mod states;
