//! The contents of a module: directives, handlers at named phases, a content handler, variables.
//!
//! Modules are listed once, explicitly ([`crate::modules`]); nothing registers itself. The order in the list is the order in
//! which handlers of one phase run.

use freerun_conf::Group;
pub use freerun_serve::hooks::{Begin, Block, End, Finish, Settle};
use freerun_serve::values::Variable;

use crate::session::Session;
use crate::session::handler::{Content, Handler};

/// A module.
pub struct Module {
    /// The name of the module, for the reference.
    pub name: &'static str,
    /// The directives of the module.
    pub groups: &'static [&'static dyn Group],
    /// The handlers of the module.
    pub handlers: &'static [Handler],
    /// The directives by which this module has the sessions of a server.
    pub content: &'static [Content],
    /// The variables of the module.
    pub variables: &'static [Variable<Session>],
    /// Called with the merged settings of every server, for checks and defaults that need them.
    pub settle: Option<Settle>,
    /// The blocks of the module.
    pub blocks: &'static [Block],
    /// Called at the end of `stream`.
    pub finish: Option<Finish>,
    /// Called before a generation takes sessions, for work that has to be done before its first session. It may wait for a
    /// bounded time, while the generation before goes on serving.
    pub prepare: Option<Begin>,
    /// Called when a generation has begun to take sessions, for background work, which has to end with the generation.
    pub begin: Option<Begin>,
    /// Called with the last generation when the worker takes no connections any more and finishes those that it has. It may
    /// not wait. A process that ends at once does not call it.
    pub drain: Option<End>,
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
        variables: &[],
        settle: None,
        blocks: &[],
        finish: None,
        prepare: None,
        begin: None,
        drain: None,
        end: None,
    };
}
