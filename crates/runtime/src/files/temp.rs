//! Temporary files without a name, for bodies too large for memory.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::open::retried;
use super::types::{Closer, FileError, Meta, OpenFile, Via};
use super::{FileSystem, Tag};

const OPEN: &str = "open()";
const PWRITE: &str = "pwrite()";
const FSTAT: &str = "fstat()";
/// The number of names that are tried if the file system does not support files without names (`O_TMPFILE`).
const ATTEMPTS: u32 = 1000;
/// The number of numbers that are tried for a file with a name. Each number that is taken doubles the step to the next,
/// so that these get past any number of files that a process before this one has left.
const NUMBERS: u32 = 40;

/// A temporary file. Usually it has no name: it is gone when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct TempFile {
    file: Arc<OpenFile>,
    len: u64,
    files: Arc<FileSystem>,
    folder: CString,
    name: Option<TempName>,
}

/// The path of a file without a name in logs: its folder, and the number of its inode, as the system calls it in
/// `/proc`.
pub fn nameless_path(folder: &CStr, file: &OpenFile) -> Vec<u8> {
    let number = format!("/#{}", file.meta().ino);
    [folder.to_bytes(), number.as_bytes()].concat()
}

/// The name of a temporary file that has one.
#[derive(Debug)]
pub(super) struct TempName {
    path: CString,
    keep: AtomicBool,
    closer: Arc<Closer>,
    tag: Tag,
}

impl TempName {
    /// A name that is removed when this is dropped.
    pub(super) fn new(path: CString, closer: Arc<Closer>, tag: Tag) -> TempName {
        TempName { path, keep: AtomicBool::new(false), closer, tag }
    }

    pub(super) fn path(&self) -> &CStr {
        &self.path
    }

    /// Keeps the name from being removed.
    pub(super) fn keep(&self) {
        self.keep.store(true, Relaxed);
    }
}

impl Drop for TempName {
    fn drop(&mut self) {
        if !self.keep.load(Relaxed) {
            let path = std::mem::take(&mut self.path);
            // A name that cannot be removed, or not now because the pool is full, stays where it is.
            self.closer.run(self.tag, move || {
                let _ = rustix::fs::unlink(&path);
            });
        }
    }
}

impl FileSystem {
    /// Makes a temporary file in a directory, readable and writable by the owner only.
    ///
    /// # Errors
    /// The error of `open(2)`, or of the pool.
    pub async fn create_temp(self: &Arc<Self>, directory: &CStr, via: Via<'_>) -> Result<TempFile, FileError> {
        self.create_temp_with(directory, Bytes::new(), via).await
    }

    /// Makes a temporary file with `data` in it, in one step of a pool thread, which drops `data` when it has been
    /// written.
    ///
    /// # Errors
    /// The error of `open(2)` or `pwrite(2)`, or of the pool.
    pub async fn create_temp_with<D>(
        self: &Arc<Self>,
        directory: &CStr,
        data: D,
        via: Via<'_>,
    ) -> Result<TempFile, FileError>
    where
        D: AsRef<[u8]> + Send + 'static,
    {
        let (this, owned, len) = (self.clone(), directory.to_owned(), data.as_ref().len() as u64);
        let make = move || {
            let file = this.make_temp(&owned).map_err(|error| error.at(|| owned.to_bytes().to_vec()))?;
            let written = this.write_all(&file, 0, data.as_ref());
            written.map_err(|error| error.at(|| nameless_path(&owned, &file)))?;
            Ok::<_, FileError>((file, owned))
        };
        let (file, folder) = self.offload(via, self.tag_of(directory, via.client), make).await??;
        file.grown(len);
        Ok(TempFile { file: Arc::new(file), len, files: self.clone(), folder, name: None })
    }

