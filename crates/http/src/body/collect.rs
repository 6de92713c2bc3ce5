//! The collection of a request body: in memory up to `client_body_buffer_size`, beyond that in a temporary file. The
//! thread pool writes the file, so that neither a large body nor a slow or full disk stops the loop.

use std::cell::RefCell;
use std::ffi::CString;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use freerun_runtime::files::{Aio, FileError, FileSystem, TempFile, Via};
use std::sync::Arc;

/// Number of bytes that are gathered before one task of the thread pool writes them to the file.
const WRITE: usize = 64 * 1024;

/// Parameters of the file for a body.
pub struct Spool {
    /// The folder that the file is made in.
    pub directory: CString,
    /// The digits of each level of folders below it, for files that have names.
    pub levels: Vec<u8>,
    /// Whether every body goes to a file, which then has a name.
    pub file_only: bool,
    /// Whether the file stays after the request.
    pub keep: bool,
}

/// The body of a request after it was read, for variables and for handlers that run after its reader. The client's
/// request and its subrequests share it.
#[derive(Default)]
pub struct KeptBody(pub RefCell<Option<Rc<CollectedBody>>>);

/// A body that was read to its end.
#[derive(Debug)]
pub enum CollectedBody {
    /// The body fits the buffer.
    Memory(Bytes),
    /// The body is in a temporary file without a name.
    File(TempFile),
}

/// Gathers the pieces of a body.
pub struct Collector {
    files: Arc<FileSystem>,
    aio: Aio,
    client: u64,
    spool: Spool,
    /// Up to this many bytes stay in memory.
    in_memory: usize,
    gathered: BytesMut,
    file: Option<TempFile>,
}

impl Collector {
    /// A collector for one body. `spool` says how its file would be made.
    pub fn new(files: Arc<FileSystem>, aio: Aio, client: u64, spool: Spool, in_memory: usize) -> Collector {
        Collector { files, aio, client, spool, in_memory, gathered: BytesMut::new(), file: None }
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
            None => {
                let Spool { directory, levels, file_only, keep } = &self.spool;
                let made = if *file_only {
                    self.files.create_named_temp(directory, levels, *keep, via).await?
                } else {
                    self.files.create_temp(directory, via).await?
                };
                self.file.insert(made)
            }
        };
        file.append(self.gathered.split().freeze(), via).await
    }

    /// The path of the body's file for logs, once there is one.
    pub fn file_path(&self) -> Option<Vec<u8>> {
        self.file.as_ref().map(TempFile::shown_path)
    }

    /// Completes the body after its last piece.
    ///
    /// # Errors
    /// The errors of [`Collector::push`].
    pub async fn finish(mut self) -> Result<CollectedBody, FileError> {
        if self.spool.file_only && self.file.is_none() || self.file.is_some() && !self.gathered.is_empty() {
            self.spill().await?;
        }
        Ok(match self.file {
            Some(file) => CollectedBody::File(file),
            None => CollectedBody::Memory(self.gathered.freeze()),
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
        let spool = Spool { directory, levels: Vec::new(), file_only: false, keep: false };
        Collector::new(files, Aio::Auto(pool), 1, spool, in_memory)
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
            let CollectedBody::Memory(body) = collector.finish().await.unwrap() else { panic!("a file") };
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
            let CollectedBody::File(file) = collector.finish().await.unwrap() else { panic!("in memory") };
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

    #[test]
    fn every_body_goes_to_a_file_with_a_name_where_that_is_asked() {
        let folder = std::env::temp_dir().join(format!("freerun-collect-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        run(async {
            let mut collector = collector(&folder, 10);
            collector.spool = Spool { levels: vec![1, 2], file_only: true, keep: true, ..collector.spool };
            collector.push(b"abc").await.unwrap();
            let CollectedBody::File(file) = collector.finish().await.unwrap() else { panic!("in memory") };
            let path = std::path::PathBuf::from(file.path().unwrap().to_str().unwrap());
            drop(file);
            assert_eq!(std::fs::read(&path).unwrap(), b"abc");
            let below = path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
            let digits = below.rsplit('/').next().unwrap();
            let (rest, last) = digits.split_at(digits.len() - 1);
            assert_eq!(below, format!("{last}/{}/{digits}", &rest[rest.len() - 2..]));
        });
        std::fs::remove_dir_all(folder).unwrap();
    }
}
