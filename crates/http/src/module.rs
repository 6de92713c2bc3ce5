//! The contents of a module: directives, handlers at named phases, filters at named slots, variables.
//!
//! Modules are listed once, explicitly; nothing registers itself. The order in the list is the order in which
//! handlers of one phase run.

use freerun_conf::{Group, SettingsSet};
pub use freerun_serve::hooks::{Begin, Block, End, Finish, Settle};

use crate::request::Request;
use crate::request::handler::{Filter, Handler};
use crate::script::Script;
use crate::variables::Variable;

/// A module.
pub struct Module {
    /// The name of the module, for the reference and `-V`.
    pub name: &'static str,
    /// The directives of the module.
    pub groups: &'static [&'static dyn Group],
    /// The handlers of the module.
    pub handlers: &'static [Handler],
    /// The directives by which this module makes a location's content. If a location has several such directives, the
    /// last one chooses the module: its handlers come first, and those of the other modules are left out.
    pub content: &'static [&'static str],
    /// The filters of the module.
    pub filters: &'static [Filter],
    /// The variables of the module.
    pub variables: &'static [Variable],
    /// The directives of the module that run in the script of a level, between those of the rewrite module.
    pub script: Option<fn(&SettingsSet) -> Script<Request>>,
    /// Called with the merged settings of every location and of every server's own level, for checks and defaults that
    /// need them, such as a default that needs a file.
    pub settle: Option<Settle>,
    /// The blocks of the module.
    pub blocks: &'static [Block],
    /// Called at the end of `http`.
    pub finish: Option<Finish>,
    /// Called before a generation takes requests, for work that has to be done before its first request. It may wait
    /// for a bounded time, while the generation before goes on serving.
    pub prepare: Option<Begin>,
    /// Called when a generation has begun to take requests, for background work, which has to end with the generation.
    pub begin: Option<Begin>,
    /// Called with the last generation when the worker takes no connections any more and finishes those that it has, which
    /// may last: from then on others do what the process does beside its requests. It may not wait. A process that ends at
    /// once does not call it.
    pub drain: Option<End>,
    /// Called after `drain` when another process serves by the same configuration, or soon will: from then on that one has what
    /// only one process can have, though this one may go on for long with its connections. It may not wait.
    pub leave: Option<End>,
    /// Called with the last generation when all loops have ended, to save data for the next process. It may wait for a
    /// bounded time.
    pub end: Option<End>,
}

impl Module {
    /// A module without contents, for `..Module::EMPTY`.
    pub const EMPTY: Module = Module {
        name: "",
        groups: &[],
        handlers: &[],
        content: &[],
        filters: &[],
        variables: &[],
        script: None,
        settle: None,
        blocks: &[],
        finish: None,
        prepare: None,
        begin: None,
        drain: None,
        leave: None,
        end: None,
    };
}
