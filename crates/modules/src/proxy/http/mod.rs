//! `proxy_pass`: requests passed on over HTTP.

pub mod exchange;
