//! HTTP requests to a CA.

mod resolve;

pub(crate) use resolve::resolve_by_system;
