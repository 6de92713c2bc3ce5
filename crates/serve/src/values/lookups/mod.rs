//! Variables that directives define by a table: their value depends on other variables, or on the client's address.

mod blocks;
mod geo;
mod geoip2;
mod hostnames;
mod map;
mod num_map;
mod predicate;
mod split_clients;

use freerun_conf::{Problem, Word};

pub use blocks::Blocks;
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
