//! The system calls that rustix and std lack; the only crate with unsafe code.
pub mod process;
pub mod registered;
pub mod socket;
pub mod time;
pub mod cachestat;
pub mod mincore;
pub mod signals;
