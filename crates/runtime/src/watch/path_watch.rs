//! Watching the way to a file: every folder and every symbolic link that the meaning of a path depends on.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Watcher;
use crate::mounts::{Class, Mounts};

/// Number of symbolic links that are followed, as the kernel does.
const MOST_LINKS: usize = 40;
/// Number of names that a way may have; longer ones are not watched.
const MOST_NAMES: usize = 128;

/// A descriptor that names a folder or link.
const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// A way that is watched.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WatchedPath {
    /// The names that are looked up on the way, each with the watch of the folder in which it is looked up.
    pub names: Vec<(i32, Box<[u8]>)>,
    /// The watches of all folders on the way. If a folder itself changes, the way may be closed.
    pub folders: Vec<i32>,
    /// The watch of the folder that the path leads to; `None` if it leads to something else.
    pub end: Option<i32>,
}

/// The result of [`watch_way`].
#[derive(Debug, Default)]
pub struct WatchResult {
    /// The way as far as it was walked: its watches have to be removed if they are of no use.
    pub way: WatchedPath,
    /// Reason why it cannot be watched.
    pub trouble: Option<Errno>,
}

/// Watches the way to `path`, from the root folder on, and what it leads to if that is a folder. Each folder is watched
/// before a name is looked up in it, so no change is missed. It may wait: it is for the threads of a pool.
///
/// A way through a file system of a server or of another process cannot be watched (`EXDEV`): the kernel does not see
/// its changes. Nor can a way with a folder that this process may not read (`EACCES`).
pub fn watch_way(watcher: &Watcher, mounts: &Mounts, path: &[u8]) -> WatchResult {
    let mut way = WatchedPath::default();
    let trouble = walk(watcher, mounts, path, &mut way).err();
    WatchResult { way, trouble }
}

fn walk(watcher: &Watcher, mounts: &Mounts, path: &[u8], way: &mut WatchedPath) -> Result<(), Errno> {
    if path.first() != Some(&b'/') {
        return Err(Errno::INVAL);
    }
    let mut left = VecDeque::new();
    push(&mut left, path);
    let mut links = 0;
    let (mut folder, mut watch) = enter(watcher, mounts, rustix::fs::open("/", NAME_ONLY, Mode::empty())?, way)?;
    while let Some(name) = left.pop_front() {
        if way.folders.len() > MOST_NAMES || way.names.len() > MOST_NAMES {
            return Err(Errno::NAMETOOLONG);
        }
        let next = rustix::fs::openat(&folder, OsStr::from_bytes(&name), NAME_ONLY, Mode::empty())?;
        // The folder above is another one only after this one was moved, which its own watch reports.
        if *name != *b".." {
            way.names.push((watch, name));
        }
        match FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode) {
            FileType::Directory => (folder, watch) = enter(watcher, mounts, next, way)?,
            FileType::Symlink => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = rustix::fs::readlinkat(&next, "", Vec::new())?.into_bytes();
                if target.first() == Some(&b'/') {
                    let root = rustix::fs::openat(CWD, "/", NAME_ONLY, Mode::empty())?;
                    (folder, watch) = enter(watcher, mounts, root, way)?;
                }
                push(&mut left, &target);
            }
            _ if left.is_empty() => return Ok(()),
            _ => return Err(Errno::NOTDIR),
        }
    }
    way.end = Some(watch);
    Ok(())
}

/// Puts the names of a path in front of those that are left.
fn push(left: &mut VecDeque<Box<[u8]>>, path: &[u8]) {
    for name in path.rsplit(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
        left.push_front(name.into());
    }
}

fn enter(watcher: &Watcher, mounts: &Mounts, folder: OwnedFd, way: &mut WatchedPath) -> Result<(OwnedFd, i32), Errno> {
    let mount = mounts.learn(rustix::fs::fstat(&folder)?.st_dev, &folder);
    if !matches!(mount.class(), Class::Memory | Class::Local) {
        return Err(Errno::XDEV);
    }
    // A file of an overlay that is copied to the upper layer may get another inode while a watch is on the old one. Its
    // folder reports what happens to it in any case.
    let watch = watcher.add_folder(folder.as_fd(), mount.fs_type() == "overlay")?;
    if !way.folders.contains(&watch) {
        way.folders.push(watch);
    }
    Ok((folder, watch))
}
