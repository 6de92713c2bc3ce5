//! A body that is compressed while it is read: small pieces on the loop, large ones in the pool for processor work.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use freerun_http::request::Request;
use freerun_http::request::response::{BodySource, LocalBoxFuture, SourceError};
use freerun_runtime::pool::CpuPool;

use super::coding::{Coding, Encoder, INLINE, Params};
use super::compressed_bodies::{CompressedBodies, Original};

/// The longest body that is read completely and compressed in one go, which is several times faster than piece by
/// piece.
pub const WHOLE: u64 = 1 << 20;
/// The most bytes that a loop may hold at once for complete bodies; beyond, bodies are compressed piece by piece.
const WHOLE_PER_LOOP: u64 = 32 << 20;
/// The largest piece that an encoder gets at once.
const PIECE: usize = 64 * 1024;
/// The longest time that a task compresses on the loop, piece after piece, before it yields.
const TURN: Duration = Duration::from_millis(1);
/// The longest pause of a source of unknown length before the encoder's output so far is sent to the client.
const PAUSE: Duration = Duration::from_millis(10);

/// The sizes before and after compression, for `$gzip_ratio` and the corresponding variables.
#[derive(Default)]
pub struct Ratio {
    /// The coding.
    pub coding: Cell<&'static str>,
    /// The number of bytes before compression.
    pub input: Cell<u64>,
    /// The number of bytes after compression; 0 before the end.
    pub output: Cell<u64>,
}

/// A response that was compressed at once.
pub struct CompressedBytes(Option<Bytes>);

impl CompressedBytes {
    /// A body of these bytes. Its length is not announced: nginx does not know it, and answers HEAD and GET alike.
    pub fn new(bytes: Bytes) -> CompressedBytes {
        CompressedBytes(Some(bytes))
    }
}

impl BodySource for CompressedBytes {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(std::future::ready(Ok(self.0.take().filter(|bytes| !bytes.is_empty()))))
    }

    fn remaining(&self) -> Option<u64> {
        self.0.is_none().then_some(0)
    }
}

/// The number of bytes that a loop holds for bodies that are compressed completely.
#[derive(Default)]
struct EncoderMemory(Cell<u64>);

/// A share of these bytes.
struct Room {
    held: Rc<EncoderMemory>,
    bytes: u64,
}

impl Room {
    fn take(held: &Rc<EncoderMemory>, bytes: u64) -> Option<Room> {
        let now = held.0.get().checked_add(bytes).filter(|now| *now <= WHOLE_PER_LOOP)?;
        held.0.set(now);
        Some(Room { held: held.clone(), bytes })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.held.0.set(self.held.0.get() - self.bytes);
    }
}

enum Stage {
    /// Nothing was read yet.
    Fresh(Box<dyn BodySource>),
    /// The body is compressed piece by piece.
    Pieces(Pieces),
    /// The end was reached, or the body was given up.
    Ended,
}

struct Pieces {
    input: Input,
    /// The encoder; `None` while it is in the pool.
    encoder: Option<Box<dyn Encoder>>,
    /// Whether the encoder holds output back.
    holds: bool,
    /// The number of bytes fed to the encoder since its last output.
    gathered: usize,
}

/// A body that passes through an encoder.
pub struct CompressedSource {
    coding: &'static Coding,
    params: Params,
    cpu: CpuPool,
    client: u64,
    held: Rc<EncoderMemory>,
    ratio: Rc<Ratio>,
    /// The place to keep the result, if it may be needed again.
    again: Option<(Rc<CompressedBodies>, Original)>,
    stage: Stage,
    /// The time spent on the loop since the last yield.
    in_this_turn: Duration,
}

impl CompressedSource {
    /// Compresses `source`. A body that was compressed completely is kept at `again`.
    pub fn new(
        request: &Request,
        source: Box<dyn BodySource>,
        coding: &'static Coding,
        params: Params,
        ratio: Rc<Ratio>,
        again: Option<(Rc<CompressedBodies>, Original)>,
    ) -> CompressedSource {
        CompressedSource {
            coding,
            params,
            cpu: request.generation.pools.cpu().clone(),
            client: request.client_key(),
            held: request.client.loop_state.modules.get::<EncoderMemory>(),
            ratio,
            again,
            stage: Stage::Fresh(source),
            in_this_turn: Duration::ZERO,
        }
    }

    async fn step(&mut self) -> Result<Option<Bytes>, SourceError> {
        if matches!(self.stage, Stage::Fresh(_))
            && let Stage::Fresh(source) = std::mem::replace(&mut self.stage, Stage::Ended)
        {
            let length = source.remaining();
            let room = length.filter(|length| *length <= WHOLE).and_then(|length| Room::take(&self.held, length));
            if let Some(_room) = room {
                let packed = match self.again.take() {
                    Some((kept, original)) => kept.shared(original, async || self.whole(source).await).await?,
                    None => self.whole(source).await?,
                };
                self.ratio.input.set(length.unwrap_or(0));
                self.ratio.output.set(packed.len() as u64);
                return Ok(Some(packed));
            }
            let encoder = Some((self.coding.begin)(self.params, length)?);
            self.stage = Stage::Pieces(Pieces { input: Input::new(source), encoder, holds: false, gathered: 0 });
        }
        loop {
            let Stage::Pieces(pieces) = &mut self.stage else { return Ok(None) };
            let (out, ended) = match pieces.input.next(pieces.holds).await? {
                Come::Piece(piece) => {
                    add(&self.ratio.input, piece.len());
                    pieces.holds = true;
                    (self.encode(piece.len(), move |encoder, out| encoder.feed(&piece, out)).await?, false)
                }
                Come::Pause => {
                    pieces.holds = false;
                    (self.encode(0, |encoder, out| encoder.flush(out)).await?, false)
                }
                Come::End => (self.encode(0, |encoder, out| encoder.end(out)).await?, true),
            };
            add(&self.ratio.output, out.len());
            if ended {
                self.stage = Stage::Ended;
            }
            if !out.is_empty() || ended {
                return Ok((!out.is_empty()).then(|| out.into()));
            }
        }
    }

