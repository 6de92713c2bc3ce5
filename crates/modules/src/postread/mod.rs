//! Before anything else is done with a request.

pub mod realip;
