//! Parts that a module brings to a service: directives, handlers, variables, and functions that are called while a
//! configuration is read and while it serves.
//!
//! Each service lists its modules once, explicitly; nothing registers itself. The order in the list is the order in which
//! handlers of one phase run.

use std::sync::Arc;

use freerun_conf::{Cx, Directive, Group, Node, Problem, SettingsSet};

use crate::configuration::generation::Generation;
use crate::loops::shared::SharedState;
use crate::values::Variable;
use crate::values::subject::Subject;

/// The path of a service's subjects, as its modules see it.
pub trait Path: 'static {
    /// The request or session.
    type Subject: Subject;
    /// A handler at a named phase.
    type Handler: 'static;
    /// A directive that chooses who makes the content of a level.
    type Content: 'static;
    /// A filter of what is sent.
    type Filter: 'static;
    /// The steps of a level's script that are a module's, as its settings say.
    type Script: 'static;
}

/// A module of a service.
pub struct Module<P: Path> {
    /// The name of the module, for the reference and `-V`.
    pub name: &'static str,
    /// The directives of the module.
    pub groups: &'static [&'static dyn Group],
    /// The handlers of the module.
    pub handlers: &'static [P::Handler],
    /// The directives that have this module make the content of a level. If a level has several such directives, of whichever
    /// modules, the last one counts.
    pub content: &'static [P::Content],
    /// The filters of the module.
    pub filters: &'static [P::Filter],
    /// The variables of the module.
    pub variables: &'static [Variable<P::Subject>],
    /// The directives of the module that run in the script of a level, between directives of the rewrite module.
    pub script: Option<fn(&SettingsSet) -> P::Script>,
    /// Called with the merged settings of every level that subjects may be at (a server, a location). It is for checks and
    /// defaults that need them, such as a default that needs a file.
    pub settle: Option<Settle>,
    /// The blocks of the module.
    pub blocks: &'static [ModuleBlock],
    /// Called at the end of the service's block.
    pub finish: Option<Finish>,
    /// Called before a generation takes subjects, for work that has to be done before its first one. It may wait for a bounded
    /// time, while the generation before goes on serving.
    pub prepare: Option<Begin>,
    /// Called when a generation has begun to take subjects, for background work, which has to end with the generation.
    pub begin: Option<Begin>,
    /// Called with the last generation when the worker takes no connections any more and finishes the present ones, which
    /// may last. From then on other processes do what this one does beside its subjects. It may not wait. A process that ends
    /// at once does not call it.
    pub drain: Option<LastGenerationHook>,
    /// Called after `drain` when another process serves by the same configuration, or soon will. From then on that process has
    /// what only one can have, though this one may go on for long with its connections. It may not wait.
    pub leave: Option<LastGenerationHook>,
    /// Called with the last generation when all loops have ended, to save data for the next process. It may wait for a
    /// bounded time.
    pub end: Option<LastGenerationHook>,
}

impl<P: Path> Module<P> {
    /// A module without contents, for `..Module::EMPTY`.
    pub const EMPTY: Module<P> = Module {
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

    /// The functions that are called while the worker lives.
    pub fn hooks(&self) -> Hooks {
        let Module { prepare, begin, drain, leave, end, .. } = *self;
        Hooks { prepare, begin, drain, leave, end }
    }
}

/// Functions of a module that are called while the worker lives: the fields of [`Module`] with these names, whatever its
/// service is.
pub struct Hooks {
    /// [`Module::prepare`]
    pub prepare: Option<Begin>,
    /// [`Module::begin`]
    pub begin: Option<Begin>,
    /// [`Module::drain`]
    pub drain: Option<LastGenerationHook>,
    /// [`Module::leave`]
    pub leave: Option<LastGenerationHook>,
    /// [`Module::end`]
    pub end: Option<LastGenerationHook>,
}

/// Checks merged settings; a problem refuses the configuration.
pub type Settle = fn(&SettingsSet, &mut Cx) -> Result<(), Problem>;

/// A block at the level of a service that belongs to a module, such as `upstream`. Its directives are settings in a context
/// of their own, and it is no level for requests or sessions.
pub struct ModuleBlock {
    /// The name, the arguments and the context inside.
    pub directive: Directive,
    /// Called with the block and the settings inside, in reading order together with the servers.
    pub read: fn(&Node, &SettingsSet, &mut Cx) -> Result<(), Problem>,
}

/// Called once, when all of a service's block has been read, with the settings of its level. Data that must outlast reading goes
/// into [`Parts`](crate::configuration::parts::Parts).
pub type Finish = fn(&SettingsSet, &mut Cx) -> Result<(), Problem>;

/// Called on the control thread, never on a loop.
pub type Begin = fn(&Arc<Generation>, &Arc<SharedState>);

/// Called on the control thread with the last generation.
pub type LastGenerationHook = fn(&Generation);
