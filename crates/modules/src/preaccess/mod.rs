//! Modules with limits, which run before access is checked.

#[cfg(debug_assertions)]
pub mod debug_block;
mod key;
pub mod limit_conn;
pub mod limit_req;
