//! Changes to the tree of files: making, replacing, copying, moving, removing.
//!
//! These functions wait for the disk: they are for pool threads ([`FileSystem::offload`](super::FileSystem::offload)).
//! A file gets its name only when it is whole: it is written under a temporary name and renamed. A failed operation
//! leaves nothing behind.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::open::retried;
use super::types::{FileError, Meta, OpenFile};

/// Depth of trees of folders, for copying and removing: each level holds two descriptors.
const MAX_DEPTH: usize = 128;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const ANCHOR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The source of the bytes of a new file.
#[derive(Debug, Clone)]
pub enum Contents {
    /// The bytes are in memory.
    Bytes(Bytes),
    /// The first bytes of a file, so many. A file that can be given another name in the same file system is renamed
    /// instead of copied.
    File(Arc<OpenFile>, u64),
}

/// The attributes of a new file.
#[derive(Debug, Clone, Copy)]
pub struct NewFile {
    /// The file's permissions.
    pub mode: u32,
    /// The modification time, in seconds since 1970; `None` for now.
    pub mtime: Option<i64>,
    /// Missing folders are made with these permissions.
    pub folders: Option<u32>,
}

/// The treatment of a symbolic link as the last name of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// The link is followed.
    Follow,
    /// The link is an error, the system's.
    Refuse,
}

impl AtEnd {
    fn flags(self) -> OFlags {
        match self {
            AtEnd::Follow => OFlags::empty(),
            AtEnd::Refuse => OFlags::NOFOLLOW,
        }
    }
}

fn failed(call: &'static str) -> impl FnOnce(Errno) -> FileError {
    move |error| FileError::new(call, error)
}

/// The prefix of temporary names of files; the process's number and a dash follow.
const TEMPORARY: &str = ".freerun-";

/// A name that no other file has.
pub(super) fn own_name() -> CString {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("{TEMPORARY}{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    CString::new(name).unwrap_or_default()
}

/// Whether a name (without its folder) is a temporary one of this module. Returns the number of the process that made
/// it: if that process no longer runs, the file is not needed any more.
pub fn is_temporary(name: &[u8]) -> Option<u32> {
    let (process, _) = std::str::from_utf8(name).ok()?.strip_prefix(TEMPORARY)?.split_once('-')?;
    process.parse().ok()
}

/// The folder of a path, and the name in it. Slashes at the end do not count.
pub(super) fn split(path: &CStr) -> (CString, CString) {
    let mut bytes = path.to_bytes();
    while bytes.len() > 1 && bytes.ends_with(b"/") {
        bytes = &bytes[..bytes.len() - 1];
    }
    let slash = bytes.iter().rposition(|byte| *byte == b'/');
    let (folder, name) = match slash {
        None => (&b"."[..], bytes),
        Some(0) => (&b"/"[..], &bytes[1..]),
        Some(slash) => (&bytes[..slash], &bytes[slash + 1..]),
    };
    (CString::new(folder).unwrap_or_default(), CString::new(name).unwrap_or_default())
}

/// Attributes of the file that a path names; a link at its end is not followed.
///
/// # Errors
/// The error of `lstat(2)`.
pub fn look(path: &CStr) -> Result<Meta, FileError> {
    rustix::fs::lstat(path).map(|stat| Meta::of(&stat)).map_err(failed("lstat()"))
}

/// Attributes of the file that a path leads to.
///
/// # Errors
/// The error of `stat(2)`.
pub fn look_through(path: &CStr) -> Result<Meta, FileError> {
    rustix::fs::stat(path).map(|stat| Meta::of(&stat)).map_err(failed("stat()"))
}

/// Makes a folder.
///
/// # Errors
/// The error of `mkdir(2)`.
pub fn make_folder(path: &CStr, mode: u32) -> Result<(), FileError> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(mode)).map_err(failed("mkdir()"))
}

/// Makes the missing folders of a path. The last one is tried first: usually only that one is missing, and a process that
/// may make folders there need not be allowed to look at those above.
pub(super) fn make_folders(path: &CStr, mode: u32) -> Result<(), Errno> {
    make_missing(path, |part| make_part(part, mode))
}

