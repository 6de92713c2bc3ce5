//! Sending files to sockets: by `sendfile(2)`, or by copying if its probes are not enough or the caller wants it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::open::retried;
use super::probe::{Ahead, Cursor};
use super::types::{Aio, FileError, OpenFile, Trouble, Via};
use super::{FileSystem, to_ms};
use crate::mounts::{Class, Rung};

/// The most bytes that are sent in one go on the loop: other connections have to get their turn.
pub const INLINE_MAX: u64 = 2 << 20;
/// The most bytes that one task of the pool reads and sends: large enough for a disk to stream, small enough for other
/// tasks to get their turn.
pub const POOL_CHUNK: u64 = 1 << 20;

const SENDFILE: &str = "sendfile()";

/// The result of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendResult {
    /// A number of bytes (more than 0) that went out; go on after them.
    Bytes(u64),
    /// The socket takes nothing now: wait until it is writable.
    SocketFull,
    /// The bytes are not in memory: call [`FileSystem::send_pooled`].
    NeedsPool,
    /// The file ends here, although more was asked for: it became shorter. The response must be cut short.
    Eof,
}

impl FileSystem {
    /// Sends as many of `max` (more than 0) bytes at `offset` as can be sent without waiting, to a non-blocking socket.
    /// `cursor` belongs to this response body: it remembers the results of the probes, and whether the bytes are copied.
    ///
    /// # Errors
    /// The error of `sendfile(2)`, `pread(2)` or `send(2)`, about the socket ([`FileError::is_peer`]) or the file.
    pub fn send_now(
        &self,
        file: &OpenFile,
        cursor: &mut Cursor,
        out: BorrowedFd<'_>,
        offset: u64,
        max: u64,
        aio: &Aio,
    ) -> Result<SendResult, FileError> {
        let began = self.begin(Some(&file.mount));
        let (now, max) = (to_ms(began.at), max.min(INLINE_MAX));
        let ahead = match aio {
            Aio::Always(_) => return Ok(SendResult::NeedsPool),
            Aio::Off if cursor.copies => return self.copy_waiting(file, out, offset, max),
            Aio::Off => return self.sendfile(file, out, offset, max),
            _ if file.is_atime_due(now) => return Ok(SendResult::NeedsPool),
            // A copy checks each page by itself.
            _ if cursor.copies && file.mount.rung(now) == Rung::Nowait => Ahead::Unsure,
            Aio::Auto(_) | Aio::Threads(_) => self.ahead(file, cursor, offset, max, now),
        };
        let sent = match ahead {
            Ahead::Ready(ready) if cursor.copies => self.copy_waiting(file, out, offset, ready),
            Ahead::Ready(ready) => self.sendfile(file, out, offset, ready),
            Ahead::Unsure => self.copy(file, cursor, out, offset, max, now),
            Ahead::Pool => Ok(SendResult::NeedsPool),
        };
        // The time of the probes counts too: they should not wait either, but a miss starts a read, and that can wait.
        if self.timed(&file.mount, began) {
            cursor.clear();
            self.distrust(file, offset, offset + max);
        }
        if let Ok(SendResult::Bytes(_)) = sent {
            file.mount.hits.add();
        }
        sent
    }

    /// Number of `len` bytes at `offset` that [`send_now`](Self::send_now) could send without waiting, as far as is
    /// known now.
    pub fn sendable(&self, file: &OpenFile, cursor: &mut Cursor, offset: u64, len: u64, aio: &Aio) -> u64 {
        let began = self.begin(Some(&file.mount));
        let now = to_ms(began.at);
        let ready = match aio {
            Aio::Always(_) => 0,
            Aio::Off => len,
            _ if file.is_atime_due(now) => 0,
            Aio::Auto(_) | Aio::Threads(_) => match self.ahead(file, cursor, offset, len, now) {
                Ahead::Ready(ready) => ready.min(len),
                Ahead::Unsure | Ahead::Pool => 0,
            },
        };
        // The probes should not wait, but a miss starts a read, and that can.
        if self.timed(&file.mount, began) {
            cursor.clear();
        }
        ready
    }

    /// Reads up to [`POOL_CHUNK`] bytes from the disk and sends them to a non-blocking socket, on a pool thread; never
    /// answers [`SendResult::NeedsPool`]. At most `max` (more than 0) bytes at `offset`.
    ///
    /// When this future is dropped, a thread may still be sending: close the connection then, and do not use it again.
    ///
    /// # Errors
    /// The errors of [`send_now`](Self::send_now), or of the pool.
    pub async fn send_pooled(
        self: &Arc<Self>,
        file: &Arc<OpenFile>,
        cursor: &mut Cursor,
        out: Arc<OwnedFd>,
        offset: u64,
        max: u64,
        via: Via<'_>,
    ) -> Result<SendResult, FileError> {
        let (this, held, copies) = (self.clone(), file.clone(), cursor.copies);
        file.mount.pooled.add();
        cursor.clear();
        let send = move || this.send_waiting(&held, copies, out.as_fd(), offset, max);
        self.offload(via, file.tag(via.client), send).await?
    }

    /// Asks the kernel for a whole chunk, then sends it piece by piece as it arrives, on a pool thread. The response
    /// needs `wanted` bytes altogether.
    fn send_waiting(
        &self,
        file: &OpenFile,
        copies: bool,
        out: BorrowedFd<'_>,
        offset: u64,
        wanted: u64,
    ) -> Result<SendResult, FileError> {
        let chunk = wanted.min(POOL_CHUNK);
        let work = file.mount.begin();
        if file.mount.class() != Class::Memory {
            self.read_ahead(file, offset, chunk, wanted);
            work.moved();
        }
        let mut sent = 0;
        loop {
            let (at, left) = (offset + sent, chunk - sent);
            let outcome =
                if copies { self.copy_waiting(file, out, at, left) } else { self.sendfile(file, out, at, left) };
            match outcome {
                Ok(SendResult::Bytes(n)) => {
                    sent += n;
                    work.moved();
                    self.read_has_waited(file);
                    if sent >= chunk {
                        return Ok(SendResult::Bytes(sent));
                    }
                }
                // The next call finds out again what comes after these bytes.
                _ if sent > 0 => return Ok(SendResult::Bytes(sent)),
                outcome => return outcome,
            }
        }
    }

    fn sendfile(&self, file: &OpenFile, out: BorrowedFd<'_>, offset: u64, len: u64) -> Result<SendResult, FileError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        match retried(|| self.kernel.sendfile(out, file.as_fd(), offset, len)) {
            Ok(0) => {
                if offset < file.size() {
                    file.trouble(Trouble::Short);
                }
                Ok(SendResult::Eof)
            }
            Ok(n) => Ok(SendResult::Bytes(n as u64)),
            Err(Errno::AGAIN) => Ok(SendResult::SocketFull),
            Err(error) => {
                let error = FileError::new(SENDFILE, error);
                if !error.is_peer() {
                    file.trouble(Trouble::Failed(&error));
                }
                Err(error)
            }
        }
    }
}
