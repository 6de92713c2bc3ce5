//! The access log: a line for each request, gathered on its loop, written by the log thread.

pub mod buffer;
pub mod escape;
pub mod format;
pub mod setting;
#[cfg(test)]
mod tests;

use freerun_conf::{SettingsSet, group};
use freerun_http::module::{Handler, Module, Outcome, Phase, Run};
use freerun_http::request::Request;

use buffer::Buffers;
pub use setting::{AccessLogSettings, DefaultAccessLog};

/// The module.
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
    let home = &request.connection.home;
    let buffers = home.module::<Buffers>();
    buffers.hook(home);
    for log in request.settings().get::<AccessLogSettings>().access_log.logs() {
        if let Some(condition) = &log.condition
            && matches!(&*condition.render(request), b"" | b"0")
        {
            continue;
        }
        let Some(file) = log.file(&request.generation) else { continue };
        // Nobody comes back to fill the buffer of a configuration that is on its way out.
        let outdated = || home.shared.generation.load().number != request.generation.number;
        buffers.write(file, log.buffering, outdated, |line| log.format.render(request, line));
    }
    Outcome::Declined
}
