//! `debug_block_loop`: holds up the event loop, for tests. Only builds with debug assertions have it.

use freerun_conf::{SettingsSet, group, settings};
use freerun_serve::build::debug_block::LoopBlock;

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{Handler, HandlerRun, Phase, PhaseOutcome};

settings! {
    /// A loop that is held up.
    #[module = "debug/stream-block"]
    pub struct DebugBlockSettings {
        /// Holds up the event loop for this time with each session, or until the file exists.
        debug_block_loop: Option<LoopBlock>, in STREAM_SERVER, local, fidelity = Own;
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "debug/stream-block",
    groups: &[group::<DebugBlockSettings>()],
    handlers: &[Handler { phase: Phase::PreAccess, wanted, run: HandlerRun::Now(run) }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<DebugBlockSettings>().debug_block_loop.is_some()
}

fn run(session: &Session) -> PhaseOutcome {
    if let Some(block) = &session.settings().get::<DebugBlockSettings>().debug_block_loop {
        block.hold(session);
    }
    PhaseOutcome::Declined
}
