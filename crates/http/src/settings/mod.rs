//! The settings that the request's path itself reads. A module's own settings stand in the module's file.

pub mod access;
pub mod core;
pub mod error_page;
pub mod files;
pub mod keepalive;
pub mod knobs;
pub mod listen;
pub mod logs;
pub mod media_types;
pub mod rate;
pub mod resolver;
pub mod server;
pub mod types;
