//! `debug_block_loop`: holds up the event loop, for tests. Only builds with debug assertions have it.

use freerun_conf::{SettingsSet, group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_serve::build::debug_block::LoopBlock;

settings! {
    /// A loop that is held up.
    #[module = "debug/block"]
    pub struct DebugBlockSettings {
        /// Holds up the event loop for this time with each request, or until the file exists.
        debug_block_loop: Option<LoopBlock>, in SERVER | LOCATION, local, fidelity = Own;
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "debug/block",
    groups: &[group::<DebugBlockSettings>()],
    handlers: &[Handler { phase: Phase::PreAccess, wanted, run: Run::Now(run) }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<DebugBlockSettings>().debug_block_loop.is_some()
}

fn run(request: &mut Request) -> Outcome {
    if let Some(block) = &request.place.location.settings.get::<DebugBlockSettings>().debug_block_loop {
        block.hold(request);
    }
    Outcome::Declined
}
