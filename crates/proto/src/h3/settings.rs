//! The settings of an HTTP/3 connection (RFC 9114 section 7.2.4, RFC 9204 section 5).

use super::frame::{H3ErrorCode, read_varint, write_varint};

/// `SETTINGS_QPACK_MAX_TABLE_CAPACITY`
pub const QPACK_MAX_TABLE_CAPACITY: u64 = 1;
/// `SETTINGS_MAX_FIELD_SECTION_SIZE`
pub const MAX_FIELD_SECTION_SIZE: u64 = 6;
/// `SETTINGS_QPACK_BLOCKED_STREAMS`
pub const QPACK_BLOCKED_STREAMS: u64 = 7;
/// `SETTINGS_ENABLE_CONNECT_PROTOCOL` (RFC 9220 section 3)
pub const ENABLE_CONNECT_PROTOCOL: u64 = 8;
/// `SETTINGS_H3_DATAGRAM` (RFC 9297 section 2.1.1)
pub const H3_DATAGRAM: u64 = 0x33;

/// The settings of a peer, with the values that hold before it has said anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct H3Settings {
    /// The largest table of header compression that this side may use, in bytes.
    pub qpack_table: u64,
    /// The number of streams that may wait for entries of that table.
    pub qpack_blocked_streams: u64,
    /// The size of a section of fields that the peer accepts, counted as RFC 9114 section 4.2.2 does.
    pub field_section_size: u64,
    /// Whether the peer accepts the extended CONNECT method.
    pub connect_protocol: bool,
    /// Whether the peer accepts datagrams.
    pub datagrams: bool,
}

impl Default for H3Settings {
    fn default() -> H3Settings {
        H3Settings {
            qpack_table: 0,
            qpack_blocked_streams: 0,
            field_section_size: u64::MAX,
            connect_protocol: false,
            datagrams: false,
        }
    }
}

impl H3Settings {
    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// A value that is not allowed, a setting of HTTP/2, or a setting that comes twice: the connection ends with this code.
    pub fn parse(mut payload: &[u8]) -> Result<H3Settings, H3ErrorCode> {
        let mut peer = H3Settings::default();
        // A bit for each known setting; others may be ignored, and so may their repetition.
        let mut seen = 0u64;
        while !payload.is_empty() {
            let pair = read_varint(&mut payload).and_then(|id| Some((id, read_varint(&mut payload)?)));
            let Some((id, value)) = pair else { return Err(H3ErrorCode::H3_FRAME_ERROR) };
            if id < 64 {
                if seen & 1 << id != 0 {
                    return Err(H3ErrorCode::H3_SETTINGS_ERROR);
                }
                seen |= 1 << id;
            }
            match id {
                QPACK_MAX_TABLE_CAPACITY => peer.qpack_table = value,
                MAX_FIELD_SECTION_SIZE => peer.field_section_size = value,
                QPACK_BLOCKED_STREAMS => peer.qpack_blocked_streams = value,
                ENABLE_CONNECT_PROTOCOL | H3_DATAGRAM if value > 1 => return Err(H3ErrorCode::H3_SETTINGS_ERROR),
                ENABLE_CONNECT_PROTOCOL => peer.connect_protocol = value == 1,
                H3_DATAGRAM => peer.datagrams = value == 1,
                // Settings of HTTP/2 that HTTP/3 does not have (RFC 9114 section 11.2.2).
                0 | 2..=5 => return Err(H3ErrorCode::H3_SETTINGS_ERROR),
                _ => {}
            }
        }
        Ok(peer)
    }
}

/// Appends one setting to the payload of a frame.
pub fn push(id: u64, value: u64, payload: &mut Vec<u8>) {
    write_varint(id, payload);
    write_varint(value, payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(settings: &[(u64, u64)]) -> Result<H3Settings, H3ErrorCode> {
        let mut payload = Vec::new();
        settings.iter().for_each(|(id, value)| push(*id, *value, &mut payload));
        H3Settings::parse(&payload)
    }

    #[test]
    fn known_settings_are_taken_and_unknown_ones_are_not() {
        let peer = parsed(&[
            (0x21, 7),
            (QPACK_MAX_TABLE_CAPACITY, 1 << 40),
            (QPACK_BLOCKED_STREAMS, 16),
            (0x21 + 0x1f * 3, 0),
            (0x21 + 0x1f * 3, 0),
            (MAX_FIELD_SECTION_SIZE, 9),
            (ENABLE_CONNECT_PROTOCOL, 1),
            (H3_DATAGRAM, 0),
        ]);
        let expected = H3Settings {
            qpack_table: 1 << 40,
            qpack_blocked_streams: 16,
            field_section_size: 9,
            connect_protocol: true,
            datagrams: false,
        };
        assert_eq!(peer, Ok(expected));
        assert_eq!(parsed(&[]), Ok(H3Settings::default()));
    }

    #[test]
    fn wrong_settings_end_the_connection() {
        for id in [0, 2, 3, 4, 5] {
            assert_eq!(parsed(&[(id, 0)]), Err(H3ErrorCode::H3_SETTINGS_ERROR), "{id} is a setting of HTTP/2");
        }
        assert_eq!(parsed(&[(ENABLE_CONNECT_PROTOCOL, 2)]), Err(H3ErrorCode::H3_SETTINGS_ERROR));
        assert_eq!(parsed(&[(H3_DATAGRAM, 2)]), Err(H3ErrorCode::H3_SETTINGS_ERROR));
        assert_eq!(
            parsed(&[(QPACK_BLOCKED_STREAMS, 2), (QPACK_BLOCKED_STREAMS, 2)]),
            Err(H3ErrorCode::H3_SETTINGS_ERROR)
        );
        for cut in [&[1][..], &[0x40], &[1, 0x40], &[0x21, 0x80, 0, 0]] {
            assert_eq!(H3Settings::parse(cut), Err(H3ErrorCode::H3_FRAME_ERROR));
        }
    }
}
