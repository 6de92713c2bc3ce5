//! Files that get their name when they are whole, for content that must never be seen half-written.
//!
//! These calls wait for the disk: they are for pool threads ([`FileSystem::offload`]). Usually such a file has no name
//! until then, so that nothing is left of it when the process ends. If the file system does not support files without
//! names (`O_TMPFILE`), it has a name of [`change::is_temporary`](super::change::is_temporary) until then.

use std::ffi::{CStr, CString};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::change::{make_folders, own_name, split};
use super::open::retried;
use super::temp::TempName;
use super::types::{FileError, OpenFile};
use super::{FileSystem, Tag};

const OPEN: &str = "open()";
const PWRITE: &str = "pwritev()";
const LINK: &str = "link()";
const RENAME: &str = "rename()";
/// The most pieces of one write; `pwritev(2)` takes 1024.
const MAX_PIECES: usize = 256;

/// A file without a name. It is gone when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct UnnamedFile {
    file: Arc<OpenFile>,
    folder: CString,
    files: Arc<FileSystem>,
    name: Option<TempName>,
}

impl FileSystem {
    /// Makes a file in the folder where `target` is to be, with these permissions, reduced by the `umask(2)`. Missing
    /// folders are made with the permissions `folders`.
    ///
    /// # Errors
    /// The error of `open(2)` or `mkdir(2)`.
    pub fn make_unnamed(
        self: &Arc<Self>,
        target: &CStr,
        mode: u32,
        folders: u32,
        tag: Tag,
    ) -> Result<UnnamedFile, FileError> {
        let (folder, _) = split(target);
        let failed = |error| FileError::new(OPEN, error);
        self.kernel.admit(OPEN).map_err(failed)?;
        let mode = Mode::from_raw_mode(mode);
        let made = match self.nameless(&folder, mode) {
            Err(Errno::NOENT) => {
                make_folders(&folder, folders).map_err(|error| FileError::new("mkdir()", error))?;
                self.nameless(&folder, mode)
            }
            made => made,
        };
        let (fd, path) = made.map_err(failed)?;
        let name = path.map(|path| TempName::new(path, self.closer.clone(), tag));
        Ok(UnnamedFile { file: Arc::new(self.opened(fd)?), folder, files: self.clone(), name })
    }

    fn nameless(&self, folder: &CStr, mode: Mode) -> Result<(OwnedFd, Option<CString>), Errno> {
        let access = OFlags::RDWR | OFlags::CLOEXEC;
        match retried(|| rustix::fs::openat(CWD, folder, access | OFlags::TMPFILE, mode)) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
            outcome => return outcome.map(|fd| (fd, None)),
        }
        let path = joined(folder, &own_name());
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd = retried(|| rustix::fs::openat(CWD, &path, flags, mode))?;
        Ok((fd, Some(path)))
    }
}

fn joined(folder: &CStr, name: &CStr) -> CString {
    CString::new([folder.to_bytes(), b"/", name.to_bytes()].concat()).unwrap_or_default()
}

impl UnnamedFile {
    /// Writes all the pieces, one behind the other, from `offset` on.
    ///
    /// # Errors
    /// The error of `pwritev(2)` (`ENOSPC`: the disk is full); a part may be written then.
    pub fn write(&self, pieces: &[Bytes], mut offset: u64) -> Result<(), FileError> {
        let mut first = 0;
        // The bytes of the first piece that are written already.
        let mut done = 0;
        while let Some(piece) = pieces.get(first) {
            if done == piece.len() {
                (first, done) = (first + 1, 0);
                continue;
            }
            let rest = pieces[first + 1..].iter().take(MAX_PIECES).map(|piece| IoSlice::new(piece));
            let slices: Vec<IoSlice<'_>> = std::iter::once(IoSlice::new(&piece[done..])).chain(rest).collect();
            let wrote = retried(|| self.files.kernel.write_many(self.file.as_fd(), &slices, offset));
            let mut wrote = match wrote {
                Ok(0) => return Err(FileError::new(PWRITE, Errno::NOSPC)),
                Ok(wrote) => wrote,
                Err(error) => return Err(FileError::new(PWRITE, error)),
            };
            offset += wrote as u64;
            while let Some(piece) = pieces.get(first)
                && wrote > 0
            {
                let step = wrote.min(piece.len() - done);
                (done, wrote) = (done + step, wrote - step);
                if done == piece.len() {
                    (first, done) = (first + 1, 0);
                }
            }
        }
        Ok(())
    }

    /// Fills the buffer from `offset` on.
    ///
    /// # Errors
    /// The error of `pread(2)`, and `EIO` if the file ends before.
    pub fn read(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), FileError> {
        while !buffer.is_empty() {
            let read = retried(|| self.files.kernel.read(self.file.as_fd(), buffer, offset));
            match read.map_err(|error| FileError::new("pread()", error))? {
                0 => return Err(FileError::new("pread()", Errno::IO)),
                n => {
                    buffer = &mut buffer[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Waits until the written bytes are on the disk.
    ///
    /// # Errors
    /// The error of `fdatasync(2)`.
    pub fn sync(&self) -> Result<(), FileError> {
        retried(|| rustix::fs::fdatasync(&self.file)).map_err(|error| FileError::new("fdatasync()", error))
    }

    /// The file, for reading. Its [`OpenFile::meta`] describes the empty file.
    pub fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }

    /// Whether the file has a name already, other than its final one: if the process ends, it stays.
    pub fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// Gives the file its name, in the folder that it was made for: a file that has that name is replaced atomically.
    /// `len` is the file's length.
    ///
    /// # Errors
    /// The error of `link(2)` or `rename(2)`; nothing has changed then.
    pub fn name_it(self, target: &CStr, len: u64) -> Result<Arc<OpenFile>, FileError> {
        self.files.kernel.admit(LINK).map_err(|error| FileError::new(LINK, error))?;
        match &self.name {
            Some(name) => {
                rustix::fs::rename(name.path(), target).map_err(|error| FileError::new(RENAME, error))?;
                name.keep();
            }
            None => self.link(target)?,
        }
        Ok(match Arc::try_unwrap(self.file) {
            Ok(mut file) => {
                file.resized(len);
                Arc::new(file)
            }
            // The file is being read.
            Err(shared) => shared,
        })
    }

    fn link(&self, target: &CStr) -> Result<(), FileError> {
        let from = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
        let link = |to: &CStr| rustix::fs::linkat(CWD, from.as_str(), CWD, to, AtFlags::SYMLINK_FOLLOW);
        match link(target) {
            // `link(2)` does not replace a file; renaming a temporary name does.
            Err(Errno::EXIST) => {}
            outcome => return outcome.map_err(|error| FileError::new(LINK, error)),
        }
        let own = joined(&self.folder, &own_name());
        link(&own).map_err(|error| FileError::new(LINK, error))?;
        rustix::fs::rename(&own, target).map_err(|error| {
            // The file goes with its last name.
            let _ = rustix::fs::unlink(&own);
            FileError::new(RENAME, error)
        })
    }
}
