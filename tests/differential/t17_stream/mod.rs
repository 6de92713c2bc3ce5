//! Sessions of `stream {}` beside nginx's, with servers behind and with datagrams.

pub mod checks;
pub mod datagrams;
pub mod proxied_sessions;
pub mod sessions;
