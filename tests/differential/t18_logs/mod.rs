//! Access and error logs.

pub mod access_logs;
