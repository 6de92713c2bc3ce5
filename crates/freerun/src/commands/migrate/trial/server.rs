//! The server that is tried: freerun with the changed texts, in a process of its own, and its folder.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use freerun_conf::{path_of, text_of, text_of_os};
use freerun_runtime::log::ErrorLog;
use freerun_serve::configuration::zones::Zones;
use freerun_sys::process::{Fork, fork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use serde::{Deserialize, Serialize};

use super::addresses::TrialAddresses;
use super::interruption::{LOOK, TrialSignals};
use super::texts::TrialTexts;
use crate::configuration::{self, Configuration, KnownFacts, Side};
use crate::master::inherited::InheritedSockets;
use crate::master::{self, Start};
use crate::settings::user::Identity;
use crate::source::Input;
use crate::source::loader::{RecordedTexts, Replay};

/// The longest time until the server answers.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The longest time until it has ended.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The time between two looks at whether it has ended.
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// The rights to the folder of a trial.
const FOLDER_RIGHTS: u32 = 0o700;

/// The rights to the files in it that are there before the server starts.
const FILE_RIGHTS: u32 = 0o600;

/// The most bytes of its messages that are shown.
const MAX_MESSAGES: u64 = 16 << 10;

/// A folder for all that a trial writes, which is removed with this value.
#[derive(Debug)]
pub struct TrialFolder(PathBuf);

impl TrialFolder {
    /// Makes the folder, which is for nobody else.
    ///
    /// # Errors
    /// There is no random number, or no folder can be made.
    pub fn make() -> Result<TrialFolder, String> {
        use std::os::unix::fs::DirBuilderExt as _;
        let number = getrandom::u64().map_err(|error| error.to_string())?;
        let path = std::env::temp_dir().join(format!("freerun-migrate-{number:016x}"));
        let path = std::path::absolute(&path).unwrap_or(path);
        let made = fs::DirBuilder::new().mode(FOLDER_RIGHTS).create(&path);
        made.map_err(|error| format!("the folder {} cannot be made: {error}", path.display()))?;
        Ok(TrialFolder(path))
    }

    /// The path as a configuration has it, without a slash at its end.
    pub fn text(&self) -> String {
        text_of_os(&self.0).into_owned()
    }

    /// Gives the folder, and what is in it, to the user that the worker runs as, if that is another one. The process that made
    /// it has the rights of root then, which needs no others.
    ///
    /// # Errors
    /// The error of chown(2).
    pub fn give_to(&self, owner: Option<&Identity>) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("the folder {} cannot be given away: {error}", self.0.display());
        for entry in fs::read_dir(&self.0).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            fs::set_permissions(&path, Permissions::from_mode(FILE_RIGHTS)).map_err(failed)?;
            if let Some(Identity { uid, gid, .. }) = owner {
                chown(&path, Some(*uid), Some(*gid)).map_err(failed)?;
            }
        }
        if let Some(Identity { uid, gid, .. }) = owner {
            chown(&self.0, Some(*uid), Some(*gid)).map_err(failed)?;
        }
        Ok(())
    }

    fn messages(&self) -> PathBuf {
        self.0.join("messages")
    }
}

impl Drop for TrialFolder {
    fn drop(&mut self) {
        // What cannot be removed is in the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Builds the changed configuration, and checks that nothing in it reaches outside of the folder. The files of its logs are made,
/// so that nobody else may read them. Returns the user that the worker runs as, if it is another one.
///
/// # Errors
/// The configuration is refused, or a directive would listen at an address of the running server or write to its files.
pub fn check(
    input: &Input,
    texts: &TrialTexts,
    addresses: &TrialAddresses,
    folder: &str,
) -> Result<Option<Identity>, String> {
    let (known, zones) = (KnownFacts::default(), Zones::default());
    let built = configuration::read_after(input, &mut Replay(&texts.recorded), Side::Master, known, zones);
    let built = built.map_err(|failure| failure.problems.render(&failure.sources, ""))?;
    let inside = |path: &str| path.starts_with(&format!("{folder}/"));
    let Configuration { blueprint, logs, .. } = &built;
    if let Some(other) = blueprint.listeners.iter().find(|spec| !addresses.has_mapped(&spec.name)) {
        return Err(format!("{} cannot be tried at another address", other.name));
    }
    let temporary = blueprint.temp_folders.iter().map(|folder| &folder.path);
    let written = blueprint.written.paths.iter().chain(logs).chain(temporary);
    let pid = built.main().pid_path(&input.prefix);
    if let Some(path) = written.chain(pid.iter()).find(|path| !inside(path)) {
        return Err(format!("\"{path}\" would be written to"));
    }
    for path in logs.iter().filter(|path| !path.contains('$')) {
        private_file(Path::new(&*path_of(path))).map_err(|error| format!("{path}: {error}"))?;
    }
    built.identity()
}

/// Opens a file for appending that nobody but its owner may read, and makes it if necessary.
fn private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(FILE_RIGHTS).open(path)
}

/// A process that serves when it gets a configuration. It ends with this value, and with the process that made it.
///
/// It is made before anything else: reading a configuration may look up names, and threads that do so would prevent a fork.
#[derive(Debug)]
pub struct TrialServer {
    process: Option<Pid>,
    /// The end of the pipe that takes the order.
    orders: Option<PipeWriter>,
    /// The end of the pipe that gives a byte when the server answers.
    ready: PipeReader,
}

/// The order to serve.
#[derive(Serialize, Deserialize)]
struct TrialOrder {
    input: Input,
    recorded: RecordedTexts,
    /// The file for messages.
    messages: String,
}

impl TrialServer {
    /// Makes the process. The calling process must have one thread.
    ///
    /// # Errors
    /// There is no process or no pipe.
    pub fn prepare() -> Result<TrialServer, String> {
        let failed = |call: &str, error: std::io::Error| format!("{call}: {error}");
        let (mut waiting, orders) = std::io::pipe().map_err(|error| failed("pipe()", error))?;
        let (ready, told) = std::io::pipe().map_err(|error| failed("pipe()", error))?;
        match fork().map_err(|error| failed("fork()", error))? {
            Fork::Parent(child) => Ok(TrialServer { process: Pid::from_raw(child), orders: Some(orders), ready }),
            Fork::Child => {
                drop((orders, ready));
                let mut order = Vec::new();
                // Without an order the trial has ended before it began.
                let order = waiting.read_to_end(&mut order).ok().and_then(|_| postcard::from_bytes(&order).ok());
                let is_good = order.is_some_and(|order| serve(order, told).unwrap_or(false));
                std::process::exit(i32::from(!is_good));
            }
        }
    }

