//! The values of variables: the subject that has them, nginx variables, which are looked up by name once, when a configuration is
//! read, and the directives that define variables by tables.
//!
//! A variable is computed by a getter (those of the core and the modules), or has a slot in the
//! [`Values`](crate::values::captures::Values) of the subject: for values of `set`, named captures and maps.

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
pub use pattern::{GaveUp, MATCH_LIMIT, Pattern};
pub use table::{Target, VariableTable, target};
pub use template::Template;
pub use variable::{Compute, Found, Get, Reference, Set, Value, Variable};
