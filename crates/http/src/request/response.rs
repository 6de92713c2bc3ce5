//! A response as data: content handlers return it and filters change it. No code but the writer sends bytes.

use std::io;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use freerun_proto::Status;
use freerun_proto::status::sent_code;
use freerun_runtime::files::{FileError, OpenFile};

use super::Request;
use crate::connection::takeover::Takeover;
use crate::files::known_files::DescribedFile;
use crate::files::read_error::ReadError;
pub use crate::message::Field;
use crate::message::fields::Fields;

/// A future of this loop.
pub type LocalBoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Adds trailers to [`ResponseState::trailers`](super::ResponseState) when a body has been sent: their variables may refer to it
/// (`$body_bytes_sent`) and to the trailers before them (`$sent_trailer_…`).
pub type MakeTrailers = fn(&mut Request);

/// The functions that add trailers when a body has been sent, in this order.
#[derive(Clone, Copy, Default)]
pub struct LateTrailers {
    /// Passes on the trailers of another server.
    pub passed: Option<MakeTrailers>,
    /// Whether they are passed on only if the response has other trailers: its length is known, and the client's protocol
    /// would have to give that up for them (HTTP/1).
    pub passed_beside_others: bool,
    /// Adds the trailers of the configuration.
    pub added: Option<MakeTrailers>,
}

impl LateTrailers {
    /// Whether the response has trailers because of them.
    pub fn is_some(&self) -> bool {
        self.added.is_some() || self.passed.is_some() && !self.passed_beside_others
    }
}

/// The body of a response.
pub enum Body {
    /// There is no body.
    Empty,
    /// Bytes that are in memory.
    Bytes(Bytes),
    /// A range of a file: sent by `sendfile` if no filter had to look into it.
    File(FileRange),
    /// Several pieces one after the other (multipart ranges).
    Parts(Vec<Part>),
    /// A source to pull from; its length may be unknown.
    Source(Box<dyn BodySource>),
}

/// A range of an open file.
#[derive(Clone)]
pub struct FileRange {
    /// The file.
    pub file: Arc<OpenFile>,
    /// The position of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// A piece of [`Body::Parts`].
pub enum Part {
    /// Bytes that are in memory.
    Bytes(Bytes),
    /// A range of a file.
    File(FileRange),
}

impl Part {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File(range) => range.len,
        }
    }

    /// Whether the piece is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The reason why a [`BodySource`] cannot complete its body. It decides what becomes of the bytes that the source has given
/// before, as far as they are unsent ([`SourceError::keeps_unsent`]).
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Another server, which the body comes from, has broken off.
    #[error("connection aborted")]
    BrokenOff,
    /// A subrequest has closed the connection instead of answering (`return 444`).
    #[error("a subrequest closed the connection")]
    Closed,
    /// Another server has sent another part than the requested one. If nothing of the response has been sent, the client
    /// gets an error page with this status.
    #[error("the response has to be replaced by status {0}")]
    Replaced(Status),
    /// The source that this one reads has ended before its announced length.
    #[error("unexpected end of file")]
    Short,
    /// The bytes are not in the format that a filter has to read.
    #[error("invalid data")]
    Malformed,
    /// The arguments of a directive, which are made of variables, cannot be used. That is logged already.
    #[error("invalid input parameter")]
    InvalidDirective,
    /// A file, or a temporary file, could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The error of an encoder or of a pool, or a refused subrequest: nothing depends on which.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SourceError {
    /// Whether the client gets the bytes that were not sent yet, the head included; `begun` says that the source has given
    /// bytes. Where a source of this server fails at once, the client sees that there is no response at all.
    pub fn keeps_unsent(&self, begun: bool) -> bool {
        match self {
            SourceError::BrokenOff | SourceError::Replaced(_) => true,
            SourceError::Closed => begun,
            SourceError::Short | SourceError::Malformed | SourceError::InvalidDirective => false,
            SourceError::Read(_) | SourceError::Io(_) => false,
        }
    }
}

impl From<FileError> for SourceError {
    fn from(error: FileError) -> SourceError {
        SourceError::Read(error.into())
    }
}

