//! Changing the binary while the server runs: nginx's procedure ("Upgrading Executable on the Fly").
//!
//! `USR2` starts the new binary, which takes the sockets (`NGINX`, see [`super::inherited`]); both serve. `WINCH` ends the old
//! binary's worker, `HUP` starts one again with the same configuration, `QUIT` ends one of the two masters. When the new binary
//! ends, the old one goes on as if there had been none.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use freerun_conf::{path_of, text_of_os};
use freerun_runtime::log::{Errno, Level};
use freerun_sys::title;
use rustix::fs::{Access, MemfdFlags, access, memfd_create};

use super::inherited::{HAND_OVER, OF_MANAGER, SOCKETS};
use super::listeners::{Origin, OtherBinaries};
use super::quic_boxes::{QUIC_BOXES, QuicBoxes};
use super::quic_secret::{self, QUIC_SECRET};
use super::supervise::{describe, level_of};
use super::{Master, ServingWorker};
use super::{notify, oom_score};
use crate::bundle::ToWorker;
use crate::error::Error;

/// The end of the name of the old binary's pid file.
const OLD: &str = ".oldbin";

/// nginx's words where a change of the binary is not possible.
const IGNORED: &str = "the changing binary signal is ignored: you should shutdown or terminate before either old or new binary's \
                       process";

impl Master {
    /// Whether `USR2` starts a new binary. `freerun serve` has no configuration that another process could read.
    pub(super) fn may_change_binary(&self) -> bool {
        let OtherBinaries { old_binary, new_binary } = self.upgrade.others();
        let alone = !old_binary && !new_binary && !self.upgrade.wanted;
        alone && self.embedded.is_none() && self.ending.is_none() && !matches!(self.serving, ServingWorker::Here(_))
    }

    /// Handles `USR2` where it may not be followed.
    pub(super) fn refuse_to_change_binary(&self) {
        self.log(Level::Crit, format_args!("{IGNORED}"));
    }

    /// Starts the new binary that was asked for, before this one stops serving. Both signals may have come before
    /// either was heard, or while a configuration was on its way to the worker.
    pub(super) fn change_binary_first(&mut self) {
        if self.upgrade.wanted && !self.starting && self.ending.is_none() {
            self.change_binary();
        }
    }

    /// Starts the new binary. If that fails, nothing has changed.
    pub(super) fn change_binary(&mut self) {
        self.upgrade.wanted = false;
        self.log(Level::Notice, format_args!("changing binary"));
        if let Err(error) = self.rename_pid_file() {
            self.log(Level::Alert, format_args!("{error}"));
            return;
        }
        match self.start_new_binary() {
            Ok(child) => {
                self.log(Level::Notice, format_args!("start new binary process {}", child.id()));
                self.upgrade.new = Some(child);
            }
            Err(error) => {
                self.log(Level::Alert, format_args!("{error}"));
                self.restore_pid_file();
            }
        }
    }

    /// Executes the file that this program was started by, with the same arguments.
    fn start_new_binary(&mut self) -> Result<Child, Error> {
        let sockets = self.current.listeners.with(&self.current.removed).inheritable().map_err(Error::call("dup()"))?;
        let (mine, theirs) = UnixStream::pair().map_err(Error::call("socketpair()"))?;
        // A copy made by `dup` stays open in the new program.
        let theirs = rustix::io::dup(&theirs).map_err(Error::call("dup()"))?;
        let of_manager: Vec<_> = sockets.iter().filter(|(origin, _)| *origin == Origin::Manager).collect();
        let mut arguments = title::arguments().iter();
        let name = arguments.next().cloned().unwrap_or_default();
        let program = find_program(&name, env::var_os("PATH").as_deref());
        let mut command = Command::new(&program);
        command.args(arguments).env_clear().envs(self.current.environment.iter().map(|(name, value)| (name, value)));
        command.env(SOCKETS, numbers(sockets.iter().map(|(_, socket)| socket)));
        if !of_manager.is_empty() {
            command.env(OF_MANAGER, numbers(of_manager.iter().map(|(_, socket)| socket)));
        }
        command.env(HAND_OVER, theirs.as_raw_fd().to_string());
        let secret = quic_secret::inheritable(&self.current.bundle.quic_secret).map_err(Error::call("socketpair()"))?;
        command.env(QUIC_SECRET, secret.as_raw_fd().to_string());
        let boxes = self.quic_boxes.as_ref().map(QuicBoxes::inheritable).transpose().map_err(Error::call("dup()"))?;
        command.envs(boxes.iter().map(|(numbers, _)| (QUIC_BOXES, numbers)));
        for name in [notify::SOCKET, notify::WATCHDOG] {
            command.envs(env::var_os(name).map(|value| (name, value)));
        }
        let child = command.spawn().map_err(|error: io::Error| {
            let (program, error) = (text_of_os(&program), Errno(&error));
            Error::Configuration(format!("execve() failed while executing new binary process \"{program}\" ({error})"))
        })?;
        oom_score::give_up(child.id());
        if let Some(boxes) = &self.quic_boxes {
            self.tell_living(boxes.of_other_binary());
        }
        // The worker's state is not essential: without it the new binary begins with an empty one.
        if let ServingWorker::Process(process) = &self.serving
            && let Err(error) = process.channel.send(&ToWorker::Successor, &[mine.as_fd()])
        {
            self.log(Level::Alert, format_args!("{error}"));
        }
        Ok(child)
    }

    /// Gives the pid file its name for the time in which there are two masters.
    fn rename_pid_file(&mut self) -> Result<(), Error> {
        let Some(path) = self.written_pid.take() else { return Ok(()) };
        let (renamed, old) = rename(&path, &format!("{path}{OLD}"));
        self.written_pid = Some(renamed);
        old
    }

