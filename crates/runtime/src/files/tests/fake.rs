//! A kernel in which tests replace answers by errors, and helpers that every test needs.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use freerun_sys::mincore::page_size;
use rustix::io::Errno;

use super::super::kernel::{Kernel, Linux};
use super::super::types::Meta;
use super::super::*;
use crate::pool::PoolSpec;

/// The faults of the kernel. The running kernel does everything else, with the clock standing still.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) open_cached: Option<Errno>,
    pub(super) name_cached: Option<Errno>,
    pub(super) stat_known: Option<Result<Meta, Errno>>,
    pub(super) nowait: Option<Errno>,
    /// Pages that are not in memory, by number.
    pub(super) missing: HashSet<u64>,
    pub(super) resident: Option<Errno>,
    pub(super) mincore_lies: bool,
    /// The answer of `cachestat`; by default that it is not allowed.
    pub(super) cached: Option<u64>,
    /// The error of reading a block.
    pub(super) block: Option<Errno>,
    pub(super) read: Option<Errno>,
    pub(super) write: Option<Errno>,
    /// The time of the last access of each file, in seconds since 1970.
    pub(super) atime: Option<i64>,
    /// The time of the last access after a read.
    pub(super) atime_after: Option<i64>,
    pub(super) sendfile: Option<Errno>,
    /// How long each sending takes on the clock.
    pub(super) sending_takes: Duration,
    /// Whether sending counts as waiting.
    pub(super) sending_waits: bool,
    /// How often the thread has waited.
    pub(super) waits: u64,
    pub(super) now: Duration,
}

/// How often each call was made.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) open_cached: AtomicU64,
    pub(super) name_cached: AtomicU64,
    pub(super) open: AtomicU64,
    pub(super) nowait: AtomicU64,
    /// The bytes that came from such reads of more than one byte.
    pub(super) copied: AtomicU64,
    pub(super) resident: AtomicU64,
    pub(super) cached: AtomicU64,
    /// The places at which blocks were read.
    pub(super) blocks: Mutex<Vec<u64>>,
    /// The advice that was given: offset and length.
    pub(super) advice: Mutex<Vec<(u64, u64)>>,
    pub(super) sendfile: AtomicU64,
}

#[derive(Clone, Default)]
pub(super) struct Fake {
    pub(super) plan: Arc<Mutex<Plan>>,
    pub(super) calls: Arc<Calls>,
}

impl Fake {
    pub(super) fn change(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan.lock().unwrap());
    }

    fn ask<T>(&self, ask: impl FnOnce(&Plan) -> T) -> T {
        ask(&self.plan.lock().unwrap())
    }

    fn accessed(&self) {
        self.change(|plan| plan.atime = plan.atime_after.or(plan.atime));
    }

    pub(super) fn probes(&self) -> u64 {
        self.calls.nowait.swap(0, SeqCst)
    }

    pub(super) fn copied(&self) -> u64 {
        self.calls.copied.swap(0, SeqCst)
    }
}

fn failing(error: Option<Errno>) -> Result<(), Errno> {
    error.map_or(Ok(()), Err)
}

impl Kernel for Fake {
    fn age(&self, _: Instant) -> Duration {
        self.ask(|plan| plan.now)
    }

    fn waits(&self) -> u64 {
        self.ask(|plan| plan.waits)
    }

    fn open_cached(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        self.calls.open_cached.fetch_add(1, SeqCst);
        failing(self.ask(|plan| plan.open_cached))?;
        // A path that was just made is in the cache; the call that may wait keeps the tests from depending on that.
        Linux.open(path)
    }

    fn name_cached(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        self.calls.name_cached.fetch_add(1, SeqCst);
        failing(self.ask(|plan| plan.name_cached))?;
        Linux.name(path)
    }

    fn open(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        self.calls.open.fetch_add(1, SeqCst);
        Linux.open(path)
    }