    /// Makes a temporary file with a name of ten digits or more in the folder. Each of the `levels` is a further folder
    /// whose name has this number of the last digits, as nginx does it. The file is removed when this is dropped,
    /// unless it is to be kept.
    ///
    /// # Errors
    /// The error of `open(2)` or `mkdir(2)`, or of the pool.
    pub async fn create_named_temp(
        self: &Arc<Self>,
        directory: &CStr,
        levels: &[u8],
        keep: bool,
        via: Via<'_>,
    ) -> Result<TempFile, FileError> {
        let (this, owned, levels) = (self.clone(), directory.to_owned(), levels.to_owned());
        let tag = self.tag_of(directory, via.client);
        let make = move || Ok::<_, FileError>((this.make_named_temp(&owned, &levels)?, owned));
        let ((file, path), folder) = self.offload(via, tag, make).await??;
        let name = TempName { path, keep: AtomicBool::new(keep), closer: self.closer.clone(), tag };
        Ok(TempFile { file: Arc::new(file), len: 0, files: self.clone(), folder, name: Some(name) })
    }

    fn make_named_temp(&self, directory: &CStr, levels: &[u8]) -> Result<(OpenFile, CString), FileError> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let failed = |error| FileError::new(OPEN, error).at(|| directory.to_bytes().to_vec());
        for attempt in 0..NUMBERS {
            let digits = format!("{:010}", NUMBER.fetch_add(1 << attempt, Relaxed));
            let mut path = directory.to_bytes().to_vec();
            let mut end = digits.len();
            for level in levels {
                let start = end.saturating_sub(usize::from(*level));
                path.push(b'/');
                path.extend_from_slice(&digits.as_bytes()[start..end]);
                end = start;
                let folder = CString::new(path.clone()).map_err(|_| failed(Errno::INVAL))?;
                match rustix::fs::mkdir(&folder, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(FileError::new("mkdir()", error).at(|| folder.into_bytes())),
                }
            }
            path.push(b'/');
            path.extend_from_slice(digits.as_bytes());
            let path = CString::new(path).map_err(|_| failed(Errno::INVAL))?;
            match retried(|| rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR)) {
                Ok(fd) => return Ok((self.opened(fd)?, path)),
                // A process before this one has made it.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(FileError::new(OPEN, error).at(|| path.into_bytes())),
            }
        }
        Err(failed(Errno::EXIST))
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
        self.opened(fd)
    }

    pub(super) fn opened(&self, fd: OwnedFd) -> Result<OpenFile, FileError> {
        let stat = rustix::fs::fstat(&fd).map_err(|error| FileError::new(FSTAT, error))?;
        let meta = Meta::of(&stat);
        let mount = self.mounts.learn(meta.dev, &fd);
        let file = self.made(fd, meta, mount);
        self.spare_atime(&file);
        Ok(file)
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
    /// Writes `data` at the end, on a pool thread, which drops it then.
    ///
    /// # Errors
    /// The error of `pwrite(2)` (`ENOSPC`: the disk is full), or of the pool. The part of `data` that was written then
    /// does not count.
    pub async fn append<D>(&mut self, data: D, via: Via<'_>) -> Result<(), FileError>
    where
        D: AsRef<[u8]> + Send + 'static,
    {
        let (file, offset, len) = (self.file.clone(), self.len, data.as_ref().len() as u64);
        let tag: Tag = file.tag(via.client);
        file.mount.pooled.add();
        let files = self.files.clone();
        let written = self.files.offload(via, tag, move || files.write_all(&file, offset, data.as_ref())).await?;
        written.map_err(|error| error.at(|| self.shown_path()))?;
        self.len += len;
        self.file.grown(self.len);
        Ok(())
    }

    /// The path for logs: the file's own, or [`nameless_path`].
    pub fn shown_path(&self) -> Vec<u8> {
        match &self.name {
            Some(name) => name.path.to_bytes().to_vec(),
            None => nameless_path(&self.folder, &self.file),
        }
    }

    /// The file's path, if it has a name.
    pub fn path(&self) -> Option<&CStr> {
        self.name.as_ref().map(|name| name.path.as_c_str())
    }

    /// Has the file removed when this is dropped, even if it was made to be kept.
    pub fn discard(&self) {
        if let Some(name) = &self.name {
            name.keep.store(false, Relaxed);
        }
    }

    /// The number of bytes written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The file for reading. Its [`OpenFile::meta`] describes the empty file; [`OpenFile::size`] counts.
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
            // A read of the file is still going on.
            Err(shared) => shared,
        }
    }
}
