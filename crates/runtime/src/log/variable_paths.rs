//! Files whose paths come with the lines, because they are made of variables. The log thread opens them, and keeps some
//! of them open if that is configured.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use freerun_conf::text_of;
use rustix::fs::{Mode, OFlags};

use super::level::Level;
use super::sink::write_all;

/// The most files that are kept open, whatever the value of `max=`: descriptors are limited too.
const MAX_OPEN: usize = 4096;

/// `open_log_file_cache`: the rule for files that stay open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Keep {
    /// The number of files. The least recently used one is closed.
    pub max: usize,
    /// A file that was not used for this long is closed.
    pub inactive: Duration,
    /// Only files that were used this often, never after a longer break, stay open.
    pub min_uses: u64,
    /// Interval at which the path is checked for whether it still leads to the open file.
    pub valid: Duration,
}

/// The file that lines go to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The file's path.
    pub path: Vec<u8>,
    /// A folder that has to exist for the file to be made: the document root of the request.
    pub root: Option<Vec<u8>>,
    /// Whether the file stays open.
    pub keep: Option<Keep>,
    /// Words of the error log about the first line's request, if the file cannot be written.
    pub about: String,
}

impl Destination {
    /// Whether lines for the other destination may be written together with those for this one.
    pub fn is_same_file(&self, other: &Destination) -> bool {
        (&self.path, &self.root, &self.keep) == (&other.path, &other.root, &other.keep)
    }
}

/// The reason why lines could not be written, in the words of the error log.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteFailure {
    #[error("open() \"{0}\" failed ({err})", err = super::errno::Errno(.1))]
    Open(String, io::Error),
    #[error("testing \"{0}\" existence failed ({err})", err = super::errno::Errno(.1))]
    Root(String, io::Error),
    #[error("write() to \"{0}\" failed ({err})", err = super::errno::Errno(.1))]
    Write(String, io::Error),
}

impl WriteFailure {
    /// The level that nginx gives this failure.
    pub(super) fn level(&self) -> Level {
        match self {
            WriteFailure::Open(..) => Level::Crit,
            WriteFailure::Root(..) => Level::Error,
            WriteFailure::Write(..) => Level::Alert,
        }
    }
}

/// A file that was used.
struct UsedFile {
    /// The open file; not if it was used too seldom to stay open.
    open: Option<OpenNamed>,
    last: Instant,
    uses: u64,
    keep: Keep,
}

struct OpenNamed {
    fd: OwnedFd,
    identity: (u64, u64),
    checked: Instant,
}

/// The files that were used; most of them are open.
#[derive(Default)]
pub(super) struct OpenFiles(HashMap<Vec<u8>, UsedFile>);

impl OpenFiles {
    /// Writes lines to the file that they name.
    pub(super) fn write(&mut self, to: &Destination, lines: &[u8], now: Instant) -> Result<(), WriteFailure> {
        let text = |path: &[u8]| text_of(path).into_owned();
        let path = c_string(&to.path).map_err(|error| WriteFailure::Open(text(&to.path), error))?;
        if let Some(root) = &to.root {
            let there = c_string(root).and_then(|root| is_folder(&root));
            there.map_err(|error| WriteFailure::Root(text(root), error))?;
        }
        let failed = |error| WriteFailure::Write(text(&to.path), error);
        let Some(keep) = to.keep else {
            let fd = open(&path).map_err(|error| WriteFailure::Open(text(&to.path), error))?;
            return write_all(&fd, lines).map_err(failed);
        };
        let known = self.0.get_mut(&to.path).and_then(|file| file.open.take());
        let mut file = match known.filter(|open| open.is_current(&path, now, keep.valid)) {
            Some(open) => open,
            None => {
                let fd = open(&path).map_err(|error| WriteFailure::Open(text(&to.path), error))?;
                let identity = identity(rustix::fs::fstat(&fd));
                OpenNamed { fd, identity, checked: now }
            }
        };
        if now.saturating_duration_since(file.checked) >= keep.valid {
            file.checked = now;
        }
        let written = write_all(&file.fd, lines).map_err(failed);
        if !self.0.contains_key(&to.path) {
            self.make_room(keep.max.clamp(1, MAX_OPEN));
        }
        let used = self.0.entry(to.path.clone()).or_insert(UsedFile { open: None, last: now, uses: 0, keep });
        used.last = now;
        // Lines that have come together were to be written one by one.
        used.uses += memchr::memchr_iter(b'\n', lines).count().max(1) as u64;
        used.open = (used.uses >= keep.min_uses).then_some(file);
        written
    }

    /// Closes files that have not been used for long. Returns when to come back, if any file is open.
    pub(super) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.0.retain(|_, file| now.saturating_duration_since(file.last) < file.keep.inactive);
        self.0.values().map(|file| file.last + file.keep.inactive).min()
    }

    /// Closes all files: logs are reopened.
    pub(super) fn close_all(&mut self) {
        self.0.clear();
    }

    fn make_room(&mut self, max: usize) {
        while self.0.len() >= max {
            let Some(oldest) = self.0.iter().min_by_key(|(_, file)| file.last).map(|(path, _)| path.clone()) else {
                return;
            };
            self.0.remove(&oldest);
        }
    }
}

impl OpenNamed {
    /// Whether the path still leads to this file, as far as that has to be known now.
    fn is_current(&self, path: &CStr, now: Instant, valid: Duration) -> bool {
        now.saturating_duration_since(self.checked) < valid || identity(rustix::fs::stat(path)) == self.identity
    }
}

