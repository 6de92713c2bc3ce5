//! Reading a part of a file into the page cache in pieces as large as the kernel can make them.
//!
//! The data that `read(2)`, `readahead(2)` and `posix_fadvise(2)` bring into memory is in single pages, or in small
//! folios, and each of them costs time whenever it is sent again. A mapping with `MADV_HUGEPAGE` is the only way to ask
//! for larger ones. A fault in it reads the aligned [`BLOCK`] that it falls into, in folios as large as fit, if the
//! file system supports large folios.

use std::io;
use std::os::fd::AsFd;

use crate::mincore::{Advice, Mapping, page_size};

/// The bytes that are read at once; blocks are aligned in the file as well. (On machines with pages of 4 KiB. If pages
/// are larger, more is read.)
pub const BLOCK: u64 = 2 << 20;

/// Reads the block around the page at `offset`, up to the end of the file, and waits until that page is in memory. If
/// it is there already, nothing is read. If other pages of the block are, the rest comes page by page, but all of it is
/// asked for. The contents are not accessed, so a file that becomes shorter meanwhile is no danger.
///
/// # Errors
/// `EINVAL` for a wrong offset, and on kernels without huge pages or before 5.14. `ENODEV` if the file system does not
/// support mappings. `EFAULT` at the end of the file or if the disk fails. `ENOMEM`, `EPERM`, `EACCES`.
pub fn read_block(file: impl AsFd, offset: u64) -> io::Result<()> {
    let page = Mapping::readable(file, offset, page_size())?;
    // Random: without it, a fault reads two blocks.
    [Advice::HugePage, Advice::Random, Advice::PopulateRead].into_iter().try_for_each(|advice| page.advise(advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A file on the disk, with none of it in memory; the folder of temporary files may be in memory itself, and then
    /// all of the file stays there.
    fn cold(bytes: usize) -> std::fs::File {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("freerun-populate-{}-{number}", std::process::id()));
        let mut file = std::fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&vec![1; bytes]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        file
    }

    fn is_resident(file: &std::fs::File, offset: u64) -> bool {
        let mut pages = Vec::new();
        Mapping::new(file, offset, page_size()).unwrap().resident(&mut pages).unwrap();
        pages == [1]
    }

    #[test]
    fn the_page_asked_for_is_in_memory_afterwards() {
        let file = cold(2 * BLOCK as usize + 5);
        for offset in [BLOCK, 256 << 10, 0, 2 * BLOCK] {
            match read_block(&file, offset) {
                Ok(()) => assert!(is_resident(&file, offset), "{offset}"),
                // The kernel does not support it.
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL)),
            }
        }
    }

    #[test]
    fn a_file_that_ends_before_and_wrong_offsets_are_errors() {
        let file = cold(10);
        let error = read_block(&file, BLOCK).unwrap_err().raw_os_error();
        assert!(matches!(error, Some(libc::EFAULT | libc::EINVAL)), "{error:?}");
        assert_eq!(read_block(&file, 1).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(read_block(&file, u64::MAX / BLOCK * BLOCK).unwrap_err().raw_os_error(), Some(libc::EOVERFLOW));
        let (reader, _writer) = io::pipe().unwrap();
        assert!(read_block(&reader, 0).is_err());
    }
}
