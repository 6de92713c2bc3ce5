//! A body as a source of bytes, for filters that have to look into it or change it.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freerun_runtime::files::{Aio, DirectFile, FileError, FileSystem, OpenFile, Via};
use freerun_runtime::loops;
use freerun_runtime::pieces::{self, Piece};

use crate::connection::client_gone::ClientGone;
use crate::content::aio;
use crate::files::read_error::ReadError;
use crate::request::ClientStream;
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::request::response::{Body, BodySource, FileRange, LocalBoxFuture, Part, SourceError};
use crate::settings::transfer::{DirectIo, TransferSettings};

/// The largest piece that is read past the page cache at once, whatever `output_buffers` says.
const MAX_DIRECT: usize = 1 << 20;

/// The data of a request that reading a file for a filter needs.
#[derive(Clone)]
pub struct Reader {
    files: Arc<FileSystem>,
    aio: Option<Aio>,
    client: ClientStream,
    /// A number that stands for the client, for sharing a thread pool fairly.
    client_key: u64,
    chunk: usize,
    /// Direct I/O: the size from which on files are read past the page cache, the alignment, and the length of a piece,
    /// in bytes.
    direct: Option<(u64, u64, usize)>,
    /// The file that was read last, with its handle for direct I/O if it has one.
    opened: RefCell<Option<(Arc<OpenFile>, Option<DirectFile>)>>,
}

impl Reader {
    /// A reader that reads as the request's `aio` says, in pieces of `output_buffers`.
    pub fn new(request: &Request) -> Reader {
        let TransferSettings { directio: DirectIo(from), directio_alignment, .. } = request.settings().get();
        let buffers = &request.settings().get::<CoreSettings>().output_buffers;
        let whole = (buffers.size.saturating_mul(u64::from(buffers.count)) as usize).clamp(PIECE, MAX_DIRECT);
        Reader {
            direct: from.map(|from| (from, directio_alignment.0, whole)),
            opened: RefCell::default(),
            files: request.generation.files.clone(),
            aio: aio::resolve(request),
            client: request.client.clone(),
            client_key: request.client_key(),
            chunk: usize::try_from(request.settings().get::<CoreSettings>().output_buffers.size)
                .map_or(PIECE, |size| size.max(1)),
        }
    }

    /// Goes on reading after the client has gone.
    pub fn forget_client(&mut self) {
        self.client = self.client.in_background();
    }

    /// Reads the next piece of a file, and removes it from the range.
    ///
    /// # Errors
    /// The file cannot be read, or the range is longer than the file: the announced length cannot be sent.
    pub async fn read(&self, range: &mut FileRange) -> Result<Bytes, ReadError> {
        let Some(aio) = &self.aio else { return Err(ReadError::NoPool) };
        let gone = ClientGone::of(&self.client);
        let via = Via { aio, client: self.client_key, gone: Some(&gone) };
        let most = usize::try_from(range.len).unwrap_or(usize::MAX);
        let (len, bytes) = match self.direct(&range.file, via).await? {
            Some((file, chunk)) => {
                let len = chunk.min(most);
                (len, self.files.read_direct(&file, range.offset, len, via).await?)
            }
            None => {
                let len = self.chunk.min(most);
                let read = match self.read_now(range, len, aio) {
                    Some(read) => read,
                    None => {
                        let read = self.files.read_at(&range.file, range.offset, len, BytesMut::new(), via).await;
                        read.map(BytesMut::freeze)
                    }
                };
                (len, read?)
            }
        };
        if bytes.len() < len {
            return Err(ReadError::Truncated);
        }
        range.offset += len as u64;
        range.len -= len as u64;
        Ok(bytes)
    }
}

impl Reader {
    /// Reads `len` bytes, if they are in memory and one of the loop's buffers has room for them.
    fn read_now(&self, range: &FileRange, len: usize, aio: &Aio) -> Option<Result<Bytes, FileError>> {
        // Of a much smaller piece, a slow client would hold the memory of a large one.
        if !(pieces::SIZE / 4..=pieces::SIZE).contains(&len) {
            return None;
        }
        let mut piece = Piece::take();
        let read = self.files.try_read_now(&range.file, range.offset, &mut piece.room()[..len], aio)?;
        Some(read.map(|count| piece.into_bytes(count)))
    }

    /// Whether a file is read past the page cache.
    fn is_direct(&self, file: &OpenFile) -> bool {
        self.direct.is_some_and(|(from, ..)| file.is_file() && file.size() >= from)
    }

