//! The body of a response on its way from the upstream server to the client. It is read as fast as the client takes it;
//! with buffering it is read ahead, into memory and then into a temporary file.

use std::collections::VecDeque;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::request::response::{BodySource, FileRange, LocalBoxFuture, SourceError};
use freerun_runtime::deadline::Deadline;
use freerun_runtime::log::Level;
use freerun_runtime::loops;

use crate::client::error::TryStage;
use crate::client::pieces::PieceQueue;
use crate::client::reader::{BodyReader, BrokenBody, ReadReadiness};
use crate::client::response::Front;
use crate::client::spool::{Spool, SpoolPlace};
use crate::client::write_turns::Turn;

/// The most bytes of one read when the client keeps up: a body of 4 MB costs a fifth less than with half of it.
const READ: usize = 256 * 1024;

/// The longest wait for the end of a response after its whole body was delivered. Usually it comes with the body. An
/// application that works on after its output delays no client, and gets a new connection the next time.
const ENDING: Duration = Duration::from_secs(1);

/// The most bytes of one read at first, without buffering.
const UNBUFFERED: usize = 64 * 1024;

/// The most bytes that are read for the file in one turn: each turn wakes a thread of the pool, which then wakes the
/// loop.
const AT_A_TIME: usize = 64 * 1024;

/// The limits of buffering, and its file.
pub struct Buffering {
    /// The most bytes in memory.
    pub memory: usize,
    /// The number of bytes that are written to the file at a time.
    pub write: usize,
    /// The place of the file, if there may be one.
    pub place: Option<SpoolPlace>,
}

/// A body in flow from server to client.
pub struct Flow {
    /// The reader; it is `None` only in `drop`.
    reader: Option<BodyReader>,
    /// The pieces that have come but were not taken yet; they precede those in the file.
    front: PieceQueue,
    buffering: Option<Buffering>,
    spool: Option<Spool>,
    /// The size of the last piece that was handed out: the client may not have taken it yet.
    outstanding: usize,
    /// Whether the client did not keep up with the last piece.
    slow: bool,
    /// Whether `limit_rate` is in force: the room in the client's socket says nothing then.
    paced: bool,
    /// Whether nothing more can come, although the body is not complete.
    broken: bool,
    /// Whether the head told the length of the body.
    announced: bool,
    /// Whether a piece was handed out.
    begun: bool,
    /// Whether the upstream server may finish without the client.
    finish: bool,
    /// Whether the use of a file was logged.
    told: bool,
    connection: u64,
}

/// The behaviour of a flow.
pub struct Manner {
    /// The settings for reading ahead; `None`: the body is read only as fast as the client takes it, and passed on at
    /// once.
    pub buffering: Option<Buffering>,
    /// Whether no more than the front will come, although the body is not complete.
    pub broken: bool,
    /// Whether `proxy_ignore_client_abort` is on.
    pub finish: bool,
    /// Whether the client may be sent less than its socket would take (`limit_rate`).
    pub paced: bool,
    /// The client's connection, for the loop's records.
    pub connection: u64,
}

impl Flow {
    /// Makes a flow. The pieces in `front` have come already.
    pub fn new(reader: BodyReader, front: Front, announced: bool, manner: Manner) -> Flow {
        let Manner { buffering, broken, finish, paced, connection } = manner;
        Flow {
            reader: Some(reader),
            front: front.into_iter().collect::<VecDeque<_>>().into(),
            buffering,
            spool: None,
            outstanding: 0,
            slow: false,
            paced,
            broken,
            announced,
            begun: false,
            finish,
            told: false,
            connection,
        }
    }

    fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        if let Some(log) = self.reader.as_ref().and_then(|reader| reader.log.as_ref()) {
            log.write(level, message);
        }
    }

    fn queued(&self) -> u64 {
        self.front.bytes() as u64 + self.spool.as_ref().map_or(0, Spool::bytes)
    }

    fn in_memory(&self) -> usize {
        self.front.bytes() + self.spool.as_ref().map_or(0, Spool::in_memory)
    }

    fn is_over(&self) -> bool {
        self.broken || self.reader.as_ref().is_none_or(BodyReader::is_over)
    }

    fn push(&mut self, piece: Bytes) {
        match &mut self.spool {
            Some(spool) if !spool.is_empty() => spool.push(piece),
            _ => self.front.push(piece),
        }
    }

    /// Takes a piece that has come already, or else reads about `room` bytes and takes nothing yet.
    async fn advance(&mut self, room: usize) -> Option<Bytes> {
        let reader = self.reader.as_mut()?;
        let result = match reader.ready() {
            Ok(ReadReadiness::Piece(piece)) => return Some(piece),
            Ok(ReadReadiness::End) => Ok(()),
            Ok(ReadReadiness::Nothing) => reader.receive(room).await,
            Err(broken) => Err(broken),
        };
        if let Err(BrokenBody) = result {
            self.broken = true;
        }
        None
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, SourceError> {
        self.outstanding = 0;
        self.begun = true;
        loop {
            if let Some(piece) = self.front.pop() {
                return Ok(Some(self.given(piece)));
            }
            if let Some(spool) = &mut self.spool {
                match spool.take().await {
                    Ok(Some(piece)) => return Ok(Some(self.given(piece))),
                    Ok(None) => {}
                    Err(error) => {
                        self.log(Level::Crit, format_args!("{error} while {}", TryStage::ReadingBody));
                        return Err(error.into());
                    }
                }
            }
            if self.broken {
                return Err(SourceError::BrokenOff);
            }
            match &self.reader {
                Some(reader) if reader.is_complete() => return Ok(None),
                Some(reader) if !reader.is_over() => {}
                reader => {
                    debug_assert!(reader.is_some(), "it is taken when this is dropped");
                    self.broken = true;
                    continue;
                }
            }
            let room = self.room();
            if let Some(piece) = self.advance(room).await {
                return Ok(Some(self.given(piece)));
            }
        }
    }

    fn given(&mut self, piece: Bytes) -> Bytes {
        self.outstanding = piece.len();
        piece
    }

    /// Number of bytes to read for a client that waits for them: no more than may be kept, or than its socket takes at
    /// once.
    fn room(&mut self) -> usize {
        let least = self.buffering.as_ref().map_or(UNBUFFERED, |buffering| buffering.memory).clamp(1, READ);
        let keeps_up = !std::mem::take(&mut self.slow) && !self.paced;
        let Some(reader) = &self.reader else { return least };
        let fits = reader.left().is_some_and(|left| left <= least as u64);
        if fits || least == READ || !keeps_up {
            return reader.room(least);
        }
        reader.room(reader.plan().client.room().clamp(least, READ))
    }

    /// Reads ahead while the client does not take its piece.
    async fn go_ahead(&mut self) {
        self.slow = true;
        let Some(Buffering { memory, write, .. }) = self.buffering else { return self.send_rest().await };
        // The bytes that are being written stay in memory until the write ends.
        let in_front = memory.saturating_sub(write);
        while !self.is_over() {
            loops::consume_budget().await;
            loops::note(self.connection, "buffering a response");
            let held = self.in_memory() + self.outstanding;
            let behind_file = self.spool.as_ref().is_some_and(|spool| !spool.is_empty() || spool.in_file() > 0);
            if !behind_file && held < in_front {
                if let Some(piece) = self.advance(in_front - held).await {
                    self.push(piece);
                }
                continue;
            }
            if !self.may_use_file(write) {
                // From here on the body is read as fast as the client takes it.
                return self.send_rest().await;
            }
            if self.spool.as_ref().is_some_and(Spool::is_writing) {
                self.finish_writing().await;
                continue;
            }
            if self.waits() >= write {
                if let Some(turn) = self.turn().await {
                    self.write_out(turn).await;
                }
                continue;
            }
            let Some(reader) = &mut self.reader else { return };
            match reader.ready() {
                Ok(ReadReadiness::Piece(piece)) => self.push_to_file(piece),
                Ok(ReadReadiness::End) => {}
                Err(BrokenBody) => self.broken = true,
                Ok(ReadReadiness::Nothing) => {
                    // Nothing is read before it is this flow's turn to write: until then the bytes stay with the
                    // upstream server.
                    if reader.readable().await.is_err() {
                        self.broken = true;
                        continue;
                    }
                    let Some(turn) = self.turn().await else { return };
                    self.gather(self.at_a_time(write)).await;
                    if self.waits() >= write {
                        self.write_out(turn).await;
                    }
                }
            }
        }
    }

    /// Sends the rest of the request: the server may want all of it before it sends its response.
    async fn send_rest(&mut self) {
        if let Some(reader) = &mut self.reader
            && reader.send_rest().await.is_err()
        {
            self.broken = true;
        }
    }

    /// Number of bytes that may be read to be written at once, at most as many as the client has to take from the file
    /// before that. Bytes that may stay in memory anyway are not limited: a client that catches up first keeps them in
    /// memory.
    fn at_a_time(&self, write: usize) -> usize {
        let Some(spool) = &self.spool else { return write };
        let large = usize::try_from(spool.in_file()).map_or(AT_A_TIME, |bytes| bytes.min(AT_A_TIME)).max(write);
        if spool.takes_more(large) { large } else { write }
    }

    /// The number of bytes in memory that follow those in the file.
    fn waits(&self) -> usize {
        self.spool.as_ref().map_or(0, Spool::in_memory)
    }

    fn push_to_file(&mut self, piece: Bytes) {
        if let Some(spool) = &mut self.spool {
            spool.push(piece);
        }
    }

    /// Reads the bytes that have come, up to the size of one write.
    async fn gather(&mut self, write: usize) {
        while self.waits() < write && !self.is_over() {
            let room = write - self.waits();
            let step = {
                let mut step = std::pin::pin!(self.advance(room));
                std::future::poll_fn(|context| Poll::Ready(step.as_mut().poll(context))).await
            };
            match step {
                Poll::Ready(Some(piece)) => self.push_to_file(piece),
                Poll::Ready(None) => {}
                Poll::Pending => return,
            }
        }
    }

    /// Whether a file can take more; the file is made when it is first needed.
    fn may_use_file(&mut self, write: usize) -> bool {
        if self.spool.is_none()
            && let Some(place) = self.buffering.as_mut().and_then(|buffering| buffering.place.take())
        {
            self.spool = Some(Spool::new(place));
        }
        self.spool.as_ref().is_some_and(|spool| spool.takes_more(write))
    }

    /// Waits for the turn to write to the file.
    async fn turn(&self) -> Option<Turn> {
        let turns = self.spool.as_ref()?.turns();
        Some(turns.next().await)
    }

    /// Writes the end of the queue that is in memory.
    async fn write_out(&mut self, turn: Turn) {
        if let Some(spool) = &mut self.spool {
            spool.write(turn);
            self.finish_writing().await;
        }
    }

    /// Waits until the current write has ended.
    async fn finish_writing(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        let written = spool.written().await;
        match written {
            Ok(()) if !std::mem::replace(&mut self.told, true) => {
                let path = spool.file_path().unwrap_or_default();
                let (path, stage) = (text_of(&path), TryStage::ReadingBody);
                let text = format_args!("an upstream response is buffered to a temporary file {path} while {stage}");
                self.log(Level::Warn, text);
            }
            Ok(()) => {}
            Err(error) => self.log(Level::Crit, format_args!("{error} while {}", TryStage::ReadingBody)),
        }
    }
}

