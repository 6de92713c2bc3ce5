//! The master's state of a configuration: everything that a worker is given, kept so that it can be given again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use freerun_conf::Loader;
use freerun_runtime::log::{ErrorLog, Level, LogFile, Writer};
use freerun_serve::configuration::parts::FolderNeed;
use freerun_serve::configuration::zones::Zones;
use freerun_serve::tls::files::{ReadFile, Secret, SecretFiles};
use freerun_serve::tls::inherited_pairs::InheritedPairs;
use freerun_serve::tls::live::FilePair;

use crate::bundle::{Bundle, Listener};
use crate::configuration::{self, Configuration, KnownFacts, Side};
use crate::error::Error;
use crate::logs::{self, Logs};
use crate::settings::main::Variable;
use crate::source::Input;
use crate::source::loader::{RecordedTexts, Recorder, Replay};
use crate::writable::WritableFolders;
use crate::{console, temp_folders};

use super::listeners::Listeners;

/// A configuration with its sockets and logs.
pub struct State {
    /// The bundle for the worker.
    pub bundle: Bundle,
    /// The certificates with their keys that are made of the bundle's files.
    pub pairs: Arc<[FilePair]>,
    /// The sockets of [`Bundle::listeners`], in the same order.
    pub listeners: Listeners,
    /// The sockets of QUIC that earlier configurations had and this one has not: the worker may still serve connections there.
    pub removed: Listeners,
    /// The files of [`Bundle::logs`].
    pub logs: Logs,
    /// The master's own log in this configuration.
    pub log: ErrorLog,
    /// The first file of that log, for a daemon's stderr.
    pub log_name: Option<String>,
    /// The path of the pid file.
    pub pid_path: Option<String>,
    /// The worker's environment.
    pub environment: Vec<(String, String)>,
    /// The same as objects, for the next configuration: they are small beside the files.
    pub inherited: InheritedPairs,
    /// The folders that its worker has to write to.
    pub writable: WritableFolders,
}

/// A configuration that was read, before anything is opened for it.
pub struct Draft {
    /// The configuration.
    pub configuration: Configuration,
    recorded: RecordedTexts,
    /// The folders for temporary files on which less depends are not made.
    least_need: FolderNeed,
}

/// Reads the configuration; `secrets` reads files of TLS if they are not on the disk, `tell` reports the problems. The
/// files and certificates of the configuration before are used again if they have not changed.
///
/// # Errors
/// The first of the problems, on one line.
pub fn read(
    input: &Input,
    embedded: Option<&RecordedTexts>,
    (earlier, inherited): (SecretFiles, InheritedPairs),
    secrets: Option<ReadFile>,
    tell: impl FnOnce(&configuration::Failure),
) -> Result<Draft, String> {
    let mut recorder = Recorder::default();
    let mut replay = embedded.map(Replay);
    let loader: &mut dyn Loader = match &mut replay {
        Some(replay) => replay,
        None => &mut recorder,
    };
    let known = KnownFacts { secrets: earlier, read: secrets, inherited, ..KnownFacts::default() };
    let result = configuration::read_after(input, loader, Side::Master, known, Zones::default());
    match result {
        Ok(configuration) => {
            let mut recorded = embedded.cloned().unwrap_or(recorder.recorded);
            recorded.hosts.clone_from(&configuration.hosts);
            recorded.secrets.clone_from(&configuration.secrets);
            // Without a configuration file, nothing on the machine is prepared for more than it is asked for.
            let least_need = if embedded.is_some() { FolderNeed::Used } else { FolderNeed::Unused };
            Ok(Draft { configuration, recorded, least_need })
        }
        Err(failure) => {
            tell(&failure);
            Err(console::summary(&failure))
        }
    }
}

/// The parameters for opening a draft.
pub struct Opening<'a> {
    /// The number of the configuration.
    pub number: u64,
    /// Source of the configuration.
    pub input: &'a Input,
    /// The configuration in use: logs and sockets that both have stay open.
    pub before: Option<&'a State>,
    /// Sockets that exist though there is no configuration in use.
    pub adopted: Option<Listeners>,
    /// The secret for tokens of QUIC.
    pub quic_secret: Secret,
    /// The master's writer.
    pub writer: &'a Writer,
    /// The log for errors, and the console, if the log has one.
    pub log: &'a ErrorLog,
}

