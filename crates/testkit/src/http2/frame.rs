//! A frame (RFC 9113 section 4.1), as a value and as bytes.

use super::names::{code, flag, kind};
use std::fmt;

/// The length of a frame's head, in bytes.
pub const HEAD: usize = 9;

/// A frame. Nothing is checked: a test may make a frame that is wrong in any way.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// The type ([`kind`]).
    pub kind: u8,
    /// The flags ([`flag`]).
    pub flags: u8,
    /// The stream; 0 is the connection. The top bit is reserved.
    pub stream: u32,
    /// The bytes behind the head.
    pub payload: Vec<u8>,
}

impl Frame {
    /// A frame of any type.
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Frame {
        Frame { kind, flags, stream, payload: payload.as_ref().to_vec() }
    }

    /// DATA.
    pub fn data(stream: u32, bytes: impl AsRef<[u8]>) -> Frame {
        Frame::new(kind::DATA, 0, stream, bytes)
    }

    /// HEADERS that have a whole block.
    pub fn headers(stream: u32, block: impl AsRef<[u8]>) -> Frame {
        Frame::new(kind::HEADERS, flag::END_HEADERS, stream, block)
    }

    /// HEADERS to which CONTINUATION belongs.
    pub fn headers_begun(stream: u32, block: impl AsRef<[u8]>) -> Frame {
        Frame::new(kind::HEADERS, 0, stream, block)
    }

    /// CONTINUATION that does not end the block.
    pub fn continuation(stream: u32, block: impl AsRef<[u8]>) -> Frame {
        Frame::new(kind::CONTINUATION, 0, stream, block)
    }

    /// PRIORITY of RFC 7540: the stream depends on another one, with a weight from 0 (which means 1) to 255.
    pub fn priority(stream: u32, on: u32, weight: u8) -> Frame {
        Frame::new(kind::PRIORITY, 0, stream, [&on.to_be_bytes()[..], &[weight]].concat())
    }

    /// RST_STREAM.
    pub fn reset(stream: u32, code: u32) -> Frame {
        Frame::new(kind::RST_STREAM, 0, stream, code.to_be_bytes())
    }

    /// SETTINGS with these parameters.
    pub fn settings(parameters: &[(u16, u32)]) -> Frame {
        let bytes = parameters.iter().flat_map(|(name, value)| {
            let (name, value) = (name.to_be_bytes(), value.to_be_bytes());
            name.into_iter().chain(value)
        });
        Frame::new(kind::SETTINGS, 0, 0, bytes.collect::<Vec<u8>>())
    }

    /// The acknowledgement of SETTINGS.
    pub fn settings_taken() -> Frame {
        Frame::new(kind::SETTINGS, flag::ACK, 0, [])
    }

    /// PING.
    pub fn ping(bytes: [u8; 8]) -> Frame {
        Frame::new(kind::PING, 0, 0, bytes)
    }

    /// GOAWAY.
    pub fn goaway(last: u32, code: u32) -> Frame {
        Frame::new(kind::GOAWAY, 0, 0, [last.to_be_bytes(), code.to_be_bytes()].concat())
    }

    /// WINDOW_UPDATE.
    pub fn window(stream: u32, more: u32) -> Frame {
        Frame::new(kind::WINDOW_UPDATE, 0, stream, more.to_be_bytes())
    }

    /// PRIORITY_UPDATE of RFC 9218 with this value, such as `u=0, i`.
    pub fn priority_update(stream: u32, value: &str) -> Frame {
        Frame::new(kind::PRIORITY_UPDATE, 0, 0, [&stream.to_be_bytes()[..], value.as_bytes()].concat())
    }

    /// The frame with these flags, too.
    #[must_use]
    pub fn with(mut self, flags: u8) -> Frame {
        self.flags |= flags;
        self
    }

    /// The frame with END_STREAM.
    #[must_use]
    pub fn end(self) -> Frame {
        self.with(flag::END_STREAM)
    }

    /// DATA or HEADERS with `length` bytes of padding.
    #[must_use]
    pub fn padded(mut self, length: u8) -> Frame {
        self.payload.insert(0, length);
        self.payload.resize(self.payload.len() + usize::from(length), 0);
        self.with(flag::PADDED)
    }