    /// Gives the pid file its own name again. A new binary that was killed has left its own one there.
    fn restore_pid_file(&mut self) {
        let Some(path) = self.written_pid.take() else { return };
        let (renamed, result) = match path.strip_suffix(OLD) {
            Some(own) => rename(&path, own),
            None => (path.clone(), Ok(())),
        };
        self.written_pid = Some(renamed);
        if let Err(error) = result {
            self.log(Level::Alert, format_args!("{error}"));
        }
    }

    /// Handles the end of the new binary.
    pub(super) fn look_after_new_binary(&mut self) -> Result<(), Error> {
        let Some(child) = &mut self.upgrade.new else { return Ok(()) };
        let Some(status) = child.try_wait().ok().flatten() else { return Ok(()) };
        let what = describe(status);
        self.log(
            level_of(status),
            format_args!("new binary process {} {what}", self.upgrade.new_binary().unwrap_or(0)),
        );
        self.upgrade.new = None;
        self.restore_pid_file();
        if self.ending.is_some() {
            return Ok(());
        }
        self.read_quic_again();
        self.resume()
    }

    /// Handles `WINCH`: the worker finishes its requests and ends, the master stays, with its sockets.
    pub(super) fn pause(&mut self) {
        let is_own = matches!(self.serving, ServingWorker::Here(_));
        if is_own || self.upgrade.paused || self.starting || self.ending.is_some() {
            return;
        }
        if let Some((state, _)) = self.pending.take() {
            // The master has checked it; the next worker starts with it.
            self.settle(state, Ok(()));
        }
        self.upgrade.paused = true;
        self.upgrade.states = self.save_states();
        self.let_worker_go();
    }

    /// Has the worker write its states to a file. Without one the next worker begins with empty ones.
    fn save_states(&self) -> Option<OwnedFd> {
        let ServingWorker::Process(process) = &self.serving else { return None };
        let file = memfd_create("states", MemfdFlags::CLOEXEC).ok()?;
        process.channel.send(&ToWorker::Save, &[file.as_fd()]).ok()?;
        Some(file)
    }

    /// The file with the states of the worker that has gone, from its beginning.
    pub(super) fn take_states(&mut self) -> Option<OwnedFd> {
        let file = self.upgrade.states.take()?;
        // Opened anew, it has a position of its own.
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        file.ok().map(OwnedFd::from)
    }

    /// Starts a worker again with the configuration that the master has, if `WINCH` has ended the last one.
    pub(super) fn resume(&mut self) -> Result<(), Error> {
        if !self.upgrade.paused {
            return Ok(());
        }
        self.upgrade.paused = false;
        self.log(Level::Notice, format_args!("start worker processes"));
        self.restart()
    }

    /// Handles `HUP` while there is a new binary: the configuration is not read, as the files may already be the new one's.
    pub(super) fn roll_back(&mut self) -> Result<(), Error> {
        self.manager.reloading();
        if !self.upgrade.paused {
            self.log(
                Level::Notice,
                format_args!("a worker serves; the configuration is not read while there is a new binary"),
            );
        }
        let resumed = self.resume();
        self.manager.ready(self.current.bundle.number);
        resumed
    }
}

/// Renames a file. Returns its name from then on, whether or not that is the new one.
fn rename(from: &str, to: &str) -> (String, Result<(), Error>) {
    match std::fs::rename(path_of(from), path_of(to)) {
        Ok(()) => (to.to_owned(), Ok(())),
        Err(error) => {
            let error = Error::Configuration(format!("rename() {from} to {to} failed ({})", Errno(&error)));
            (from.to_owned(), Err(error))
        }
    }
}

/// The value of `NGINX`: each number with a `;` behind it.
fn numbers<'a>(sockets: impl Iterator<Item = &'a OwnedFd>) -> String {
    sockets.map(|socket| format!("{};", socket.as_raw_fd())).collect()
}

/// The file of the program that was started by this name: as a shell finds it, if the name has no slash.
fn find_program(name: &OsStr, path: Option<&OsStr>) -> PathBuf {
    if name.as_bytes().contains(&b'/') {
        return PathBuf::from(name);
    }
    let folders = path.map(|path| env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let files =
        folders.iter().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.join(name));
    let found = files.into_iter().find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok());
    found.unwrap_or_else(|| PathBuf::from(OsString::from(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_program_is_found_as_a_shell_finds_it() {
        let dir = env::temp_dir().join(format!("freerun-program-{}", std::process::id()));
        let file = |name: &str, mode| {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (_, wanted) = (file("a/server", 0o644), file("b/server", 0o755));
        file("c/server", 0o755);
        let path = env::join_paths(["a", "b", "c"].map(|folder| dir.join(folder))).unwrap();
        assert_eq!(find_program(OsStr::new("server"), Some(&path)), wanted);
        assert_eq!(find_program(OsStr::new("./server"), Some(&path)), Path::new("./server"));
        assert_eq!(find_program(OsStr::new("other"), Some(&path)), Path::new("other"));
        assert_eq!(find_program(OsStr::new("server"), None), Path::new("server"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_renamed_keeps_its_name() {
        let (name, result) = rename("/nowhere/pid", "/nowhere/pid.oldbin");
        assert_eq!(name, "/nowhere/pid");
        let told = result.unwrap_err().to_string();
        assert_eq!(told, "rename() /nowhere/pid to /nowhere/pid.oldbin failed (2: No such file or directory)");
    }
}