impl BodySource for Flow {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(self.next_piece())
    }

    fn next_in_file(&mut self) -> Option<FileRange> {
        if !self.front.is_empty() {
            return None;
        }
        let range = self.spool.as_mut()?.take_in_file()?;
        self.outstanding = 0;
        self.begun = true;
        Some(range)
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        Box::pin(self.go_ahead())
    }

    fn is_urgent(&self) -> bool {
        self.buffering.is_none()
    }

    fn remaining(&self) -> Option<u64> {
        let queued = self.queued();
        if self.announced {
            let left = self.reader.as_ref().and_then(BodyReader::left).unwrap_or(0);
            return Some(queued + left);
        }
        // Not before the first piece: a caller that asks before it wants to know whether the length was announced.
        (self.begun && queued == 0 && !self.broken && self.is_over()).then_some(0)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let Some(mut reader) = self.reader.take() else { return };
        if self.broken || reader.is_over() {
            return;
        }
        if reader.left() == Some(0) {
            // The whole body has come, and the bytes that end the response (the last record of FastCGI) are about to.
            if reader.settle() && reader.leave_client() {
                let ending = async move {
                    let _: Option<()> = Deadline::within(ENDING, reader.drain(READ)).await;
                };
                loops::spawn(self.connection, "reading the end of a response", ending);
            }
        } else if self.finish && reader.leave_client() {
            // The times for the access log end here, because the response is over for the client.
            reader.plan().record.end(loops::nanos());
            loops::spawn(self.connection, "reading a response that nobody waits for", reader.drain(READ));
        }
    }
}

/// A body that is not there, with the length that it would have: for an answer to HEAD, and for 304.
pub struct AnnouncedBody(pub Option<u64>);

impl BodySource for AnnouncedBody {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn remaining(&self) -> Option<u64> {
        self.0
    }
}
