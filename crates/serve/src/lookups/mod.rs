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
pub use geoip2::{ClientAddress, Databases, OwnAddress};

/// The value of `geo`.
pub type Geos<S> = Blocks<geo::Geo<S>>;

/// The value of `map`.
pub type Maps<S> = Blocks<map::Map<S>>;

/// The value of `num_map`.
pub type NumMaps<S> = Blocks<num_map::NumMap<S>>;

/// The value of `predicate`.
pub type Predicates<S> = Blocks<predicate::Predicate<S>>;

/// The value of `split_clients`.
pub type Splits<S> = Blocks<split_clients::Split<S>>;

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
