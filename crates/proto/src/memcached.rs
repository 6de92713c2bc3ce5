//! memcached's text protocol, as far as it is needed to read values:
//! <https://github.com/memcached/memcached/blob/master/doc/protocol.txt>.

use std::ops::Range;

use crate::response::ReplyError;
use crate::response::shown;

/// The bytes that end a value, and the response.
pub const TRAILER: &[u8] = b"\r\nEND\r\n";

/// A key in the form in which it is sent: bytes that would end it, and `%`, are escaped, as nginx does.
pub fn escape_key(key: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(key.len());
    for &byte in key {
        if byte <= b' ' || byte == b'%' {
            escaped.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            escaped.push(byte);
        }
    }
    escaped
}

/// Appends the request for a value. The key has to be escaped by [`escape_key`].
pub fn get(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"get ");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

/// The first line of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseLine {
    /// A value of this number of bytes follows, which was stored with these flags.
    Value {
        /// The flags that the client has stored with the value; 0 if they are not wanted.
        flags: u64,
        /// The length of the value in bytes.
        length: u64,
    },
    /// There is no value under this key.
    NotFound,
}

/// The result of [`Value::step`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValuePiece {
    /// Bytes of the value, at this place of the input (never empty). The next step takes the input from the range's end.
    Data(Range<usize>),
    /// All of the input is used up and the response continues.
    More,
    /// The response is complete; this many bytes of the input belonged to it.
    Done(usize),
}

/// Reads the first line, of at most `max` bytes: returns its meaning, and its length. `None`: it is not complete. As in
/// nginx, the flags are parsed only if they are wanted.
///
/// # Errors
/// The line is neither about a value nor about its absence, or it is too long.
pub fn answer(
    input: &[u8],
    key: &[u8],
    wants_flags: bool,
    max: usize,
) -> Result<Option<(ResponseLine, usize)>, ReplyError> {
    let Some(end) = memchr::memchr(b'\n', &input[..input.len().min(max)]) else {
        return if input.len() < max { Ok(None) } else { Err(ReplyError::TooBig) };
    };
    let Some(line) = input[..end].strip_suffix(b"\r") else {
        return Err(ReplyError::MemcachedResponse(shown(&input[..end])));
    };
    if line == b"END" {
        return Ok(Some((ResponseLine::NotFound, end + 1)));
    }
    let mut words = line.splitn(4, |&byte| byte == b' ');
    let (Some(b"VALUE"), Some(of), Some(flags), Some(length)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(ReplyError::MemcachedResponse(shown(line)));
    };
    let told = || (shown(line), shown(key));
    if of != key {
        let (line, key) = told();
        return Err(ReplyError::MemcachedKey { line, key });
    }
    let Some(flags) = (if wants_flags { number(flags) } else { Some(0) }) else {
        let (line, key) = told();
        return Err(ReplyError::MemcachedFlags { line, key });
    };
    let Some(length) = number(length) else {
        let (line, key) = told();
        return Err(ReplyError::MemcachedLength { line, key });
    };
    Ok(Some((ResponseLine::Value { flags, length }, end + 1)))
}

fn number(digits: &[u8]) -> Option<u64> {
    crate::head::parse_length(digits)
}

/// Finds the bytes of a value behind its line.
#[derive(Clone, Debug)]
pub struct Value {
    /// The bytes that are still to come.
    left: u64,
    /// The bytes of the trailer that have come.
    trailer: usize,
}

impl Value {
    /// A state before the first byte of a value of that length.
    pub const fn new(length: u64) -> Value {
        Value { left: length, trailer: 0 }
    }

    /// The bytes of the value that are still to come.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// The bytes of the response that are still to come.
    pub const fn to_come(&self) -> u64 {
        self.left.saturating_add((TRAILER.len() - self.trailer) as u64)
    }

    /// Whether the bytes behind the value are not the trailer, as far as they have come.
    pub fn is_wrong(&self, rest: &[u8]) -> bool {
        let behind = usize::try_from(self.left).ok().and_then(|left| rest.get(left..)).unwrap_or_default();
        behind.iter().zip(&TRAILER[self.trailer..]).any(|(byte, expected)| byte != expected)
    }

    /// Whether the response is complete.
    pub const fn is_done(&self) -> bool {
        self.left == 0 && self.trailer == TRAILER.len()
    }

    /// Decodes the next piece of the response.
    ///
    /// # Errors
    /// [`ReplyError::MemcachedTrailer`]: other bytes follow the value. This value must not be used further then.
    pub fn step(&mut self, input: &[u8]) -> Result<ValuePiece, ReplyError> {
        if self.left > 0 {
            let take = usize::try_from(self.left).map_or(input.len(), |left| left.min(input.len()));
            self.left -= take as u64;
            return Ok(if take == 0 { ValuePiece::More } else { ValuePiece::Data(0..take) });
        }
        let expected = &TRAILER[self.trailer..];
        let take = expected.len().min(input.len());
        if input[..take] != expected[..take] {
            return Err(ReplyError::MemcachedTrailer);
        }
        self.trailer += take;
        Ok(if self.is_done() { ValuePiece::Done(take) } else { ValuePiece::More })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let escaped = escape_key(b"/a b%\x01\n\r\0\x7f\xc3\"+");
        assert_eq!(escaped, b"/a%20b%25%01%0A%0D%00\x7f\xc3\"+");
        let mut out = Vec::new();
        get(&escaped[..2], &mut out);
        assert_eq!(out, b"get /a\r\n");
    }

