//! The path of a request.
//!
//! The folders carry the names of its rooms, here in the order in which a request comes through them: [`listen`],
//! [`connection`], [`protocol`], [`message`] and [`body`], [`route`], [`phases`] with [`rewrite`], [`content`], [`filters`],
//! [`write`](mod@write) and [`finish`]. [`worker`] owns the loops, [`shared`] is what they share, [`loop_state`] what one of
//! them keeps, [`generation`] the configuration that they serve with; [`build`] makes one from a tree, and [`module`] says
//! what a module is.

pub mod arrive;
pub mod body;
pub mod build;
pub mod connection;
pub mod content;
pub mod core_variables;
pub mod error_log;
pub mod files;
pub mod filters;
pub mod finish;
pub mod http_loop;
mod lengths;
pub mod log;
pub mod message;
pub mod module;
pub mod phases;
pub mod protocol;
pub mod regex;
pub mod request;
pub mod rewrite;
pub mod route;
mod script;
pub mod service;
pub mod settings;
mod subject;
pub mod template;
pub mod values;
pub mod variables;
pub mod write;

pub use freerun_serve::zones;
