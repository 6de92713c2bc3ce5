//! Access and error logs.

pub mod logs;
