//! Becoming a daemon.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use freerun_conf::path_of;
use freerun_sys::process::{Fork, fork};
use rustix::fs::Mode;

use crate::error::Error;
use crate::logs::STDERR;

/// The process that continues after [`detach`].
pub enum DaemonSide {
    /// The process that was started: it waits for the daemon and ends.
    Caller(Wait),
    /// The daemon.
    Daemon(Ready),
}

/// The caller's end of the pipe.
pub struct Wait(PipeReader);

impl Wait {
    /// Waits until the daemon serves (`true`) or has given up; it has reported the reason itself.
    pub fn wait(mut self) -> bool {
        self.0.read(&mut [0]).is_ok_and(|count| count == 1)
    }
}

/// The daemon's end of the pipe.
pub struct Ready(PipeWriter);

impl Ready {
    /// Tells the caller that the daemon serves, and releases its terminal: stderr goes to the error log, or nowhere.
    pub fn tell(mut self, error_log: Option<&str>) {
        if let Some(file) = stderr(error_log) {
            let _ = rustix::stdio::dup2_stderr(file.as_fd());
        }
        let _ = self.0.write_all(b"!");
    }
}

/// The file for a daemon's stderr: its error log, or `/dev/null`; `None`: the present stderr, which is the error log.
pub fn stderr(error_log: Option<&str>) -> Option<OwnedFd> {
    if error_log == Some(STDERR) {
        return None;
    }
    let file = error_log.and_then(|path| OpenOptions::new().append(true).open(path_of(path)).ok());
    file.or_else(|| OpenOptions::new().write(true).open("/dev/null").ok()).map(OwnedFd::from)
}

/// Forks; the child starts a session of its own, and has no stdin and stdout. Needs a process with one thread.
pub fn detach() -> Result<DaemonSide, Error> {
    let (reader, writer) = std::io::pipe().map_err(Error::call("pipe()"))?;
    match fork().map_err(Error::call("fork()"))? {
        Fork::Parent(_) => Ok(DaemonSide::Caller(Wait(reader))),
        Fork::Child => {
            drop(reader);
            rustix::process::setsid().map_err(Error::call("setsid()"))?;
            // As in nginx: files are made with explicit modes.
            rustix::process::umask(Mode::empty());
            let null = File::options().read(true).write(true).open("/dev/null");
            let null = null.map_err(Error::named("open", "/dev/null"))?;
            rustix::stdio::dup2_stdin(null.as_fd()).map_err(Error::call("dup2()"))?;
            rustix::stdio::dup2_stdout(null.as_fd()).map_err(Error::call("dup2()"))?;
            Ok(DaemonSide::Daemon(Ready(writer)))
        }
    }
}
