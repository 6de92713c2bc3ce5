//! The system calls of the file operations, behind a trait: tests put errors, old kernels and filters in their place.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use freerun_sys::mincore::Mapping;
use rustix::fs::{Access, Advice, AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::SendFlags;

use super::types::Meta;

/// Flags of every open: never waits for the other end of a FIFO, never makes a terminal the controlling one.
pub(crate) const OPEN: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Flags for a descriptor that names a file and asks nothing of its file system.
pub(crate) const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

pub(crate) trait Kernel: Send + Sync {
    /// The time since `start`.
    fn age(&self, start: Instant) -> Duration {
        start.elapsed()
    }

    /// Number of times that this thread has waited; it only grows.
    fn waits(&self) -> u64 {
        freerun_sys::switches::voluntary()
    }

    /// Whether `openat2` supports `RESOLVE_CACHED` and is allowed.
    fn has_cached_lookup(&self) -> bool {
        self.name_cached(c"/").is_ok_and(|_| true)
    }

    /// Opens a file if its path is in the lookup cache, else `EAGAIN`.
    fn open_cached(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        rustix::fs::openat2(CWD, path, OPEN, Mode::empty(), ResolveFlags::CACHED)
    }

    /// Opens a file as `open_cached` does, but asks nothing of the file's file system (`O_PATH`).
    fn name_cached(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        rustix::fs::openat2(CWD, path, NAME_ONLY, Mode::empty(), ResolveFlags::CACHED)
    }

    /// Like `name_cached`, for what the path itself names: a link at its end is not followed.
    fn name_cached_itself(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        rustix::fs::openat2(CWD, path, NAME_ONLY | OFlags::NOFOLLOW, Mode::empty(), ResolveFlags::CACHED)
    }

    fn open(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(CWD, path, OPEN, Mode::empty())
    }

    fn stat(&self, fd: BorrowedFd<'_>) -> Result<Meta, Errno> {
        rustix::fs::fstat(fd).map(|stat| Meta::of(&stat))
    }

    /// The attributes of a descriptor's file, as far as the kernel knows them without asking.
    fn stat_known(&self, fd: BorrowedFd<'_>) -> Result<Meta, Errno> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        match rustix::fs::statx(fd, c"", flags, StatxFlags::BASIC_STATS) {
            Ok(stat) => Ok(Meta::of_statx(&stat)),
            Err(error) => Err(error),
        }
    }

    /// A descriptor that only names the file; looking up the path may wait.
    fn name(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(CWD, path, NAME_ONLY, Mode::empty())
    }

    /// Reads the bytes that are in memory and up to date; `EAGAIN` if there are none.
    fn read_nowait(&self, fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
    }

    fn read(&self, fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pread(fd, buffer, offset)
    }

    fn write(&self, fd: BorrowedFd<'_>, data: &[u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pwrite(fd, data, offset)
    }

    fn write_many(&self, fd: BorrowedFd<'_>, data: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        rustix::io::pwritev(fd, data, offset)
    }

    /// Asked before calls that have no method here.
    fn admit(&self, _call: &'static str) -> Result<(), Errno> {
        Ok(())
    }

    /// Finds the pages of the range that are in memory and up to date: a byte for each, 1 if it is. `offset` is a
    /// multiple of the page size.
    fn resident(&self, fd: BorrowedFd<'_>, offset: u64, len: usize, pages: &mut Vec<u8>) -> Result<(), Errno> {
        let answer = Mapping::new(fd, offset, len).and_then(|mapping| mapping.resident(pages));
        answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// The number of pages of the range that are in the page cache, including those that are still being read. Starts
    /// no I/O.
    fn cached(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
        let answer = freerun_sys::cachestat::cachestat(fd, offset, len);
        answer.map(|stat| stat.cached).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Whether the process may write the file (and therefore gets true answers from `mincore`).
    fn owns_or_may_write(&self, fd: BorrowedFd<'_>, meta: &Meta) -> bool {
        use std::os::fd::AsRawFd;
        meta.uid == rustix::process::geteuid().as_raw()
            || rustix::fs::access(format!("/proc/self/fd/{}", fd.as_raw_fd()), Access::WRITE_OK).is_ok()
    }

    fn sendfile(&self, out: BorrowedFd<'_>, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize, Errno> {
        let mut offset = offset;
        rustix::fs::sendfile(out, fd, Some(&mut offset), len)
    }

    /// Reads the block around a page into memory, in large pieces, and waits for that page.
    fn read_block(&self, fd: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
        freerun_sys::populate::read_block(fd, offset).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Writes to a non-blocking socket.
    fn send(&self, out: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
        rustix::net::send(out, data, SendFlags::NOSIGNAL)
    }

    /// Starts reading a range into memory.
    fn will_need(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) {
        // This is advice: if it is not taken, the read that follows takes longer.
        let _ = rustix::fs::fadvise(fd, offset, std::num::NonZeroU64::new(len), Advice::WillNeed);
    }
}

/// The running kernel.
pub(crate) struct Linux;

impl Kernel for Linux {}
