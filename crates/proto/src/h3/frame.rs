//! Frames of HTTP/3: variable-length integers, types of frames and of streams, and error codes (RFC 9114 sections 6 to
//! 8, RFC 9000 section 16).

/// The greatest variable-length integer (RFC 9000 section 16).
pub const LARGEST_VARINT: u64 = (1 << 62) - 1;

/// The types of frames (RFC 9114 section 7.2, RFC 9218 section 7.2).
pub mod kind {
    /// Bytes of a body.
    pub const DATA: u64 = 0;
    /// A section of fields: a head, or trailers.
    pub const HEADERS: u64 = 1;
    /// The withdrawal of a pushed response.
    pub const CANCEL_PUSH: u64 = 3;
    /// The settings of the sender.
    pub const SETTINGS: u64 = 4;
    /// The announcement of a response that nobody has asked for.
    pub const PUSH_PROMISE: u64 = 5;
    /// The announcement that the connection ends.
    pub const GOAWAY: u64 = 7;
    /// The number of responses that may be pushed.
    pub const MAX_PUSH_ID: u64 = 13;
    /// A priority for a request.
    pub const PRIORITY_UPDATE: u64 = 0xf_0700;
    /// A priority for a pushed response.
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;

    /// Whether a type is reserved because HTTP/2 had a frame of this type (RFC 9114 section 11.2.1).
    pub const fn is_of_http2(kind: u64) -> bool {
        matches!(kind, 2 | 6 | 8 | 9)
    }
}

/// The types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
pub mod stream_type {
    /// The control stream, which every side has.
    pub const CONTROL: u64 = 0;
    /// A pushed response.
    pub const PUSH: u64 = 1;
    /// The instructions of a QPACK encoder.
    pub const ENCODER: u64 = 2;
    /// The instructions of a QPACK decoder.
    pub const DECODER: u64 = 3;
}

/// The reason for the end of a stream or of a connection (RFC 9114 section 8.1, RFC 9204 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct H3ErrorCode(pub u64);

