//! Temporary files without a name, for bodies too large for memory.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::open::retried;
use super::types::{FileError, Meta, OpenFile, Via};
use super::{FileSystem, Tag};

const OPEN: &str = "open()";
const PWRITE: &str = "pwrite()";
const FSTAT: &str = "fstat()";
/// Names tried where the file system has no files without names (`O_TMPFILE`).
const ATTEMPTS: u32 = 100;

/// A temporary file that no name leads to: it is gone when it is dropped, or when the process dies.
#[derive(Debug)]
pub struct TempFile {
    file: Arc<OpenFile>,
    len: u64,
    files: Arc<FileSystem>,
}

impl FileSystem {
    /// Makes a temporary file in a directory, readable and writable by the owner only.
    ///
    /// # Errors
    /// What `open(2)` answers, or the pool.
    pub async fn create_temp(self: &Arc<Self>, directory: &CStr, via: Via<'_>) -> Result<TempFile, FileError> {
        let (this, owned) = (self.clone(), directory.to_owned());
        let file = self.offload(via, self.tag_of(directory, via.client), move || this.make_temp(&owned)).await??;
        Ok(TempFile { file: Arc::new(file), len: 0, files: self.clone() })
    }

    fn write_all(&self, file: &OpenFile, offset: u64, data: &[u8]) -> Result<(), FileError> {
        let mut done = 0;
        while done < data.len() {
            match retried(|| self.kernel.write(file.as_fd(), &data[done..], offset + done as u64)) {
                Ok(0) => return Err(FileError::new(PWRITE, Errno::NOSPC)),
                Ok(n) => done += n,
                Err(error) => return Err(FileError::new(PWRITE, error)),
            }
        }
        Ok(())
    }

    fn make_temp(&self, directory: &CStr) -> Result<OpenFile, FileError> {
        let fd = retried(|| nameless(directory)).map_err(|error| FileError::new(OPEN, error))?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| FileError::new(FSTAT, error))?;
        let meta = Meta::of(&stat);
        let mount = self.mounts.learn(meta.dev, &fd);
        Ok(OpenFile::new(fd, meta, mount, self.closer.clone()))
    }
}

fn nameless(directory: &CStr) -> Result<OwnedFd, Errno> {
    let access = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::openat(CWD, directory, access | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        outcome => return outcome,
    }
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let folder = rustix::fs::openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for _ in 0..ATTEMPTS {
        let name = format!(".freerun-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        match rustix::fs::openat(&folder, &name, access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode) {
            Err(Errno::EXIST) => {}
            Ok(fd) => {
                rustix::fs::unlinkat(&folder, &name, rustix::fs::AtFlags::empty())?;
                return Ok(fd);
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

impl TempFile {
    /// Writes `data` at the end, on a pool thread.
    ///
    /// # Errors
    /// What `pwrite(2)` answers (`ENOSPC`: the disk is full), or the pool. What was written of `data` then does not count.
    pub async fn append(&mut self, data: Bytes, via: Via<'_>) -> Result<(), FileError> {
        let (file, offset, len) = (self.file.clone(), self.len, data.len() as u64);
        let tag: Tag = file.tag(via.client);
        file.mount.pooled.add();
        let files = self.files.clone();
        self.files.offload(via, tag, move || files.write_all(&file, offset, &data)).await??;
        self.len += len;
        Ok(())
    }

    /// Bytes written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The file for reading. Its [`OpenFile::meta`] is that of the empty file; `len` counts.
    pub fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }

    /// The file for reading back, with the size it has now.
    pub fn into_file(self) -> Arc<OpenFile> {
        let TempFile { file, len, .. } = self;
        match Arc::try_unwrap(file) {
            Ok(mut file) => {
                file.resized(len);
                Arc::new(file)
            }
            // A read of it is still going on.
            Err(shared) => shared,
        }
    }
}
