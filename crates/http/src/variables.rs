//! nginx variables of HTTP: [`freerun_serve::values`] for requests, and the variables of the core.

pub use freerun_serve::values::captures::{Full, MAX_TEXT, Values};
pub use freerun_serve::values::{Compute, ComputeResult, VariableValue};

use crate::request::Request;

/// A variable of requests.
pub type Variable = freerun_serve::values::Variable<Request>;

/// A use of a variable of requests.
pub type Reference = freerun_serve::values::VariableReference<Request>;

/// All variables of requests that a configuration may name.
pub type VariableTable = freerun_serve::values::VariableTable<Request>;

/// The target of `set`.
pub type RequestSetTarget = freerun_serve::values::SetTarget<Request>;
