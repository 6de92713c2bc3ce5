//! Becoming a daemon.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use freerun_sys::process::{Fork, fork};
use rustix::fs::Mode;

use crate::error::Error;
use crate::logs::STDERR;

/// Which process one is after [`detach`].
pub enum Side {
    /// The one that was called: it waits for the daemon and ends.
    Caller(Wait),
    /// The daemon.
    Daemon(Ready),
}

/// The caller's end.
pub struct Wait(PipeReader);

impl Wait {
    /// Waits until the daemon serves (`true`) or has given up; it has said why itself.
    pub fn wait(mut self) -> bool {
        self.0.read(&mut [0]).is_ok_and(|count| count == 1)
    }
}

/// The daemon's end.
pub struct Ready(PipeWriter);

impl Ready {
    /// Tells the caller that all is well, and lets go of its terminal: stderr goes to the error log, or nowhere.
    pub fn tell(mut self, error_log: Option<&str>) {
        if let Some(file) = stderr(error_log) {
            let _ = rustix::stdio::dup2_stderr(file.as_fd());
        }
        let _ = self.0.write_all(b"!");
    }
}

/// What a daemon's stderr is to be: its error log, or nothing; `None`: what it is, as that is the error log.
pub fn stderr(error_log: Option<&str>) -> Option<OwnedFd> {
    if error_log == Some(STDERR) {
        return None;
    }
    let file = error_log.and_then(|path| OpenOptions::new().append(true).open(path).ok());
    file.or_else(|| OpenOptions::new().write(true).open("/dev/null").ok()).map(OwnedFd::from)
}

/// Forks; the child leaves the session, and stdin and stdout are gone for it. Needs a process with one thread.
pub fn detach() -> Result<Side, Error> {
    let (reader, writer) = std::io::pipe().map_err(Error::call("pipe()"))?;
    match fork().map_err(Error::call("fork()"))? {
        Fork::Parent(_) => Ok(Side::Caller(Wait(reader))),
        Fork::Child => {
            drop(reader);
            rustix::process::setsid().map_err(Error::call("setsid()"))?;
            // As nginx: the modes of the files we make are given in full where they are made.
            rustix::process::umask(Mode::empty());
            let null = File::options().read(true).write(true).open("/dev/null");
            let null = null.map_err(Error::named("open", "/dev/null"))?;
            rustix::stdio::dup2_stdin(null.as_fd()).map_err(Error::call("dup2()"))?;
            rustix::stdio::dup2_stdout(null.as_fd()).map_err(Error::call("dup2()"))?;
            Ok(Side::Daemon(Ready(writer)))
        }
    }
}
