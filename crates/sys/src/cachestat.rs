//! `cachestat(2)` (Linux 6.5): how many pages of a file's range are in the page cache.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The number of the call, which is the same on every architecture (`libc` does not have it for all of them).
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// The kernel's figures of a range, in pages.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Pages in the cache, **including those whose read is still in flight**: sending them may wait.
    pub cached: u64,
    /// Dirty pages.
    pub dirty: u64,
    /// Pages being written back.
    pub writeback: u64,
    /// Pages that were evicted.
    pub evicted: u64,
    /// Pages evicted so recently that reading them again would make them active at once.
    pub recently_evicted: u64,
}

/// Asks for the range of `len` bytes at `offset`; it starts no I/O and does not wait.
///
/// # Errors
/// `EPERM` if the caller neither owns nor may write the file (or a filter forbids the call), `ENOSYS` before Linux 6.5,
/// `EOPNOTSUPP` for hugetlbfs.
pub fn cachestat(file: impl AsFd, offset: u64, len: u64) -> io::Result<CacheStat> {
    let range = Range { offset, len };
    let mut answer = CacheStat::default();
    // SAFETY: both pointers are to live locals whose layout is the kernel's `cachestat_range` and `cachestat`
    // (`repr(C)`, two and five `u64`). The kernel reads the first and writes the second during the call only.
    let failed = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_fd().as_raw_fd(), &raw const range, &raw mut answer, 0 as libc::c_uint)
    };
    if failed == 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_testkit::require;
    use std::io::Write;

    #[test]
    fn a_file_just_written_is_cached() {
        let path = std::env::temp_dir().join(format!("freerun-cachestat-{}", std::process::id()));
        let mut file = std::fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&[1; 3 * 4096]).unwrap();
        match cachestat(&file, 0, 3 * 4096) {
            Ok(stat) => assert!(stat.cached >= 1 && stat.cached <= 3, "{stat:?}"),
            Err(error) => {
                let errno = error.raw_os_error().unwrap();
                assert!([libc::ENOSYS, libc::EPERM].contains(&errno), "{error}");
                require::need("cachestat", false, &format!("cachestat is not available here ({error})"));
            }
        }
    }

    #[test]
    fn nothing_is_cached_of_a_pipe() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(cachestat(&reader, 0, 4096).map_or(0, |stat| stat.cached), 0);
    }
}
