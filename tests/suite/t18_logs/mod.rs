//! Access and error logs.

pub mod json;
pub mod logs;
