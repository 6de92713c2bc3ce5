//! Changing the binary while the server runs, and service managers.

mod between;
mod daemon;
mod manager;
mod procedure;
mod states;
