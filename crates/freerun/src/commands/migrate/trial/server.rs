//! The server that is tried: freerun with the changed texts, in a process of its own, and its folder.

use std::fs::{self, File, OpenOptions};
use std::io::{PipeReader, Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use freerun_conf::{path_of, text_of, text_of_os};
use freerun_runtime::log::ErrorLog;
use freerun_serve::configuration::zones::Zones;
use freerun_sys::process::{Fork, fork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::addresses::TrialAddresses;
use super::texts::TrialTexts;
use crate::configuration::{self, Configuration, KnownFacts, Side};
use crate::master::inherited::InheritedSockets;
use crate::master::{self, Start};
use crate::source::Input;
use crate::source::loader::Replay;

/// The longest time until the server answers.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The longest time until it has ended.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The time between two looks at whether it has ended.
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// The most bytes of its messages that are shown.
const MAX_MESSAGES: u64 = 16 << 10;

/// A folder for all that a trial writes, which is removed with this value.
#[derive(Debug)]
pub struct TrialFolder(PathBuf);

impl TrialFolder {
    /// Makes the folder. Others may pass through it, since the worker may be another user.
    ///
    /// # Errors
    /// There is no random number, or no folder can be made.
    pub fn make() -> Result<TrialFolder, String> {
        use std::os::unix::fs::DirBuilderExt as _;
        let number = getrandom::u64().map_err(|error| error.to_string())?;
        let path = std::env::temp_dir().join(format!("freerun-migrate-{number:016x}"));
        let path = std::path::absolute(&path).unwrap_or(path);
        let made = fs::DirBuilder::new().mode(0o711).create(&path);
        made.map_err(|error| format!("the folder {} cannot be made: {error}", path.display()))?;
        Ok(TrialFolder(path))
    }

    /// The path as a configuration has it, without a slash at its end.
    pub fn text(&self) -> String {
        text_of_os(&self.0).into_owned()
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

/// Builds the changed configuration, and checks that nothing in it reaches outside of the folder.
///
/// # Errors
/// The configuration is refused, or a directive would listen at an address of the running server or write to its files.
pub fn check(input: &Input, texts: &TrialTexts, addresses: &TrialAddresses, folder: &str) -> Result<(), String> {
    let (known, zones) = (KnownFacts::default(), Zones::default());
    let built = configuration::read_after(input, &mut Replay(&texts.recorded), Side::Master, known, zones);
    let built = built.map_err(|failure| failure.problems.render(&failure.sources, ""))?;
    let inside = |path: &str| path.starts_with(&format!("{folder}/"));
    let Configuration { blueprint, logs, .. } = &built;
    if let Some(other) = blueprint.listeners.iter().find(|spec| !addresses.has_mapped(&spec.name)) {
        return Err(format!("{} cannot be tried at another address", other.name));
    }
    let is_file = |path: &&String| !path.starts_with("memory:") && !path.starts_with("syslog:") && *path != "/dev/null";
    let temporary = blueprint.temp_folders.iter().map(|folder| &folder.path);
    let written = blueprint.written.paths.iter().chain(logs.iter().filter(is_file)).chain(temporary);
    let pid = built.main().pid_path(&input.prefix);
    match written.chain(pid.iter()).find(|path| !inside(path)) {
        Some(path) => Err(format!("\"{path}\" would be written to")),
        None => Ok(()),
    }
}

/// A running server. It ends with this value, and with this process.
#[derive(Debug)]
pub struct TrialServer {
    process: Option<Pid>,
    folder: TrialFolder,
}

impl TrialServer {
    /// Starts the server, and waits until it answers requests. The calling process must have one thread.
    ///
    /// # Errors
    /// It does not start; the message has its own words.
    pub fn start(input: Input, texts: TrialTexts, folder: TrialFolder) -> Result<TrialServer, String> {
        let failed = |call: &str, error: std::io::Error| format!("{call}: {error}");
        let messages = OpenOptions::new().create(true).append(true).open(folder.messages());
        let messages = messages.map_err(|error| failed("open()", error))?;
        let (reader, writer) = std::io::pipe().map_err(|error| failed("pipe()", error))?;
        let process = match fork().map_err(|error| failed("fork()", error))? {
            Fork::Parent(child) => Pid::from_raw(child),
            Fork::Child => {
                drop(reader);
                // The folder belongs to the process that made it.
                std::mem::forget(folder);
                serve(input, texts, messages, writer);
            }
        };
        drop(writer);
        let server = TrialServer { process, folder };
        if is_ready(reader) { Ok(server) } else { Err(server.messages()) }
    }

    /// The messages of the server.
    pub fn messages(&self) -> String {
        let mut bytes = Vec::new();
        let file = File::open(self.folder.messages());
        // Without messages there is nothing to show.
        let _ = file.map(|file| file.take(MAX_MESSAGES).read_to_end(&mut bytes));
        let text = text_of(&bytes).into_owned();
        if text.is_empty() { "it ended without a message".to_owned() } else { text }
    }
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
                let _ = kill_process(process, Signal::KILL);
                let _ = waitpid(Some(process), WaitOptions::empty());
                return;
            }
            std::thread::sleep(STOP_PAUSE);
        }
    }
}

/// Waits for the byte that says that the server answers.
fn is_ready(mut reader: PipeReader) -> bool {
    let deadline = Instant::now() + START_PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else { return false };
        match poll(&mut [PollFd::from_borrowed_fd(reader.as_fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return reader.read(&mut [0]).is_ok_and(|count| count == 1),
            Err(rustix::io::Errno::INTR) if !left.is_zero() => {}
            Err(_) => return false,
        }
    }
}

/// The new process: serves until a signal comes, or until the process that started it has gone.
fn serve(input: Input, texts: TrialTexts, messages: File, mut ready: std::io::PipeWriter) -> ! {
    let code = (|| {
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
        // Ctrl-C is for the process that waits for this one.
        rustix::process::setsid()?;
        let null = File::options().read(true).write(true).open(path_of("/dev/null"))?;
        rustix::stdio::dup2_stdin(null.as_fd())?;
        rustix::stdio::dup2_stdout(messages.as_fd())?;
        rustix::stdio::dup2_stderr(messages.as_fd())?;
        let start = Start {
            input,
            embedded: Some(texts.recorded),
            secrets: None,
            inherited: InheritedSockets::default(),
            log: ErrorLog::none().with_console(),
            on_ready: Some(Box::new(move || {
                // Nobody waits any more if this fails.
                let _ = ready.write_all(b"!");
            })),
        };
        Ok::<_, std::io::Error>(master::run(start).is_ok())
    })();
    std::process::exit(i32::from(!code.unwrap_or(false)))
}
