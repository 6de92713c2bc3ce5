//! The fixture's file system: a small tree of files in memory, whose operations ask the [`Control`] first.

use super::control::{Control, DiskFault, Op};
use super::pattern;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// A file or folder. Inode numbers are its index in the table plus one, so that the root is 1.
#[derive(Clone, Debug)]
struct TreeEntry {
    path: String,
    /// The file; `None` for a folder.
    file: Option<File>,
    parent: usize,
}

#[derive(Clone, Debug)]
struct File {
    seed: u64,
    /// The size that `stat` reports.
    size: u64,
    /// The number of readable bytes; less than `size` for a file that was cut off without notice.
    available: u64,
    mtime: SystemTime,
    /// The bytes that were written, whatever their offset; they cannot be read through the mount.
    written: Vec<u8>,
}

/// The files of one fixture; clones share them.
#[derive(Clone, Debug)]
pub struct Tree {
    shared: Arc<RwLock<EntryTable>>,
}

#[derive(Debug)]
struct EntryTable {
    entries: Vec<TreeEntry>,
    by_path: HashMap<String, usize>,
}

/// The most bytes of a file, so that a typing error is noticed.
const MAX_SIZE: u64 = 1 << 40;

impl Default for Tree {
    fn default() -> Self {
        let root = TreeEntry { path: String::new(), file: None, parent: 0 };
        let table = EntryTable { entries: vec![root], by_path: HashMap::from([(String::new(), 0)]) };
        Tree { shared: Arc::new(RwLock::new(table)) }
    }
}

impl Tree {
    /// Adds a file of `size` bytes, or gives an existing one this size; folders on the way are made.
    pub fn file(&self, path: &str, size: u64) -> Result<(), String> {
        if path.is_empty() || path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(format!("\"{path}\" is not a relative path"));
        }
        if size > MAX_SIZE {
            return Err(format!("{size} bytes are more than {MAX_SIZE}"));
        }
        let mut table = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let file =
            File { seed: pattern::seed(path), size, available: size, mtime: SystemTime::now(), written: Vec::new() };
        let at = table.place(path)?;
        table.entries[at].file = Some(file);
        Ok(())
    }

    /// Limits the readable bytes of a file to `available` while `stat` keeps reporting its old size.
    pub fn shrink(&self, path: &str, available: u64) -> Result<(), String> {
        let mut table = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let at = *table.by_path.get(path).ok_or_else(|| format!("no file \"{path}\""))?;
        match &mut table.entries[at].file {
            Some(file) => file.available = available.min(file.size),
            None => return Err(format!("\"{path}\" is a folder")),
        }
        Ok(())
    }

    /// The bytes that have been appended to a file.
    pub fn written(&self, path: &str) -> Vec<u8> {
        let table = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let file = table.by_path.get(path).and_then(|at| table.entries[*at].file.as_ref());
        file.map(|file| file.written.clone()).unwrap_or_default()
    }

    fn append(&self, ino: INodeNo, data: &[u8]) {
        let mut table = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let at = usize::try_from(u64::from(ino)).ok().and_then(|ino| ino.checked_sub(1));
        if let Some(TreeEntry { file: Some(file), .. }) = at.and_then(|at| table.entries.get_mut(at)) {
            file.written.extend_from_slice(data);
        }
    }

    fn entry(&self, ino: INodeNo) -> Option<(usize, TreeEntry)> {
        let at = usize::try_from(u64::from(ino)).ok()?.checked_sub(1)?;
        let table = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        table.entries.get(at).map(|entry| (at, entry.clone()))
    }

    fn child(&self, parent: INodeNo, name: &str) -> Option<(usize, TreeEntry)> {
        let (_, folder) = self.entry(parent)?;
        let path = join(&folder.path, name);
        let table = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let at = *table.by_path.get(&path)?;
        Some((at, table.entries[at].clone()))
    }

    fn list(&self, folder: usize) -> Vec<(usize, FileType, String)> {
        let table = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let children = table.entries.iter().enumerate().skip(1).filter(|(_, entry)| entry.parent == folder);
        let named = children.map(|(at, entry)| {
            let name = entry.path.rsplit('/').next().unwrap_or_default().to_owned();
            (at, entry.kind(), name)
        });
        [
            (folder, FileType::Directory, ".".to_owned()),
            (table.entries[folder].parent, FileType::Directory, "..".into()),
        ]
        .into_iter()
        .chain(named)
        .collect()
    }
}