macro_rules! error_codes {
    ($($(#[doc = $doc:literal])* $name:ident $code:literal,)*) => {
        impl H3ErrorCode {
            $($(#[doc = $doc])* pub const $name: H3ErrorCode = H3ErrorCode($code);)*

            /// The name, as in the RFC.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($name),)*
                    _ => "unknown",
                }
            }
        }
    };
}

error_codes! {
    /// There is no error.
    H3_NO_ERROR 0x100,
    /// The peer does not follow the protocol, in a way for which there is no other code.
    H3_GENERAL_PROTOCOL_ERROR 0x101,
    /// Something went wrong inside.
    H3_INTERNAL_ERROR 0x102,
    /// The peer has opened a stream that it may not open, or of a type that is not known.
    H3_STREAM_CREATION_ERROR 0x103,
    /// A stream that the connection needs was closed.
    H3_CLOSED_CRITICAL_STREAM 0x104,
    /// A frame came where its type is not allowed.
    H3_FRAME_UNEXPECTED 0x105,
    /// A frame has a wrong size or a wrong form.
    H3_FRAME_ERROR 0x106,
    /// The peer causes more work than it should.
    H3_EXCESSIVE_LOAD 0x107,
    /// A stream or a push was named by a wrong number.
    H3_ID_ERROR 0x108,
    /// The settings of the peer are wrong.
    H3_SETTINGS_ERROR 0x109,
    /// The control stream does not begin with settings.
    H3_MISSING_SETTINGS 0x10a,
    /// The request was refused before anything was done for it: it may be sent again.
    H3_REQUEST_REJECTED 0x10b,
    /// The request or its response is not needed any more.
    H3_REQUEST_CANCELLED 0x10c,
    /// The stream of a request has ended before the request was complete.
    H3_REQUEST_INCOMPLETE 0x10d,
    /// A message is malformed.
    H3_MESSAGE_ERROR 0x10e,
    /// The connection behind a CONNECT request has failed.
    H3_CONNECT_ERROR 0x10f,
    /// The request needs HTTP/1.1.
    H3_VERSION_FALLBACK 0x110,
    /// A section of fields could not be decompressed.
    QPACK_DECOMPRESSION_FAILED 0x200,
    /// An instruction of the peer's QPACK encoder is wrong.
    QPACK_ENCODER_STREAM_ERROR 0x201,
    /// An instruction of the peer's QPACK decoder is wrong.
    QPACK_DECODER_STREAM_ERROR 0x202,
}

/// The length of a variable-length integer in bytes, by the first of them.
#[inline]
pub(super) const fn varint_len(first: u8) -> usize {
    1 << (first >> 6)
}

/// Reads a variable-length integer; `None` if more bytes are needed.
#[inline]
pub fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, _) = bytes.split_first()?;
    let (own, rest) = bytes.split_at_checked(varint_len(first))?;
    let value = own[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    *bytes = rest;
    Some(value)
}

/// Writes a variable-length integer, which is at most [`LARGEST_VARINT`], in as few bytes as it takes.
#[inline]
pub fn write_varint(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= LARGEST_VARINT, "{value} is no variable-length integer");
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Writes a whole frame with a small payload.
pub fn write(kind: u64, payload: &[u8], out: &mut Vec<u8>) {
    write_varint(kind, out);
    write_varint(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// The head of a `DATA` frame, which its payload follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHead {
    bytes: [u8; DataHead::LARGEST],
    len: u8,
}

impl DataHead {
    /// The length of the longest head, in bytes.
    pub const LARGEST: usize = 9;

    /// The head of a frame with a payload of this length, which is at most [`LARGEST_VARINT`].
    pub fn new(payload: u64) -> DataHead {
        debug_assert!(payload <= LARGEST_VARINT, "no frame has {payload} bytes");
        let mut bytes = [0; DataHead::LARGEST];
        bytes[0] = kind::DATA as u8;
        let len = match payload {
            0..0x40 => {
                bytes[1] = payload as u8;
                2
            }
            0x40..0x4000 => {
                bytes[1..3].copy_from_slice(&(payload as u16 | 0x4000).to_be_bytes());
                3
            }
            0x4000..0x4000_0000 => {
                bytes[1..5].copy_from_slice(&(payload as u32 | 0x8000_0000).to_be_bytes());
                5
            }
            _ => {
                bytes[1..9].copy_from_slice(&(payload | 0xc000_0000_0000_0000).to_be_bytes());
                9
            }
        };
        DataHead { bytes, len }
    }

    /// The bytes to write before the payload.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000, appendix A.1.
    #[test]
    fn the_examples_of_the_rfc() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            assert_eq!(out, bytes);
            out.push(7);
            let mut rest = &out[..];
            assert_eq!(read_varint(&mut rest), Some(value));
            assert_eq!(rest, [7]);
            for len in 0..bytes.len() {
                let mut cut = &bytes[..len];
                assert_eq!((read_varint(&mut cut), cut.len()), (None, len), "nothing is taken of a part");
            }
        }
        assert_eq!(read_varint(&mut &[0x40, 0x25][..]), Some(37), "more bytes than it takes are allowed");
    }

    #[test]
    fn a_head_of_data_is_a_frame() {
        for len in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, LARGEST_VARINT] {
            let mut written = Vec::new();
            write_varint(kind::DATA, &mut written);
            write_varint(len, &mut written);
            assert_eq!(DataHead::new(len).as_bytes(), written);
        }
    }

    #[test]
    fn codes_have_the_names_of_the_rfc() {
        assert_eq!(H3ErrorCode(0x10e).name(), "H3_MESSAGE_ERROR");
        assert_eq!(H3ErrorCode::QPACK_DECODER_STREAM_ERROR.name(), "QPACK_DECODER_STREAM_ERROR");
        assert_eq!(H3ErrorCode(0).name(), "unknown");
    }
}
