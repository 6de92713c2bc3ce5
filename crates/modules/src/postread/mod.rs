//! Modules that run before all other processing of a request.

pub mod realip;