    fn stat(&self, fd: BorrowedFd<'_>) -> Result<Meta, Errno> {
        let mut meta = Linux.stat(fd)?;
        if let Some(atime) = self.ask(|plan| plan.atime) {
            meta.atime = (atime, 0);
        }
        Ok(meta)
    }

    fn stat_known(&self, fd: BorrowedFd<'_>) -> Result<Meta, Errno> {
        self.ask(|plan| plan.stat_known).unwrap_or_else(|| Linux.stat(fd))
    }

    fn read_nowait(&self, fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.calls.nowait.fetch_add(1, SeqCst);
        failing(self.ask(|plan| plan.nowait))?;
        let page = page_size() as u64;
        let ready = (offset / page..(offset + buffer.len() as u64).div_ceil(page))
            .find(|number| self.ask(|plan| plan.missing.contains(number)))
            .map_or(usize::MAX, |number| (number * page).saturating_sub(offset) as usize);
        if ready == 0 {
            return Err(Errno::AGAIN);
        }
        let len = buffer.len().min(ready);
        let got = Linux.read(fd, &mut buffer[..len], offset)?;
        if buffer.len() > 1 {
            self.calls.copied.fetch_add(got as u64, SeqCst);
        }
        Ok(got)
    }

    fn read(&self, fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        failing(self.ask(|plan| plan.read))?;
        self.accessed();
        Linux.read(fd, buffer, offset)
    }

    fn write(&self, fd: BorrowedFd<'_>, data: &[u8], offset: u64) -> Result<usize, Errno> {
        failing(self.ask(|plan| plan.write))?;
        // Writes are small: callers have to go on where one ended.
        Linux.write(fd, &data[..data.len().min(1000)], offset)
    }

    fn write_many(&self, fd: BorrowedFd<'_>, data: &[std::io::IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        data.iter().find(|slice| !slice.is_empty()).map_or(Ok(0), |slice| self.write(fd, slice, offset))
    }

    fn resident(&self, _: BorrowedFd<'_>, offset: u64, len: usize, pages: &mut Vec<u8>) -> Result<(), Errno> {
        self.calls.resident.fetch_add(1, SeqCst);
        failing(self.ask(|plan| plan.resident))?;
        let page = page_size() as u64;
        pages.clear();
        let numbers = offset / page..(offset + len as u64).div_ceil(page);
        pages.extend(numbers.map(|number| u8::from(!self.ask(|plan| plan.missing.contains(&number)))));
        Ok(())
    }

    fn cached(&self, _: BorrowedFd<'_>, _: u64, _: u64) -> Result<u64, Errno> {
        self.calls.cached.fetch_add(1, SeqCst);
        self.ask(|plan| plan.cached).ok_or(Errno::PERM)
    }

    fn owns_or_may_write(&self, _: BorrowedFd<'_>, _: &Meta) -> bool {
        !self.ask(|plan| plan.mincore_lies)
    }

    fn send(&self, out: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
        self.change(|plan| {
            plan.now += plan.sending_takes;
            plan.waits += u64::from(plan.sending_waits);
        });
        Linux.send(out, data)
    }

    fn sendfile(&self, out: BorrowedFd<'_>, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize, Errno> {
        self.calls.sendfile.fetch_add(1, SeqCst);
        self.change(|plan| {
            plan.now += plan.sending_takes;
            plan.waits += u64::from(plan.sending_waits);
        });
        failing(self.ask(|plan| plan.sendfile))?;
        self.accessed();
        Linux.sendfile(out, fd, offset, len)
    }

    fn read_block(&self, _: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
        self.calls.blocks.lock().unwrap().push(offset);
        failing(self.ask(|plan| plan.block))
    }

    fn will_need(&self, _: BorrowedFd<'_>, offset: u64, len: u64) {
        self.calls.advice.lock().unwrap().push((offset, len));
    }
}

/// A directory that is removed with everything in it when this is dropped.
pub(super) struct Dir(pub(super) PathBuf);

impl Dir {
    pub(super) fn new() -> Dir {
        Dir::under(&std::env::temp_dir())
    }