/// As [`make_folders`], by calls of `make`, which finds a folder that is there made.
fn make_missing(path: &CStr, mut make: impl FnMut(&[u8]) -> Result<(), Errno>) -> Result<(), Errno> {
    let bytes = path.to_bytes();
    // The end of each folder's path, from the last folder to the first one.
    let slashes = bytes.iter().enumerate().skip(1).rev().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut missing = Vec::new();
    for end in std::iter::once(bytes.len()).chain(slashes) {
        match make(&bytes[..end]) {
            Err(Errno::NOENT) => missing.push(end),
            made => {
                made?;
                break;
            }
        }
    }
    missing.into_iter().rev().try_for_each(|end| make(&bytes[..end]))
}

/// Makes one folder, unless it is there.
fn make_part(path: &[u8], mode: u32) -> Result<(), Errno> {
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    match rustix::fs::mkdir(&path, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a file with this content, in the place of any file that has the name.
///
/// # Errors
/// The system's error; nothing has changed then, except that folders may have been made.
pub fn put(contents: &Contents, target: &CStr, new: NewFile) -> Result<(), FileError> {
    let (folder, name) = split(target);
    let open_folder = || retried(|| rustix::fs::open(&folder, ANCHOR, Mode::empty()));
    let mut opened = open_folder();
    if let (Err(Errno::NOENT), Some(mode)) = (&opened, new.folders) {
        make_folders(&folder, mode).map_err(failed("mkdir()"))?;
        opened = open_folder();
    }
    let folder = opened.map_err(failed("open()"))?;
    let temporary = own_name();
    let placed = place(contents, folder.as_fd(), &temporary, new)
        .and_then(|()| rustix::fs::renameat(&folder, &temporary, &folder, &name).map_err(failed("rename()")));
    if placed.is_err() {
        // The file may not exist yet.
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
    }
    placed
}

fn place(contents: &Contents, folder: BorrowedFd<'_>, name: &CStr, new: NewFile) -> Result<(), FileError> {
    let mode = Mode::from_raw_mode(new.mode);
    if let Contents::File(file, _) = contents {
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        if rustix::fs::linkat(CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW).is_ok() {
            rustix::fs::fchmod(file, mode).map_err(failed("chmod()"))?;
            return set_time(file.as_fd(), new.mtime);
        }
    }
    let file = create(folder, name, new.mode)?;
    match contents {
        Contents::Bytes(bytes) => write_all(&file, bytes)?,
        Contents::File(source, len) => copy_bytes(source.as_fd(), &file, *len)?,
    }
    // These permissions are not reduced by the umask(2).
    rustix::fs::fchmod(&file, mode).map_err(failed("chmod()"))?;
    set_time(file.as_fd(), new.mtime)
}

fn create(folder: BorrowedFd<'_>, name: &CStr, mode: u32) -> Result<OwnedFd, FileError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retried(|| rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(mode))).map_err(failed("open()"))
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), FileError> {
    while !bytes.is_empty() {
        match retried(|| rustix::io::write(file, bytes)).map_err(failed("write()"))? {
            0 => return Err(FileError::new("write()", Errno::NOSPC)),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

/// Copies `len` bytes from the beginning of one file to the current end of another.
fn copy_bytes(from: BorrowedFd<'_>, to: &OwnedFd, len: u64) -> Result<(), FileError> {
    /// The most bytes in one call.
    const STEP: u64 = 1 << 20;
    let mut offset = 0;
    while offset < len {
        let step = usize::try_from((len - offset).min(STEP)).unwrap_or(usize::MAX);
        // The call moves the offset.
        let copied =
            retried(|| rustix::fs::sendfile(to, from, Some(&mut offset), step)).map_err(failed("sendfile()"))?;
        if copied == 0 {
            // The file became shorter.
            return Err(FileError::new("sendfile()", Errno::IO));
        }
    }
    Ok(())
}

fn set_time(file: BorrowedFd<'_>, mtime: Option<i64>) -> Result<(), FileError> {
    let Some(seconds) = mtime else { return Ok(()) };
    set_times(file, Timespec { tv_sec: seconds, tv_nsec: 0 })
}

fn set_times(file: BorrowedFd<'_>, time: Timespec) -> Result<(), FileError> {
    rustix::fs::futimens(file, &Timestamps { last_access: time, last_modification: time }).map_err(failed("utimes()"))
}

/// Removes a name that is not a folder's.
///
/// # Errors
/// The error of `unlink(2)`.
pub fn remove(path: &CStr) -> Result<(), FileError> {
    rustix::fs::unlink(path).map_err(failed("unlink()"))
}

/// Removes a folder with everything in it. Links in it are removed, never followed.
///
/// # Errors
/// The system's first error; entries that were removed before it are gone.
pub fn remove_tree(path: &CStr, link: AtEnd) -> Result<(), FileError> {
    let folder =
        retried(|| rustix::fs::open(path, FOLDER | link.flags(), Mode::empty())).map_err(failed("opendir()"))?;
    empty(folder, 0)?;
    rustix::fs::rmdir(path).map_err(failed("rmdir()"))
}

/// The entries of a folder with their types.
fn entries(folder: BorrowedFd<'_>) -> Result<Vec<(CString, FileType)>, FileError> {
    let mut out = Vec::new();
    for entry in Dir::read_from(folder).map_err(failed("opendir()"))? {
        let entry = entry.map_err(failed("readdir()"))?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed("stat()"))?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        out.push((name.to_owned(), kind));
    }
    Ok(out)
}

fn empty(folder: OwnedFd, depth: usize) -> Result<(), FileError> {
    if depth >= MAX_DEPTH {
        return Err(FileError::new("opendir()", Errno::LOOP));
    }
    for (name, kind) in entries(folder.as_fd())? {
        let flags = match kind {
            FileType::Directory => {
                let inner = retried(|| rustix::fs::openat(&folder, &name, FOLDER | OFlags::NOFOLLOW, Mode::empty()));
                empty(inner.map_err(failed("opendir()"))?, depth + 1)?;
                AtFlags::REMOVEDIR
            }
            _ => AtFlags::empty(),
        };
        rustix::fs::unlinkat(&folder, &name, flags).map_err(failed("unlink()"))?;
    }
    Ok(())
}

/// Copies a file, with its permissions and date, in the place of any file that has the other name.
///
/// # Errors
/// The system's error; nothing has changed then. `EINVAL`: it is not a regular file.
pub fn copy_file(from: &CStr, to: &CStr, link: AtEnd) -> Result<(), FileError> {
    let (folder, name) = split(to);
    let folder = retried(|| rustix::fs::open(&folder, ANCHOR, Mode::empty())).map_err(failed("open()"))?;
    let temporary = own_name();
    let copied = copy_into(CWD, from, folder.as_fd(), &temporary, link.flags())
        .and_then(|()| rustix::fs::renameat(&folder, &temporary, &folder, &name).map_err(failed("rename()")));
    if copied.is_err() {
        // The file may not exist yet.
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
    }
    copied
}

fn copy_into(
    from: BorrowedFd<'_>,
    name: &CStr,
    to: BorrowedFd<'_>,
    new_name: &CStr,
    flags: OFlags,
) -> Result<(), FileError> {
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let source = retried(|| rustix::fs::openat(from, name, flags, Mode::empty())).map_err(failed("open()"))?;
    let stat = rustix::fs::fstat(&source).map_err(failed("fstat()"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FileError::new("open()", Errno::INVAL));
    }
    let meta = Meta::of(&stat);
    let rights = Mode::from_raw_mode(meta.mode & 0o777);
    let target = create(to, new_name, meta.mode & 0o777)?;
    copy_bytes(source.as_fd(), &target, meta.size)?;
    rustix::fs::fchmod(&target, rights).map_err(failed("chmod()"))?;
    set_times(target.as_fd(), time_of(&meta))
}

fn time_of(meta: &Meta) -> Timespec {
    Timespec { tv_sec: meta.mtime, tv_nsec: meta.mtime_nsec.into() }
}

/// Copies a folder with everything in it: files with permissions and dates, links as links; other kinds of files are
/// left out. The new folder must not exist.
///
/// # Errors
/// The system's error; the entries that were copied are removed again. `ELOOP`: the copy would be inside of itself, or
/// the folder is too deep.
pub fn copy_tree(from: &CStr, to: &CStr, link: AtEnd) -> Result<(), FileError> {
    let source =
        retried(|| rustix::fs::open(from, FOLDER | link.flags(), Mode::empty())).map_err(failed("opendir()"))?;
    let stat = rustix::fs::fstat(&source).map_err(failed("fstat()"))?;
    rustix::fs::mkdir(to, Mode::from_raw_mode(stat.st_mode & 0o777)).map_err(failed("mkdir()"))?;
    let copied = retried(|| rustix::fs::open(to, FOLDER | OFlags::NOFOLLOW, Mode::empty()))
        .and_then(|folder| Ok((rustix::fs::fstat(&folder)?, folder)))
        .map_err(failed("open()"))
        .and_then(|(new, folder)| copy_entries(&source, &folder, &new, 0));
    if copied.is_err() {
        // The first error is the one to report.
        let _ = remove_tree(to, AtEnd::Refuse);
    }
    copied
}

fn copy_entries(from: &OwnedFd, to: &OwnedFd, root: &Stat, depth: usize) -> Result<(), FileError> {
    if depth >= MAX_DEPTH {
        return Err(FileError::new("opendir()", Errno::LOOP));
    }
    for (name, kind) in entries(from.as_fd())? {
        match kind {
            FileType::RegularFile => copy_into(from.as_fd(), &name, to.as_fd(), &name, OFlags::NOFOLLOW)?,
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(from, &name, Vec::new()).map_err(failed("readlink()"))?;
                rustix::fs::symlinkat(target, to, &name).map_err(failed("symlink()"))?;
            }
            FileType::Directory => {
                let folder = |dir: &OwnedFd| {
                    retried(|| rustix::fs::openat(dir, &name, FOLDER | OFlags::NOFOLLOW, Mode::empty()))
                        .map_err(failed("opendir()"))
                };
                let inner = folder(from)?;
                let stat = rustix::fs::fstat(&inner).map_err(failed("fstat()"))?;
                if (stat.st_dev, stat.st_ino) == (root.st_dev, root.st_ino) {
                    return Err(FileError::new("mkdir()", Errno::LOOP));
                }
                let rights = Mode::from_raw_mode(stat.st_mode & 0o777);
                rustix::fs::mkdirat(to, &name, rights).map_err(failed("mkdir()"))?;
                copy_entries(&inner, &folder(to)?, root, depth + 1)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Renames a file or folder; if the new name is on another file system, it is copied.
///
/// # Errors
/// The system's error.
pub fn rename(from: &CStr, to: &CStr, link: AtEnd) -> Result<(), FileError> {
    match rustix::fs::rename(from, to) {
        Err(Errno::XDEV) => {}
        outcome => return outcome.map_err(failed("rename()")),
    }
    if look(from)?.is_dir() {
        copy_tree(from, to, link)?;
        remove_tree(from, link)
    } else {
        copy_file(from, to, link)?;
        remove(from)
    }
}

/// Renames a file, like [`rename`]; folders that are missing on the way to its new name are made with the permissions
/// `folders`.
///
/// # Errors
/// The system's error; nothing has changed then, except that folders may have been made.
pub fn rename_into(from: &CStr, to: &CStr, link: AtEnd, folders: u32) -> Result<(), FileError> {
    match rename(from, to, link) {
        Err(error) if error.errno() == Some(Errno::NOENT.raw_os_error()) => {
            make_folders(&split(to).0, folders).map_err(failed("mkdir()"))?;
            rename(from, to, link)
        }
        outcome => outcome,
    }
}

/// A file or folder that was moved out of the way.
#[derive(Debug)]
pub struct Aside {
    path: CString,
    aside: CString,
}

impl Aside {
    /// Moves the file or folder of this name out of the way, within its folder.
    ///
    /// # Errors
    /// The error of `rename(2)`.
    pub fn set(path: &CStr) -> Result<Aside, FileError> {
        let (folder, name) = split(path);
        let joined =
            |name: &CStr| CString::new([folder.to_bytes(), b"/", name.to_bytes()].concat()).unwrap_or_default();
        let (path, aside) = (joined(&name), joined(&own_name()));
        rustix::fs::rename(&path, &aside).map_err(failed("rename()"))?;
        Ok(Aside { path, aside })
    }

    /// Moves the file or folder back.
    pub fn put_back(self) {
        // It was there a moment ago; if that has changed, another process is at work.
        let _ = rustix::fs::rename(&self.aside, &self.path);
    }

    /// Removes the file or folder.
    ///
    /// # Errors
    /// The system's error; a part may be left.
    pub fn remove(self) -> Result<(), FileError> {
        if look(&self.aside)?.is_dir() { remove_tree(&self.aside, AtEnd::Refuse) } else { remove(&self.aside) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("freerun-change-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(path.join("tree/inner")).unwrap();
            std::fs::write(path.join("tree/inner/file"), "text").unwrap();
            std::os::unix::fs::symlink("/", path.join("tree/link")).unwrap();
            Folder(path)
        }

        fn path(&self, name: &str) -> CString {
            CString::new(self.0.join(name).as_os_str().as_bytes()).unwrap()
        }

        fn names(&self, below: &str) -> Vec<String> {
            let names = std::fs::read_dir(self.0.join(below)).unwrap();
            let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_file_is_put_whole_or_not_at_all() {
        let folder = Folder::new("put");
        let new = NewFile { mode: 0o640, mtime: Some(784_111_777), folders: None };
        let bytes = Contents::Bytes(Bytes::from_static(b"hello"));
        put(&bytes, &folder.path("a"), new).unwrap();
        put(&bytes, &folder.path("tree/inner/file"), new).unwrap();
        assert_eq!(
            (text(&folder.0.join("a")), text(&folder.0.join("tree/inner/file"))),
            ("hello".into(), "hello".into())
        );
        let meta = look(&folder.path("a")).unwrap();
        assert_eq!((meta.mode & 0o7777, meta.mtime), (0o640, 784_111_777));
        assert_eq!(put(&bytes, &folder.path("x/y/z"), new).unwrap_err().errno(), Some(2));
        put(&bytes, &folder.path("x/y/z"), NewFile { folders: Some(0o700), ..new }).unwrap();
        assert_eq!(text(&folder.0.join("x/y/z")), "hello");
        // The name is a folder's: the file that was written for it is removed again.
        assert!(put(&bytes, &folder.path("tree"), new).is_err());
        assert_eq!(folder.names(""), ["a", "tree", "x"]);
    }

    #[test]
    fn only_missing_folders_are_made() {
        let made = |there: &[&str], path: &CStr| {
            let mut there: Vec<Vec<u8>> = there.iter().map(|path| path.as_bytes().to_vec()).collect();
            let mut calls = Vec::new();
            make_missing(path, |part| {
                calls.push(String::from_utf8(part.to_vec()).unwrap());
                let above = part.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |slash| &part[..slash]);
                if !above.is_empty() && !there.iter().any(|folder| folder == above) {
                    return Err(Errno::NOENT);
                }
                there.push(part.to_vec());
                Ok(())
            })
            .unwrap();
            calls
        };
        assert_eq!(made(&["/var", "/var/cache"], c"/var/cache/a"), ["/var/cache/a"]);
        assert_eq!(made(&["/var", "/var/a"], c"/var/a/b/c"), ["/var/a/b/c", "/var/a/b", "/var/a/b/c"]);
        assert_eq!(made(&[], c"a/b"), ["a/b", "a", "a/b"]);
        assert_eq!(made(&[], c"a"), ["a"]);
    }

    #[test]
    fn trees_are_copied_and_removed_and_links_are_not_followed() {
        let folder = Folder::new("tree");
        copy_tree(&folder.path("tree"), &folder.path("copy"), AtEnd::Follow).unwrap();
        assert_eq!(text(&folder.0.join("copy/inner/file")), "text");
        assert!(folder.0.join("copy/link").is_symlink());
        assert_eq!(copy_tree(&folder.path("tree"), &folder.path("copy"), AtEnd::Follow).unwrap_err().errno(), Some(17));
        let inside = copy_tree(&folder.path("tree"), &folder.path("tree/inner/again"), AtEnd::Follow);
        assert_eq!(inside.unwrap_err().errno(), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(folder.names("tree/inner"), ["file"]);
        remove_tree(&folder.path("copy"), AtEnd::Refuse).unwrap();
        assert_eq!(folder.names(""), ["tree"]);
        let aside = Aside::set(&folder.path("tree")).unwrap();
        assert!(!folder.0.join("tree").exists());
        aside.put_back();
        Aside::set(&folder.path("tree/")).unwrap().remove().unwrap();
        assert!(folder.names("").is_empty());
    }
}