    /// Whether the frame has all of these flags.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The bytes of the frame.
    ///
    /// # Panics
    /// The payload has 2^24 bytes or more, which its length cannot say.
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).ok().filter(|length| *length < 1 << 24);
        let length = length.unwrap_or_else(|| panic!("{} bytes in a frame", self.payload.len()));
        self.bytes_as(length)
    }

    /// The bytes of the frame, with a length in its head that need not be the length of its payload.
    pub fn bytes_as(&self, length: u32) -> Vec<u8> {
        let mut bytes = length.to_be_bytes()[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// The frame at the start of some bytes, and how many bytes it has; `None` if it is not whole.
    pub fn parse(bytes: &[u8]) -> Option<(Frame, usize)> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let payload = rest.get(..length)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((Frame::new(head[3], head[4], stream, payload), HEAD + length))
    }

    /// The payload of DATA, HEADERS or PUSH_PROMISE without padding, and without the place in the tree of priorities.
    ///
    /// # Errors
    /// What is wrong with the padding.
    pub fn content(&self) -> Result<&[u8], String> {
        let mut content = &self.payload[..];
        if self.has(flag::PADDED) {
            let [length, rest @ ..] = content else { return Err(format!("no length of padding in {self:?}")) };
            let kept = rest.len().checked_sub(usize::from(*length));
            content = kept.map(|kept| &rest[..kept]).ok_or_else(|| format!("nothing but padding in {self:?}"))?;
        }
        if self.kind == kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..).ok_or_else(|| format!("half a priority in {self:?}"))?;
        }
        Ok(content)
    }

    /// The number in four bytes of the payload, from this place on.
    pub fn number(&self, place: usize) -> Option<u32> {
        let four = self.payload.get(place..place + 4)?;
        Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    }

    /// The parameters of SETTINGS.
    pub fn parameters(&self) -> Vec<(u16, u32)> {
        let six = self.payload.chunks_exact(6);
        six.map(|six| (u16::from_be_bytes([six[0], six[1]]), u32::from_be_bytes([six[2], six[3], six[4], six[5]])))
            .collect()
    }
}

/// A message that shows what the frame says.
impl fmt::Debug for Frame {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} of {} bytes on {} with flags {:#x}", kind::name(self.kind), self.payload.len(), self.stream, {
            self.flags
        })?;
        match (self.kind, self.number(0), self.number(4)) {
            (kind::RST_STREAM, Some(why), _) => write!(to, ": {}", code::name(why)),
            (kind::GOAWAY, Some(last), Some(why)) => {
                let text = self.payload.get(8..).unwrap_or_default().escape_ascii();
                write!(to, ": {} after {last} \"{text}\"", code::name(why))
            }
            (kind::WINDOW_UPDATE, Some(more), _) => write!(to, ": {more}"),
            (kind::SETTINGS, ..) => write!(to, ": {:?}", self.parameters()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_its_bytes_say() {
        let frame = Frame::data(5, "hello").padded(3).end();
        let bytes = frame.bytes();
        assert_eq!(bytes, b"\0\0\x09\0\x09\0\0\0\x05\x03hello\0\0\0");
        assert_eq!(Frame::parse(&[&bytes[..], b"more"].concat()), Some((frame.clone(), bytes.len())));
        assert_eq!(Frame::parse(&bytes[..bytes.len() - 1]), None);
        assert_eq!(frame.content(), Ok(&b"hello"[..]));
        assert_eq!(Frame::settings(&[(3, 100), (4, 1 << 16)]).parameters(), [(3, 100), (4, 1 << 16)]);
        let headers = Frame::new(kind::HEADERS, flag::PRIORITY | flag::PADDED, 1, b"\x02\0\0\0\0\x10block\0\0");
        assert_eq!(headers.content(), Ok(&b"block"[..]));
        assert!(Frame::new(kind::DATA, flag::PADDED, 1, b"\x02x").content().is_err());
        assert!(Frame::new(kind::DATA, flag::PADDED, 1, b"").content().is_err());
    }

    #[test]
    fn messages_show_what_a_frame_says() {
        assert_eq!(
            format!("{:?}", Frame::goaway(3, 11)),
            "GOAWAY of 8 bytes on 0 with flags 0x0: ENHANCE_YOUR_CALM after 3 \"\""
        );
        assert_eq!(format!("{:?}", Frame::reset(1, 99)), "RST_STREAM of 4 bytes on 1 with flags 0x0: code 99");
    }
}
