//! A configuration that serves: its paths and parts, its zones, the files that keep their state, and what serves with it.

pub mod compiled_paths;
pub mod engine_declared;
pub mod generation;
pub mod log_paths;
pub mod object_places;
pub mod parts;
pub mod services;
pub mod state_file;
pub(crate) mod stateless;
pub mod unsaved_states;
pub mod zones;
