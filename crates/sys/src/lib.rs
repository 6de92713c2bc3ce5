//! The system calls that rustix and std lack; the only crate with unsafe code.
pub mod registered;
pub mod time;
