//! The bytes of a response that a client has not taken yet and that exceed memory: a temporary file that the thread
//! pool writes.
//!
//! Pieces go in at one end and come out at the other. The pieces at the end of the queue are in memory until they are
//! written; after the file has been read, they are taken from memory, written or not.

use std::ffi::CString;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use freerun_http::request::response::{FileRange, LocalBoxFuture};
use freerun_runtime::files::{Aio, FileError, FileSystem, OpenFile, TempFile, Via, nameless_path};

use crate::client::pieces::PieceQueue;
use crate::client::write_turns;
use crate::client::write_turns::{Turn, Turns};

/// The most bytes that are read from the file at a time.
pub const MAX_READ: usize = 64 * 1024;

/// The place for temporary files, and the way they are made.
#[derive(Clone)]
pub struct SpoolPlace {
    /// The file operations.
    pub files: Arc<FileSystem>,
    /// The way in which files are accessed.
    pub aio: Aio,
    /// The key of the client that the files are for.
    pub client: u64,
    /// The folder of the files.
    pub folder: CString,
    /// The most bytes that a file may have.
    pub max: u64,
    /// Number of bytes that are read from the file at a time, at most [`MAX_READ`]: they stay in memory while the
    /// client takes them.
    pub read: usize,
}

type SpoolOutcome = (Option<TempFile>, Result<(), FileError>);

/// The bytes that a pool thread writes, with the turn for that.
struct SpoolWrite {
    data: Bytes,
    _turn: Turn,
}

impl AsRef<[u8]> for SpoolWrite {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// The queue.
pub struct Spool {
    place: SpoolPlace,
    turns: Turns,
    /// The file, while no write is running.
    temp: Option<TempFile>,
    /// The open file for reading.
    file: Option<Arc<OpenFile>>,
    writing: Option<LocalBoxFuture<'static, SpoolOutcome>>,
    /// The number of bytes in the file.
    len: u64,
    /// The number of bytes in the file that were taken.
    read: u64,
    /// Number of taken bytes that are on their way from the file to the client.
    leaving: u64,
    tail: PieceQueue,
    /// The number of bytes that are being written, counted from the beginning of `tail` as it was when the write began.
    in_flight: usize,
    /// Number of bytes that are being written and were taken already.
    overtaken: usize,
    /// Whether writing has failed: no more writes are made.
    failed: bool,
}

impl Spool {
    /// An empty queue without a file.
    pub fn new(place: SpoolPlace) -> Spool {
        let turns = write_turns::of(place.files.tag_of(&place.folder, place.client).mount);
        Spool {
            place,
            turns,
            temp: None,
            file: None,
            writing: None,
            len: 0,
            read: 0,
            leaving: 0,
            tail: PieceQueue::default(),
            in_flight: 0,
            overtaken: 0,
            failed: false,
        }
    }

    /// Asserts what holds between two calls.
    fn check_invariants(&self) {
        debug_assert!(self.leaving <= self.read && self.read <= self.len, "more is taken than was written");
        debug_assert!(self.overtaken <= self.in_flight, "more is taken than is being written");
        debug_assert!(self.writing.is_some() || self.in_flight == 0, "nobody writes {} bytes", self.in_flight);
        debug_assert!(self.file.is_some() || self.len == 0, "{} bytes are in no file", self.len);
    }

    /// The number of bytes that are in memory.
    pub fn in_memory(&self) -> usize {
        self.tail.bytes()
    }

    /// The number of bytes in the queue.
    pub fn bytes(&self) -> u64 {
        self.len - self.read + self.tail.bytes() as u64
    }

