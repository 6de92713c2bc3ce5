//! The values of variables: the subject that has them, nginx variables, and the directives that define variables by tables.
//!
//! A variable is looked up by name once, when a configuration is read. A getter of the core or of a module computes it, or it
//! has a slot in the [`Values`](crate::values::captures::Values) of the subject. Values of `set`, named captures and maps have
//! slots.

mod bytes;
pub mod captures;
mod common;
mod comparison;
pub mod keyvals;
pub mod lookups;
mod pattern;
pub mod proxy_header;
pub mod ssl_variables;
pub mod states;
pub mod subject;
mod table;
mod template;
mod variable;

pub use bytes::ComputedBytes;
pub use common::{Common, NGINX_VERSION, address_value, port_value};
pub use comparison::{Comparison, ONE_CONDITION};
pub use pattern::{GaveUp, MATCH_LIMIT, Pattern, regex_library};
pub use table::{SetTarget, VariableTable, target};
pub use template::Template;
pub use variable::{Compute, ComputeResult, Get, Set, Variable, VariableReference, VariableValue};
