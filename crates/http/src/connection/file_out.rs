//! Files of responses that the kernel copies into the socket (`sendfile(2)`), for protocols in which a connection's task
//! does so when the turn of the bytes has come.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freerun_runtime::files::{Aio, Cursor, FileError, FileSystem, OpenFile, SendResult, Via};

use crate::files::read_error::ReadError;

/// A file that a response is sent from, with what is known of its pages.
pub struct FileOut {
    files: Arc<FileSystem>,
    file: Arc<OpenFile>,
    aio: Aio,
    /// A number that stands for the client, for sharing a thread pool fairly.
    client: u64,
    cursor: RefCell<Cursor>,
}

impl FileOut {
    /// A file that is sent as `aio` says, for the client that this number stands for.
    pub fn new(files: Arc<FileSystem>, file: Arc<OpenFile>, aio: Aio, client: u64) -> FileOut {
        FileOut { files, file, aio, client, cursor: RefCell::default() }
    }

    /// Number of the `len` bytes at `offset` that could be sent now without waiting.
    pub fn sendable(&self, offset: u64, len: u64) -> u64 {
        self.files.sendable(&self.file, &mut self.cursor.borrow_mut(), offset, len, &self.aio)
    }

    /// Sends as many of `len` bytes at `offset` as can be sent without waiting.
    ///
    /// # Errors
    /// The errors of [`FileSystem::send_now`].
    pub fn send(&self, out: BorrowedFd<'_>, offset: u64, len: u64) -> Result<SendResult, FileError> {
        self.files.send_now(&self.file, &mut self.cursor.borrow_mut(), out, offset, len, &self.aio)
    }

    /// Reads `len` bytes at `offset`, on a thread of the pool if it has to wait for them.
    ///
    /// # Errors
    /// The file could not be read, or is shorter.
    pub fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, ReadError>> + 'static {
        let (files, file, aio, client) = (self.files.clone(), self.file.clone(), self.aio.clone(), self.client);
        async move {
            let via = Via { aio: &aio, client, gone: None };
            let bytes = files.read_at(&file, offset, len, BytesMut::new(), via).await?;
            if bytes.len() < len {
                return Err(ReadError::Truncated);
            }
            Ok(bytes.freeze())
        }
    }
}
