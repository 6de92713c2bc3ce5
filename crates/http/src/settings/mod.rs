//! The settings that the request's path itself reads. A module's own settings stand in the module's file.

pub mod access;
pub mod files;
pub mod knobs;
pub mod listen;
pub mod rate;
pub mod resolver;
pub mod server;
pub mod server_names;