impl EntryTable {
    /// The index of a path, which is made as a folder if it is new.
    fn place(&mut self, path: &str) -> Result<usize, String> {
        let mut parent = 0;
        let mut known = String::new();
        for part in path.split('/') {
            if self.entries[parent].file.is_some() {
                return Err(format!("\"{}\" is a file", self.entries[parent].path));
            }
            known = join(&known, part);
            parent = match self.by_path.get(&known) {
                Some(at) => *at,
                None => {
                    self.entries.push(TreeEntry { path: known.clone(), file: None, parent });
                    self.by_path.insert(known.clone(), self.entries.len() - 1);
                    self.entries.len() - 1
                }
            };
        }
        Ok(parent)
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

impl TreeEntry {
    fn kind(&self) -> FileType {
        if self.file.is_some() { FileType::RegularFile } else { FileType::Directory }
    }

    fn attr(&self, at: usize) -> FileAttr {
        let size = self.file.as_ref().map_or(0, |file| file.size);
        let mtime = self.file.as_ref().map_or(SystemTime::UNIX_EPOCH, |file| file.mtime);
        FileAttr {
            ino: INodeNo(at as u64 + 1),
            size,
            blocks: size.div_ceil(512),
            atime: mtime,
            mtime,
            ctime: mtime,
            crtime: mtime,
            kind: self.kind(),
            perm: if self.file.is_some() { 0o644 } else { 0o755 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

/// The mounted side of a [`Tree`].
pub(super) struct TreeFileSystem {
    pub(super) tree: Tree,
    pub(super) control: Control,
    /// Whether reads bypass the page cache, as in a network file system that wants every read to reach it.
    pub(super) direct: bool,
}

impl TreeFileSystem {
    /// Runs `reply` after the wait that the rules demand: here if there is none, else on a thread of its own. The
    /// session's one thread must go on with the other operations.
    fn held(&self, op: Op, path: &str, reply: impl FnOnce(Result<(), DiskFault>) + Send + 'static) {
        if !self.control.begin(op, path) {
            return reply(Ok(()));
        }
        let (control, path) = (self.control.clone(), path.to_owned());
        std::thread::spawn(move || {
            let held = control.hold(op, &path);
            reply(held);
        });
    }
}

impl Filesystem for TreeFileSystem {
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_string_lossy().into_owned();
        let path = self.tree.entry(parent).map(|(_, folder)| join(&folder.path, &name)).unwrap_or_default();
        let found = self.tree.child(parent, &name);
        let ttl = self.control.ttl();
        self.held(Op::Lookup, &path, move |held| match (held, found) {
            (Err(DiskFault), _) => reply.error(Errno::EIO),
            (Ok(()), Some((at, entry))) => reply.entry(&ttl, &entry.attr(at), Generation(0)),
            (Ok(()), None) => reply.error(Errno::ENOENT),
        });
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let Some((at, entry)) = self.tree.entry(ino) else {
            return reply.error(Errno::ENOENT);
        };
        let ttl = self.control.ttl();
        let path = entry.path.clone();
        self.held(Op::Getattr, &path, move |held| match held {
            Ok(()) => reply.attr(&ttl, &entry.attr(at)),
            Err(DiskFault) => reply.error(Errno::EIO),
        });
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let Some((_, entry)) = self.tree.entry(ino) else {
            return reply.error(Errno::ENOENT);
        };
        let flags = if self.direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() };
        self.held(Op::Open, &entry.path, move |held| match held {
            Ok(()) => reply.opened(FileHandle(0), flags),
            Err(DiskFault) => reply.error(Errno::EIO),
        });
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some((_, TreeEntry { file: Some(_), path, .. })) = self.tree.entry(ino) else {
            return reply.error(Errno::EISDIR);
        };
        let (tree, control) = (self.tree.clone(), self.control.clone());
        self.held(Op::Read, &path.clone(), move |held| {
            let fails_at = control.fails_at(&path).unwrap_or(u64::MAX);
            // The file's length is read after the wait: it may have been cut meanwhile.
            let file = tree.entry(ino).and_then(|(_, entry)| entry.file);
            let (Ok(()), Some(file)) = (held, file) else {
                return reply.error(Errno::EIO);
            };
            let end = file.available.min(offset.saturating_add(u64::from(size)));
            // The whole read fails, since a short answer would tell the kernel that the file ends there. It asks again
            // in smaller pieces.
            if end > fails_at {
                return reply.error(Errno::EIO);
            }
            let length = usize::try_from(end.saturating_sub(offset)).unwrap_or(0);
            reply.data(&pattern::bytes(file.seed, offset, length));
        });
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some((_, TreeEntry { file: Some(_), path, .. })) = self.tree.entry(ino) else {
            return reply.error(Errno::EISDIR);
        };
        let (tree, data) = (self.tree.clone(), data.to_vec());
        self.held(Op::Write, &path, move |held| match held {
            Ok(()) => {
                tree.append(ino, &data);
                reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX));
            }
            Err(DiskFault) => reply.error(Errno::EIO),
        });
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some((at, entry)) = self.tree.entry(ino) else {
            return reply.error(Errno::ENOENT);
        };
        let list = self.tree.list(at);
        self.held(Op::Readdir, &entry.path, move |held| {
            if held.is_err() {
                return reply.error(Errno::EIO);
            }
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            for (index, (child, kind, name)) in list.into_iter().enumerate().skip(from) {
                if reply.add(INodeNo(child as u64 + 1), index as u64 + 1, kind, name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn init(&mut self, _req: &Request, config: &mut fuser::KernelConfig) -> std::io::Result<()> {
        // The kernel itself holds back readers beyond this number, which would hide the effect of the rules. If it
        // refuses the value, its default stays.
        let _ = config.set_max_background(1024);
        let _ = config.set_time_granularity(Duration::from_nanos(1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_on_the_way() {
        let tree = Tree::default();
        tree.file("a/b/c", 5).expect("a new file");
        tree.file("a/d", 6).expect("a second one");
        let (at, folder) = tree.child(INodeNo(1), "a").expect("the folder");
        assert_eq!(folder.kind(), FileType::Directory);
        let names: Vec<String> = tree.list(at).into_iter().map(|(_, _, name)| name).collect();
        assert_eq!(names, [".", "..", "b", "d"]);
        assert!(tree.file("a/b/c/e", 1).is_err() && tree.file("../x", 1).is_err() && tree.file("a//x", 1).is_err());
        assert!(tree.shrink("a", 1).is_err() && tree.shrink("none", 1).is_err());
    }
}
