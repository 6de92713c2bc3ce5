//! Which pages of a file are in memory and up to date, by `mmap(2)` and `mincore(2)`. No page is touched, no I/O
//! starts.
//!
//! The answer is true only for a file that the process owns or may write; for other files Linux (since 5.2) reports
//! that every page is there. Check the owner of the file first.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// A mapped range of a file; its address is not given out. Unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    at: NonNull<libc::c_void>,
    len: usize,
}

/// Advice that is harmless for any mapping.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(crate) enum Advice {
    /// Use large folios.
    HugePage = libc::MADV_HUGEPAGE,
    /// Reads are in random order.
    Random = libc::MADV_RANDOM,
    /// Read the range now, and wait for it.
    PopulateRead = libc::MADV_POPULATE_READ,
}

impl Mapping {
    /// Maps `len` bytes at `offset`, which must be a multiple of the page size, without access.
    ///
    /// # Errors
    /// `ENODEV` if the file system does not support mappings, `EINVAL` for a wrong offset or length 0, `ENOMEM`,
    /// `EPERM`.
    pub fn new(file: impl AsFd, offset: u64, len: usize) -> io::Result<Mapping> {
        Mapping::with(file, offset, len, libc::PROT_NONE)
    }

    /// Maps a range with read access, which `MADV_POPULATE_READ` needs.
    pub(crate) fn readable(file: impl AsFd, offset: u64, len: usize) -> io::Result<Mapping> {
        Mapping::with(file, offset, len, libc::PROT_READ)
    }

    fn with(file: impl AsFd, offset: u64, len: usize, access: libc::c_int) -> io::Result<Mapping> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        // SAFETY: the kernel chooses the address (no MAP_FIXED), so nothing that exists is replaced. The address is not
        // given out, so nothing is read or written through it. Errors are checked below.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_fd().as_raw_fd(), offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(at) {
            Some(at) => Ok(Mapping { at, len }),
            None => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
        }
    }

    /// Gives the kernel advice about the range (`madvise(2)`).
    ///
    /// # Errors
    /// `EINVAL` if this kernel does not support the advice; other errors of the advice itself.
    pub(crate) fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: `at` and `len` describe a mapping that lives as long as `self`, which no other code knows. None of
        // these changes what memory holds, and populating answers with an error where an access would end in SIGBUS.
        let failed = unsafe { libc::madvise(self.at.as_ptr(), self.len, advice as libc::c_int) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Writes for each page of the mapping 1 (in memory, up to date) or 0 to `pages`, which is resized to their number.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM` under a filter; `EAGAIN` if the kernel is short of memory.
    pub fn resident(&self, pages: &mut Vec<u8>) -> io::Result<()> {
        pages.clear();
        pages.resize(self.len.div_ceil(page_size()), 0);
        // SAFETY: `at` and `len` describe a mapping that lives as long as `self`. The vector has one byte for each page
        // of it, which is what the call writes.
        let failed = unsafe { libc::mincore(self.at.as_ptr(), self.len, pages.as_mut_ptr().cast()) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        pages.iter_mut().for_each(|page| *page &= 1);
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, is unmapped only here, and no reference into it was ever given out.
        // It cannot fail for a range that is mapped as a whole.
        unsafe {
            libc::munmap(self.at.as_ptr(), self.len);
        }
    }
}

/// The size of a page, in bytes.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: usize) -> std::fs::File {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("freerun-mincore-{}-{number}", std::process::id()));
        let mut file = std::fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&vec![1; bytes]).unwrap();
        file
    }

    #[test]
    fn pages_just_written_are_resident() {
        let page = page_size();
        let file = file(3 * page + 1);
        let mut pages = Vec::new();
        Mapping::new(&file, 0, 3 * page + 1).unwrap().resident(&mut pages).unwrap();
        assert_eq!(pages, [1, 1, 1, 1]);
        Mapping::new(&file, page as u64, page).unwrap().resident(&mut pages).unwrap();
        assert_eq!(pages, [1]);
    }

    #[test]
    fn a_hole_that_was_never_read_is_not_resident() {
        let page = page_size();
        let file = file(page);
        file.set_len(64 * page as u64).unwrap();
        let mut pages = Vec::new();
        Mapping::new(&file, 32 * page as u64, page).unwrap().resident(&mut pages).unwrap();
        assert_eq!(pages, [0]);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        let file = file(1);
        assert_eq!(Mapping::new(&file, 1, 4096).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(Mapping::new(&file, 0, 0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(Mapping::new(&file, u64::MAX, 1).unwrap_err().raw_os_error(), Some(libc::EOVERFLOW));
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(Mapping::new(&reader, 0, 4096).is_err());
    }
}
