//! The request body: its framing, and reading past one that nobody wants.
//!
//! The first bytes of a body often come with the head and stand behind it in the connection's buffer; what follows the
//! body there belongs to the next request.

use std::io::{self, IoSlice};
use std::time::Duration;

use freerun_proto::BodyFraming;
use freerun_proto::chunked::{ChunkedDecoder, Step};
use freerun_runtime::buffers;
use freerun_runtime::timer::Timer;

use crate::request::Request;

/// A body on its way in.
pub struct ClientBody {
    framing: Framing,
    declared: Option<u64>,
    /// Bytes of the connection's buffer that have been used, head included.
    used: usize,
    /// Bytes of the body, framing included, that have been read.
    received: u64,
    /// The client waits for `100 Continue` before it sends.
    expects_continue: bool,
}

enum Framing {
    Done,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
}

/// Why a body could not be read.
#[derive(Debug)]
pub enum BodyError {
    /// Answer with this status.
    Status(u16),
    /// The connection broke.
    Broken(io::Error),
    /// Nothing came for too long.
    TimedOut,
}

impl ClientBody {
    /// The body that a head announces. `head_len` bytes of the buffer are the head.
    pub fn new(framing: BodyFraming, head_len: usize, expects_continue: bool) -> ClientBody {
        let (framing, declared) = match framing {
            BodyFraming::None => (Framing::Done, None),
            BodyFraming::Length(0) => (Framing::Done, Some(0)),
            BodyFraming::Length(length) => (Framing::Length(length), Some(length)),
            BodyFraming::Chunked => (Framing::Chunked(Box::new(ChunkedDecoder::new())), None),
        };
        ClientBody { framing, declared, used: head_len, received: 0, expects_continue }
    }

    /// `Content-Length`, where there is one.
    pub fn declared_length(&self) -> Option<u64> {
        self.declared
    }

    /// Whether everything has been read.
    pub fn is_done(&self) -> bool {
        matches!(self.framing, Framing::Done)
    }

    /// How many bytes of the body have been read, framing included.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many bytes of the connection's buffer head and body have taken.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Reads past what is in the buffer.
    fn skip(&mut self, buffer: &[u8]) -> Result<(), BodyError> {
        loop {
            let rest = &buffer[self.used..];
            match &mut self.framing {
                Framing::Done => return Ok(()),
                Framing::Length(left) => {
                    let here = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    self.used += here;
                    self.received += here as u64;
                    *left -= here as u64;
                    if *left == 0 {
                        self.framing = Framing::Done;
                    }
                    return Ok(());
                }
                Framing::Chunked(decoder) => {
                    if rest.is_empty() {
                        return Ok(());
                    }
                    let step = decoder.step(rest).map_err(|error| BodyError::Status(error.status()))?;
                    let (consumed, done) = match step {
                        Step::Data(data) => (data.end, false),
                        Step::More => (rest.len(), false),
                        Step::Done(consumed) => (consumed, true),
                    };
                    self.used += consumed;
                    self.received += consumed as u64;
                    if done {
                        self.framing = Framing::Done;
                    }
                }
            }
        }
    }
}

/// Says that the body is not wanted: tells a waiting client to go on (so that the connection can be used again) and
/// reads past what has come already. What is still to come is read after the response, by [`finish_discarding`].
///
/// # Errors
/// The framing is wrong: the status to answer with.
pub fn begin_discarding(request: &mut Request) -> Result<(), u16> {
    if request.body.expects_continue && request.is_http11() {
        request.body.expects_continue = false;
        let line = IoSlice::new(b"HTTP/1.1 100 Continue\r\n\r\n");
        // A socket that cannot take 25 bytes has a client that does not read: it may do without.
        if let Ok(sent) = request.connection.socket.try_write(&[line], false) {
            request.sent.bytes += sent as u64;
        }
    }
    match request.body.skip(&request.head.buffer) {
        Err(BodyError::Status(status)) => {
            crate::log_error!(request, Error, "client sent invalid chunked body");
            request.keep_alive = false;
            Err(status)
        }
        _ => Ok(()),
    }
}

/// Reads to the end of a body that nobody wanted, so that the connection can be used again.
///
/// # Errors
/// It cannot.
pub async fn finish_discarding(request: &mut Request, timer: &mut Timer, wait: Duration) -> Result<(), BodyError> {
    request.body.skip(&request.head.buffer)?;
    while !request.body.is_done() {
        let buffer = &mut request.head.buffer;
        if request.body.used == buffer.len() {
            buffer.clear();
            request.body.used = 0;
        } else if buffer.len() == buffer.capacity() {
            buffer.drain(..request.body.used);
            request.body.used = 0;
        }
        buffer.reserve(buffers::BUFFER_SIZE / 2);
        match timer.within(wait, request.connection.socket.read(buffer)).await {
            None => return Err(BodyError::TimedOut),
            Some(Ok(0)) => return Err(BodyError::Broken(io::ErrorKind::UnexpectedEof.into())),
            Some(Ok(_)) => request.body.skip(&request.head.buffer)?,
            Some(Err(error)) => return Err(BodyError::Broken(error)),
        }
    }
    Ok(())
}
