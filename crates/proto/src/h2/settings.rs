//! The settings of an HTTP/2 connection (RFC 9113 section 6.5).

use super::frame::{DEFAULT_FRAME_SIZE, DEFAULT_WINDOW, ErrorCode, LARGEST_FRAME_SIZE, LARGEST_WINDOW};

/// `SETTINGS_HEADER_TABLE_SIZE`
pub const HEADER_TABLE_SIZE: u16 = 1;
/// `SETTINGS_ENABLE_PUSH`
pub const ENABLE_PUSH: u16 = 2;
/// `SETTINGS_MAX_CONCURRENT_STREAMS`
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
/// `SETTINGS_INITIAL_WINDOW_SIZE`
pub const INITIAL_WINDOW_SIZE: u16 = 4;
/// `SETTINGS_MAX_FRAME_SIZE`
pub const MAX_FRAME_SIZE: u16 = 5;
/// `SETTINGS_MAX_HEADER_LIST_SIZE`
pub const MAX_HEADER_LIST_SIZE: u16 = 6;
/// `SETTINGS_ENABLE_CONNECT_PROTOCOL` (RFC 8441 section 3)
pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
/// `SETTINGS_NO_RFC7540_PRIORITIES` (RFC 9218 section 2.1)
pub const NO_RFC7540_PRIORITIES: u16 = 9;

/// The length of one setting in bytes.
pub const SETTING: usize = 6;

/// The settings of a peer, with the values that hold before it has said anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    /// The size that the peer's table of header compression may reach, in bytes.
    pub header_table_size: u32,
    /// The number of streams that the peer accepts at a time.
    pub max_concurrent_streams: u32,
    /// The window that each stream begins with.
    pub initial_window: u32,
    /// The largest payload of a frame that the peer accepts.
    pub max_frame_size: u32,
    /// Whether the peer accepts the extended CONNECT method.
    pub connect_protocol: bool,
    /// Whether the peer accepts pushed responses.
    pub push: bool,
}

impl Default for PeerSettings {
    fn default() -> PeerSettings {
        PeerSettings {
            header_table_size: 4096,
            max_concurrent_streams: u32::MAX,
            initial_window: DEFAULT_WINDOW,
            max_frame_size: DEFAULT_FRAME_SIZE,
            connect_protocol: false,
            push: true,
        }
    }
}

impl PeerSettings {
    /// Applies the payload of a frame; its length is a multiple of [`SETTING`].
    ///
    /// # Errors
    /// A value that is not allowed: the connection ends with this code.
    pub fn apply(&mut self, payload: &[u8]) -> Result<(), ErrorCode> {
        debug_assert!(payload.len().is_multiple_of(SETTING), "a part of a setting would be ignored");
        for setting in payload.chunks_exact(SETTING) {
            let id = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match id {
                HEADER_TABLE_SIZE => self.header_table_size = value,
                ENABLE_PUSH if value > 1 => return Err(ErrorCode::PROTOCOL_ERROR),
                ENABLE_PUSH => self.push = value == 1,
                MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
                INITIAL_WINDOW_SIZE if value > LARGEST_WINDOW => return Err(ErrorCode::FLOW_CONTROL_ERROR),
                INITIAL_WINDOW_SIZE => self.initial_window = value,
                MAX_FRAME_SIZE if !(DEFAULT_FRAME_SIZE..=LARGEST_FRAME_SIZE).contains(&value) => {
                    return Err(ErrorCode::PROTOCOL_ERROR);
                }
                MAX_FRAME_SIZE => self.max_frame_size = value,
                ENABLE_CONNECT_PROTOCOL if value > 1 => return Err(ErrorCode::PROTOCOL_ERROR),
                ENABLE_CONNECT_PROTOCOL => self.connect_protocol = value == 1,
                // This side only receives lists of fields, whose size it limits itself; others have no meaning here.
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends one setting to the payload of a frame.
pub fn push(id: u16, value: u32, payload: &mut Vec<u8>) {
    payload.extend_from_slice(&id.to_be_bytes());
    payload.extend_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(settings: &[(u16, u32)]) -> Result<PeerSettings, ErrorCode> {
        let (mut payload, mut peer) = (Vec::new(), PeerSettings::default());
        settings.iter().for_each(|(id, value)| push(*id, *value, &mut payload));
        peer.apply(&payload).map(|()| peer)
    }

    #[test]
    fn the_last_value_counts_and_unknown_settings_do_not() {
        let peer = applied(&[
            (INITIAL_WINDOW_SIZE, 7),
            (INITIAL_WINDOW_SIZE, 0),
            (MAX_FRAME_SIZE, LARGEST_FRAME_SIZE),
            (ENABLE_PUSH, 0),
            (0xffff, 12),
            (MAX_CONCURRENT_STREAMS, 3),
        ]);
        let expected = PeerSettings {
            initial_window: 0,
            max_frame_size: LARGEST_FRAME_SIZE,
            push: false,
            max_concurrent_streams: 3,
            ..PeerSettings::default()
        };
        assert_eq!(peer, Ok(expected));
    }

    #[test]
    fn values_out_of_range_end_the_connection() {
        for (id, value, code) in [
            (ENABLE_PUSH, 2, ErrorCode::PROTOCOL_ERROR),
            (INITIAL_WINDOW_SIZE, LARGEST_WINDOW + 1, ErrorCode::FLOW_CONTROL_ERROR),
            (MAX_FRAME_SIZE, DEFAULT_FRAME_SIZE - 1, ErrorCode::PROTOCOL_ERROR),
            (MAX_FRAME_SIZE, LARGEST_FRAME_SIZE + 1, ErrorCode::PROTOCOL_ERROR),
            (ENABLE_CONNECT_PROTOCOL, 2, ErrorCode::PROTOCOL_ERROR),
        ] {
            assert_eq!(applied(&[(id, value)]), Err(code), "{id} {value}");
        }
    }
}
