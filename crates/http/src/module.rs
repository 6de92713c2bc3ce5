//! What a module brings: directives, handlers at named phases, filters at named slots, variables.
//!
//! Modules are listed once, explicitly; nothing registers itself. The order in the list is the order in which
//! handlers of one phase run.

use std::sync::Arc;

use freerun_conf::{Cx, Directive, Group, Node, Problem, SettingsSet};

use crate::request::handler::{Filter, Handler};
use crate::variables::Variable;
use freerun_serve::generation::Generation;
use freerun_serve::shared::Shared;

/// Looks at merged settings; a problem refuses the configuration.
pub type Settle = fn(&SettingsSet, &mut Cx) -> Result<(), Problem>;

/// A block of the `http` level that is a module's, such as `upstream`: its directives are settings of a context of their
/// own, and it does not become a level of requests.
pub struct Block {
    /// Name, arguments and the context inside.
    pub directive: Directive,
    /// Called with the block and the settings inside, in reading order with the servers.
    pub read: fn(&Node, &SettingsSet, &mut Cx) -> Result<(), Problem>,
}

/// Called once, when all of `http` has been read, with the settings of its level. What must outlast reading goes into
/// [`Parts`](freerun_serve::parts::Parts).
pub type Finish = fn(&SettingsSet, &mut Cx) -> Result<(), Problem>;

/// Called on the control thread, never on a loop.
pub type Begin = fn(&Arc<Generation>, &Arc<Shared>);

/// Called on the control thread when there are no loops any more.
pub type End = fn(&Generation);

/// A module.
pub struct Module {
    /// Its name, for the reference and `-V`.
    pub name: &'static str,
    /// Its directives.
    pub groups: &'static [&'static dyn Group],
    /// Its handlers.
    pub handlers: &'static [Handler],
    /// The directive by which a location's content is made by this module: of several of that kind in a location, the last one
    /// says which module it is. The handlers of the others are left out, and its own is asked first.
    pub content: Option<&'static str>,
    /// Its filters.
    pub filters: &'static [Filter],
    /// Its variables.
    pub variables: &'static [Variable],
    /// Called with the merged settings of every location and of every server's own level: for what can only be known
    /// then, such as a default that needs a file.
    pub settle: Option<Settle>,
    /// Its blocks.
    pub blocks: &'static [Block],
    /// For what can only be known at the end of `http`.
    pub finish: Option<Finish>,
    /// Called before a generation takes requests: for what its first request should find done. May wait, for a bounded
    /// time, while the generation before goes on serving.
    pub prepare: Option<Begin>,
    /// Called when a generation has begun to take requests: for what runs beside them. What it starts has to end with the
    /// generation.
    pub begin: Option<Begin>,
    /// Called with the last generation when the process ends: for what the next process should find. May wait, for a bounded
    /// time.
    pub end: Option<End>,
}

impl Module {
    /// A module that brings nothing; for `..Module::EMPTY`.
    pub const EMPTY: Module = Module {
        name: "",
        groups: &[],
        handlers: &[],
        content: None,
        filters: &[],
        variables: &[],
        settle: None,
        blocks: &[],
        finish: None,
        prepare: None,
        begin: None,
        end: None,
    };
}
