//! The body of a response on its way from the upstream server to the client: read as fast as the client takes it, and with
//! buffering ahead of it, into memory and then into a temporary file.

use std::collections::VecDeque;
use std::io;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use freerun_http::request::response::{FileRange, LocalBoxFuture, Source};
use freerun_runtime::deadline::Deadline;
use freerun_runtime::log::Level;
use freerun_runtime::loops;

use crate::client::error::Stage;
use crate::client::pieces::Pieces;
use crate::client::reader::{Broken, Reader, Ready};
use crate::client::response::Front;
use crate::client::spool::{Place, Spool};
use crate::client::write_turns::Turn;

/// What one read may bring when the client keeps up: a body of 4 MB costs a fifth less than with half of it.
const READ: usize = 256 * 1024;

/// How long the end of a response is waited for when all of its body was delivered. It comes with the body as a rule; an application that
/// works on behind its output keeps nobody waiting, and gets a new connection the next time.
const ENDING: Duration = Duration::from_secs(1);

/// What one read may bring at first where nothing is buffered.
const UNBUFFERED: usize = 64 * 1024;

/// How much is read for the file in one turn at most: each turn has a thread of the pool woken, and the loop by that.
const AT_A_TIME: usize = 64 * 1024;

/// How much is read ahead, and where it goes.
pub struct Buffering {
    /// The most bytes in memory.
    pub memory: usize,
    /// How many bytes are written to the file at a time.
    pub write: usize,
    /// The file, if there may be one.
    pub place: Option<Place>,
}

/// A body.
pub struct Flow {
    /// Gone only when the flow is.
    reader: Option<Reader>,
    /// What has come and was not asked for yet, before what is in the file.
    front: Pieces,
    buffering: Option<Buffering>,
    spool: Option<Spool>,
    /// Bytes of the last piece that was given out: the client may not have taken it yet.
    outstanding: usize,
    /// Whether the client did not keep up with the last piece.
    slow: bool,
    /// `limit_rate`: what the client's socket would take says nothing.
    paced: bool,
    /// Nothing more can come, though the body is not complete.
    broken: bool,
    /// Whether the head said how long the body is.
    announced: bool,
    /// Whether a piece was given out.
    begun: bool,
    /// The upstream server is left to finish without the client.
    finish: bool,
    /// It is logged that there is a file.
    told: bool,
    connection: u64,
}

/// How a flow behaves.
pub struct Manner {
    /// Reads ahead; `None`: only as fast as the client takes it, and passed on at once.
    pub buffering: Option<Buffering>,
    /// What has come is all that comes, and not all of the body.
    pub broken: bool,
    /// `proxy_ignore_client_abort`
    pub finish: bool,
    /// The client may be sent less than its socket would take (`limit_rate`).
    pub paced: bool,
    /// The client's connection, for the loop's notes.
    pub connection: u64,
}

impl Flow {
    /// The pieces in `front` have come already.
    pub fn new(reader: Reader, front: Front, announced: bool, manner: Manner) -> Flow {
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
        self.broken || self.reader.as_ref().is_none_or(Reader::is_over)
    }

    fn push(&mut self, piece: Bytes) {
        match &mut self.spool {
            Some(spool) if !spool.is_empty() => spool.push(piece),
            _ => self.front.push(piece),
        }
    }

    /// Takes what has come already, or reads about `room` bytes and takes nothing yet.
    async fn advance(&mut self, room: usize) -> Option<Bytes> {
        let reader = self.reader.as_mut()?;
        let result = match reader.ready() {
            Ok(Ready::Piece(piece)) => return Some(piece),
            Ok(Ready::End) => Ok(()),
            Ok(Ready::Nothing) => reader.receive(room).await,
            Err(broken) => Err(broken),
        };
        if let Err(Broken) = result {
            self.broken = true;
        }
        None
    }

