//! A writable file system whose slowness, hangs and errors a test controls. Its files are the files of another folder.

use super::control::{Control, DiskFault, Op};
use crate::HarnessError;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::fs::{CWD, FileType as NodeType, Mode};
use rustix::mount::{UnmountFlags, unmount};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// A mounted mirror of a folder. Dropping it releases all waiting operations, and unmounts it.
#[derive(Debug)]
pub struct Mirror {
    mountpoint: PathBuf,
    control: Control,
    session: Option<BackgroundSession>,
}

impl Mirror {
    /// Mounts the contents of one existing folder on another one, writable by every user.
    ///
    /// # Errors
    /// The error of `mount(2)`: usually EPERM without CAP_SYS_ADMIN, or no `/dev/fuse`.
    pub fn mount(of: &Path, mountpoint: &Path) -> Result<Mirror, HarnessError> {
        let control = Control::default();
        let mut config = Config::default();
        config.acl = SessionACL::All;
        config.mount_options = vec![MountOption::FSName("freerun-mirror".into()), MountOption::RW];
        let table = InodeTable { paths: HashMap::from([(ROOT, PathBuf::new())]), open: HashMap::new(), next: 1 };
        let mounted =
            MirrorFileSystem { root: of.to_owned(), control: control.clone(), table: Arc::new(Mutex::new(table)) };
        let session = Session::new(mounted, mountpoint, &config).and_then(Session::spawn);
        let session = session.map_err(|source| HarnessError::Fuse { path: mountpoint.to_owned(), source })?;
        Ok(Mirror { mountpoint: mountpoint.to_owned(), control, session: Some(session) })
    }

    /// The rules.
    pub fn control(&self) -> &Control {
        &self.control
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.control.clear();
        // Detached, so that a server which still has files open does not keep the test from ending.
        let _ = unmount(self.mountpoint.as_path(), UnmountFlags::DETACH);
        drop(self.session.take());
    }
}

const ROOT: u64 = 1;

/// The inode numbers, the kernel's names of files.
#[derive(Debug)]
struct InodeTable {
    /// Paths below the root, by inode number.
    paths: HashMap<u64, PathBuf>,
    open: HashMap<u64, (u64, Arc<File>)>,
    next: u64,
}

