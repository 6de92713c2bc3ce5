//! Files that may be pipes: a configuration may come from a shell (`-c <(…)`). Reading from a pipe that nobody writes
//! to ends after a while.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::time::Duration;

use freerun_conf::path_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// The longest time to wait for bytes from a pipe or a device.
const PATIENCE: Duration = Duration::from_secs(5);

/// An open file whose reads end after a bounded time, whatever kind of file it is.
#[derive(Debug)]
pub struct PatientFile {
    /// The file.
    pub file: File,
    /// Whether a read may have to wait for another process.
    waits: bool,
    /// The longest time of such a wait.
    patience: Duration,
}

impl PatientFile {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The error of open(2) or fstat(2).
    pub fn open(path: &str) -> io::Result<PatientFile> {
        Self::open_within(path, PATIENCE)
    }

    fn open_within(path: &str, patience: Duration) -> io::Result<PatientFile> {
        // Without the flag, opening a pipe waits until another process opens it for writing.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path_of(path))?;
        let kind = file.metadata()?.file_type();
        let waits = kind.is_fifo() || kind.is_char_device() || kind.is_socket();
        Ok(PatientFile { file, waits, patience })
    }
}

impl Read for PatientFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.waits {
            let mut ready = [PollFd::new(&self.file, PollFlags::IN)];
            let time = Timespec {
                tv_sec: self.patience.as_secs().cast_signed(),
                tv_nsec: self.patience.subsec_nanos().into(),
            };
            if poll(&mut ready, Some(&time))? == 0 {
                let why = format!("nothing has come from this pipe for {} seconds", self.patience.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn pipe(name: &str) -> String {
        let path = std::env::temp_dir().join(format!("freerun-pipe-{}-{name}", std::process::id()));
        let path = path.to_str().unwrap().to_owned();
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    #[test]
    fn a_pipe_to_which_nobody_writes_is_given_up() {
        let path = pipe("empty");
        let mut file = PatientFile::open_within(&path, Duration::from_millis(1)).unwrap();
        let error = file.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_comes_from_a_pipe_is_read_to_its_end() {
        let path = pipe("full");
        let file = PatientFile::open(&path).unwrap();
        let writer = path.clone();
        let thread = std::thread::spawn(move || {
            let mut to = OpenOptions::new().write(true).open(writer).unwrap();
            to.write_all(b"events").unwrap();
            to.write_all(b" {}").unwrap();
        });
        let mut text = String::new();
        let mut file = file;
        file.read_to_string(&mut text).unwrap();
        thread.join().unwrap();
        assert_eq!(text, "events {}");
        std::fs::remove_file(&path).unwrap();
    }
}