impl Draft {
    /// Opens logs and sockets. Errors have been reported when this returns.
    ///
    /// # Errors
    /// The last thing that was reported.
    pub fn open(self, opening: Opening<'_>) -> Result<State, String> {
        let Opening { number, input, before, adopted, quic_secret, writer, log } = opening;
        let told = |error: &dyn std::fmt::Display| {
            log.write(Level::Emerg, None, format_args!("{error}"));
            error.to_string()
        };
        let help = |error: &Error| {
            if log.has_console() {
                console::tell_help(error);
            }
        };
        let mut configuration = self.configuration;
        let pairs = std::mem::take(&mut configuration.pairs).into();
        let main = configuration.main();
        console::tell_warnings(log, &configuration.warnings, &configuration.sources);
        let none = Logs::new();
        let logs = logs::open_all(&configuration.logs, before.map_or(&none, |before| &before.logs));
        let logs = logs.map_err(|error| {
            let told = told(&error);
            help(&error);
            told
        })?;
        let identity = configuration.identity().map_err(|error| told(&error))?;
        let folders = &configuration.blueprint.temp_folders;
        let made = temp_folders::make(folders, self.least_need, identity.as_ref()).map_err(|error| told(&error))?;
        console::tell_warnings(log, &made, &configuration.sources);
        let files = configuration.logs.iter().map(|name| own_file(writer, name, &logs)).collect::<Result<Vec<_>, _>>();
        let own_log = configuration.error_log(&files.map_err(|error| told(&error))?);
        let loops = main.worker_processes.count() as u32;
        let specs: Vec<_> = configuration.blueprint.listeners.iter().map(|spec| (**spec).clone()).collect();
        let old = adopted.or_else(|| before.map(|before| before.listeners.with(&before.removed))).unwrap_or_default();
        // Errors of sockets are logged where they happen, as each address may have its own.
        let bind_log = if log.has_console() { own_log.with_console() } else { own_log.clone() };
        let listeners = old.extend(&specs, loops as usize, &bind_log).map_err(|error| {
            help(&error);
            error.to_string()
        })?;
        let bundle = Bundle {
            number,
            input: input.clone(),
            recorded: self.recorded,
            listeners: listeners
                .iter()
                .map(|(key, sockets)| Listener { key: key.clone(), sockets: sockets.len() as u32 })
                .collect(),
            logs: logs.keys().cloned().collect(),
            identity,
            loops,
            respawned: before.map_or(0, |before| before.bundle.respawned),
            quic_secret,
        };
        let removed = before.map(|before| before.listeners.with(&before.removed).quic_without(&listeners));
        Ok(State {
            bundle,
            removed: removed.unwrap_or_default(),
            pairs,
            log_name: configuration.error_log_names().into_iter().next(),
            pid_path: main.pid_path(&input.prefix),
            environment: environment(&main.env),
            inherited: configuration.inherited.clone(),
            writable: WritableFolders::of(&configuration),
            listeners,
            logs,
            log: own_log,
        })
    }
}

/// The master's own handle on a log. It uses the same descriptor as workers.
fn own_file(writer: &Writer, name: &str, logs: &Logs) -> Result<LogFile, Error> {
    let fd = logs.get(name).ok_or_else(|| Error::Message(format!("no log {name}")))?;
    Ok(writer.file(name, fd.try_clone().map_err(Error::named("dup", name))?))
}

/// The worker's environment: nginx removes every variable but TZ and those that `env` keeps or sets.
fn environment(settings: &[Variable]) -> Vec<(String, String)> {
    let mut environment = Vec::new();
    let tz = Variable { name: "TZ".to_owned(), value: None };
    for variable in std::iter::once(&tz).chain(settings) {
        let value = variable.value.clone().or_else(|| std::env::var(&variable.name).ok());
        if let Some(value) = value {
            environment.retain(|(name, _)| *name != variable.name);
            environment.push((variable.name.clone(), value));
        }
    }
    environment
}

impl State {
    /// Whether there is a socket for QUIC.
    pub fn listens_for_quic(&self) -> bool {
        self.listeners.specs().any(|spec| spec.quic)
    }

    /// The bundle's descriptors, in their order.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let sockets = self.listeners.iter().flat_map(|(_, sockets)| sockets.iter().map(|socket| socket.as_fd()));
        sockets.chain(self.log_descriptors()).collect()
    }

    /// The descriptors of the logs alone, in the order of [`Bundle::logs`].
    pub fn log_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.logs.values().map(|fd| fd.as_fd())
    }

    /// Copies of the bundle's descriptors, for a worker in this process.
    pub fn duplicates(&self) -> Result<Vec<OwnedFd>, Error> {
        self.descriptors().into_iter().map(|fd| fd.try_clone_to_owned().map_err(Error::call("dup()"))).collect()
    }

    /// Opens every log anew; a log that cannot be opened keeps its old file, and the reason is logged.
    pub fn reopen(&mut self, writer: &Writer) {
        for (name, fd) in &mut self.logs {
            match logs::open(name) {
                Ok(new) => *fd = new.into(),
                Err(error) => self.log.write(Level::Emerg, None, format_args!("{error}")),
            }
        }
        for name in self.logs.keys() {
            // The name is the same, and so is the file object: the master's log has the new descriptor from here on.
            let _ = own_file(writer, name, &self.logs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_keeps_tz_and_what_env_names() {
        // PATH is in the environment of every test.
        let set = |name: &str, value: Option<&str>| Variable { name: name.into(), value: value.map(str::to_owned) };
        let variables =
            environment(&[set("PATH", None), set("TZ", Some("UTC")), set("A", Some("1")), set("A", Some("2"))]);
        let find =
            |name: &str| variables.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect::<Vec<_>>();
        assert_eq!(find("PATH"), [std::env::var("PATH").unwrap()]);
        assert_eq!(find("TZ"), ["UTC"]);
        assert_eq!(find("A"), ["2"]);
        assert_eq!(variables.len(), 3);
    }
}