#[derive(Clone)]
struct MirrorFileSystem {
    root: PathBuf,
    control: Control,
    table: Arc<Mutex<InodeTable>>,
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

impl MirrorFileSystem {
    fn table(&self) -> MutexGuard<'_, InodeTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, ino: INodeNo) -> PathBuf {
        self.table().paths.get(&ino.0).cloned().unwrap_or_default()
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> PathBuf {
        self.path(parent).join(name)
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    /// The present attributes of a file, by its name or its open descriptor.
    fn attr(&self, ino: u64) -> io::Result<FileAttr> {
        let path = self.table().paths.get(&ino).cloned();
        let by_name = path.and_then(|path| fs::symlink_metadata(self.real(&path)).ok());
        let meta = match by_name.filter(|meta| ino == ROOT || meta.ino() == ino) {
            Some(meta) => meta,
            None => {
                let open = self.table().open.values().find(|(of, _)| *of == ino).map(|(_, file)| file.clone());
                open.ok_or(io::ErrorKind::NotFound)?.metadata()?
            }
        };
        Ok(attr(ino, &meta))
    }

    /// Gives a file an inode number, by its name.
    fn learn(&self, path: &Path) -> io::Result<FileAttr> {
        let meta = fs::symlink_metadata(self.real(path))?;
        let ino = meta.ino();
        self.table().paths.insert(ino, path.to_owned());
        Ok(attr(ino, &meta))
    }

    /// Gives a new file to the user that has made it, with the mode that was asked for.
    fn made(&self, path: &Path, mode: u32, (uid, gid): (u32, u32)) -> io::Result<FileAttr> {
        let real = self.real(path);
        fs::set_permissions(&real, Permissions::from_mode(mode & 0o7777))?;
        std::os::unix::fs::chown(&real, Some(uid), Some(gid))?;
        self.learn(path)
    }

    fn keep(&self, ino: u64, file: File) -> FileHandle {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.open.insert(number, (ino, Arc::new(file)));
        FileHandle(number)
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let found = self.table().open.get(&handle.0).map(|(_, file)| file.clone());
        found.ok_or_else(|| io::Error::from_raw_os_error(9))
    }

    /// Runs an operation after the wait that the rules demand: here if there is none, else on a thread of its own.
    fn held<T>(
        &self,
        op: Op,
        path: &Path,
        work: impl FnOnce(&MirrorFileSystem) -> io::Result<T> + Send + 'static,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let path = path.to_string_lossy().into_owned();
        if !self.control.begin(op, &path) {
            return reply(work(self).map_err(|error| errno(&error)));
        }
        let this = self.clone();
        std::thread::spawn(move || match this.control.hold(op, &path) {
            Ok(()) => reply(work(&this).map_err(|error| errno(&error))),
            Err(DiskFault) => reply(Err(Errno::EIO)),
        });
    }
}

fn attr(ino: u64, meta: &Metadata) -> FileAttr {
    let mtime = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let kind = match meta.file_type() {
        kind if kind.is_dir() => FileType::Directory,
        kind if kind.is_socket() => FileType::Socket,
        _ => FileType::RegularFile,
    };
    FileAttr {
        ino: INodeNo(ino),
        size: meta.len(),
        blocks: meta.blocks(),
        atime: mtime,
        mtime,
        ctime: mtime,
        crtime: mtime,
        kind,
        perm: (meta.mode() & 0o7777) as u16,
        nlink: meta.nlink() as u32,
        uid: meta.uid(),
        gid: meta.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Zero: every use asks again.
const TTL: Duration = Duration::ZERO;

fn empty(reply: ReplyEmpty) -> impl FnOnce(Result<(), Errno>) + Send {
    move |outcome| match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn entry(reply: ReplyEntry) -> impl FnOnce(Result<FileAttr, Errno>) + Send {
    move |outcome| match outcome {
        Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn attributes(reply: ReplyAttr) -> impl FnOnce(Result<FileAttr, Errno>) + Send {
    move |outcome| match outcome {
        Ok(attr) => reply.attr(&TTL, &attr),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for MirrorFileSystem {
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let path = self.child(parent, name);
        self.held(Op::Lookup, &path.clone(), move |this| this.learn(&path), entry(reply));
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.held(Op::Getattr, &self.path(ino), move |this| this.attr(ino.0), attributes(reply));
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let path = self.path(ino);
        let work = move |this: &MirrorFileSystem| {
            let real = this.real(&path);
            if let Some(mode) = mode {
                fs::set_permissions(&real, Permissions::from_mode(mode & 0o7777))?;
            }
            if uid.is_some() || gid.is_some() {
                std::os::unix::fs::chown(&real, uid, gid)?;
            }
            if let Some(size) = size {
                match fh {
                    Some(fh) => this.file(fh)?.set_len(size)?,
                    None => OpenOptions::new().write(true).open(&real)?.set_len(size)?,
                }
            }
            this.attr(ino.0)
        };
        self.held(Op::Write, &self.path(ino), work, attributes(reply));
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let path = self.child(parent, name);
        let user = (req.uid(), req.gid());
        let work = move |this: &MirrorFileSystem| {
            let kind = NodeType::from_raw_mode(mode);
            rustix::fs::mknodat(CWD, this.real(&path), kind, Mode::from_raw_mode(mode & 0o7777), 0)?;
            this.made(&path, mode, user)
        };
        self.held(Op::Create, &self.child(parent, name), work, entry(reply));
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let path = self.child(parent, name);
        let user = (req.uid(), req.gid());
        let work = move |this: &MirrorFileSystem| {
            fs::create_dir(this.real(&path))?;
            this.made(&path, mode, user)
        };
        self.held(Op::Create, &self.child(parent, name), work, entry(reply));
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let path = self.child(parent, name);
        self.held(Op::Unlink, &path.clone(), move |this| fs::remove_file(this.real(&path)), empty(reply));
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let path = self.child(parent, name);
        self.held(Op::Unlink, &path.clone(), move |this| fs::remove_dir(this.real(&path)), empty(reply));
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (self.child(parent, name), self.child(newparent, newname));
        let work = move |this: &MirrorFileSystem| {
            fs::rename(this.real(&from), this.real(&to))?;
            this.learn(&to).map(drop)
        };
        self.held(Op::Rename, &self.child(newparent, newname), work, empty(reply));
    }

    fn link(&self, _req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let (from, to) = (self.path(ino), self.child(newparent, newname));
        let work = move |this: &MirrorFileSystem| {
            fs::hard_link(this.real(&from), this.real(&to))?;
            this.learn(&to)
        };
        self.held(Op::Rename, &self.child(newparent, newname), work, entry(reply));
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let path = self.path(ino);
        let work = move |this: &MirrorFileSystem| {
            let writes = flags.0 & 3 != 0;
            let file = OpenOptions::new().read(true).write(writes).open(this.real(&path))?;
            Ok(this.keep(ino.0, file))
        };
        self.held(Op::Open, &self.path(ino), work, move |outcome| match outcome {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        });
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let path = self.child(parent, name);
        let user = (req.uid(), req.gid());
        let work = move |this: &MirrorFileSystem| {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(true).mode(mode).open(this.real(&path))?;
            let attr = this.made(&path, mode, user)?;
            Ok((attr, this.keep(attr.ino.0, file)))
        };
        self.held(Op::Create, &self.child(parent, name), work, move |outcome| match outcome {
            Ok((attr, handle)) => reply.created(&TTL, &attr, Generation(0), handle, FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        });
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let work = move |this: &MirrorFileSystem| {
            let mut buffer = vec![0; size as usize];
            let read = this.file(fh)?.read_at(&mut buffer, offset)?;
            buffer.truncate(read);
            Ok(buffer)
        };
        self.held(Op::Read, &self.path(ino), work, move |outcome| match outcome {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        });
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        let work = move |this: &MirrorFileSystem| {
            this.file(fh)?.write_all_at(&data, offset)?;
            Ok(data.len() as u32)
        };
        self.held(Op::Write, &self.path(ino), work, move |outcome| match outcome {
            Ok(written) => reply.written(written),
            Err(errno) => reply.error(errno),
        });
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.table().open.remove(&fh.0);
        reply.ok();
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _lock_owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.held(Op::Sync, &self.path(ino), move |this| this.file(fh)?.sync_data(), empty(reply));
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let path = self.path(ino);
        let work = move |this: &MirrorFileSystem| {
            let mut all = Vec::new();
            for entry in fs::read_dir(this.real(&path))? {
                let entry = entry?;
                let folder = entry.file_type()?.is_dir();
                let kind = if folder { FileType::Directory } else { FileType::RegularFile };
                all.push((std::os::unix::fs::DirEntryExt::ino(&entry), kind, entry.file_name()));
            }
            // The order is the same each time.
            all.sort_by(|one, other| one.2.cmp(&other.2));
            Ok(all)
        };
        self.held(Op::Readdir, &self.path(ino), work, move |outcome| match outcome {
            Err(errno) => reply.error(errno),
            Ok(all) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                for (index, (child, kind, name)) in all.into_iter().enumerate().skip(from) {
                    if reply.add(INodeNo(child), index as u64 + 1, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
        });
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::statvfs(&self.root) {
            Ok(of) => reply.statfs(
                of.f_blocks,
                of.f_bfree,
                of.f_bavail,
                of.f_files,
                of.f_ffree,
                of.f_bsize as u32,
                of.f_namemax as u32,
                of.f_frsize as u32,
            ),
            Err(error) => reply.error(Errno::from_i32(error.raw_os_error())),
        }
    }

    fn init(&mut self, _req: &Request, config: &mut fuser::KernelConfig) -> io::Result<()> {
        // See the other fixture for the reason.
        let _ = config.set_max_background(1024);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TempDir, eventually, require};
    use std::io::{Read, Write};

    #[test]
    fn files_are_written_renamed_removed_and_held_up() {
        if !require::fuse() {
            return;
        }
        let dir = TempDir::new("mirror");
        for name in ["of", "at"] {
            fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        let at = dir.path().join("at");
        let mirror = Mirror::mount(&dir.path().join("of"), &at).expect("mounting");
        fs::create_dir_all(at.join("a/b")).expect("folders");
        let mut file = File::create(at.join("a/b/new")).expect("a file");
        file.write_all(&vec![7; 300_000]).expect("writing");
        file.sync_all().expect("syncing");
        fs::rename(at.join("a/b/new"), at.join("name")).expect("renaming");
        assert_eq!(fs::read(dir.path().join("of/name")).expect("the real one"), vec![7; 300_000]);
        assert_eq!(fs::metadata(at.join("name")).expect("its size").len(), 300_000);
        let mut open = File::open(at.join("name")).expect("opening");
        fs::remove_file(at.join("name")).expect("removing");
        let mut text = Vec::new();
        open.read_to_end(&mut text).expect("reading what has no name");
        assert_eq!(text.len(), 300_000);
        let names: Vec<_> =
            fs::read_dir(&at).expect("listing").map(|entry| entry.expect("an entry").file_name()).collect();
        assert_eq!(names, ["a"]);
        mirror.control().rule(Op::Write, super::super::Action::Fail, "");
        let mut other = File::create(at.join("other")).expect("a file");
        assert_eq!(other.write_all(b"x").expect_err("a rule").raw_os_error(), Some(5));
        mirror.control().clear();
        mirror.control().hang(Op::Create, "");
        let stuck = std::thread::spawn(move || File::create(at.join("a/stuck")).is_ok());
        eventually("it hangs", || mirror.control().waiting() == 1);
        // The file is only in the folder that it was made in.
        assert_eq!(fs::read_dir(dir.path().join("at")).expect("listing").count(), 2);
        mirror.control().clear();
        assert!(stuck.join().expect("the thread"));
    }
}
