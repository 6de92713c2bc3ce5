//! Logs of the secrets of sessions (`ssl_key_log`), for those who look at encrypted traffic.
//!
//! A line has a label, the random bytes of the ClientHello and a secret, both in hexadecimal digits: the format of NSS
//! (`SSLKEYLOGFILE`), which Wireshark reads. Lines go to the thread that writes the logs, as the lines of any log do.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_runtime::log::{LogFile, SECRETS};
use freerun_tls::session::KeyLog;

use super::values::Spot;
use super::words::warn;
use crate::configuration::log_paths::LogPaths;
use crate::configuration::parts::Paths;

/// The value of `ssl_key_log`: a file for the secrets of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyLogPath {
    /// The full path.
    path: String,
    spot: Spot,
}

impl Value for KeyLogPath {
    const SHAPE: Shape = Shape::exactly(1, "path");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<KeyLogPath, Problem> {
        let word = &directive.args[0];
        if word.text.is_empty() {
            return Err(Problem::new("the path of a key log is empty").at(word.place));
        }
        let path = cx.extensions.get_or_default::<Paths>().absolute(&word.text);
        Ok(KeyLogPath { path, spot: Spot::of(word, directive) })
    }
}

/// A file for secrets: what stands for it in the list of logs, and the open file once the configuration serves.
#[derive(Debug)]
struct KeyLogFile {
    /// The index in [`LogPaths`].
    log: usize,
    open: Arc<OnceLock<LogFile>>,
}

/// The files for secrets that a configuration names. Lives in the configuration's context while it is read.
#[derive(Debug, Default)]
pub struct KeyLogFiles(Vec<KeyLogFile>);

impl KeyLogFiles {
    /// Has secrets written to the open files from now on; `logs` are the files that [`LogPaths`] names.
    pub fn open(&self, logs: &[LogFile]) {
        for file in &self.0 {
            if let Some(log) = logs.get(file.log) {
                // A configuration is opened once.
                let _ = file.open.set(log.clone());
            }
        }
    }
}

impl KeyLogPath {
    /// Opens the file with the other logs and returns the writer of secrets for it. The administrator is warned once
    /// for each file.
    pub(super) fn key_log(&self, cx: &mut Cx) -> KeyLog {
        let log = cx.extensions.get_or_default::<LogPaths>().index(&format!("{SECRETS}{}", self.path));
        let files = &mut cx.extensions.get_or_default::<KeyLogFiles>().0;
        let known = files.iter().find(|file| file.log == log).map(|file| file.open.clone());
        let is_new = known.is_none();
        let open = known.unwrap_or_default();
        if is_new {
            files.push(KeyLogFile { log, open: open.clone() });
            let path = &self.path;
            let text =
                format!("secrets of TLS sessions are written to \"{path}\", and whoever reads it can decrypt them");
            warn(text, self.spot, cx);
        }
        KeyLog::new(move |label, random, secret| {
            if let Some(file) = open.get() {
                file.write(line(label, random, secret));
            }
        })
    }
}

/// A line of the file.
fn line(label: &str, random: &[u8], secret: &[u8]) -> String {
    let mut line = String::with_capacity(label.len() + 2 * (random.len() + secret.len()) + 3);
    line.push_str(label);
    for bytes in [random, secret] {
        line.push(' ');
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(line, "{byte:02x}");
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_label_and_digits() {
        assert_eq!(line("CLIENT_RANDOM", &[0, 0xab], &[0x1f]), "CLIENT_RANDOM 00ab 1f\n");
    }
}