fn identity(stat: rustix::io::Result<rustix::fs::Stat>) -> (u64, u64) {
    stat.map_or((0, 0), |stat| (stat.st_dev, stat.st_ino))
}

fn is_folder(path: &CStr) -> io::Result<()> {
    let stat = rustix::fs::stat(path)?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
        Ok(())
    } else {
        Err(rustix::io::Errno::NOTDIR.into())
    }
}

fn open(path: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?)
}

fn c_string(path: &[u8]) -> io::Result<CString> {
    CString::new(path).map_err(|_| io::Error::from_raw_os_error(rustix::io::Errno::INVAL.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = std::env::temp_dir().join(format!("freerun-named-{}-{name}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Scratch(dir)
        }

        fn to(&self, name: &str, keep: Option<Keep>) -> Destination {
            Destination { path: self.0.join(name).to_str().unwrap().into(), root: None, keep, about: String::new() }
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).unwrap_or_default()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn keep(max: usize) -> Option<Keep> {
        let (inactive, valid) = (Duration::from_secs(10), Duration::from_secs(60));
        Some(Keep { max, inactive, min_uses: 1, valid })
    }

    #[test]
    fn lines_are_appended_to_the_files_they_name() {
        let dir = Scratch::new("append");
        let mut files = OpenFiles::default();
        let now = Instant::now();
        for keep in [None, keep(1)] {
            files.write(&dir.to("a", keep), b"1\n", now).unwrap();
            files.write(&dir.to("b", keep), b"2\n", now).unwrap();
            files.write(&dir.to("a", keep), b"3\n", now).unwrap();
        }
        assert_eq!((dir.read("a").as_str(), dir.read("b").as_str()), ("1\n3\n1\n3\n", "2\n2\n"));
        assert_eq!(files.0.len(), 1);
    }

    #[test]
    fn a_kept_file_is_looked_for_again_when_it_is_time() {
        let dir = Scratch::new("valid");
        let mut files = OpenFiles::default();
        let now = Instant::now();
        let to = dir.to("a", keep(8));
        files.write(&to, b"1\n", now).unwrap();
        fs::rename(dir.0.join("a"), dir.0.join("old")).unwrap();
        files.write(&to, b"2\n", now + Duration::from_secs(59)).unwrap();
        files.write(&to, b"3\n", now + Duration::from_secs(60)).unwrap();
        assert_eq!((dir.read("old").as_str(), dir.read("a").as_str()), ("1\n2\n", "3\n"));
        fs::rename(dir.0.join("a"), dir.0.join("older")).unwrap();
        files.close_all();
        files.write(&to, b"4\n", now).unwrap();
        assert_eq!(dir.read("a"), "4\n");
    }

    #[test]
    fn files_that_are_not_used_are_closed() {
        let dir = Scratch::new("inactive");
        let mut files = OpenFiles::default();
        let now = Instant::now();
        let at = |secs| now + Duration::from_secs(secs);
        for name in ["a", "b"] {
            files.write(&dir.to(name, keep(8)), b"1\n", now).unwrap();
        }
        files.write(&dir.to("a", keep(8)), b"2\n", at(5)).unwrap();
        assert_eq!(files.purge(at(9)), Some(at(10)));
        assert_eq!(files.0.len(), 2);
        assert_eq!(files.purge(at(12)), Some(at(15)));
        assert_eq!(files.0.len(), 1);
        assert_eq!(files.purge(at(15)), None);
    }

    #[test]
    fn files_that_are_used_seldom_do_not_stay_open() {
        let dir = Scratch::new("seldom");
        let mut files = OpenFiles::default();
        let now = Instant::now();
        let to = dir.to("a", keep(8).map(|keep| Keep { min_uses: 3, ..keep }));
        // Each line goes to the file that has the name by then, until there are enough of them.
        for (number, line) in ["1\n", "2\n", "3\n", "4\n"].iter().enumerate() {
            files.write(&to, line.as_bytes(), now).unwrap();
            let _ = fs::rename(dir.0.join("a"), dir.0.join(number.to_string()));
        }
        let read: Vec<String> = (0..4).map(|number| dir.read(&number.to_string())).collect();
        assert_eq!(read, ["1\n", "2\n", "3\n4\n", ""]);
        // After a break it is as if it had never been used.
        let later = now + Duration::from_secs(10);
        assert_eq!(files.purge(later), None);
        files.write(&to, b"5\n", later).unwrap();
        fs::rename(dir.0.join("a"), dir.0.join("4")).unwrap();
        files.write(&to, b"6\n", later).unwrap();
        assert_eq!((dir.read("4").as_str(), dir.read("a").as_str()), ("5\n", "6\n"));
    }

    #[test]
    fn what_is_wrong_is_said_in_nginx_s_words() {
        let dir = Scratch::new("wrong");
        let mut files = OpenFiles::default();
        let now = Instant::now();
        let lost = dir.to("no/file", None);
        let path = String::from_utf8(lost.path.clone()).unwrap();
        let told = files.write(&lost, b"x", now).unwrap_err().to_string();
        assert_eq!(told, format!("open() \"{path}\" failed (2: No such file or directory)"));
        let rootless = Destination { root: Some(b"/nowhere/at/all".to_vec()), ..dir.to("x", keep(1)) };
        let told = files.write(&rootless, b"x", now).unwrap_err().to_string();
        assert_eq!(told, "testing \"/nowhere/at/all\" existence failed (2: No such file or directory)");
        assert!(!dir.0.join("x").exists());
        let odd = Destination { path: b"/a\0b".to_vec(), ..dir.to("x", None) };
        assert!(files.write(&odd, b"x", now).is_err());
    }
}
