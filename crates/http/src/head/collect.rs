//! Keeping a request body: in memory up to `client_body_buffer_size`, beyond that in a temporary file that is written in
//! the pool, so that neither a large body nor a slow or full disk stops the loop.

use std::ffi::CString;

use bytes::{Bytes, BytesMut};
use freerun_runtime::files::{Aio, FileError, FileSystem, TempFile, Via};
use std::sync::Arc;

/// How many bytes are gathered before they are written to the file: one task of the pool each.
const WRITE: usize = 64 * 1024;

/// A body that was read to its end.
#[derive(Debug)]
pub enum Collected {
    /// It fits the buffer.
    Memory(Bytes),
    /// It is in a temporary file without a name.
    File(TempFile),
}

/// Gathers the pieces of a body.
pub struct Collector {
    files: Arc<FileSystem>,
    aio: Aio,
    client: u64,
    directory: CString,
    /// Up to this many bytes stay in memory.
    in_memory: usize,
    gathered: BytesMut,
    file: Option<TempFile>,
}

impl Collector {
    /// For one body. `directory` is where its file would be made.
    pub fn new(files: Arc<FileSystem>, aio: Aio, client: u64, directory: CString, in_memory: usize) -> Collector {
        Collector { files, aio, client, directory, in_memory, gathered: BytesMut::new(), file: None }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// The file cannot be made or written: a full disk (`ENOSPC`), a missing folder, a full pool.
    pub async fn push(&mut self, piece: &[u8]) -> Result<(), FileError> {
        self.gathered.extend_from_slice(piece);
        let limit = if self.file.is_some() { WRITE } else { self.in_memory };
        if self.gathered.len() > limit { self.spill().await } else { Ok(()) }
    }

    async fn spill(&mut self) -> Result<(), FileError> {
        let via = Via { aio: &self.aio, client: self.client, gone: None };
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(self.files.create_temp(&self.directory, via).await?),
        };
        file.append(self.gathered.split().freeze(), via).await
    }

    /// All pieces have been taken.
    ///
    /// # Errors
    /// As [`Collector::push`].
    pub async fn finish(mut self) -> Result<Collected, FileError> {
        if self.file.is_some() && !self.gathered.is_empty() {
            self.spill().await?;
        }
        Ok(match self.file {
            Some(file) => Collected::File(file),
            None => Collected::Memory(self.gathered.freeze()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_runtime::pool::{PoolSpec, ThreadPool};
    use std::os::fd::AsFd;

    fn collector(directory: &std::path::Path, in_memory: usize) -> Collector {
        let spec = PoolSpec { name: "bodies".to_owned(), threads: 1, max_queue: 8 };
        let pool = ThreadPool::start(&spec).unwrap();
        let files = FileSystem::new(pool.clone()).unwrap();
        let directory = CString::new(directory.to_str().unwrap()).unwrap();
        Collector::new(files, Aio::Auto(pool), 1, directory, in_memory)
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn a_small_body_stays_in_memory() {
        run(async {
            let mut collector = collector(std::path::Path::new("/nonexistent"), 10);
            collector.push(b"01234").await.unwrap();
            collector.push(b"56789").await.unwrap();
            let Collected::Memory(body) = collector.finish().await.unwrap() else { panic!("a file") };
            assert_eq!(&body[..], b"0123456789");
        });
    }

    #[test]
    fn a_large_body_goes_to_a_file_whole() {
        run(async {
            let mut collector = collector(&std::env::temp_dir(), 10);
            let piece: Vec<u8> = (0..=255).cycle().take(50_000).collect();
            for _ in 0..5 {
                collector.push(&piece).await.unwrap();
            }
            let Collected::File(file) = collector.finish().await.unwrap() else { panic!("in memory") };
            assert_eq!(file.len(), 250_000);
            let file = file.into_file();
            let mut back = vec![0; 250_000];
            let mut done = 0;
            while done < back.len() {
                done += rustix::io::pread(file.as_fd(), &mut back[done..], done as u64).unwrap();
            }
            assert_eq!(back, piece.repeat(5));
        });
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_and_no_panic() {
        run(async {
            let mut collector = collector(std::path::Path::new("/nonexistent"), 1);
            let error = collector.push(b"too long").await.unwrap_err();
            assert_eq!(error.errno(), Some(rustix::io::Errno::NOENT.raw_os_error()));
        });
    }
}
