//! Opening files without following symbolic links, or without following links of
//! another owner (`disable_symlinks`).
//!
//! Checking and opening are one step: `openat2(2)` with `RESOLVE_NO_SYMLINKS`, or a walk from folder to folder that
//! uses the descriptors which were checked. A process that puts a link in place meanwhile causes an error, or is too
//! late.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::FileSystem;
use super::kernel::{NAME_ONLY, OPEN};
use super::open::{Attempt, retried};
use super::types::{Aio, FileError, Meta, OpenFile, Via};

const CALL: &str = "openat()";
const STAT: &str = "fstat()";
/// A path is at most 4096 bytes long, so this is never reached; it bounds the walk all the same.
const MAX_COMPONENTS: usize = 2048;

/// Which symbolic links may be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkRule {
    /// No links.
    None,
    /// Links that have the same owner as the file that they lead to.
    SameOwner,
}

/// The check of a path while it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkCheck {
    /// Which links may be followed.
    pub rule: LinkRule,
    /// Length of the part of the path that is not checked, in bytes; it has to end where a name ends.
    pub trusted: usize,
}

/// The way in which the last name is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Open,
    Name,
    /// Open it with these flags.
    With(OFlags),
}

impl Want {
    fn flags(self) -> OFlags {
        match self {
            Want::Open => OPEN,
            Want::Name => NAME_ONLY,
            Want::With(flags) => flags,
        }
    }
}

impl FileSystem {
    /// Opens a file like [`FileSystem::try_open_now`], with a check of links. A link that may not be followed is
    /// `ELOOP`, or, in place of a folder under [`LinkRule::None`], `ENOTDIR`.
    pub fn try_open_checked_now(
        &self,
        path: &CStr,
        check: LinkCheck,
        aio: &Aio,
    ) -> Option<Result<Arc<OpenFile>, FileError>> {
        match aio {
            Aio::Off => Some(self.open_checked_waiting(path, check)),
            Aio::Always(_) => None,
            Aio::Auto(_) | Aio::Threads(_) => match self.checked_inline(path, check, Want::Open) {
                Attempt::Done(Ok((fd, meta))) => {
                    let mount = self.mounts.get(meta.dev)?;
                    mount.hits.add();
                    Some(Ok(Arc::new(self.made(fd, meta, mount))))
                }
                Attempt::Done(Err(error)) => Some(Err(error)),
                Attempt::MayWait => None,
            },
        }
    }

    /// Opens a file like [`FileSystem::open`], with a check of links.
    ///
    /// # Errors
    /// `ELOOP` for a link that may not be followed; otherwise as for [`FileSystem::open`].
    pub async fn open_checked(
        self: &Arc<Self>,
        path: &CStr,
        check: LinkCheck,
        via: Via<'_>,
    ) -> Result<Arc<OpenFile>, FileError> {
        if let Some(outcome) = self.try_open_checked_now(path, check, via.aio) {
            return outcome;
        }
        let (this, owned) = (self.clone(), path.to_owned());
        self.offload(via, self.tag_of(path, via.client), move || this.open_checked_waiting(&owned, check)).await?
    }

    /// Asks for attributes like [`FileSystem::stat`], with a check of links.
    ///
    /// # Errors
    /// See [`FileSystem::open_checked`].
    pub async fn stat_checked(
        self: &Arc<Self>,
        path: &CStr,
        check: LinkCheck,
        via: Via<'_>,
    ) -> Result<Meta, FileError> {
        match via.aio {
            Aio::Auto(_) | Aio::Threads(_) => {
                if let Attempt::Done(outcome) = self.checked_inline(path, check, Want::Name) {
                    return outcome.map(|(_, meta)| meta);
                }
            }
            Aio::Off | Aio::Always(_) => {}
        }
        let owned = path.to_owned();
        let stat = move || {
            let fd = open_checked(&owned, check, Want::Name, false).map_err(|error| FileError::new(CALL, error))?;
            let stat = rustix::fs::fstat(&fd).map_err(|error| FileError::new(STAT, error))?;
            Ok(Meta::of(&stat))
        };
        self.offload(via, self.tag_of(path, via.client), stat).await?
    }

