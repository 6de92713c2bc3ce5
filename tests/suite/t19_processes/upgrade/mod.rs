//! Changing the binary while the server runs, and service managers.

mod between;
mod log_lines;
mod manager;
mod procedure;
mod states;