    async fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
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
                        self.log(Level::Crit, format_args!("{error} while {}", Stage::ReadingBody));
                        return Err(io::Error::other(error));
                    }
                }
            }
            if self.broken {
                return Err(io::ErrorKind::ConnectionAborted.into());
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

    /// How much to read for a client that waits for it: no more than may be kept waiting, or than its socket takes at once.
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

    /// Reads while the client does not take what it was given.
    async fn go_ahead(&mut self) {
        self.slow = true;
        let Some(Buffering { memory, write, .. }) = self.buffering else { return self.send_rest().await };
        // What is being written stands in memory until it is.
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
                // As fast as the client takes it, from here on.
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
                Ok(Ready::Piece(piece)) => self.push_to_file(piece),
                Ok(Ready::End) => {}
                Err(Broken) => self.broken = true,
                Ok(Ready::Nothing) => {
                    // Nothing is read before it is its turn to be written: until then it stays with the upstream server.
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

    /// The server may want all of the request before it lets go of its response.
    async fn send_rest(&mut self) {
        if let Some(reader) = &mut self.reader
            && reader.send_rest().await.is_err()
        {
            self.broken = true;
        }
    }

    /// How much may be read to be written at once: no more than the client has to take from the file before that, unless it is
    /// what may stand in memory anyway. A client that gets there first keeps it there.
    fn at_a_time(&self, write: usize) -> usize {
        let Some(spool) = &self.spool else { return write };
        let large = usize::try_from(spool.in_file()).map_or(AT_A_TIME, |bytes| bytes.min(AT_A_TIME)).max(write);
        if spool.takes_more(large) { large } else { write }
    }

    /// Bytes behind the file that are in memory.
    fn waits(&self) -> usize {
        self.spool.as_ref().map_or(0, Spool::in_memory)
    }

    fn push_to_file(&mut self, piece: Bytes) {
        if let Some(spool) = &mut self.spool {
            spool.push(piece);
        }
    }

    /// Reads what has come, up to what is written at a time.
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

    /// Whether a file can take more; it is thought of when it is first needed.
    fn may_use_file(&mut self, write: usize) -> bool {
        if self.spool.is_none()
            && let Some(place) = self.buffering.as_mut().and_then(|buffering| buffering.place.take())
        {
            self.spool = Some(Spool::new(place));
        }
        self.spool.as_ref().is_some_and(|spool| spool.takes_more(write))
    }

    /// Waits until it may write to its file.
    async fn turn(&self) -> Option<Turn> {
        let turns = self.spool.as_ref()?.turns();
        Some(turns.next().await)
    }

    /// Writes what of the queue's end is in memory.
    async fn write_out(&mut self, turn: Turn) {
        if let Some(spool) = &mut self.spool {
            spool.write(turn);
            self.finish_writing().await;
        }
    }

    /// Waits until what is being written has been.
    async fn finish_writing(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        let written = spool.written().await;
        match written {
            Ok(()) if !std::mem::replace(&mut self.told, true) => self.log(
                Level::Warn,
                format_args!("an upstream response is buffered to a temporary file while {}", Stage::ReadingBody),
            ),
            Ok(()) => {}
            Err(error) => self.log(Level::Crit, format_args!("{error} while {}", Stage::ReadingBody)),
        }
    }
}

impl Source for Flow {
    fn next(&mut self) -> LocalBoxFuture<'_, io::Result<Option<Bytes>>> {
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
            let left = self.reader.as_ref().and_then(Reader::left).unwrap_or(0);
            return Some(queued + left);
        }
        // Not before the first piece: who asks then wants to know whether the length was announced.
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
            // All of the body has come, and what ends the response (the last record of FastCGI) is about to.
            if reader.settle() && reader.leave_client() {
                let ending = async move {
                    let _: Option<()> = Deadline::within(ENDING, reader.drain(READ)).await;
                };
                loops::spawn(self.connection, "reading the end of a response", ending);
            }
        } else if self.finish && reader.leave_client() {
            // What the log is going to have: this is over for the client.
            reader.plan().record.end(loops::nanos());
            loops::spawn(self.connection, "reading a response that nobody waits for", reader.drain(READ));
        }
    }
}

/// A body that is not there, with the length that it would have: of an answer to HEAD, and 304.
pub struct Announced(pub Option<u64>);

impl Source for Announced {
    fn next(&mut self) -> LocalBoxFuture<'_, io::Result<Option<Bytes>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn remaining(&self) -> Option<u64> {
        self.0
    }
}
