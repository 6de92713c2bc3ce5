//! The signals that end a trial early, so that its folder is removed all the same.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The signals that end a trial.
const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// The time between two looks at whether a signal has come.
pub const LOOK: Duration = Duration::from_millis(100);

/// The signals of a trial: while this value is there, they end the trial and not the process.
#[derive(Debug)]
pub struct TrialSignals {
    is_ended: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl TrialSignals {
    /// Registers the signals. This has to be done before there is anything that must be removed.
    ///
    /// # Errors
    /// The error of sigaction(2).
    pub fn register() -> Result<TrialSignals, String> {
        let failed = |error: io::Error| format!("sigaction(): {error}");
        let (is_ended, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)) {
            flag::register_conditional_default(signal, is_over.clone()).map_err(failed)?;
            flag::register(signal, is_ended.clone()).map_err(failed)?;
        }
        Ok(TrialSignals { is_ended, is_over })
    }

    /// The mark that is set by a signal.
    pub fn mark(&self) -> &Arc<AtomicBool> {
        &self.is_ended
    }

    /// Whether no signal has come.
    ///
    /// # Errors
    /// One has come.
    pub fn check(&self) -> Result<(), String> {
        if self.is_ended.load(Ordering::Relaxed) { Err(ended()) } else { Ok(()) }
    }
}

impl Drop for TrialSignals {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The message of a trial that a signal has ended.
fn ended() -> String {
    "a signal ended the trial".to_owned()
}

/// Whether this process was started so that it ignores a signal, as nohup(1) does it with SIGHUP.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}

/// A file whose end a signal brings on: a pipe may have nothing to read for as long as it likes.
#[derive(Debug)]
pub struct StoppableFile {
    file: File,
    is_ended: Arc<AtomicBool>,
}

impl StoppableFile {
    /// A file that may be a pipe.
    pub fn new(file: File, is_ended: &Arc<AtomicBool>) -> StoppableFile {
        StoppableFile { file, is_ended: is_ended.clone() }
    }
}

impl Read for StoppableFile {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let look = Timespec::try_from(LOOK).map_err(io::Error::other)?;
        loop {
            if self.is_ended.load(Ordering::Relaxed) {
                return Err(io::Error::other(ended()));
            }
            match poll(&mut [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN)], Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match self.file.read(to) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn a_pipe_is_read_until_its_end_or_a_signal() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let is_ended = Arc::new(AtomicBool::new(false));
        let mut file = StoppableFile::new(File::from(OwnedFd::from(reader)), &is_ended);
        writer.write_all(b"ab").expect("writing");
        let mut bytes = [0; 8];
        assert_eq!(file.read(&mut bytes).expect("reading"), 2);
        // The pipe is empty, and has no end.
        is_ended.store(true, Ordering::Relaxed);
        assert_eq!(file.read(&mut bytes).expect_err("the end").to_string(), ended());
        is_ended.store(false, Ordering::Relaxed);
        drop(writer);
        assert_eq!(file.read(&mut bytes).expect("reading"), 0);
    }
}
