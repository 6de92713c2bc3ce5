//! The settings that the request path itself reads, except those that every request needs at once
//! ([`core_settings`](crate::request::core_settings)). A module's own settings are in the module's file.

pub mod acme;
pub mod files;
pub mod grpc_errors;
pub mod http2;
pub mod http3;
pub mod listen;
pub mod rate;
pub mod server;
pub mod ssl;
pub mod transfer;
