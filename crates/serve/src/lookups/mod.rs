//! Variables that directives define by a table: their value depends on other variables, or on the client's address.

mod geo;
mod geoip2;
mod hostnames;
mod map;
mod num_map;
mod predicate;
mod split_clients;

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Word};

use crate::subject::Subject;
use crate::values::{Compute, VariableTable};

pub use geo::Geos;
pub use geoip2::{ClientAddress, Databases, OwnAddress};
pub use map::Maps;
pub use num_map::NumMaps;
pub use predicate::Predicates;
pub use split_clients::Splits;

/// The name of a word of the form `$name`.
///
/// # Errors
/// nginx's `invalid variable name "x"`.
pub fn variable_name(word: &Word) -> Result<&str, Problem> {
    match word.text.strip_prefix('$').filter(|name| !name.is_empty()) {
        Some(name) => Ok(name),
        None => Err(Problem::new(format!("invalid variable name \"{}\"", word.text)).at(word.place)),
    }
}

/// Defines the variable that the last argument of a directive names.
///
/// # Errors
/// It is no name of a variable, or the variable cannot be changed.
pub fn define<S: Subject>(directive: &Node, compute: Arc<dyn Compute<S>>, cx: &mut Cx) -> Result<(), Problem> {
    let Some(word) = directive.args.last() else { return Err(Problem::wrong_count(directive)) };
    let name = variable_name(word)?.to_owned();
    let table = cx.extensions.get_or_default::<VariableTable<S>>();
    table.define(&name, compute).map_err(|problem| problem.at(word.place))
}
