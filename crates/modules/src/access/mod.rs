//! Modules that check whether a client may access a resource.

pub mod basic;
mod checks;
pub mod jwt;
mod realm;
pub mod require;
pub mod rules;
pub mod subrequest;
mod turns;

use freerun_conf::SettingsSet;
use freerun_http::request::handler::Phase;

/// Whether a location with these settings lets only some clients in.
pub fn is_restricted(settings: &SettingsSet) -> bool {
    let modules = [&rules::MODULE, &basic::MODULE, &jwt::MODULE, &subrequest::MODULE, &require::MODULE];
    let handlers = modules.into_iter().flat_map(|module| module.handlers);
    handlers.filter(|handler| handler.phase == Phase::Access).any(|handler| (handler.wanted)(settings))
}
