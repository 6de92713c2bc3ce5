//! Reading past the page cache (`O_DIRECT`). This waits for the disk each time, so it is always left to the pool.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::FileSystem;
use super::kernel::OPEN;
use super::open::retried;
use super::types::{FileError, OpenFile, Via};

const PREAD: &str = "pread()";
/// The alignment that any disk accepts, unless its sectors are larger than the pages of memory.
const SURE: usize = 4096;
/// The least and the most alignment of reads, whatever is asked for.
const LEAST: u64 = 512;
const MOST: u64 = 64 * 1024;

/// A file with a descriptor of its own for reading past the page cache; other users of the file are not affected.
#[derive(Debug, Clone)]
pub struct DirectFile {
    file: Arc<OpenFile>,
    alignment: usize,
}

impl DirectFile {
    /// The file.
    pub fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }
}

impl FileSystem {
    /// Opens an open file once more, for reading past the page cache. Offsets, lengths and memory are then multiples of
    /// `alignment` bytes (a power of two from 512 on; others become the next one). `None` if its file system does not
    /// support that, or `/proc` is missing.
    ///
    /// # Errors
    /// The error of the pool.
    pub async fn open_direct(
        self: &Arc<Self>,
        file: &Arc<OpenFile>,
        alignment: u64,
        via: Via<'_>,
    ) -> Result<Option<DirectFile>, FileError> {
        let (closer, held) = (self.closer.clone(), file.clone());
        let open = move || {
            let path = format!("/proc/self/fd/{}", held.as_fd().as_raw_fd());
            let fd = retried(|| rustix::fs::open(&*path, OPEN | OFlags::DIRECT, Mode::empty())).ok()?;
            let file = Arc::new(OpenFile::new(fd, *held.meta(), held.mount.clone(), closer));
            Some(DirectFile { file, alignment: alignment.clamp(LEAST, MOST).next_power_of_two() as usize })
        };
        self.offload(via, file.tag(via.client), open).await
    }

    /// Reads up to `len` bytes from `offset` on; fewer only at the end of the file.
    ///
    /// # Errors
    /// The error of `pread(2)`, or of the pool.
    pub async fn read_direct(
        self: &Arc<Self>,
        file: &DirectFile,
        offset: u64,
        len: usize,
        via: Via<'_>,
    ) -> Result<Bytes, FileError> {
        file.file.mount.pooled.add();
        let (held, alignment) = (file.file.clone(), file.alignment);
        let read = move || match read_aligned(held.as_fd(), offset, len, alignment) {
            // The disk has larger sectors than the configured alignment.
            Err(Errno::INVAL) if alignment < SURE => read_aligned(held.as_fd(), offset, len, SURE),
            read => read,
        };
        let read = self.offload(via, file.file.tag(via.client), read).await?;
        read.map_err(|error| FileError::new(PREAD, error))
    }
}

fn read_aligned(fd: BorrowedFd<'_>, offset: u64, len: usize, alignment: usize) -> Result<Bytes, Errno> {
    let before = (offset % alignment as u64) as usize;
    let room = (before + len).next_multiple_of(alignment);
    let mut buffer = vec![0; room + alignment];
    let start = buffer.as_ptr().align_offset(alignment);
    let Some(aligned) = start.checked_add(room).and_then(|end| buffer.get_mut(start..end)) else {
        return Err(Errno::NOMEM);
    };
    let mut got = 0;
    while got < before + len {
        let at = offset - before as u64 + got as u64;
        let n = retried(|| rustix::io::pread(fd, &mut aligned[got..], at))?;
        got += n;
        // Only the end of the file is not aligned.
        if n % alignment != 0 || n == 0 {
            break;
        }
    }
    let end = got.clamp(before, before + len);
    Ok(Bytes::from(buffer).slice(start + before..start + end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Aio;
    use crate::pool::{PoolSpec, ThreadPool};
    use std::ffi::CString;
    use std::io::Write;

    #[test]
    fn any_range_is_read_with_its_own_descriptor_and_the_cache_stays_empty() {
        let path = std::env::temp_dir().join(format!("freerun-direct-{}", std::process::id()));
        let content: Vec<u8> = (0..300_001_u32).map(|at| ((at * 31) >> 5) as u8).collect();
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&content).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let pool = ThreadPool::start(&PoolSpec { name: "direct".to_owned(), threads: 1, max_queue: 8 }).unwrap();
        let files = FileSystem::new(pool.clone()).unwrap();
        let aio = Aio::Threads(pool);
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let via = Via { aio: &aio, client: 1, gone: None };
            let shared = files.open(&name, via).await.unwrap();
            let Some(direct) = files.open_direct(&shared, 1000, via).await.unwrap() else {
                // The file system does not support it (tmpfs before Linux 6.6).
                return;
            };
            assert_eq!(direct.alignment, 1024);
            assert!(rustix::fs::fcntl_getfl(direct.file()).unwrap().contains(OFlags::DIRECT));
            assert!(!rustix::fs::fcntl_getfl(&*shared).unwrap().contains(OFlags::DIRECT), "others read as they did");
            for (offset, len) in [(0, 1), (0, 4096), (511, 1025), (4096, 8192), (299_999, 100), (123_457, 100_000)] {
                let read = files.read_direct(&direct, offset, len, via).await.unwrap();
                let offset = offset as usize;
                assert!(read == content[offset..(offset + len).min(content.len())], "{offset} {len}");
            }
            assert!(files.read_direct(&direct, 300_001, 10, via).await.unwrap().is_empty());
            assert!(files.read_direct(&direct, 400_000, 10, via).await.unwrap().is_empty());
            // Old kernels, and filters, cannot be asked; a file system in memory is the cache itself.
            let in_memory = rustix::fs::fstatfs(direct.file()).unwrap().f_type == 0x0102_1994;
            if !in_memory && let Ok(cached) = files.kernel.cached(direct.file().as_fd(), 0, 300_001) {
                assert_eq!(cached, 0);
            }
        });
        std::fs::remove_file(&path).unwrap();
    }
}
