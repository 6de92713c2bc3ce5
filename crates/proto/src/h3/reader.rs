//! Cuts the bytes of a stream into frames, however the transport has split them.

use super::frame::{kind, read_varint, varint_len};

/// The next bytes that are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameStage {
    /// The type of a frame.
    Type,
    /// The length of a frame of this kind.
    Length(FrameKind),
    /// The payload of a frame; this number of its bytes is still to come.
    Payload(FrameKind, u64),
}

/// The type of a frame, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    Data,
    Headers,
    CancelPush,
    Settings,
    PushPromise,
    GoAway,
    MaxPushId,
    PriorityUpdate,
    PriorityUpdatePush,
    /// A type of HTTP/2 that HTTP/3 has not.
    OfHttp2,
    /// A type without a meaning here; types that only test whether such frames are ignored are among them.
    Unknown,
}

impl FrameKind {
    const fn of(code: u64) -> FrameKind {
        match code {
            kind::DATA => FrameKind::Data,
            kind::HEADERS => FrameKind::Headers,
            kind::CANCEL_PUSH => FrameKind::CancelPush,
            kind::SETTINGS => FrameKind::Settings,
            kind::PUSH_PROMISE => FrameKind::PushPromise,
            kind::GOAWAY => FrameKind::GoAway,
            kind::MAX_PUSH_ID => FrameKind::MaxPushId,
            kind::PRIORITY_UPDATE => FrameKind::PriorityUpdate,
            kind::PRIORITY_UPDATE_PUSH => FrameKind::PriorityUpdatePush,
            code if kind::is_of_http2(code) => FrameKind::OfHttp2,
            _ => FrameKind::Unknown,
        }
    }
}

/// A variable-length integer that comes in parts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VarintReader {
    partial: [u8; 8],
    len: u8,
}

impl VarintReader {
    pub(super) const fn new() -> VarintReader {
        VarintReader { partial: [0; 8], len: 0 }
    }

    /// Takes the integer; `None` if more bytes are needed, and all are taken then.
    #[inline]
    pub(super) fn read(&mut self, bytes: &mut &[u8]) -> Option<u64> {
        if self.len == 0
            && let Some(value) = read_varint(bytes)
        {
            return Some(value);
        }
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            let len = usize::from(self.len);
            debug_assert!(len < self.partial.len(), "an integer is longer than any");
            *self.partial.get_mut(len)? = byte;
            self.len += 1;
            if len + 1 == varint_len(self.partial[0]) {
                self.len = 0;
                return read_varint(&mut &self.partial[..=len]);
            }
        }
        None
    }

    /// Whether a part of it has come.
    pub(super) const fn is_partial(&self) -> bool {
        self.len > 0
    }
}

/// The state of reading a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameReader {
    pub(super) stage: FrameStage,
    varint: VarintReader,
}

impl FrameReader {
    pub(super) const fn new() -> FrameReader {
        FrameReader { stage: FrameStage::Type, varint: VarintReader::new() }
    }

    /// Takes the head of a frame; `None` if more bytes are needed, and all are taken then. Its payload is next.
    #[inline]
    pub(super) fn head(&mut self, bytes: &mut &[u8]) -> Option<(FrameKind, u64)> {
        if self.stage == FrameStage::Type {
            self.stage = FrameStage::Length(FrameKind::of(self.varint.read(bytes)?));
        }
        let FrameStage::Length(kind) = self.stage else { return None };
        let len = self.varint.read(bytes)?;
        self.stage = FrameStage::Payload(kind, len);
        Some((kind, len))
    }

    /// Takes bytes of the payload, as far as they have come; behind the last of them, another frame is next.
    #[inline]
    pub(super) fn payload<'b>(&mut self, bytes: &mut &'b [u8]) -> &'b [u8] {
        let FrameStage::Payload(kind, left) = self.stage else { return &[] };
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let (payload, rest) = bytes.split_at(len);
        *bytes = rest;
        let left = left - len as u64;
        self.stage = if left == 0 { FrameStage::Type } else { FrameStage::Payload(kind, left) };
        payload
    }

    /// Whether a frame has begun and is not complete.
    pub(super) fn is_in_frame(&self) -> bool {
        self.stage != FrameStage::Type || self.varint.is_partial()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_at_the_same_places_however_they_come() {
        let bytes = [0x00, 0x03, 1, 2, 3, 0x80, 0x0f, 0x07, 0x00, 0x40, 0x02, 4, 5, 0x21, 0x00, 0x08, 0x01, 6];
        let expected = [
            (FrameKind::Data, vec![1, 2, 3]),
            (FrameKind::PriorityUpdate, vec![4, 5]),
            (FrameKind::Unknown, vec![]),
            (FrameKind::OfHttp2, vec![6]),
        ];
        for part in 1..=bytes.len() {
            let (mut reader, mut frames) = (FrameReader::new(), Vec::<(FrameKind, Vec<u8>)>::new());
            for mut part in bytes.chunks(part) {
                while !part.is_empty() {
                    if let FrameStage::Payload(..) = reader.stage {
                        frames.last_mut().expect("a frame has begun").1.extend_from_slice(reader.payload(&mut part));
                    } else if let Some((kind, len)) = reader.head(&mut part) {
                        frames.push((kind, Vec::new()));
                        if len == 0 {
                            assert!(reader.payload(&mut part).is_empty());
                        }
                    }
                }
            }
            assert_eq!(frames, expected, "in parts of {part}");
            assert!(!reader.is_in_frame());
        }
    }

    #[test]
    fn a_part_of_a_frame_is_noticed() {
        for cut in [&[0x80][..], &[0x00], &[0x00, 0x40], &[0x00, 0x01]] {
            let mut reader = FrameReader::new();
            let _ = reader.head(&mut &cut[..]);
            assert!(reader.is_in_frame());
        }
    }
}
