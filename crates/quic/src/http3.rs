//! The streams of a connection and the machine of HTTP/3 above them, whichever side this is.
//!
//! The machine ([`freerun_proto::h3`]) knows the frames. What both sides do between it and QUIC is here: numbers and codes,
//! the unidirectional streams of this side, pieces of streams that have come, and the ends of streams.

use std::time::Instant;

use bytes::Bytes;
use freerun_proto::h3::{H3Connection, H3ErrorCode, OwnStream, StreamId};
use quinn_proto::{Dir, ReadError, VarInt, WriteError};
use smallvec::SmallVec;

use crate::connection::QuicConnection;
use crate::send_window::follow_congestion;

/// Number of pieces that are taken of a stream in a row.
const PIECES: usize = 16;

/// The pieces of a stream that have come in order.
#[derive(Debug, Default)]
pub struct StreamPieces {
    /// The pieces.
    pub bytes: SmallVec<[Bytes; PIECES]>,
    /// Whether nothing follows them.
    pub fin: bool,
    /// The code of the peer's reset, if it has reset its half of the stream.
    pub reset: Option<H3ErrorCode>,
    /// Whether there may be more.
    pub has_more: bool,
}

/// The stream is over: nothing can be sent on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOver;

/// The number of a stream in QUIC.
pub fn quic_id(id: StreamId) -> quinn_proto::StreamId {
    quinn_proto::StreamId::from(VarInt::try_from(id.0).unwrap_or(VarInt::MAX))
}

/// The number of a stream for the machine.
pub fn machine_id(id: quinn_proto::StreamId) -> StreamId {
    StreamId(u64::from(VarInt::from(id)))
}

/// A code of HTTP/3 for QUIC.
pub fn quic_code(code: H3ErrorCode) -> VarInt {
    VarInt::try_from(code.0).unwrap_or(VarInt::MAX)
}

/// Takes pieces of a stream out of QUIC. False if the stream is closed. The owner sends what comes of it in any case.
pub fn take_pieces(quic: &mut QuicConnection, id: StreamId, pieces: &mut StreamPieces) -> bool {
    let mut stream = quic.inner().recv_stream(quic_id(id));
    let Ok(mut chunks) = stream.read(true) else { return false };
    loop {
        if pieces.bytes.len() == PIECES {
            pieces.has_more = true;
            break;
        }
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => pieces.bytes.push(chunk.bytes),
            Ok(None) => {
                pieces.fin = true;
                break;
            }
            Err(ReadError::Blocked) => break,
            Err(ReadError::Reset(code)) => {
                pieces.reset = Some(H3ErrorCode(code.into()));
                break;
            }
        }
    }
    let _ = chunks.finalize();
    true
}

/// Writes pieces on a stream as far as QUIC takes them. Returns how many bytes and how many whole pieces that were.
///
/// # Errors
/// The stream is over.
pub fn write_pieces(
    quic: &mut QuicConnection,
    id: StreamId,
    pieces: &mut [Bytes],
) -> Result<(usize, usize), StreamOver> {
    match quic.inner().send_stream(quic_id(id)).write_chunks(pieces) {
        Ok(written) => Ok((written.bytes, written.chunks)),
        Err(WriteError::Blocked) => Ok((0, 0)),
        Err(_) => Err(StreamOver),
    }
}

/// The unidirectional streams of this side, as far as they are open.
#[derive(Debug, Default)]
pub struct OwnStreams([Option<quinn_proto::StreamId>; OwnStream::ALL.len()]);

impl OwnStreams {
    /// Writes what the machine has for these streams, as far as QUIC takes it.
    pub fn write(&mut self, quic: &mut QuicConnection, machine: &mut H3Connection) {
        for own in OwnStream::ALL {
            while !machine.output(own).is_empty() {
                let place = &mut self.0[own.index()];
                let Some(id) = place.or_else(|| OwnStreams::open(quic)) else { return };
                *place = Some(id);
                match quic.inner().send_stream(id).write(machine.output(own)) {
                    Ok(count @ 1..) => machine.wrote(own, count),
                    _ => break,
                }
            }
        }
    }

    /// Opens a stream, which comes before all messages.
    fn open(quic: &mut QuicConnection) -> Option<quinn_proto::StreamId> {
        let id = quic.inner().streams().open(Dir::Uni)?;
        let _ = quic.inner().send_stream(id).set_priority(i32::MAX);
        Some(id)
    }
}

/// A connection of QUIC with the machine of HTTP/3 above it.
pub struct Http3Streams {
    /// The connection.
    pub quic: Box<QuicConnection>,
    /// The machine.
    pub machine: H3Connection,
    own: OwnStreams,
}

impl Http3Streams {
    /// The streams of a connection whose handshake is complete.
    pub fn new(quic: Box<QuicConnection>, machine: H3Connection) -> Http3Streams {
        Http3Streams { quic, machine, own: OwnStreams::default() }
    }

    /// Writes what the machine has for its own streams, as far as QUIC takes it.
    pub fn write_own(&mut self) {
        self.own.write(&mut self.quic, &mut self.machine);
    }

    /// Opens a stream for a request. `None`: the server takes no more for now.
    pub fn open(&mut self) -> Option<StreamId> {
        self.quic.inner().streams().open(Dir::Bi).map(machine_id)
    }

    /// The next stream of this direction that the peer has opened.
    pub fn accept(&mut self, direction: Dir) -> Option<StreamId> {
        self.quic.inner().streams().accept(direction).map(machine_id)
    }

    /// Takes pieces of a stream out of QUIC. `None` if the stream is closed.
    pub fn read(&mut self, id: StreamId) -> Option<StreamPieces> {
        let mut pieces = StreamPieces::default();
        take_pieces(&mut self.quic, id, &mut pieces).then_some(pieces)
    }

    /// Writes pieces on a stream as far as QUIC takes them. Returns how many bytes and how many whole pieces that were.
    ///
    /// # Errors
    /// The stream is over.
    pub fn write(&mut self, id: StreamId, pieces: &mut [Bytes]) -> Result<(usize, usize), StreamOver> {
        write_pieces(&mut self.quic, id, pieces)
    }

    /// Ends this side of a stream.
    pub fn finish(&mut self, id: StreamId) {
        // A half that is closed already needs nothing; so it is below.
        let _ = self.quic.inner().send_stream(quic_id(id)).finish();
    }

    /// Resets this side of a stream.
    pub fn reset(&mut self, id: StreamId, code: H3ErrorCode) {
        let _ = self.quic.inner().send_stream(quic_id(id)).reset(quic_code(code));
    }

    /// Reads no more of a stream.
    pub fn stop(&mut self, id: StreamId, code: H3ErrorCode) {
        let _ = self.quic.inner().recv_stream(quic_id(id)).stop(quic_code(code));
    }

    /// Lets the bytes that QUIC keeps for the peer follow the congestion window, see
    /// [`follow_congestion`].
    pub fn follow_window(&mut self, others: u64, written: u64) -> u64 {
        follow_congestion(&mut self.quic, others, written)
    }

    /// Ends the connection with this code.
    pub fn close(&mut self, now: Instant, code: H3ErrorCode, reason: &str) {
        self.quic.inner().close(now, quic_code(code), Bytes::copy_from_slice(reason.as_bytes()));
    }
}
