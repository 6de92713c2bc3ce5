//! nginx variables: looked up by name once, when a configuration is read.
//!
//! A variable is computed by a getter (those of the core and the modules), or has a slot in the
//! [`Values`](crate::captures::Values) of the subject: for values of `set`, named captures and maps.

mod bytes;
mod common;
mod comparison;
mod pattern;
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
