//! Modules whose directives run in the script of a level, between `set`, `if` and `rewrite`.

pub mod set_misc;
