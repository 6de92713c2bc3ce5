//! The contents of a module: what all services have ([`freerun_serve::build::module`]), for sessions.
//!
//! Modules are listed in [`crate::modules`].

use std::convert::Infallible;

use freerun_serve::build::module;
pub use freerun_serve::build::module::{Begin, Finish, LastGenerationHook, ModuleBlock, Settle};

use crate::session::Session;
use crate::session::handler::{ContentHandler, Handler};

/// The path of a session, as modules see it: one without filters and scripts.
pub struct SessionPath;

impl module::Path for SessionPath {
    type Subject = Session;
    type Handler = Handler;
    type Content = ContentHandler;
    type Filter = Infallible;
    type Script = Infallible;
}

/// A module.
pub type Module = module::Module<SessionPath>;
