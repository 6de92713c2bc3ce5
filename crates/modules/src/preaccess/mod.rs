//! Modules with limits, which run before access is checked.

mod key;
pub mod limit_conn;
pub mod limit_req;
