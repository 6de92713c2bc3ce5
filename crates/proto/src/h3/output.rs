//! Bytes for the unidirectional streams of this side.

use super::frame::{stream_type, write_varint};

/// A unidirectional stream of this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnStream {
    /// The control stream: settings, and the end of the connection.
    Control,
    /// The instructions of the QPACK encoder.
    Encoder,
    /// The instructions of the QPACK decoder.
    Decoder,
}

impl OwnStream {
    /// All of them, in the order in which they should be written.
    pub const ALL: [OwnStream; 3] = [OwnStream::Control, OwnStream::Encoder, OwnStream::Decoder];

    /// A number from 0 on.
    pub const fn index(self) -> usize {
        self as usize
    }

    const fn stream_type(self) -> u64 {
        match self {
            OwnStream::Control => stream_type::CONTROL,
            OwnStream::Encoder => stream_type::ENCODER,
            OwnStream::Decoder => stream_type::DECODER,
        }
    }
}

/// The bytes of one stream that were not written yet.
#[derive(Debug, Default)]
struct Unwritten {
    bytes: Vec<u8>,
    /// The number of them that are written.
    written: usize,
    /// The type of the stream is among them, or was written.
    has_type: bool,
}

/// The bytes to write.
#[derive(Debug, Default)]
pub(super) struct Output([Unwritten; 3]);

impl Output {
    /// Has `write` append bytes for a stream.
    pub(super) fn with(&mut self, stream: OwnStream, write: impl FnOnce(&mut Vec<u8>)) {
        let unwritten = &mut self.0[stream.index()];
        if !std::mem::replace(&mut unwritten.has_type, true) {
            write_varint(stream.stream_type(), &mut unwritten.bytes);
        }
        write(&mut unwritten.bytes);
    }

    /// The bytes to write next on a stream.
    #[inline]
    pub(super) fn pending(&self, stream: OwnStream) -> &[u8] {
        let Unwritten { bytes, written, .. } = &self.0[stream.index()];
        bytes.get(*written..).unwrap_or_default()
    }

    /// Notes that the first `count` bytes were written.
    pub(super) fn wrote(&mut self, stream: OwnStream, count: usize) {
        let unwritten = &mut self.0[stream.index()];
        debug_assert!(unwritten.written + count <= unwritten.bytes.len(), "more was written than there is");
        unwritten.written += count;
        if unwritten.written >= unwritten.bytes.len() {
            unwritten.bytes.clear();
            unwritten.written = 0;
        } else if unwritten.written > unwritten.bytes.len() / 2 {
            unwritten.bytes.drain(..unwritten.written);
            unwritten.written = 0;
        }
    }

    /// Gives up memory in which there is nothing.
    pub(super) fn shrink(&mut self) {
        self.0.iter_mut().filter(|unwritten| unwritten.bytes.is_empty()).for_each(|unwritten| {
            unwritten.bytes = Vec::new();
        });
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.iter().map(|unwritten| unwritten.bytes.capacity()).sum()
    }
}
