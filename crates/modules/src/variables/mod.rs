//! Modules that define variables.

pub mod browser;
pub mod geo;
pub mod geoip2;
mod hostnames;
pub mod map;
pub mod referer;
pub mod secure_link;
pub mod split_clients;

use freerun_conf::{Cx, Node, Problem, Word};
use freerun_http::variables::VariableTable;

/// The name in a word that has to be `$name`.
pub(crate) fn variable_name(word: &Word) -> Result<&str, Problem> {
    match word.text.strip_prefix('$').filter(|name| !name.is_empty()) {
        Some(name) => Ok(name),
        None => Err(Problem::new(format!("invalid variable name \"{}\"", word.text)).at(word.place)),
    }
}

/// Defines the variable that the last argument of a directive names.
fn define(
    directive: &Node,
    compute: std::sync::Arc<dyn freerun_http::variables::Compute<freerun_http::request::Request>>,
    cx: &mut Cx,
) -> Result<(), Problem> {
    let Some(word) = directive.args.last() else { return Err(Problem::wrong_count(directive)) };
    let name = variable_name(word)?.to_owned();
    let table = cx.extensions.get_or_default::<VariableTable>();
    table.define(&name, compute).map_err(|problem| problem.at(word.place))
}
