//! `worker_sandbox`: the worker gives up what it does not need, and logs what it was refused.

use std::collections::BTreeMap;
use std::io;

use freerun_runtime::log::{Errno, ErrorLog, Level};
use freerun_sys::sandbox::{
    Denials, Protection, Strictness, empty_bounding_set, filter_calls, forbid_dumps, note_protections, protections,
    restrict_files,
};

use crate::configuration::Configuration;
use crate::settings::main::SandboxMode;
use crate::writable::WritableFolders;

/// The limits of a worker, while it sets them.
pub struct Sandbox {
    mode: SandboxMode,
    /// Core files are wanted: `worker_rlimit_core`.
    may_dump: bool,
    writable: WritableFolders,
    protections: Vec<Protection>,
}

impl Sandbox {
    /// The limits that the configuration asks for.
    pub fn of(configuration: &Configuration) -> Sandbox {
        let main = configuration.main();
        Sandbox {
            mode: main.worker_sandbox,
            may_dump: main.worker_rlimit_core.is_some(),
            writable: WritableFolders::of(configuration),
            protections: Vec::new(),
        }
    }

    /// Gives up what takes the rights that the worker was started with.
    pub fn begin(&mut self) {
        if self.mode == SandboxMode::On {
            self.note("bounding_set", empty_bounding_set());
        }
    }

    /// Gives up the rest, when the worker has its user. The process has one thread; those that it starts inherit this.
    pub fn complete(mut self) {
        let strictness = match self.mode {
            SandboxMode::Off => return,
            SandboxMode::On => Strictness::Deny,
            SandboxMode::Log => Strictness::Log,
        };
        if self.mode == SandboxMode::On && !self.may_dump {
            // A change of the user clears the flag, and depends on fs.suid_dumpable.
            self.note("dumps", forbid_dumps());
        }
        if self.mode == SandboxMode::On {
            self.note("files", restrict_files(self.writable.folders.as_deref()));
        }
        self.note("calls", filter_calls(strictness));
        note_protections(self.protections);
    }

    fn note(&mut self, name: &'static str, result: io::Result<()>) {
        let failure = result.err().map(|error| Errno(&error).to_string());
        self.protections.push(Protection { name, failure });
    }
}

/// Logs the limits of this process, and those that are missing. `anywhere` is the directive that may write anywhere.
pub fn log_protections(log: &ErrorLog, anywhere: Option<&str>) {
    let (set, missing): (Vec<_>, Vec<_>) = protections().iter().partition(|known| known.failure.is_none());
    let names: Vec<_> = set.iter().map(|known| known.name).collect();
    if !names.is_empty() {
        log.write(Level::Notice, None, format_args!("the worker's sandbox has: {}", names.join(", ")));
    }
    if let Some(directive) = anywhere
        && set.iter().any(|known| known.name == "files")
    {
        let told = format_args!("the worker may change files anywhere, as \"{directive}\" may need that");
        log.write(Level::Notice, None, told);
    }
    for Protection { name, failure } in missing {
        // An unprivileged master has no right to this, and its worker gains nothing by executing either.
        let level = if *name == "bounding_set" { Level::Notice } else { Level::Warn };
        let why = failure.as_deref().unwrap_or_default();
        log.write(level, None, format_args!("the worker's sandbox lacks \"{name}\": {why}"));
    }
}

/// The number of refusals of each system call so far.
#[derive(Default)]
pub struct Refusals(BTreeMap<i64, u64>);

impl Refusals {
    /// Logs the calls that were refused since this was called before. Of each call the first refusal is logged, then the
    /// tenth, the hundredth and so on: a call in a loop does not fill the log.
    pub fn log(&mut self, denials: Denials, log: &ErrorLog) {
        for call in denials.take() {
            let total = self.0.entry(call.number).or_default();
            let before = *total;
            *total += u64::from(call.count);
            if digits(*total) == digits(before) {
                continue;
            }
            let name = call.name.map(|name| format!(" ({name})")).unwrap_or_default();
            let times = if *total == 1 { String::new() } else { format!(", {total} times so far") };
            let told = format_args!("the sandbox refused system call {}{name}{times}", call.number);
            log.write(Level::Alert, None, told);
        }
    }
}

/// The number of decimal digits; none for 0.
fn digits(number: u64) -> u32 {
    number.checked_ilog10().map_or(0, |power| power + 1)
}