    /// Reads a source of known and bounded length completely, and compresses it.
    async fn whole(&self, mut source: Box<dyn BodySource>) -> Result<Bytes, SourceError> {
        let length = usize::try_from(source.remaining().unwrap_or(0)).map_err(io::Error::other)?;
        let mut body = source.next().await?.unwrap_or_default();
        if body.len() < length {
            let mut all = BytesMut::with_capacity(length);
            all.extend_from_slice(&body);
            drop(body);
            while all.len() < length {
                let Some(piece) = source.next().await? else { return Err(SourceError::Short) };
                all.extend_from_slice(&piece);
            }
            body = all.freeze();
        }
        let (whole, params) = (self.coding.whole, self.params);
        let packed = if self.coding.estimate(params, body.len()) <= INLINE {
            whole(params, &body)?
        } else {
            let packed = self.cpu.run_or_wait(self.client, move || whole(params, &body)).await;
            packed.map_err(io::Error::other)??
        };
        Ok(packed)
    }

    /// Has the encoder process this number of bytes.
    async fn encode<F>(&mut self, bytes: usize, f: F) -> io::Result<Vec<u8>>
    where
        F: FnOnce(&mut dyn Encoder, &mut Vec<u8>) -> io::Result<()> + Send + 'static,
    {
        let Stage::Pieces(pieces) = &mut self.stage else { return Ok(Vec::new()) };
        let Some(mut encoder) = pieces.encoder.take() else { return Err(io::Error::other("the encoder is gone")) };
        // The gathered bytes may be compressed now.
        let gathered = pieces.gathered.min(self.coding.block);
        let estimate = self.coding.estimate(self.params, bytes + gathered);
        let work = move || {
            let mut out = Vec::new();
            let result = f(&mut *encoder, &mut out);
            (encoder, result.map(|()| out))
        };
        let (encoder, out) = if estimate <= INLINE {
            self.in_this_turn += estimate;
            if self.in_this_turn > TURN {
                self.in_this_turn = Duration::ZERO;
                freerun_runtime::loops::after_events().await;
            }
            work()
        } else {
            self.in_this_turn = Duration::ZERO;
            self.cpu.run_or_wait(self.client, work).await.map_err(io::Error::other)?
        };
        if let Stage::Pieces(pieces) = &mut self.stage {
            pieces.encoder = Some(encoder);
            // The output belongs to a complete block; the last piece may have begun another one.
            let came = out.as_ref().is_ok_and(|out| !out.is_empty());
            pieces.gathered = if came { bytes } else { pieces.gathered + bytes };
        }
        out
    }
}

fn add(sum: &Cell<u64>, bytes: usize) {
    sum.set(sum.get() + bytes as u64);
}

impl BodySource for CompressedSource {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            let result = self.step().await;
            if result.is_err() {
                self.stage = Stage::Ended;
            }
            result
        })
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        match &mut self.stage {
            // A source that was asked already is working in any case.
            Stage::Pieces(Pieces { input: Input { source: Some(source), .. }, .. }) => source.ahead(),
            _ => Box::pin(std::future::pending()),
        }
    }

    fn remaining(&self) -> Option<u64> {
        matches!(self.stage, Stage::Ended).then_some(0)
    }
}

/// The result of asking a source.
enum Come {
    Piece(Bytes),
    /// The source gave nothing for [`PAUSE`].
    Pause,
    End,
}

type PullResult = (Box<dyn BodySource>, Result<Option<Bytes>, SourceError>);

/// A source that can be asked without waiting for its answer.
struct Input {
    source: Option<Box<dyn BodySource>>,
    /// The pending question: an operation that a source has begun must not be dropped half-way.
    asked: Option<LocalBoxFuture<'static, PullResult>>,
    /// The rest of a piece that is longer than an encoder gets at once.
    rest: Bytes,
}

impl Input {
    fn new(source: Box<dyn BodySource>) -> Input {
        Input { source: Some(source), asked: None, rest: Bytes::new() }
    }

    /// The next piece, of at most [`PIECE`] bytes. With `impatient`, a pause is reported, once, unless the source is a
    /// file.
    async fn next(&mut self, impatient: bool) -> Result<Come, SourceError> {
        if self.rest.is_empty() {
            match self.pull(impatient).await? {
                Come::Piece(piece) => self.rest = piece,
                other => return Ok(other),
            }
        }
        Ok(Come::Piece(self.rest.split_to(self.rest.len().min(PIECE))))
    }

    async fn pull(&mut self, impatient: bool) -> Result<Come, SourceError> {
        let known = self.source.as_ref().is_some_and(|source| source.remaining().is_some());
        if self.asked.is_none() {
            let Some(mut source) = self.source.take() else { return Ok(Come::End) };
            self.asked = Some(Box::pin(async move {
                let answer = source.next().await;
                (source, answer)
            }));
        }
        let Some(asked) = &mut self.asked else { return Ok(Come::End) };
        let (source, answer) = if impatient && !known {
            match freerun_runtime::timer::timeout(PAUSE, asked).await {
                Ok(pulled) => pulled,
                Err(_) => return Ok(Come::Pause),
            }
        } else {
            asked.await
        };
        self.asked = None;
        self.source = Some(source);
        Ok(answer?.map_or(Come::End, Come::Piece))
    }
}
