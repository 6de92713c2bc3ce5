//! The access log: a line for each request, gathered on its loop, written by the log thread.

pub mod buffer;
pub mod piece;
pub mod setting;
#[cfg(test)]
mod tests;

use freerun_conf::{SettingsSet, group};
use freerun_http::content::path;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};

use freerun_runtime::log::Destination;
use freerun_serve::access_log::Target;

use buffer::Buffers;
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
    let buffers = loop_state.modules.get::<Buffers>();
    buffers.hook(loop_state);
    let settings = request.settings().get::<AccessLogSettings>();
    for log in settings.access_log.logs() {
        if let Some(condition) = &log.condition
            && matches!(&*condition.render(request), b"" | b"0")
        {
            continue;
        }
        let Some(file) = log.file(&request.generation) else { continue };
        match &log.target {
            // No later request fills the buffer of a configuration that was replaced.
            Target::File(_) | Target::Default(_) => {
                let outdated = || loop_state.shared.generation.load().number != request.generation.number;
                buffers.write(file, log.buffering(), outdated, |line| log.format.render(request, line));
            }
            Target::Syslog(_, header, severity) => buffers.send(file, |message| {
                header.push(*severity, message);
                log.format.render(request, message);
                message.truncate(message.len() - 1);
            }),
            Target::Variables(_, path) => {
                let keep = settings.open_log_file_cache.0;
                let root = Some(path::document_root(request));
                let to = Destination { path: path.render(request).into_owned(), root, keep };
                buffers.write_named(file, to, |line| log.format.render(request, line));
            }
        }
    }
    Outcome::Declined
}
