//! Sending files to sockets through memory: where it is uncertain whether the page cache has them, and where no byte
//! may be sent that was not read.
//!
//! `preadv2(2)` with `RWF_NOWAIT` checks and copies in one step. Between a probe of each page and the `sendfile(2)`
//! that follows, a page can leave the page cache. When many files compete for it, some do, and the loop waits for the
//! disk. Both ways cost the same processor time.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;

use freerun_sys::mincore::page_size;
use freerun_sys::socket::send_room;
use rustix::io::Errno;

use super::FileSystem;
use super::open::retried;
use super::probe::Cursor;
use super::send::SendResult;
use super::types::{FileError, OpenFile};

/// The most bytes that are copied at once: they stay in the processor's own cache between the two steps.
pub const COPIED_MAX: u64 = 256 << 10;
/// The same, as the size of a buffer.
const PIECE: usize = COPIED_MAX as usize;
/// The least that is copied at once, however little room the socket reports: it may take more, and if it takes nothing,
/// that has to be found out.
const LEAST: usize = 16 << 10;

const SEND: &str = "send()";

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl FileSystem {
    /// Sends the part that is in memory of `max` bytes at `offset`, by way of a buffer of this thread. Bytes that the
    /// socket does not take are read again: they are not kept.
    pub(super) fn copy(
        &self,
        file: &OpenFile,
        cursor: &mut Cursor,
        out: BorrowedFd<'_>,
        offset: u64,
        max: u64,
        now: u64,
    ) -> Result<SendResult, FileError> {
        let read = |buffer: &mut [u8]| Ok(self.take(file, cursor, offset, buffer, now));
        Ok(self.through_buffer(out, max, read)?.unwrap_or(SendResult::NeedsPool))
    }

    /// Sends up to `max` bytes at `offset` by way of a buffer of this thread, with calls that wait if the bytes are not in
    /// memory.
    pub(super) fn copy_waiting(
        &self,
        file: &OpenFile,
        out: BorrowedFd<'_>,
        offset: u64,
        max: u64,
    ) -> Result<SendResult, FileError> {
        let read = |buffer: &mut [u8]| self.read_waiting(file, offset, buffer);
        Ok(self.through_buffer(out, max, read)?.unwrap_or(SendResult::Eof))
    }

    /// Sends what `read` puts at the beginning of a buffer of this thread, which has no more than `max` bytes and about as
    /// many as the socket has room for. `None` if that is nothing.
    fn through_buffer(
        &self,
        out: BorrowedFd<'_>,
        max: u64,
        read: impl FnOnce(&mut [u8]) -> Result<usize, FileError>,
    ) -> Result<Option<SendResult>, FileError> {
        let room = send_room(out).unwrap_or(0).clamp(LEAST, PIECE);
        let len = usize::try_from(max).map_or(room, |max| max.min(room));
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(PIECE, 0);
            let got = read(&mut buffer[..len])?;
            if got == 0 {
                return Ok(None);
            }
            match retried(|| self.kernel.send(out, &buffer[..got])) {
                Ok(sent) => Ok(Some(SendResult::Bytes(sent as u64))),
                Err(Errno::AGAIN) => Ok(Some(SendResult::SocketFull)),
                Err(error) => Err(FileError::new(SEND, error)),
            }
        })
    }

    /// Reads the part that is in memory at `offset`; returns how many bytes that is.
    pub(super) fn take(&self, file: &OpenFile, cursor: &mut Cursor, offset: u64, buffer: &mut [u8], now: u64) -> usize {
        if self.is_surely_cold(file, offset, page_size() as u64) {
            self.missed(file, offset, now);
            return 0;
        }
        let got = self.read_nowait(file, offset, buffer, now).len();
        let until = offset + got as u64;
        if got > 0 {
            self.found_all(file, cursor, offset, until, now);
        }
        if got < buffer.len() && until < file.size() {
            self.distrust(file, until, until + 1);
        }
        got
    }
}