/// A body that is pulled piece by piece.
pub trait BodySource {
    /// Finds out, before the head is sent, whether there will be a body at all. `None`: there will be as far as is known,
    /// as for most sources. A source that changes another source's body need not pass this call on.
    ///
    /// # Errors
    /// This status is the response.
    fn prepare(&mut self) -> Option<LocalBoxFuture<'_, Result<(), Status>>> {
        None
    }

    /// Returns the next piece, which is never empty; `None` at the end.
    ///
    /// # Errors
    /// The body cannot be completed: the response is cut short, never ended as if it were whole.
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>>;

    /// Returns the next piece if it is in a file, from which it is sent. It is called before each [`next`](Self::next),
    /// which would give the same bytes. A source that looks at another source's body, or changes it, asks that one for
    /// bytes alone.
    fn next_in_file(&mut self) -> Option<FileRange> {
        None
    }

    /// Works ahead while the client does not take the last piece: a source with a source of its own goes on reading
    /// there, within its bounds. The future is dropped, whatever it does, as soon as the client takes bytes again, and
    /// need not ever be ready. A source that changes another source's body passes this call on.
    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Whether the last piece goes to the client before the next one is waited for, because a reader may be waiting for
    /// it. A source that changes another source's body passes this call on.
    fn is_urgent(&self) -> bool {
        false
    }

    /// The number of bytes that are still to come, if that is known. A source that returned 0 may not be asked again.
    fn remaining(&self) -> Option<u64>;

    /// Restricts the source to the bytes from `begin` up to, but not with, `end`; called before any byte was pulled.
    /// Returns whether the source can leave out the others.
    fn narrow(&mut self, _begin: u64, _end: u64) -> bool {
        false
    }
}

impl Body {
    /// The length in bytes, if it is known.
    pub fn len(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::File(range) => Some(range.len),
            Body::Parts(parts) => Some(parts.iter().map(Part::len).sum()),
            Body::Source(source) => source.remaining(),
        }
    }

    /// Whether there is certainly nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

/// Parts of a head that are sent as another server has written them, unless they were changed meanwhile. By default there
/// are none.
#[derive(Debug, Clone, Default)]
pub struct AsWritten {
    /// The status that `reason` belongs to; 0, which no response has, for none.
    pub status: u16,
    /// The reason phrase; may be empty.
    pub reason: Bytes,
    /// The whole `Content-Type`, with its parameters.
    pub content_type: Bytes,
    /// The media type and the character set in it.
    pub read_as: (Bytes, Option<Bytes>),
    /// The character set that the client is to get (`X-Accel-Charset`); empty: a character set that the configuration
    /// does not name.
    pub charset: Option<Bytes>,
    /// Whether the fields have a `Server`, so that none is added.
    pub server: bool,
    /// Whether the fields have a `Date`, so that none is added.
    pub date: bool,
    /// Whether the first `Accept-Ranges` of the fields is the other server's.
    pub accept_ranges: bool,
    /// Which server evaluates the request's conditions.
    pub conditions: Conditional,
}

impl AsWritten {
    /// Whether the head begins like any response with status 200, with the `Server` and the `Date` of this server.
    pub fn begins_plainly(&self) -> bool {
        self.status == 200 && *self.reason == *b"OK" && !self.server && !self.date
    }
}

/// Which server evaluates the conditions of a request that another server has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conditional {
    /// The other server does.
    #[default]
    There,
    /// Evaluation by this server, as for a file: the other server did not get the conditions.
    Here,
    /// Evaluation by this server, by the precedence of RFC 9110 section 13.2.2.
    ByPrecedence,
}