    #[test]
    fn first_lines() {
        const MAX: usize = 100;
        let answer = |input: &[u8], key: &[u8]| answer(input, key, true, MAX);
        let line = b"VALUE k 3 12\r\n";
        for end in 0..line.len() {
            assert_eq!(answer(&line[..end], b"k"), Ok(None), "{end}");
        }
        let value = ResponseLine::Value { flags: 3, length: 12 };
        assert_eq!(answer(b"VALUE k 3 12\r\nabc", b"k"), Ok(Some((value, line.len()))));
        assert_eq!(answer(b"END\r\n", b"k"), Ok(Some((ResponseLine::NotFound, 5))));
        let text = |line: &str| answer(format!("{line}\n").as_bytes(), b"k").unwrap_err().to_string();
        for bad in ["ERROR\r", "SERVER_ERROR out of memory\r", "VALUE k 0\r", "VALUE\r", "value k 0 1\r", "\r"] {
            assert_eq!(text(bad), format!("memcached sent invalid response: \"{}\"", bad.trim_end()));
        }
        assert_eq!(text("END"), "memcached sent invalid response: \"END\"");
        for (line, what) in [
            ("VALUE j 0 2", "key"),
            ("VALUE kk 0 2", "key"),
            ("VALUE k x 2", "flags"),
            ("VALUE k  0 2", "flags"),
            ("VALUE k 0 x", "length"),
            ("VALUE k 0 -2", "length"),
            ("VALUE k 0 2 ", "length"),
            ("VALUE k 0 2 99", "length"),
            ("VALUE k 0 99999999999999999999", "length"),
        ] {
            let expected = format!("memcached sent invalid {what} in response \"{line}\" for key \"k\"");
            assert_eq!(text(&format!("{line}\r")), expected);
        }
        assert_eq!(answer(&[b'x'; MAX - 1], b"k"), Ok(None));
        assert_eq!(answer(&[b'x'; MAX], b"k"), Err(ReplyError::TooBig));
    }

    #[test]
    fn flags_that_nobody_wants_to_know() {
        for flags in ["-1", "x", "", "99999999999999999999", "7"] {
            let line = format!("VALUE k {flags} 2\r\n");
            let value = ResponseLine::Value { flags: 0, length: 2 };
            assert_eq!(answer(line.as_bytes(), b"k", false, 100), Ok(Some((value, line.len()))), "{flags}");
        }
        let told = answer(b"VALUE k x y\r\n", b"k", false, 100).unwrap_err().to_string();
        assert!(told.starts_with("memcached sent invalid length"), "{told}");
    }

    #[test]
    fn what_stands_behind_a_value_is_seen_early() {
        let value = Value::new(2);
        for right in ["", "o", "ok", "ok\r", "ok\r\nEND\r\n", "ok\r\nEND\r\nmore"] {
            assert!(!value.is_wrong(right.as_bytes()), "{right:?}");
        }
        for wrong in ["okk", "ok\n", "ok\r\nEVIL", "ok\r\nEND\n"] {
            assert!(value.is_wrong(wrong.as_bytes()), "{wrong:?}");
        }
        assert_eq!((value.to_come(), Value::new(u64::MAX).to_come()), (9, u64::MAX));
    }

    /// The bytes of the value and the number of bytes left over, with the input in pieces of `step` bytes.
    fn read(length: u64, bytes: &[u8], step: usize) -> Result<(Vec<u8>, Option<usize>), ReplyError> {
        let mut value = Value::new(length);
        let (mut data, mut before) = (Vec::new(), 0);
        for piece in bytes.chunks(step) {
            let mut rest = piece;
            loop {
                match value.step(rest)? {
                    ValuePiece::Data(range) => {
                        data.extend_from_slice(&rest[range.clone()]);
                        rest = &rest[range.end..];
                    }
                    ValuePiece::More => break,
                    ValuePiece::Done(used) => {
                        return Ok((data, Some(bytes.len() - before - (piece.len() - rest.len()) - used)));
                    }
                }
            }
            before += piece.len();
        }
        Ok((data, None))
    }

    #[test]
    fn values_in_all_pieces() {
        for step in 1..=12 {
            assert_eq!(read(2, b"ok\r\nEND\r\nX", step), Ok((b"ok".to_vec(), Some(1))), "{step}");
            assert_eq!(read(0, b"\r\nEND\r\n", step), Ok((Vec::new(), Some(0))), "{step}");
            assert_eq!(read(2, b"ok\r\nEND\r", step), Ok((b"ok".to_vec(), None)), "{step}");
            for bad in [&b"okEND\r\n"[..], b"ok\r\nVALUE j", b"ok\nEND\n", b"okk\r\nEND\r\n"] {
                assert_eq!(read(2, bad, step), Err(ReplyError::MemcachedTrailer), "{step}");
            }
        }
    }
}