    fn checked_inline(&self, path: &CStr, check: LinkCheck, want: Want) -> Attempt<(OwnedFd, Meta)> {
        let table = self.mounts.table();
        if !self.has_cached_lookup()
            || table.watchful() && !table.of_path(path.to_bytes()).is_some_and(|mount| mount.class().opens_inline())
        {
            return Attempt::MayWait;
        }
        drop(table);
        let began = self.begin(None);
        let fd = match open_checked(path, check, want, true) {
            Ok(fd) => fd,
            // The call or flag is missing, a filter forbids it, or the text of a link may have to be read: the pool
            // finds out.
            Err(Errno::AGAIN | Errno::NOSYS | Errno::PERM | Errno::INVAL) => return Attempt::MayWait,
            Err(error) => return Attempt::Done(Err(FileError::new(CALL, error))),
        };
        let meta = match self.kernel.stat_known(fd.as_fd()) {
            Ok(meta) => meta,
            Err(_) => return Attempt::MayWait,
        };
        match self.mounts.get(meta.dev).filter(|mount| mount.class().opens_inline()) {
            Some(mount) => {
                self.timed(&mount, began);
                Attempt::Done(Ok((fd, meta)))
            }
            None => Attempt::MayWait,
        }
    }

    fn open_checked_waiting(&self, path: &CStr, check: LinkCheck) -> Result<Arc<OpenFile>, FileError> {
        let fd = open_checked(path, check, Want::Open, false).map_err(|error| FileError::new(CALL, error))?;
        let meta = self.kernel.stat(fd.as_fd()).map_err(|error| FileError::new(STAT, error))?;
        let mount = self.mounts.learn(meta.dev, &fd);
        mount.pooled.add();
        Ok(Arc::new(self.made(fd, meta, mount)))
    }
}

/// Opens a folder with these flags. This waits.
pub(super) fn open_folder(path: &CStr, check: LinkCheck, flags: OFlags) -> Result<OwnedFd, Errno> {
    open_checked(path, check, Want::With(flags | OFlags::DIRECTORY), false)
}

/// A name in a folder that was reached without a forbidden link, and that stays this folder whatever happens to the
/// path that led to it.
#[derive(Debug)]
pub struct AnchoredName {
    folder: OwnedFd,
    name: Vec<u8>,
}

impl AnchoredName {
    /// The folder of a path, and the name in it; slashes at its end do not count. Missing folders are made with the
    /// permissions `make`, if they are given. This waits: it is for pool threads.
    ///
    /// # Errors
    /// `ELOOP` if the name is a link, `ELOOP` or `ENOTDIR` for a link on the way that may not be followed; otherwise
    /// the system's error.
    pub fn new(path: &CStr, check: LinkCheck, make: Option<u32>) -> Result<AnchoredName, FileError> {
        let anchored =
            AnchoredName::reach(path.to_bytes(), check, make).map_err(|error| FileError::new(CALL, error))?;
        match rustix::fs::lstat(anchored.path()) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                Err(FileError::new(CALL, Errno::LOOP))
            }
            _ => Ok(anchored),
        }
    }

    fn reach(path: &[u8], check: LinkCheck, make: Option<u32>) -> Result<AnchoredName, Errno> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (parent, name) = (&path[..start], path[start..end].to_vec());
        if matches!(&name[..], b"" | b"." | b"..") {
            return Err(Errno::INVAL);
        }
        let anchor = OFlags::PATH | OFlags::CLOEXEC;
        let text = CString::new(if parent.is_empty() { &b"."[..] } else { parent }).map_err(|_| Errno::INVAL)?;
        let folder = match (open_folder(&text, check, anchor), make) {
            (Err(Errno::NOENT), Some(mode)) => {
                let missing = AnchoredName::reach(parent, check, make)?;
                match rustix::fs::mkdir(missing.path(), Mode::from_raw_mode(mode)) {
                    Ok(()) | Err(Errno::EXIST) => open_folder(&text, check, anchor)?,
                    Err(error) => return Err(error),
                }
            }
            (folder, _) => folder?,
        };
        Ok(AnchoredName { folder, name })
    }

    /// A path to the name that is valid as long as this exists. It needs `/proc`.
    pub fn path(&self) -> CString {
        let folder = format!("/proc/self/fd/{}/", self.folder.as_raw_fd());
        CString::new([folder.as_bytes(), &self.name].concat()).unwrap_or_default()
    }
}

/// Opens one name, or a path, below a folder. `cached`: only if that cannot wait.
fn open_in(dir: BorrowedFd<'_>, name: &CStr, flags: OFlags, no_links: bool, cached: bool) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::empty();
    resolve.set(ResolveFlags::CACHED, cached);
    resolve.set(ResolveFlags::NO_SYMLINKS, no_links);
    retried(|| {
        if resolve.is_empty() {
            rustix::fs::openat(dir, name, flags, Mode::empty())
        } else {
            rustix::fs::openat2(dir, name, flags, Mode::empty(), resolve)
        }
    })
}

