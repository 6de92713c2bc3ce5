//! The access log: a line for each request, gathered on its loop, written by the log thread.

pub mod piece;
pub mod setting;
#[cfg(test)]
mod tests;

use freerun_conf::{SettingsSet, group};
use freerun_http::content::path;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_serve::logs::access_log;

pub use setting::{AccessLogSettings, DefaultAccessLog};

/// The module `log`.
pub static MODULE: Module = Module {
    name: "log",
    groups: &[group::<AccessLogSettings>()],
    handlers: &[Handler { phase: Phase::Log, wanted, run: Run::Now(write) }],
    settle: Some(setting::settle),
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<AccessLogSettings>().access_log.logs().is_empty()
}

fn write(request: &mut Request) -> Outcome {
    let request = &*request;
    let loop_state = &request.client.loop_state;
    let settings = request.settings().get::<AccessLogSettings>();
    let keep = settings.open_log_file_cache.0;
    let root = |request: &Request| Some(path::document_root(request));
    access_log::write(request, &settings.access_log, loop_state, request.generation.number, keep, root);
    Outcome::Declined
}
