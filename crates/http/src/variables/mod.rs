//! nginx variables of HTTP: [`freerun_serve::values`] for requests, and the variables of the core.

mod core;

pub use freerun_serve::captures::{Full, MAX_TEXT, Values};
pub use freerun_serve::values::{Compute, Found, Value};

use crate::request::Request;

pub use core::find_cookie as cookie;
pub use core::{LimitRate, VARIABLES as CORE_VARIABLES};

/// A variable of requests.
pub type Variable = freerun_serve::values::Variable<Request>;

/// A use of a variable of requests.
pub type Reference = freerun_serve::values::Reference<Request>;

/// All variables of requests that a configuration may name.
pub type VariableTable = freerun_serve::values::VariableTable<Request>;

/// What `set` assigns to.
pub type Target = freerun_serve::values::Target<Request>;
