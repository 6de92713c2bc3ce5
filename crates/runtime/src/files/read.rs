//! Reading files to memory.

use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::BytesMut;
use rustix::io::Errno;

use super::open::retried;
use super::probe::Ahead;
use super::types::{Aio, FileError, OpenFile, Trouble, Via};
use super::{FileSystem, to_ms};
use crate::mounts::Rung;

const PREAD: &str = "pread()";
/// The most bytes that are read at once without a pool thread, even if they are in memory: copying takes time as well.
const READ_INLINE: usize = 1 << 20;

impl FileSystem {
    /// Fills `buffer` from `offset` on if that cannot wait; `None` if it might (the buffer's contents are then of no
    /// use). Fewer bytes than the buffer holds mean that the file ends there.
    pub fn try_read_now(
        &self,
        file: &OpenFile,
        offset: u64,
        buffer: &mut [u8],
        aio: &Aio,
    ) -> Option<Result<usize, FileError>> {
        match aio {
            Aio::Off => return Some(self.read_waiting(file, offset, buffer)),
            Aio::Always(_) => return None,
            Aio::Auto(_) | Aio::Threads(_) => {}
        }
        match self.read_ready(file, offset, buffer) {
            ReadyRead::Whole(n) => Some(Ok(n)),
            ReadyRead::Part(_) => None,
        }
    }

    /// Appends up to `len` bytes from `offset` on to `buffer`; fewer only at the end of the file. The buffer is lost
    /// when it fails.
    ///
    /// # Errors
    /// The error of `pread(2)`, or of the pool.
    pub async fn read_at(
        self: &Arc<Self>,
        file: &Arc<OpenFile>,
        offset: u64,
        len: usize,
        mut buffer: BytesMut,
        via: Via<'_>,
    ) -> Result<BytesMut, FileError> {
        let start = buffer.len();
        if len > READ_INLINE && !matches!(via.aio, Aio::Off) {
            file.mount.pooled.add();
            let (this, held) = (self.clone(), file.clone());
            let all = move || {
                let _work = held.mount.begin();
                buffer.resize(start + len, 0);
                let n = this.read_waiting(&held, offset, &mut buffer[start..])?;
                buffer.truncate(start + n);
                Ok(buffer)
            };
            return self.offload(via, file.tag(via.client), all).await?;
        }
        buffer.resize(start + len, 0);
        let got = match via.aio {
            Aio::Off => {
                let n = self.read_waiting(file, offset, &mut buffer[start..])?;
                buffer.truncate(start + n);
                return Ok(buffer);
            }
            Aio::Always(_) => 0,
            Aio::Auto(_) | Aio::Threads(_) => match self.read_ready(file, offset, &mut buffer[start..]) {
                ReadyRead::Whole(n) => {
                    buffer.truncate(start + n);
                    return Ok(buffer);
                }
                ReadyRead::Part(n) => n,
            },
        };
        file.mount.pooled.add();
        let (this, held) = (self.clone(), file.clone());
        let rest = move || {
            let _work = held.mount.begin();
            let n = this.read_waiting(&held, offset + got as u64, &mut buffer[start + got..])?;
            buffer.truncate(start + got + n);
            Ok(buffer)
        };
        self.offload(via, file.tag(via.client), rest).await?
    }

    fn read_ready(&self, file: &OpenFile, offset: u64, buffer: &mut [u8]) -> ReadyRead {
        let began = self.begin(Some(&file.mount));
        let now = to_ms(began.at);
        let answer = match file.mount.rung(now) {
            _ if file.is_atime_due(now) => ReadyRead::Part(0),
            Rung::Memory => match self.read_waiting(file, offset, buffer) {
                Ok(n) => ReadyRead::Whole(n),
                Err(_) => ReadyRead::Part(0),
            },
            Rung::Nowait => self.read_nowait(file, offset, buffer, now),
            Rung::Mincore => {
                let mut cursor = super::Cursor::default();
                let wanted = (buffer.len() as u64).min(file.size().saturating_sub(offset));
                if wanted > 0 && self.ahead(file, &mut cursor, offset, wanted, now) == Ahead::Ready(wanted) {
                    match self.read_waiting(file, offset, &mut buffer[..wanted as usize]) {
                        Ok(n) if n as u64 == wanted => ReadyRead::Whole(n),
                        _ => ReadyRead::Part(0),
                    }
                } else {
                    ReadyRead::Part(0)
                }
            }
            Rung::Pool => ReadyRead::Part(0),
        };
        self.timed(&file.mount, began);
        if let ReadyRead::Whole(_) = answer {
            file.mount.hits.add();
        }
        answer
    }

    /// Reads the part that is in memory, on mounts on [`Rung::Nowait`].
    pub(super) fn read_nowait(&self, file: &OpenFile, offset: u64, buffer: &mut [u8], now: u64) -> ReadyRead {
        let mut got = 0;
        while got < buffer.len() {
            match self.kernel.read_nowait(file.as_fd(), &mut buffer[got..], offset + got as u64) {
                Ok(0) if offset + got as u64 >= file.size() => return ReadyRead::Whole(got),
                Ok(0) => return ReadyRead::Part(got),
                Ok(n) => {
                    got += n;
                    // The file had no more bytes when it was opened, and the kernel has returned fewer than asked for.
                    if got < buffer.len() && offset + got as u64 == file.size() {
                        return ReadyRead::Whole(got);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    file.mount.missed(now);
                    return ReadyRead::Part(got);
                }
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::INVAL) => {
                    file.mount.step_down(Rung::Nowait);
                    return ReadyRead::Part(got);
                }
                Err(_) => return ReadyRead::Part(got),
            }
        }
        ReadyRead::Whole(got)
    }

    pub(super) fn read_waiting(&self, file: &OpenFile, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let mut got = 0;
        while got < buffer.len() {
            let read = retried(|| self.kernel.read(file.as_fd(), &mut buffer[got..], offset + got as u64));
            match read.map_err(|error| FileError::new(PREAD, error)) {
                Ok(0) => {
                    if offset + (got as u64) < file.size() {
                        file.trouble(Trouble::Short);
                    }
                    break;
                }
                Ok(n) => {
                    got += n;
                    self.read_has_waited(file);
                }
                Err(error) => {
                    file.trouble(Trouble::Failed(&error));
                    return Err(error);
                }
            }
        }
        Ok(got)
    }
}

pub(super) enum ReadyRead {
    /// All the bytes that were asked for, or all that the file has.
    Whole(usize),
    /// A number of bytes that were read; the rest is not in memory.
    Part(usize),
}

impl ReadyRead {
    pub(super) fn len(&self) -> usize {
        let (ReadyRead::Whole(n) | ReadyRead::Part(n)) = self;
        *n
    }
}