fn open_checked(path: &CStr, check: LinkCheck, want: Want, cached: bool) -> Result<OwnedFd, Errno> {
    let bytes = path.to_bytes();
    let (trusted, rest) = bytes.split_at(check.trusted.min(bytes.len()));
    let start = rest.iter().position(|byte| *byte != b'/');
    let Some(start) = start else { return open_in(CWD, path, want.flags(), false, cached) };
    let rest_name = CString::new(&rest[start..]).map_err(|_| Errno::INVAL)?;
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let base = match (trusted.is_empty(), start) {
        (true, 0) => open_in(CWD, c".", folder, false, cached)?,
        (true, _) => open_in(CWD, c"/", folder, false, cached)?,
        _ => {
            let trusted = CString::new(trusted).map_err(|_| Errno::INVAL)?;
            open_in(CWD, &trusted, folder, false, cached)?
        }
    };
    if check.rule == LinkRule::None {
        match open_in(base.as_fd(), &rest_name, want.flags(), true, cached) {
            // The kernel is older than Linux 5.6, or a filter does not know the call.
            Err(Errno::NOSYS | Errno::PERM) if !cached => {}
            // The walk finds out which name it is.
            Err(Errno::LOOP) => {}
            outcome => return outcome,
        }
    }
    walk(base, &rest[start..], check.rule, want, cached)
}