    /// Has the process serve, and waits until it answers requests.
    ///
    /// # Errors
    /// It does not start; the message has its own words.
    pub fn start(
        &mut self,
        input: Input,
        texts: TrialTexts,
        folder: &TrialFolder,
        signals: &TrialSignals,
    ) -> Result<(), String> {
        let messages = folder.messages();
        let order = TrialOrder { input, recorded: texts.recorded, messages: text_of_os(&messages).into_owned() };
        let order = postcard::to_stdvec(&order).map_err(|error| error.to_string())?;
        // The order is complete when its end of the pipe is closed.
        let written = self.orders.take().is_some_and(|mut orders| orders.write_all(&order).is_ok());
        if written && is_ready(&mut self.ready, signals) { Ok(()) } else { Err(said(&messages)) }
    }
}

/// The messages of a server that did not start.
fn said(messages: &Path) -> String {
    let mut bytes = Vec::new();
    let file = File::open(messages);
    // Without messages there is nothing to show.
    let _ = file.map(|file| file.take(MAX_MESSAGES).read_to_end(&mut bytes));
    let text = text_of(&bytes).into_owned();
    if text.is_empty() { "freerun ended without a message".to_owned() } else { text }
}

impl Drop for TrialServer {
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        let ended = || !matches!(waitpid(Some(process), WaitOptions::NOHANG), Ok(None));
        // After its end there is nobody who could get a signal.
        if ended() || kill_process(process, Signal::TERM).is_err() {
            return;
        }
        let deadline = Instant::now() + STOP_PATIENCE;
        while !ended() {
            if Instant::now() >= deadline {
                // It leads a group of its own, with its workers.
                let _ = kill_process_group(process, Signal::KILL);
                let _ = kill_process(process, Signal::KILL);
                let _ = waitpid(Some(process), WaitOptions::empty());
                return;
            }
            std::thread::sleep(STOP_PAUSE);
        }
    }
}

/// Waits for the byte that says that the server answers.
fn is_ready(reader: &mut PipeReader, signals: &TrialSignals) -> bool {
    let deadline = Instant::now() + START_PATIENCE;
    while signals.check().is_ok() {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left.min(LOOK)) else { return false };
        match poll(&mut [PollFd::from_borrowed_fd(reader.as_fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(0) if left.is_zero() => return false,
            Ok(0) => {}
            Ok(_) => return reader.read(&mut [0]).is_ok_and(|count| count == 1),
            Err(rustix::io::Errno::INTR) if !left.is_zero() => {}
            Err(_) => return false,
        }
    }
    false
}

/// The new process: serves until a signal comes, or until the process that made it has gone. Returns whether it served.
///
/// # Errors
/// A system call failed before.
fn serve(order: TrialOrder, mut ready: PipeWriter) -> std::io::Result<bool> {
    let TrialOrder { input, recorded, messages } = order;
    let messages = private_file(Path::new(&*path_of(&messages)))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // Ctrl-C is for the process that waits for this one.
    rustix::process::setsid()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(null.as_fd())?;
    rustix::stdio::dup2_stdout(messages.as_fd())?;
    rustix::stdio::dup2_stderr(messages.as_fd())?;
    let start = Start {
        input,
        embedded: Some(recorded),
        secrets: None,
        inherited: InheritedSockets::default(),
        log: ErrorLog::none().with_console(),
        on_ready: Some(Box::new(move || {
            // Nobody waits any more if this fails.
            let _ = ready.write_all(b"!");
        })),
    };
    Ok(master::run(start).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_and_its_files_are_private_and_go_with_it() {
        let folder = TrialFolder::make().expect("a folder");
        let path = folder.0.clone();
        fs::write(path.join("state"), "").expect("writing");
        fs::set_permissions(path.join("state"), Permissions::from_mode(0o644)).expect("rights");
        folder.give_to(None).expect("its own user");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("state"))), (FOLDER_RIGHTS, FILE_RIGHTS));
        drop(folder);
        assert!(!path.exists());
    }
}
