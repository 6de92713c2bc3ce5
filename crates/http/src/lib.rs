//! The path of a request.
//!
//! The folders are named after the steps of a request, here in the order in which it passes through them. [`service`]
//! takes the connection, then come [`connection`], [`protocol`], [`message`] and [`body`], [`arrive`] and [`route`].
//! [`phases`] with [`rewrite`], [`content`], [`filters`], [`write`](mod@write) and [`finish`] follow. [`http_loop`] is
//! the state of http on a loop; [`build`] makes a configuration from a tree, and [`module`] defines a module.
//!
//! From the bottom to the top, each module imports only those before it (the whole order is in `xtask/tidy.toml`):
//!
//! 1. [`message`], [`values`], [`files`], [`route`], `script`, [`connection`]: they do not depend on a
//!    request; a type that needs a request or a location is generic over it;
//! 2. [`request`]: a request, its response, its location, the handlers there, and the configuration that has all of
//!    these. They refer to each other, so they share one folder;
//! 3. [`log`], [`template`], [`regex`], [`variables`]: queries about a request, by the names that all others use;
//! 4. [`settings`], [`content`], [`body`], [`rewrite`], [`arrive`]: operations of handlers and of the path on a request;
//! 5. [`module`], [`filters`], [`finish`], [`phases`]: the code that runs for it, and when;
//! 6. [`write`](mod@write), [`protocol`], [`service`]: how it comes in, and how the response goes out;
//! 7. [`core_variables`], [`build`]: the variables of a configuration, and how it is made.

pub mod arrive;
pub mod body;
pub mod build;
pub mod connection;
pub mod content;
pub mod core_variables;
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
pub mod script;
pub mod service;
pub mod settings;
mod subject;
pub mod template;
pub mod values;
pub mod variables;
pub mod write;