/// Walks from folder to folder, and checks each name by itself.
fn walk(base: OwnedFd, path: &[u8], rule: LinkRule, want: Want, cached: bool) -> Result<OwnedFd, Errno> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect();
    let needs_folder = path.last() == Some(&b'/');
    if names.len() > MAX_COMPONENTS {
        return Err(Errno::NAMETOOLONG);
    }
    let mut folder = base;
    for (index, name) in names.iter().enumerate() {
        let last = index + 1 == names.len();
        let name = CString::new(*name).map_err(|_| Errno::INVAL)?;
        let mut flags = if last { want.flags() } else { OFlags::PATH | OFlags::CLOEXEC };
        flags.set(OFlags::DIRECTORY, !last || needs_folder);
        // A descriptor of the name itself, which may be a link.
        let named = open_in(folder.as_fd(), &name, NAME_ONLY | OFlags::NOFOLLOW, false, cached)?;
        let stat = rustix::fs::fstat(&named)?;
        let next = if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            // If it has become a link since, this fails.
            open_in(folder.as_fd(), &name, flags | OFlags::NOFOLLOW, false, cached)?
        } else if rule == LinkRule::None {
            // This is nginx's error: the name should be a folder, and is none.
            return Err(if last { Errno::LOOP } else { Errno::NOTDIR });
        } else if cached {
            // The text of a link may have to be read from the disk.
            return Err(Errno::AGAIN);
        } else {
            // This is the text of this very link, even if its name has been taken by another file.
            let target = rustix::fs::readlinkat(&named, c"", Vec::new())?;
            let opened = open_in(folder.as_fd(), &target, flags, false, false)?;
            if rustix::fs::fstat(&opened)?.st_uid != stat.st_uid {
                return Err(Errno::LOOP);
            }
            opened
        };
        if last {
            return Ok(next);
        }
        folder = next;
    }
    Err(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("freerun-links-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(path.join("real/deep")).unwrap();
            std::fs::write(path.join("real/deep/file"), "text").unwrap();
            symlink("real", path.join("folder")).unwrap();
            symlink("deep/file", path.join("real/link")).unwrap();
            symlink(path.join("real"), path.join("absolute")).unwrap();
            symlink("nowhere", path.join("broken")).unwrap();
            Folder(std::fs::canonicalize(path).unwrap())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn open(folder: &Path, name: &str, rule: LinkRule, trusted: &str) -> Result<u64, Errno> {
        let path = CString::new(folder.join(name).as_os_str().as_bytes()).unwrap();
        let trusted = folder.join(trusted).as_os_str().len();
        let fd = open_checked(&path, LinkCheck { rule, trusted }, Want::Open, false)?;
        Ok(rustix::fs::fstat(fd).unwrap().st_size as u64)
    }

    /// The walk alone, as on a kernel without `openat2`.
    fn walked(folder: &Path, name: &str, rule: LinkRule) -> Result<(), Errno> {
        let base = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        walk(base, name.as_bytes(), rule, Want::Open, false).map(drop)
    }

    #[test]
    fn no_link_is_followed() {
        let folder = Folder::new("none");
        let rows = [
            ("real/deep/file", Ok(4)),
            ("real/deep//./file", Ok(4)),
            ("real/link", Err(Errno::LOOP)),
            ("folder", Err(Errno::LOOP)),
            ("folder/deep/file", Err(Errno::NOTDIR)),
            ("absolute/deep/file", Err(Errno::NOTDIR)),
            ("broken", Err(Errno::LOOP)),
            ("real/none", Err(Errno::NOENT)),
            ("real/deep/file/", Err(Errno::NOTDIR)),
            ("real/deep/file/x", Err(Errno::NOTDIR)),
        ];
        for (name, wanted) in rows {
            assert_eq!(open(&folder.0, name, LinkRule::None, ""), wanted, "{name}");
            assert_eq!(walked(&folder.0, name, LinkRule::None), wanted.map(drop), "{name} by walking");
        }
        assert_eq!(open(&folder.0, "folder/deep/file", LinkRule::None, "folder"), Ok(4), "the trusted part may be one");
        assert_eq!(open(&folder.0, "folder/link", LinkRule::None, "folder"), Err(Errno::LOOP));
        assert!(open(&folder.0, "folder/", LinkRule::None, "folder").is_ok());
    }

    #[test]
    fn an_anchored_name_stays_where_it_was() {
        let folder = Folder::new("anchored");
        let path = |name: &str| CString::new(folder.0.join(name).as_os_str().as_bytes()).unwrap();
        let check = |rule| LinkCheck { rule, trusted: folder.0.as_os_str().len() };
        let errno = |name: &str, rule| AnchoredName::new(&path(name), check(rule), None).unwrap_err().errno();
        for rule in [LinkRule::None, LinkRule::SameOwner] {
            assert_eq!(errno("real/link", rule), Some(Errno::LOOP.raw_os_error()), "a link at the end");
            assert_eq!(errno("folder/", rule), Some(Errno::LOOP.raw_os_error()));
            assert_eq!(errno("none/x", rule), Some(Errno::NOENT.raw_os_error()));
        }
        assert_eq!(errno("folder/deep/new", LinkRule::None), Some(Errno::NOTDIR.raw_os_error()), "one on the way");
        assert!(AnchoredName::new(&path("folder/deep/new"), check(LinkRule::SameOwner), None).is_ok());
        let anchored = AnchoredName::new(&path("real/deep/new"), check(LinkRule::None), None).unwrap();
        // Another process puts a link in place of a folder on the way.
        std::fs::rename(folder.0.join("real"), folder.0.join("moved")).unwrap();
        std::fs::create_dir_all(folder.0.join("other/deep")).unwrap();
        symlink("other", folder.0.join("real")).unwrap();
        std::fs::write(anchored.path().to_str().unwrap(), "new").unwrap();
        assert!(folder.0.join("moved/deep/new").exists() && !folder.0.join("other/deep/new").exists());
        // Folders are made below the folder that was checked.
        assert!(AnchoredName::new(&path("real/a/b/c"), check(LinkRule::None), Some(0o700)).is_err());
        assert!(!folder.0.join("other/a").exists());
        AnchoredName::new(&path("moved/a/b/c"), check(LinkRule::None), Some(0o700)).unwrap();
        assert!(folder.0.join("moved/a/b").is_dir());
    }

    #[test]
    fn links_of_the_same_owner_are_followed() {
        let folder = Folder::new("owner");
        for name in ["real/deep/file", "real/link", "folder/deep/file", "absolute/deep/file", "folder/link"] {
            assert_eq!(open(&folder.0, name, LinkRule::SameOwner, ""), Ok(4), "{name}");
        }
        assert_eq!(open(&folder.0, "broken", LinkRule::SameOwner, ""), Err(Errno::NOENT));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(folder.0.join("folder"), Some(65534), None).unwrap();
            std::os::unix::fs::lchown(folder.0.join("real/link"), Some(65534), None).unwrap();
            for name in ["real/link", "folder/deep/file", "folder/link"] {
                assert_eq!(open(&folder.0, name, LinkRule::SameOwner, ""), Err(Errno::LOOP), "{name}");
            }
            assert_eq!(open(&folder.0, "folder/deep/file", LinkRule::SameOwner, "folder"), Ok(4));
        }
    }

    #[test]
    fn without_waiting_the_answer_is_the_same_or_none() {
        let folder = Folder::new("cached");
        let path = CString::new(folder.0.join("real/deep/file").as_os_str().as_bytes()).unwrap();
        for rule in [LinkRule::None, LinkRule::SameOwner] {
            let outcome = open_checked(&path, LinkCheck { rule, trusted: 0 }, Want::Open, true);
            assert!(matches!(outcome, Ok(_) | Err(Errno::AGAIN | Errno::NOSYS | Errno::PERM | Errno::INVAL)));
        }
        let path = CString::new(folder.0.join("real/link").as_os_str().as_bytes()).unwrap();
        let outcome = open_checked(&path, LinkCheck { rule: LinkRule::SameOwner, trusted: 0 }, Want::Open, true);
        assert!(outcome.is_err(), "the text of a link is read in the pool");
    }
}
