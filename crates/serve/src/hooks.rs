//! What the modules of a service have called while a configuration is read, and while it serves.

use std::sync::Arc;

use freerun_conf::{Cx, Directive, Node, Problem, SettingsSet};

use crate::generation::Generation;
use crate::shared::Shared;

/// Checks merged settings; a problem refuses the configuration.
pub type Settle = fn(&SettingsSet, &mut Cx) -> Result<(), Problem>;

/// A block at the level of a service that belongs to a module, such as `upstream`: its directives are settings in a context
/// of their own, and it is no level for requests or sessions.
pub struct Block {
    /// The name, the arguments and the context inside.
    pub directive: Directive,
    /// Called with the block and the settings inside, in reading order together with the servers.
    pub read: fn(&Node, &SettingsSet, &mut Cx) -> Result<(), Problem>,
}

/// Called once, when all of a service's block has been read, with the settings of its level. Data that must outlast reading goes
/// into [`Parts`](crate::parts::Parts).
pub type Finish = fn(&SettingsSet, &mut Cx) -> Result<(), Problem>;

/// Called on the control thread, never on a loop.
pub type Begin = fn(&Arc<Generation>, &Arc<Shared>);

/// Called on the control thread with the last generation.
pub type End = fn(&Generation);
