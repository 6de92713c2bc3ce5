//! The settings that the request's path itself reads, but for those that every request asks for at once
//! ([`core_settings`](crate::request::core_settings)). A module's own settings stand in the module's file.

pub mod files;
pub mod listen;
pub mod rate;
pub mod resolver;
pub mod server;
pub mod server_names;
pub mod transfer;
