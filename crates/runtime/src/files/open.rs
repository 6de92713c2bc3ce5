//! Opening files and asking for their attributes.

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::types::{Aio, FileError, Meta, OpenFile, Via};
use super::{FileSystem, Tag};
use crate::mounts::{Class, Mount};

const OPEN: &str = "open()";
const STAT: &str = "stat()";
const FSTAT: &str = "fstat()";

/// The result of an attempt that must not wait.
pub(super) enum Attempt<T> {
    Done(Result<T, FileError>),
    /// The operation would wait, or might.
    MayWait,
}

impl FileSystem {
    /// Opens a file for reading if that cannot wait; `None` if it might. With [`Aio::Off`] it waits.
    ///
    /// Files of any type are opened: look at the type before reading. Opening never waits for a writer of a FIFO.
    pub fn try_open_now(&self, path: &CStr, aio: &Aio) -> Option<Result<Arc<OpenFile>, FileError>> {
        match aio {
            Aio::Off => return Some(self.open_waiting(path)),
            Aio::Always(_) => return None,
            Aio::Auto(_) | Aio::Threads(_) => {}
        }
        match self.open_inline(path) {
            Attempt::Done(outcome) => Some(outcome),
            Attempt::MayWait => None,
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The error of `open(2)`, or of the pool.
    pub async fn open(self: &Arc<Self>, path: &CStr, via: Via<'_>) -> Result<Arc<OpenFile>, FileError> {
        if let Some(outcome) = self.try_open_now(path, via.aio) {
            return outcome;
        }
        let (this, owned) = (self.clone(), path.to_owned());
        self.offload(via, self.tag_of(path, via.client), move || this.open_waiting(&owned)).await?
    }

    /// Asks for attributes if that cannot wait; `None` if it might. With [`Aio::Off`] it waits. Links are followed.
    pub fn try_stat_now(&self, path: &CStr, aio: &Aio) -> Option<Result<Meta, FileError>> {
        match aio {
            Aio::Off => return Some(self.stat_waiting(path)),
            Aio::Always(_) => return None,
            Aio::Auto(_) | Aio::Threads(_) => {}
        }
        match self.stat_inline(path) {
            Attempt::Done(outcome) => Some(outcome),
            Attempt::MayWait => None,
        }
    }

    /// Asks for attributes. Links are followed.
    ///
    /// # Errors
    /// The error of `stat(2)`, or of the pool.
    pub async fn stat(self: &Arc<Self>, path: &CStr, via: Via<'_>) -> Result<Meta, FileError> {
        if let Some(outcome) = self.try_stat_now(path, via.aio) {
            return outcome;
        }
        let (this, owned) = (self.clone(), path.to_owned());
        self.offload(via, self.tag_of(path, via.client), move || this.stat_waiting(&owned)).await?
    }

    /// Whether the kernel reports every change of the file: not if it is on a server, or another process has it.
    pub fn reports_changes(&self, file: &OpenFile) -> bool {
        matches!(file.mount().class(), Class::Memory | Class::Local)
    }

    /// Whether a path names this file itself, not by a symbolic link at its end; `None` if finding that out would wait.
    pub fn is_named(&self, path: &CStr, file: &OpenFile) -> Option<bool> {
        let named = self.kernel.name_cached_itself(path).ok()?;
        let meta = self.kernel.stat_known(named.as_fd()).ok()?;
        Some((meta.dev, meta.ino) == (file.meta().dev, file.meta().ino))
    }

    /// Whether a file has the same attributes as when it was opened, as far as the kernel knows without asking.
    pub fn is_unchanged(&self, file: &OpenFile) -> bool {
        self.kernel.stat_known(file.as_fd()).is_ok_and(|now| now.is_same(file.meta()))
    }

    /// The attributes that an open file has now, as far as the kernel knows without asking.
    pub fn present_meta(&self, file: &OpenFile) -> Option<Meta> {
        self.kernel.stat_known(file.as_fd()).ok()
    }

    /// Whether the attributes of a file on this device stay the same as long as nobody changes it: inode number and
    /// times. They do not if the file is on a server, or another process has it.
    pub fn has_lasting_attributes(&self, dev: u64) -> bool {
        self.mounts.get(dev).is_some_and(|mount| matches!(mount.class(), Class::Memory | Class::Local))
    }

    fn open_inline(&self, path: &CStr) -> Attempt<Arc<OpenFile>> {
        if !self.has_cached_lookup() {
            return Attempt::MayWait;
        }
        let began = self.begin(None);
        // If opening a file may wait on some mount, find out first which mount this one is on.
        if self.mounts.table().watchful() {
            match self.stat_inline(path) {
                Attempt::Done(Ok(_)) => {}
                Attempt::Done(Err(error)) => return Attempt::Done(Err(renamed(error, OPEN))),
                Attempt::MayWait => return Attempt::MayWait,
            }
        }
        let fd = match self.kernel.open_cached(path) {
            Ok(fd) => fd,
            Err(error) => return self.cached_failed(OPEN, error),
        };
        let meta = match self.kernel.stat(fd.as_fd()) {
            Ok(meta) => meta,
            Err(error) => return Attempt::Done(Err(FileError::new(FSTAT, error))),
        };
        // A device that was not seen before is examined in the pool.
        let Some(mount) = self.inline_mount(meta.dev) else { return Attempt::MayWait };
        self.timed(&mount, began);
        mount.hits.add();
        Attempt::Done(Ok(Arc::new(self.made(fd, meta, mount))))
    }

    fn stat_inline(&self, path: &CStr) -> Attempt<Meta> {
        let table = self.mounts.table();
        if !self.has_cached_lookup()
            || table.watchful() && !table.of_path(path.to_bytes()).is_some_and(|mount| mount.class().opens_inline())
        {
            return Attempt::MayWait;
        }
        drop(table);
        let fd = match self.kernel.name_cached(path) {
            Ok(fd) => fd,
            Err(error) => return self.cached_failed(STAT, error),
        };
        match self.kernel.stat_known(fd.as_fd()) {
            Ok(meta) if self.inline_mount(meta.dev).is_some() => Attempt::Done(Ok(meta)),
            // `statx` is missing (before Linux 4.11, or because of a filter), or the file is not where its path says.
            Ok(_) | Err(_) => Attempt::MayWait,
        }
    }

    pub(super) fn inline_mount(&self, dev: u64) -> Option<Arc<Mount>> {
        self.mounts.get(dev).filter(|mount| mount.class().opens_inline())
    }

    /// The meaning of an error of `openat2` with `RESOLVE_CACHED`.
    fn cached_failed<T>(&self, call: &'static str, error: Errno) -> Attempt<T> {
        match error {
            Errno::AGAIN => Attempt::MayWait,
            // The system call or the flag is missing, or a filter forbids it. The latter two may also be about this one
            // file: then the root directory can still be looked up, and the pool finds out the cause.
            Errno::NOSYS | Errno::PERM | Errno::INVAL => {
                if error == Errno::NOSYS || !self.kernel.has_cached_lookup() {
                    self.cached_lookup.store(false, Relaxed);
                }
                Attempt::MayWait
            }
            _ => Attempt::Done(Err(FileError::new(call, error))),
        }
    }

    fn open_waiting(&self, path: &CStr) -> Result<Arc<OpenFile>, FileError> {
        let on = self.mount_of(path);
        let _lookup = on.as_ref().map(|mount| mount.begin_lookup());
        let fd = retried(|| self.kernel.open(path)).map_err(|error| FileError::new(OPEN, error))?;
        let meta = self.kernel.stat(fd.as_fd()).map_err(|error| FileError::new(FSTAT, error))?;
        let mount = self.mounts.learn(meta.dev, &fd);
        mount.pooled.add();
        Ok(Arc::new(self.made(fd, meta, mount)))
    }

    fn stat_waiting(&self, path: &CStr) -> Result<Meta, FileError> {
        let on = self.mount_of(path);
        let _lookup = on.as_ref().map(|mount| mount.begin_lookup());
        let failed = |error| FileError::new(STAT, error);
        let fd = retried(|| self.kernel.name(path)).map_err(failed)?;
        let meta = self.kernel.stat(fd.as_fd()).map_err(failed)?;
        self.mounts.learn(meta.dev, &fd).pooled.add();
        Ok(meta)
    }

    /// The mount of a path, as far as the path alone shows it.
    pub(super) fn mount_of(&self, path: &CStr) -> Option<Arc<Mount>> {
        self.mounts.table().of_path(path.to_bytes()).cloned()
    }

    /// The tag of a path.
    pub fn tag_of(&self, path: &CStr, client: u64) -> Tag {
        let mount = self.mount_of(path).map_or(0, |mount| mount.dev());
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        Tag { mount, client, file: hasher.finish() }
    }
}

fn renamed(error: FileError, call: &'static str) -> FileError {
    match error {
        FileError::System { errno, .. } => FileError::System { call, errno },
        other => other,
    }
}

/// Repeats a call that a signal interrupted.
pub(super) fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}
