//! `debug_block_loop` holds up the event loop, `debug_panic` ends a request by a panic, and `debug_panic_connection` a connection:
//! for tests. Only builds with debug assertions have them.

use freerun_conf::{SettingsSet, group, settings};
use freerun_http::module::Module;
use freerun_http::protocol::h3::OrderedFault;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_serve::build::debug_block::LoopBlock;

settings! {
    /// Faults that tests ask for.
    #[module = "debug/block"]
    pub struct DebugBlockSettings {
        /// Holds up the event loop for this time with each request, or until the file exists.
        debug_block_loop: Option<LoopBlock>, in SERVER | LOCATION, local, fidelity = Own;
        /// Panics with this message at each request.
        debug_panic: Option<String>, in SERVER | LOCATION, local, fidelity = Own;
        /// Has the task of the connection panic after each request, if it is one of HTTP/3.
        debug_panic_connection: bool = "off", in SERVER | LOCATION, local, fidelity = Own;
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
    let settings = settings.get::<DebugBlockSettings>();
    settings.debug_block_loop.is_some() || settings.debug_panic.is_some() || settings.debug_panic_connection
}

fn run(request: &mut Request) -> Outcome {
    let location = request.place.location.clone();
    let settings = location.settings.get::<DebugBlockSettings>();
    if let Some(block) = &settings.debug_block_loop {
        block.hold(request);
    }
    if let Some(message) = &settings.debug_panic {
        panic!("{message}");
    }
    if settings.debug_panic_connection {
        request.client.state::<OrderedFault>().0.set(Some(|| panic!("a connection's fault")));
    }
    Outcome::Declined
}
