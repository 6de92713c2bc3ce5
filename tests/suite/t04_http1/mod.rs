//! HTTP/1.1: requests that could end a worker.

pub mod requests;
