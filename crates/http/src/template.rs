//! Text with variables of requests ("complex values" in nginx).

/// A value with variables in it.
pub type Template = freerun_serve::values::Template<crate::request::Request>;
