//! Writes the lines of a subject that has ended.

use freerun_runtime::log::{Destination, Keep};

use super::buffer::Buffers;
use super::format::ProtocolPieces;
use super::setting::{AccessLogs, LogTarget};
use crate::loops::state::LoopState;
use crate::values::subject::Subject;

/// Writes the lines of a subject to the logs of its level. `generation` is the number of its configuration. Files with
/// variables in their paths stay open as `keep` says (`open_log_file_cache`). They are made only if the folder that `root`
/// gives is there, if it gives one.
pub fn write<S: Subject, P: ProtocolPieces<S>>(
    subject: &S,
    logs: &AccessLogs<S, P>,
    loop_state: &LoopState,
    generation: u64,
    keep: Option<Keep>,
    root: impl Fn(&S) -> Option<Vec<u8>>,
) {
    let buffers = loop_state.modules.get::<Buffers>();
    buffers.hook(loop_state);
    for log in logs.logs() {
        if let Some(condition) = &log.condition
            && matches!(&*condition.render(subject), b"" | b"0")
        {
            continue;
        }
        let Some(file) = log.file(subject.services()) else { continue };
        match &log.target {
            // No later subject fills the buffer of a configuration that was replaced.
            LogTarget::File(_) | LogTarget::Default(_) => {
                let outdated = || loop_state.shared.generation.load().number != generation;
                buffers.write(file, log.buffering(), outdated, |line| log.format.render(subject, line));
            }
            LogTarget::Syslog(_, header, severity) => buffers.send(file, |message| {
                header.push(*severity, message);
                log.format.render(subject, message);
                message.truncate(message.len() - 1);
            }),
            LogTarget::Variables(_, path) => {
                let to = Destination {
                    path: path.render(subject).into_owned(),
                    root: root(subject),
                    keep,
                    about: String::new(),
                };
                buffers.write_named(file, to, || subject.context(), |line| log.format.render(subject, line));
            }
        }
    }
}
