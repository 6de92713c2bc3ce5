//! The system calls that rustix and std lack, and AWS-LC's certificates; the only crate with unsafe code.

pub mod addresses;
pub mod cachestat;
pub mod crypt;
pub mod datagrams;
pub mod inherited;
pub mod memory;
pub mod mincore;
pub mod populate;
pub mod process;
pub mod program;
pub mod receive;
pub mod sandbox;
pub mod schedule;
pub mod signals;
pub mod socket;
pub mod switches;
pub mod time;
pub mod title;
pub mod x509;
