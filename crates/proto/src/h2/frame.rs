//! Frames of HTTP/2: the head that each of them begins with, their types, flags and error codes (RFC 9113 sections 4, 6 and 7).

/// The length of the head of a frame in bytes.
pub const FRAME_HEAD: usize = 9;

/// The size of a payload that every endpoint accepts, and the largest that this implementation accepts
/// (`SETTINGS_MAX_FRAME_SIZE`, RFC 9113 section 6.5.2).
pub const DEFAULT_FRAME_SIZE: u32 = 16_384;

/// The largest size of a payload that a peer may announce to accept.
pub const LARGEST_FRAME_SIZE: u32 = (1 << 24) - 1;

/// The largest flow-control window (RFC 9113 section 6.9.1).
pub const LARGEST_WINDOW: u32 = (1 << 31) - 1;

/// The flow-control window of a connection, and of each stream, before anything was announced.
pub const DEFAULT_WINDOW: u32 = 65_535;

/// The bytes that a client sends first (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The types of frames.
pub mod kind {
    /// Bytes of a body.
    pub const DATA: u8 = 0;
    /// The beginning of a block of fields.
    pub const HEADERS: u8 = 1;
    /// A priority of RFC 7540, which RFC 9113 has given up.
    pub const PRIORITY: u8 = 2;
    /// The end of a stream before it is complete.
    pub const RST_STREAM: u8 = 3;
    /// Settings of the sender, or the acknowledgement of settings.
    pub const SETTINGS: u8 = 4;
    /// The announcement of a response that nobody has asked for.
    pub const PUSH_PROMISE: u8 = 5;
    /// A question whether the peer is there, or its answer.
    pub const PING: u8 = 6;
    /// The announcement that the connection ends.
    pub const GOAWAY: u8 = 7;
    /// More bytes may be sent.
    pub const WINDOW_UPDATE: u8 = 8;
    /// The next part of a block of fields.
    pub const CONTINUATION: u8 = 9;
    /// A priority of RFC 9218 for a stream.
    pub const PRIORITY_UPDATE: u8 = 0x10;
}

/// The flags of frames.
pub mod flag {
    /// Of `DATA` and `HEADERS`: nothing follows on the stream.
    pub const END_STREAM: u8 = 0x1;
    /// Of `SETTINGS` and `PING`: it acknowledges.
    pub const ACK: u8 = 0x1;
    /// Of `HEADERS` and `CONTINUATION`: the block of fields is complete.
    pub const END_HEADERS: u8 = 0x4;
    /// Of `DATA` and `HEADERS`: padding follows the payload.
    pub const PADDED: u8 = 0x8;
    /// Of `HEADERS`: a priority of RFC 7540 precedes the fields.
    pub const PRIORITY: u8 = 0x20;
}

/// The reason for the end of a stream or of a connection (RFC 9113 section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// There is no error.
    pub const NO_ERROR: ErrorCode = ErrorCode(0);
    /// The peer does not follow the protocol.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(1);
    /// Something went wrong inside.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(2);
    /// A window was exceeded.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(3);
    /// Settings were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(4);
    /// A frame came for a stream that has ended.
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(5);
    /// A frame has a size that it must not have.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(6);
    /// The stream was refused before anything was done for it: the request may be sent again.
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(7);
    /// The stream is not needed any more.
    pub const CANCEL: ErrorCode = ErrorCode(8);
    /// The state of header compression is lost.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(9);
    /// The connection behind a CONNECT request has failed.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(10);
    /// The peer causes more work than it should.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(11);
    /// The TLS session is not good enough.
    pub const INADEQUATE_SECURITY: ErrorCode = ErrorCode(12);
    /// The request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(13);

    /// The name, as in the RFC.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "NO_ERROR",
            1 => "PROTOCOL_ERROR",
            2 => "INTERNAL_ERROR",
            3 => "FLOW_CONTROL_ERROR",
            4 => "SETTINGS_TIMEOUT",
            5 => "STREAM_CLOSED",
            6 => "FRAME_SIZE_ERROR",
            7 => "REFUSED_STREAM",
            8 => "CANCEL",
            9 => "COMPRESSION_ERROR",
            10 => "CONNECT_ERROR",
            11 => "ENHANCE_YOUR_CALM",
            12 => "INADEQUATE_SECURITY",
            13 => "HTTP_1_1_REQUIRED",
            _ => "unknown",
        }
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// The length of the payload in bytes, at most [`LARGEST_FRAME_SIZE`].
    pub len: u32,
    /// The type, one of [`kind`], or another one.
    pub kind: u8,
    /// The flags; their meaning depends on the type.
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Reads a head; the reserved bit is ignored.
    #[inline]
    pub const fn parse(bytes: &[u8; FRAME_HEAD]) -> FrameHead {
        FrameHead {
            len: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]),
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & LARGEST_WINDOW,
        }
    }

    /// The head as bytes.
    #[inline]
    pub const fn bytes(self) -> [u8; FRAME_HEAD] {
        let (len, stream) = (self.len.to_be_bytes(), self.stream.to_be_bytes());
        [len[1], len[2], len[3], self.kind, self.flags, stream[0], stream[1], stream[2], stream[3]]
    }

    /// Whether it has this flag.
    #[inline]
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes a whole frame with a small payload.
pub fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    debug_assert!(payload.len() <= DEFAULT_FRAME_SIZE as usize, "a frame that every peer accepts");
    out.extend_from_slice(&FrameHead { len: payload.len() as u32, kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let head = FrameHead { len: 0x12_34_56, kind: kind::HEADERS, flags: 5, stream: 0x7654_3210 };
        assert_eq!(head.bytes(), [0x12, 0x34, 0x56, 1, 5, 0x76, 0x54, 0x32, 0x10]);
        assert_eq!(FrameHead::parse(&head.bytes()), head);
        assert!(head.has(flag::END_STREAM) && head.has(flag::END_HEADERS) && !head.has(flag::PADDED));
    }

    #[test]
    fn the_reserved_bit_is_ignored() {
        assert_eq!(FrameHead::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).stream, 1);
    }
}