    /// The handle for direct I/O of a file, and the size of its pieces, if the file is read so.
    async fn direct(&self, file: &Arc<OpenFile>, via: Via<'_>) -> Result<Option<(DirectFile, usize)>, FileError> {
        let Some((_, alignment, chunk)) = self.direct.filter(|_| self.is_direct(file)) else { return Ok(None) };
        let known = self.opened.borrow().as_ref().filter(|(known, _)| Arc::ptr_eq(known, file)).cloned();
        let direct = match known {
            Some((_, direct)) => direct,
            None => {
                let direct = self.files.open_direct(file, alignment, via).await?;
                *self.opened.borrow_mut() = Some((file.clone(), direct.clone()));
                direct
            }
        };
        Ok(direct.map(|direct| (direct, chunk)))
    }
}

/// A body of bytes and file ranges, piece by piece.
struct Pieces {
    reader: Reader,
    parts: std::vec::IntoIter<Part>,
    now: Option<Part>,
}

impl BodySource for Pieces {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            loop {
                match self.now.take().or_else(|| self.parts.next()) {
                    None => return Ok(None),
                    Some(Part::Bytes(bytes)) if bytes.is_empty() => {}
                    Some(Part::Bytes(bytes)) => return Ok(Some(bytes)),
                    Some(Part::File(range)) if range.len == 0 => {}
                    Some(Part::File(mut range)) => {
                        let bytes = self.reader.read(&mut range).await?;
                        self.now = Some(Part::File(range));
                        return Ok(Some(bytes));
                    }
                }
            }
        })
    }

    fn next_in_file(&mut self) -> Option<FileRange> {
        loop {
            match self.now.take().or_else(|| self.parts.next())? {
                Part::Bytes(bytes) if bytes.is_empty() => {}
                Part::File(range) if range.len == 0 => {}
                Part::File(range) if !self.reader.is_direct(&range.file) => return Some(range),
                part => {
                    self.now = Some(part);
                    return None;
                }
            }
        }
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.now.iter().chain(self.parts.as_slice()).map(Part::len).sum())
    }
}

impl Body {
    /// Turns any body into a source. Files are read off the loop where reading would wait.
    pub fn into_source(self, request: &Request) -> Box<dyn BodySource> {
        let parts = match self {
            Body::Source(source) => return source,
            Body::Empty => Vec::new(),
            Body::Bytes(bytes) => vec![Part::Bytes(bytes)],
            Body::File(range) => vec![Part::File(range)],
            Body::Parts(parts) => parts,
        };
        Box::new(Pieces { reader: Reader::new(request), parts: parts.into_iter(), now: None })
    }
}

/// A change of a body's bytes that needs nothing but the bytes.
pub trait Transform {
    /// Takes the next piece and appends the finished bytes to `out`.
    ///
    /// # Errors
    /// The body cannot be completed.
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Appends the bytes that were held back, at the end of the body.
    ///
    /// # Errors
    /// The body cannot be completed.
    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()>;

    /// Whether the transform has stopped with about [`PIECE`] bytes appended, before it was through with its input.
    /// Then it is called again with nothing, or with the end again, until it is through.
    fn is_full(&self) -> bool {
        false
    }
}

/// The most that one piece may grow to before other tasks of the loop get their turn.
pub const PIECE: usize = 64 * 1024;

/// A source whose bytes go through a [`Transform`].
pub struct TransformedBody<T> {
    source: Box<dyn BodySource>,
    /// The bytes that came from the source and that the transform has not had yet.
    piece: Bytes,
    transform: T,
    ended: bool,
}

impl<T: Transform> TransformedBody<T> {
    /// Returns `source`, changed by `transform`. The new length is not known before the end.
    pub fn new(source: Box<dyn BodySource>, transform: T) -> TransformedBody<T> {
        TransformedBody { source, piece: Bytes::new(), transform, ended: false }
    }
}

impl<T: Transform> BodySource for TransformedBody<T> {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            let mut out = Vec::new();
            while out.is_empty() {
                // A transform that swallows all its input must not keep other tasks from the loop.
                loops::consume_budget().await;
                if self.ended {
                    if !self.transform.is_full() {
                        break;
                    }
                    loops::measured(|| self.transform.end(&mut out))?;
                } else if self.transform.is_full() {
                    loops::measured(|| self.transform.feed(b"", &mut out))?;
                } else if !self.piece.is_empty() {
                    let part = self.piece.split_to(self.piece.len().min(PIECE));
                    loops::measured(|| self.transform.feed(&part, &mut out))?;
                } else {
                    match self.source.next().await? {
                        Some(piece) => self.piece = piece,
                        None => {
                            self.ended = true;
                            loops::measured(|| self.transform.end(&mut out))?;
                        }
                    }
                }
            }
            Ok((!out.is_empty()).then(|| out.into()))
        })
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        self.source.ahead()
    }

    fn is_urgent(&self) -> bool {
        self.source.is_urgent()
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}
