//! The contents of a module: what all services have ([`freerun_serve::build::module`]), for requests.

use freerun_serve::build::module;
pub use freerun_serve::build::module::{Begin, Finish, LastGenerationHook, ModuleBlock, Settle};

use crate::request::Request;
use crate::request::handler::{Filter, Handler};
use crate::script::Script;

/// The path of a request, as modules see it.
///
/// The directive that makes a location's content chooses the module: its handlers come first, and handlers of other
/// modules that make content are left out.
pub struct RequestPath;

impl module::Path for RequestPath {
    type Subject = Request;
    type Handler = Handler;
    type Content = &'static str;
    type Filter = Filter;
    type Script = Script<Request>;
}

/// A module.
pub type Module = module::Module<RequestPath>;
