//! The numbers of HTTP/2 by their names.

/// The bytes with which a client begins (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (RFC 9113 section 6, RFC 9218 section 7.1).
pub mod kind {
    /// A part of a body.
    pub const DATA: u8 = 0;
    /// A block of fields, or its beginning.
    pub const HEADERS: u8 = 1;
    /// A place in the tree of priorities, which RFC 9113 has given up.
    pub const PRIORITY: u8 = 2;
    /// The end of a stream by an error.
    pub const RST_STREAM: u8 = 3;
    /// Settings, or that they were taken.
    pub const SETTINGS: u8 = 4;
    /// The promise of a response that nobody has asked for.
    pub const PUSH_PROMISE: u8 = 5;
    /// A question to which the other side answers with the same eight bytes.
    pub const PING: u8 = 6;
    /// The end of the connection.
    pub const GOAWAY: u8 = 7;
    /// More room in a window.
    pub const WINDOW_UPDATE: u8 = 8;
    /// The next part of a block of fields.
    pub const CONTINUATION: u8 = 9;
    /// A priority in the words of RFC 9218.
    pub const PRIORITY_UPDATE: u8 = 16;

    /// The name of a type.
    pub fn name(kind: u8) -> String {
        let names = [
            "DATA",
            "HEADERS",
            "PRIORITY",
            "RST_STREAM",
            "SETTINGS",
            "PUSH_PROMISE",
            "PING",
            "GOAWAY",
            "WINDOW_UPDATE",
            "CONTINUATION",
        ];
        match names.get(usize::from(kind)) {
            Some(name) => (*name).to_owned(),
            None if kind == PRIORITY_UPDATE => "PRIORITY_UPDATE".to_owned(),
            None => format!("frame of type {kind}"),
        }
    }
}

/// Flags of frames.
pub mod flag {
    /// The stream ends with this DATA or HEADERS.
    pub const END_STREAM: u8 = 0x1;
    /// Flag of a SETTINGS or PING that is an answer.
    pub const ACK: u8 = 0x1;
    /// The block of fields ends with this HEADERS or CONTINUATION.
    pub const END_HEADERS: u8 = 0x4;
    /// The frame has padding.
    pub const PADDED: u8 = 0x8;
    /// Flag of HEADERS that begin with a place in the tree of priorities.
    pub const PRIORITY: u8 = 0x20;
}

/// Parameters of SETTINGS (RFC 9113 section 6.5.2, RFC 8441, RFC 9218).
pub mod setting {
    /// The size of the sender's table for decoding, in bytes.
    pub const HEADER_TABLE_SIZE: u16 = 1;
    /// Whether the sender wants promises.
    pub const ENABLE_PUSH: u16 = 2;
    /// The number of streams that the sender allows at a time.
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    /// The window of the sender's streams at their beginning, in bytes.
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    /// The longest payload that the sender takes, in bytes.
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// The most bytes of fields that the sender takes, as section 6.5.2 counts them.
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// Whether CONNECT may have `:protocol`.
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    /// Whether the sender ignores the tree of priorities.
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// Error codes (RFC 9113 section 7).
pub mod code {
    /// Nothing is wrong.
    pub const NO_ERROR: u32 = 0;
    /// A rule was broken that has no code of its own.
    pub const PROTOCOL_ERROR: u32 = 1;
    /// The sender has a fault of its own.
    pub const INTERNAL_ERROR: u32 = 2;
    /// More was sent than a window allowed.
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    /// SETTINGS were not taken in time.
    pub const SETTINGS_TIMEOUT: u32 = 4;
    /// A frame came for a stream that had ended.
    pub const STREAM_CLOSED: u32 = 5;
    /// A frame had the wrong length.
    pub const FRAME_SIZE_ERROR: u32 = 6;
    /// The stream was not begun; the request may be sent again.
    pub const REFUSED_STREAM: u32 = 7;
    /// The stream is not wanted any more.
    pub const CANCEL: u32 = 8;
    /// A block of fields cannot be decoded.
    pub const COMPRESSION_ERROR: u32 = 9;
    /// The connection behind a CONNECT has failed.
    pub const CONNECT_ERROR: u32 = 10;
    /// The other side does too much work for what it asks.
    pub const ENHANCE_YOUR_CALM: u32 = 11;
    /// TLS is not good enough.
    pub const INADEQUATE_SECURITY: u32 = 12;
    /// The request has to be sent over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: u32 = 13;

    /// The name of a code.
    pub fn name(code: u32) -> String {
        let names = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        let known = usize::try_from(code).ok().and_then(|place| names.get(place));
        known.map_or_else(|| format!("code {code}"), |name| (*name).to_owned())
    }
}