/// A response before it is written.
pub struct Response {
    /// The status.
    pub status: Status,
    /// The status in the head, if it is another one, because the client's protocol has errors of its own (gRPC). The log
    /// and the filters know only `status`.
    pub told_as: Option<NonZeroU16>,
    /// `Content-Type`; none is sent when empty.
    pub content_type: Bytes,
    /// Whether `content_type` is only what the URI suggests.
    pub type_by_uri: bool,
    /// The `charset=` parameter of the `Content-Type`.
    pub charset: Option<Bytes>,
    /// `Location`, ready to send.
    pub location: Option<Bytes>,
    /// `Last-Modified` in Unix seconds.
    pub last_modified: Option<i64>,
    /// `ETag` with its quotes.
    pub etag: Option<Bytes>,
    /// Whether ranges of this response may be asked for: the range filter answers `Accept-Ranges: bytes`.
    pub ranges: bool,
    /// Whether only one range can be asked for at a time, because the body comes once, from its beginning to its end. A
    /// client that asks for several gets the whole body.
    pub single_range: bool,
    /// Whether `Vary: Accept-Encoding` is sent.
    pub vary: bool,
    /// The fields for the members above, ready to be sent; they count only as far as they agree with these.
    pub described: Option<Rc<DescribedFile>>,
    /// Further fields, in the order they are sent.
    pub fields: Fields,
    /// Fields sent after the body, if the client's protocol and the framing can carry them. A response with trailers is
    /// sent in chunks if that is possible.
    pub trailers: Vec<Field>,
    /// The functions that add further trailers when the body has been sent.
    pub late_trailers: LateTrailers,
    /// The body.
    pub body: Body,
    /// Whether no `Content-Length` is sent, because it would belong to a body that is not sent (304).
    pub no_length: bool,
    /// Whether the connection is closed after this response.
    pub close: bool,
    /// Whether this is one of the built-in error pages (or a redirect's), which `error_page` may replace.
    pub special: bool,
    /// The protocol that follows on the connection after the head, if the response is 101.
    pub takeover: Option<Box<dyn Takeover<Request>>>,
    /// Set for the response of an upstream server, which was to evaluate the request's conditions.
    pub as_written: Option<Arc<AsWritten>>,
}

impl Response {
    /// A response with a body, without further fields.
    pub fn new(status: Status, content_type: impl Into<Bytes>, body: Body) -> Box<Response> {
        Response::of(status, content_type.into(), body)
    }

    /// Makes the response where it stays: it is too large to be moved.
    fn of(status: Status, content_type: Bytes, body: Body) -> Box<Response> {
        let place = Box::new_uninit();
        let response = Response {
            status,
            told_as: None,
            content_type,
            type_by_uri: false,
            charset: None,
            location: None,
            last_modified: None,
            etag: None,
            ranges: false,
            single_range: false,
            vary: false,
            described: None,
            fields: Fields::default(),
            trailers: Vec::new(),
            late_trailers: LateTrailers::default(),
            body,
            no_length: false,
            close: false,
            special: false,
            takeover: None,
            as_written: None,
        };
        Box::write(place, response)
    }

    /// A response whose `Content-Type` is only what the URI suggests.
    pub fn typed_by_uri(status: Status, content_type: impl Into<Bytes>, body: Body) -> Box<Response> {
        let mut response = Response::of(status, content_type.into(), body);
        response.type_by_uri = true;
        response
    }

    /// Adds a field.
    pub fn add(&mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.fields.push((name.into(), value.into()));
    }

    /// The first further field with this name, ignoring case.
    pub fn field(&self, name: &[u8]) -> Option<&Bytes> {
        self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The `Content-Type` to send, and the character set to add to it: as it was written, unless it was changed.
    pub fn media_type(&self) -> (&Bytes, Option<&Bytes>) {
        let charset = self.charset.as_ref().filter(|charset| !charset.is_empty());
        match &self.as_written {
            Some(written) if self.content_type == written.read_as.0 => {
                // Behind other parameters nginx adds no character set.
                let others = written.read_as.1.is_none() && written.content_type != written.read_as.0;
                if charset == written.read_as.1.as_ref() || others {
                    (&written.content_type, None)
                } else {
                    (&self.content_type, charset)
                }
            }
            _ => (&self.content_type, charset),
        }
    }

    /// Removes the further fields with this name, ignoring case.
    pub fn remove(&mut self, name: &[u8]) {
        if self.field(name).is_some() {
            self.fields.retain(|(field, _)| !field.eq_ignore_ascii_case(name));
        }
    }

    /// Drops `Last-Modified`, though the configuration may have added it.
    pub fn drop_last_modified(&mut self) {
        self.last_modified = None;
        self.remove(b"Last-Modified");
    }

    /// The status as the client sees it: some of nginx's own are never sent.
    #[inline]
    pub fn sent_status(&self) -> Status {
        if self.special { Status::new(sent_code(self.status.code())) } else { self.status }
    }

    /// Whether there are trailers to send after the body.
    pub fn has_trailers(&self) -> bool {
        !self.trailers.is_empty() || self.late_trailers.is_some()
    }

    /// The announced length, if it is known.
    #[inline]
    pub fn length(&self) -> Option<u64> {
        self.body.len()
    }
}