    pub(super) fn under(parent: &Path) -> Dir {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("freerun-files-{}-{}", std::process::id(), NUMBER.fetch_add(1, SeqCst));
        let path = parent.join(name);
        std::fs::create_dir(&path).unwrap();
        Dir(path.canonicalize().unwrap())
    }

    pub(super) fn write(&self, name: &str, contents: &[u8]) -> CString {
        std::fs::File::create(self.0.join(name)).unwrap().write_all(contents).unwrap();
        self.path(name)
    }

    pub(super) fn path(&self, name: &str) -> CString {
        CString::new(self.0.join(name).as_os_str().as_bytes()).unwrap()
    }

    pub(super) fn dev(&self) -> u64 {
        rustix::fs::stat(&self.0).unwrap().st_dev
    }

    /// A mount table that has this directory's device as `/`, of a type of the test's choice, and `more`.
    pub(super) fn mounts(&self, fs_type: &str, options: &str, more: &str) -> Arc<Mounts> {
        let dev = self.dev();
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        Mounts::fixed(format!("1 0 {major}:{minor} / / {options} - {fs_type} none rw\n{more}").as_bytes())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes in which every page differs from every other.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 + at % 251) as u8).collect()
}

/// The state that a test of file operations needs.
pub(super) struct Bench {
    pub(super) dir: Dir,
    pub(super) fake: Fake,
    pub(super) fs: Arc<FileSystem>,
    pub(super) pool: Arc<ThreadPool>,
    pub(super) aio: Aio,
}

impl Bench {
    /// A bench with its files on a mount of this type.
    pub(super) fn new(fs_type: &str) -> Bench {
        Bench::with(fs_type, "", |_| {})
    }

    pub(super) fn with(fs_type: &str, more: &str, plan: impl FnOnce(&mut Plan)) -> Bench {
        Bench::mounted(fs_type, "rw", more, plan)
    }

    /// A bench whose mount has these options.
    pub(super) fn mounted(fs_type: &str, options: &str, more: &str, plan: impl FnOnce(&mut Plan)) -> Bench {
        let (dir, fake) = (Dir::new(), Fake::default());
        fake.change(|plan| plan.now = Duration::from_secs(1000));
        fake.change(plan);
        let pool = ThreadPool::start(&PoolSpec { name: "test".to_owned(), threads: 2, max_queue: 100 }).unwrap();
        let fs = FileSystem::with(Box::new(fake.clone()), dir.mounts(fs_type, options, more), pool.clone());
        // What was looked at when the value was made is none of a test's counts.
        fake.calls.nowait.store(0, SeqCst);
        fake.calls.cached.store(0, SeqCst);
        Bench { dir, fake, fs, aio: Aio::Auto(pool.clone()), pool }
    }

    pub(super) fn via(&self) -> Via<'_> {
        Via { aio: &self.aio, client: 1, gone: None }
    }

    /// Makes a file and opens it, whatever the plan says.
    pub(super) fn file(&self, len: usize) -> Arc<OpenFile> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("file-{}", NUMBER.fetch_add(1, SeqCst));
        let path = self.dir.write(&name, &pattern(len));
        self.fs.try_open_now(&path, &Aio::Off).unwrap().unwrap()
    }

    pub(super) fn mount(&self) -> crate::mounts::MountStatus {
        let dev = self.dir.dev();
        self.fs.mounts().into_iter().find(|mount| mount.dev == dev).unwrap()
    }

    pub(super) fn pass(&self, time: Duration) {
        self.fake.change(|plan| plan.now += time);
    }
}

/// Runs a future on a loop like the worker's.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A non-blocking socket to send to, and the end that reads.
pub(super) fn sockets() -> (Arc<OwnedFd>, std::os::unix::net::UnixStream) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Arc::new(ours.into()), theirs)
}

/// Reads exactly `len` bytes.
pub(super) fn receive(from: &mut std::os::unix::net::UnixStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).unwrap();
    bytes
}