    /// The number of bytes in the file that the client has not taken.
    pub fn in_file(&self) -> u64 {
        self.len - self.read + self.leaving
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Whether this number of bytes more can be written after those at hand.
    pub fn takes_more(&self, bytes: usize) -> bool {
        let used = if self.in_file() == 0 { 0 } else { self.len };
        !self.failed && used + (self.tail.bytes() + self.overtaken + bytes) as u64 <= self.place.max
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: Bytes) {
        self.tail.push(piece);
    }

    /// Whether a write is running.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// The file's path in logs, once something was written to it.
    pub fn file_path(&self) -> Option<Vec<u8>> {
        self.file.as_ref().map(|file| nameless_path(&self.place.folder, file))
    }

    /// The turns for writing to the folder's file system: a writer waits for one.
    pub fn turns(&self) -> Turns {
        self.turns.clone()
    }

    /// Begins to write the bytes in memory, unless a write is running. The turn ends with the write, whether or not a
    /// task waits for it.
    pub fn write(&mut self, turn: Turn) {
        if self.writing.is_some() || self.tail.is_empty() || self.failed {
            return;
        }
        if self.len > 0 && self.in_file() == 0 && self.len + self.tail.bytes() as u64 > self.place.max {
            // The bytes in the file have been taken: a new file begins.
            (self.temp, self.file, self.len, self.read) = (None, None, 0, 0);
        }
        let data = SpoolWrite { data: self.tail.as_one(), _turn: turn };
        self.in_flight = data.data.len();
        self.overtaken = 0;
        let (place, temp) = (self.place.clone(), self.temp.take());
        self.writing = Some(Box::pin(async move {
            let via = Via { aio: &place.aio, client: place.client, gone: None };
            let Some(mut temp) = temp else {
                return match place.files.create_temp_with(&place.folder, data, via).await {
                    Ok(temp) => (Some(temp), Ok(())),
                    Err(error) => (None, Err(error)),
                };
            };
            let result = temp.append(data, via).await;
            (Some(temp), result)
        }));
        self.check_invariants();
    }

    /// Waits until the current write has ended.
    ///
    /// # Errors
    /// The write failed: no bytes are lost, but no more will be written.
    pub async fn written(&mut self) -> Result<(), FileError> {
        poll_fn(|context| self.poll_written(context)).await
    }

    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<Result<(), FileError>> {
        let Some(writing) = &mut self.writing else { return Poll::Ready(Ok(())) };
        let Poll::Ready((temp, result)) = writing.as_mut().poll(context) else { return Poll::Pending };
        self.writing = None;
        let (in_flight, overtaken) = (std::mem::take(&mut self.in_flight), std::mem::take(&mut self.overtaken));
        match result {
            Ok(()) => {
                if let Some(temp) = &temp {
                    self.file.get_or_insert_with(|| temp.file().clone());
                }
                self.temp = temp;
                let mut left = in_flight - overtaken;
                while left > 0
                    && let Some(piece) = self.tail.pop()
                {
                    left = left.saturating_sub(piece.len());
                }
                self.len += in_flight as u64;
                self.read += overtaken as u64;
            }
            // The file stays for the bytes that are in it.
            Err(_) => self.failed = true,
        }
        self.check_invariants();
        Poll::Ready(result)
    }

    /// Takes the bytes in the file, if they come next, to be sent from there. The sending is over when the next bytes
    /// are taken.
    pub fn take_in_file(&mut self) -> Option<FileRange> {
        self.leaving = 0;
        let file = self.file.as_ref().filter(|_| self.read < self.len)?;
        let range = FileRange { file: file.clone(), offset: self.read, len: self.len - self.read };
        (self.read, self.leaving) = (self.len, range.len);
        Some(range)
    }

    /// Takes the next piece; `None` when the queue is empty.
    ///
    /// # Errors
    /// The file could not be read.
    pub async fn take(&mut self) -> Result<Option<Bytes>, FileError> {
        self.leaving = 0;
        if self.read < self.len
            && let Some(file) = &self.file
        {
            let SpoolPlace { files, aio, client, read, .. } = &self.place;
            let via = Via { aio, client: *client, gone: None };
            let most = (*read).clamp(1, MAX_READ);
            let wanted = usize::try_from(self.len - self.read).map_or(most, |left| left.min(most));
            let read = match files.read_at(file, self.read, wanted, BytesMut::new(), via).await {
                Ok(piece) if piece.len() < wanted => {
                    Err(FileError::System { call: "pread()", errno: rustix::io::Errno::IO.raw_os_error() })
                }
                read => read,
            };
            let piece = read.map_err(|error| error.at(|| nameless_path(&self.place.folder, file)))?.freeze();
            self.read += piece.len() as u64;
            return Ok(Some(piece));
        }
        let Some(piece) = self.tail.pop() else { return Ok(None) };
        if self.in_flight > self.overtaken {
            self.overtaken += piece.len();
        }
        self.check_invariants();
        Ok(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_runtime::pool::{PoolSpec, ThreadPool};

    fn spool(folder: &str, max: u64) -> Spool {
        let spec = PoolSpec { name: "spool".to_owned(), threads: 1, max_queue: 8 };
        let pool = ThreadPool::start(&spec).unwrap();
        let files = FileSystem::new(pool.clone()).unwrap();
        Spool::new(SpoolPlace {
            files,
            aio: Aio::Auto(pool),
            client: 1,
            folder: CString::new(folder).unwrap(),
            max,
            read: MAX_READ,
        })
    }

    fn temp() -> String {
        std::env::temp_dir().to_str().unwrap().to_owned()
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn piece(number: u8) -> Bytes {
        vec![number; 1000 + usize::from(number)].into()
    }

    async fn drain(spool: &mut Spool) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = spool.take().await.unwrap() {
            all.extend_from_slice(&piece);
        }
        all
    }

    /// The bytes in the file, read from there as they would be sent.
    fn take_in_file(spool: &mut Spool) -> Vec<u8> {
        let Some(range) = spool.take_in_file() else { return Vec::new() };
        let mut bytes = vec![0; range.len as usize];
        let read = rustix::io::pread(&*range.file, &mut bytes, range.offset).unwrap();
        assert_eq!((read as u64, range.file.size()), (range.len, range.offset + range.len));
        bytes
    }

    #[test]
    fn pieces_come_out_in_order_whatever_was_written_before_they_were_taken() {
        // Each number says what happens after a piece was put in: write, take a piece from memory or the file, take the
        // bytes in the file, wait for the current write.
        let place = spool(&temp(), 1 << 30).place;
        for plan in 0..4096u32 {
            run(async {
                let mut spool = Spool::new(place.clone());
                let (mut put, mut got) = (Vec::new(), Vec::new());
                for number in 0..3u8 {
                    spool.push(piece(number));
                    put.extend_from_slice(&piece(number));
                    let steps = plan >> (4 * number);
                    if steps & 1 != 0 {
                        spool.write(spool.turns().next().await);
                    }
                    if steps & 2 != 0 {
                        got.extend_from_slice(&spool.take().await.unwrap().unwrap_or_default());
                    }
                    if steps & 4 != 0 {
                        spool.written().await.unwrap();
                    }
                    if steps & 8 != 0 {
                        got.extend(take_in_file(&mut spool));
                    }
                    assert_eq!(spool.bytes(), (put.len() - got.len()) as u64, "{plan:x}");
                }
                got.extend(take_in_file(&mut spool));
                got.extend(drain(&mut spool).await);
                assert_eq!(got, put, "{plan:x}");
                spool.written().await.unwrap();
                assert!(spool.is_empty() && spool.in_memory() == 0 && spool.in_file() == 0, "{plan:x}");
            });
        }
    }

    #[test]
    fn a_file_that_is_being_sent_counts_until_something_is_taken_again() {
        run(async {
            let mut spool = spool(&temp(), 3000);
            spool.push(piece(1));
            spool.write(spool.turns().next().await);
            spool.written().await.unwrap();
            assert_eq!(take_in_file(&mut spool), piece(1));
            assert!(spool.is_empty() && spool.in_file() == 1001 && !spool.takes_more(2000));
            spool.push(piece(2));
            spool.write(spool.turns().next().await);
            spool.written().await.unwrap();
            // It was written behind the bytes that are being sent, not into another file.
            assert_eq!((spool.in_file(), spool.len), (1001 + 1002, 1001 + 1002));
            assert_eq!(drain(&mut spool).await, piece(2));
            assert!(spool.in_file() == 0 && spool.takes_more(3000));
        });
    }

    #[test]
    fn what_cannot_be_written_is_not_lost() {
        run(async {
            let mut spool = spool("/nonexistent", 1 << 30);
            spool.push(piece(1));
            spool.write(spool.turns().next().await);
            spool.push(piece(2));
            assert!(spool.written().await.is_err());
            assert!(!spool.takes_more(1));
            assert_eq!(drain(&mut spool).await, [piece(1), piece(2)].concat());
        });
    }

    #[test]
    fn a_file_that_was_read_up_gives_way_to_a_new_one() {
        run(async {
            let max = 3000;
            let mut spool = spool(&temp(), max);
            for number in 1..100 {
                assert!(spool.takes_more(2000));
                spool.push(piece(number));
                spool.write(spool.turns().next().await);
                spool.written().await.unwrap();
                assert!(spool.len <= max);
                assert_eq!(drain(&mut spool).await, piece(number));
            }
        });
    }
}
