//! The settings that the path of a session itself reads. A module's own settings are in the module's file.

pub mod core;
pub mod listen;
pub mod ssl;
