//! Records: the bytes between an exchange and the stream that carries it.
//!
//! The code that sends requests and reads responses works on byte streams, whatever their protocol. For it, the bytes
//! of a stream of HTTP/2 or HTTP/3 are records: a kind, a length of four bytes, and a payload of that length. They never leave the
//! process. In both directions all records come whole, except the records of bodies.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use freerun_conf::text_of;
use freerun_proto::ascii;

/// The length of what precedes the payload of a record.
pub const RECORD_HEAD: usize = 5;

/// A head: of a request, or of a response.
pub(crate) const HEAD: u8 = 1;
/// Bytes of a body.
pub(crate) const DATA: u8 = 2;
/// The last bytes of a request's body.
pub(crate) const LAST: u8 = 3;
/// The end of a message behind its body.
pub(crate) const END: u8 = 4;
/// The trailers of a response, and its end.
pub(crate) const TRAILERS: u8 = 5;
/// The end of a response before it was complete.
pub(crate) const BROKEN: u8 = 6;

/// The bytes of a field besides its name and value.
const FIELD: usize = 6;

/// A flag of a head: nothing follows.
const ENDS: u8 = 1;

/// The bytes of a request's head before its fields.
const OF_REQUEST: usize = 1;
/// The bytes of a response's head before its fields.
const OF_RESPONSE: usize = 3;

/// Number of bytes that are reserved behind a head for the records that follow it: a short message of gRPC and its
/// trailers.
const REST: usize = 128;

/// The bytes in front of the payload.
pub(crate) fn head(kind: u8, len: usize) -> [u8; RECORD_HEAD] {
    // A record is never longer than the window of a stream, or the limit of a block of fields.
    debug_assert!(u32::try_from(len).is_ok(), "{len} bytes are no record");
    let len = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    [kind, len[0], len[1], len[2], len[3]]
}

/// The kind and the length of the record that begins here.
pub(crate) fn parse(bytes: &[u8]) -> Option<(u8, usize)> {
    let [kind, a, b, c, d] = *bytes.first_chunk::<RECORD_HEAD>()?;
    Some((kind, u32::from_be_bytes([a, b, c, d]) as usize))
}

// ---- requests ----------------------------------------------------------------------------------------------------------

/// The head of a request that is being written.
pub struct RequestHead<'o>(&'o mut Vec<u8>);

impl RequestHead<'_> {
    /// Appends a field; its name may be in any case. First come the pseudo-fields: `:method`, `:scheme`, `:authority`,
    /// `:path`. What a value must not have becomes a space: NUL and the ends of lines.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        let value = trimmed(value);
        push(self.0, name, value);
        if ascii::has_null_or_line_end(value) {
            let start = self.0.len() - value.len();
            let wrong = self.0[start..].iter_mut().filter(|byte| matches!(**byte, 0 | b'\r' | b'\n'));
            wrong.for_each(|byte| *byte = b' ');
        }
    }
}

/// Appends a field, if it has a length that a record can have.
fn push(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let (Ok(name_len), Ok(value_len)) = (u16::try_from(name.len()), u32::try_from(value.len())) else { return };
    let ([a, b], [c, d, e, f]) = (name_len.to_be_bytes(), value_len.to_be_bytes());
    out.reserve(FIELD + name.len() + value.len());
    out.extend_from_slice(&[a, b, c, d, e, f]);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

/// A value without what it must neither begin nor end with (RFC 9113 section 8.2.1).
fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [0 | b' ' | b'\t' | b'\r' | b'\n', rest @ ..] | [rest @ .., 0 | b' ' | b'\t' | b'\r' | b'\n'] = value {
        value = rest;
    }
    value
}

/// Appends the head of a request, whose fields `write` writes. `ends` says that no body follows.
pub fn request_head<T>(out: &mut Vec<u8>, ends: bool, write: impl FnOnce(&mut RequestHead<'_>) -> T) -> T {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEAD]);
    out.push(if ends { ENDS } else { 0 });
    let result = write(&mut RequestHead(out));
    let head = head(HEAD, out.len() - start - RECORD_HEAD);
    out[start..start + RECORD_HEAD].copy_from_slice(&head);
    result
}

/// Appends what precedes `len` bytes of a request's body. `ends` says that they are the last ones.
pub fn body_head(out: &mut Vec<u8>, len: usize, ends: bool) {
    out.extend_from_slice(&head(if ends { LAST } else { DATA }, len));
}

/// Appends the end of a request, behind its body.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(&head(END, 0));
}

/// The payload of a request's head: whether it ends the request, and its fields.
pub(crate) fn split_request(payload: &[u8]) -> Option<(bool, RecordFields<'_>)> {
    let (flags, _) = payload.split_first()?;
    Some((flags & ENDS != 0, RecordFields { text: payload, at: OF_REQUEST }))
}

// ---- responses ---------------------------------------------------------------------------------------------------------

/// The response has ended before it was complete, or is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeFault {
    /// The server has reset the stream with this code (RFC 9113 section 7, RFC 9114 section 8.1).
    Reset(u32),
    /// The server has refused the stream, with this code of its protocol. It has not looked at the request, which may be sent
    /// again in any case (RFC 9113 section 8.7, RFC 9114 section 4.1.1).
    Refused(u32),
    /// The server has not looked at the request, which may be sent again in any case: it closes the connection, and has said
    /// so with this code.
    GoneAway(u32),
    /// The server's messages are malformed: this text for the log says how.
    Invalid(String),
}

/// A record of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseRecord {
    /// A head.
    Head {
        /// Nothing follows.
        ends: bool,
        /// The status.
        status: u16,
        /// The fields.
        fields: ResponseFields,
    },
    /// A number of bytes of the body follow in the input; they may come in parts.
    Data(usize),
    /// The trailers, with which the response ends.
    Trailers(ResponseFields),
    /// The response is complete.
    End,
    /// The record will never be complete.
    Broken(ExchangeFault),
}

/// The fields of a response, in the bytes that they came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseFields {
    /// The bytes.
    pub text: Bytes,
    from: usize,
}

impl ResponseFields {
    /// The places of names and values in the bytes.
    pub fn iter(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        RecordFields { text: &self.text, at: self.from }
    }
}

/// Fields in a record, as the places of their names and values.
pub(crate) struct RecordFields<'t> {
    text: &'t [u8],
    at: usize,
}

impl Iterator for RecordFields<'_> {
    type Item = (Range<usize>, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let [a, b, c, d, e, f] = *self.text.get(self.at..)?.first_chunk::<FIELD>()?;
        let (name_len, value_len) = (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]));
        let name = self.at + FIELD..self.at + FIELD + usize::from(name_len);
        let value = name.end..name.end.checked_add(value_len as usize)?;
        if value.end > self.text.len() {
            return None;
        }
        self.at = value.end;
        Some((name, value))
    }
}

/// Takes the next record of a response out of `input`; of a body only what precedes its bytes. `None`: there is none, as
/// far as it has come.
///
/// # Errors
/// These are no records.
pub fn next_response(input: &mut BytesMut) -> Result<Option<ResponseRecord>, NoRecord> {
    let Some((kind, len)) = parse(input) else {
        return if input.is_empty() { Ok(None) } else { Err(NoRecord) };
    };
    if kind == DATA {
        input.advance(RECORD_HEAD);
        return Ok(Some(ResponseRecord::Data(len)));
    }
    if input.len() - RECORD_HEAD < len {
        return Err(NoRecord);
    }
    input.advance(RECORD_HEAD);
    let payload = input.split_to(len).freeze();
    Ok(Some(match kind {
        HEAD => {
            let [flags, a, b] = *payload.first_chunk::<OF_RESPONSE>().ok_or(NoRecord)?;
            let fields = ResponseFields { text: payload, from: OF_RESPONSE };
            ResponseRecord::Head { ends: flags & ENDS != 0, status: u16::from_be_bytes([a, b]), fields }
        }
        TRAILERS => ResponseRecord::Trailers(ResponseFields { text: payload, from: 0 }),
        END => ResponseRecord::End,
        BROKEN => ResponseRecord::Broken(ExchangeFault::parse(&payload).ok_or(NoRecord)?),
        _ => return Err(NoRecord),
    }))
}

/// Bytes that are no records: a bug in this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no record where one has to be")]
pub struct NoRecord;

/// Appends a field of a response, in whose value there is neither NUL nor the end of a line.
pub(crate) fn push_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(!ascii::has_null_or_line_end(value), "values are checked before");
    push(out, name, trimmed(value));
}

/// Appends the head of a response.
pub(crate) fn push_head(out: &mut BytesMut, ends: bool, status: u16, fields: &[u8]) {
    let rest = if ends { 0 } else { REST };
    out.reserve(RECORD_HEAD + OF_RESPONSE + fields.len() + rest);
    out.extend_from_slice(&head(HEAD, OF_RESPONSE + fields.len()));
    let [a, b] = status.to_be_bytes();
    out.extend_from_slice(&[if ends { ENDS } else { 0 }, a, b]);
    out.extend_from_slice(fields);
}

impl ExchangeFault {
    /// Appends the record.
    pub(crate) fn push(&self, out: &mut BytesMut) {
        let (kind, code, text) = match self {
            ExchangeFault::Reset(code) => (0, *code, ""),
            ExchangeFault::Refused(code) => (1, *code, ""),
            ExchangeFault::GoneAway(code) => (2, *code, ""),
            ExchangeFault::Invalid(text) => (3, 0, &text[..]),
        };
        out.extend_from_slice(&head(BROKEN, 5 + text.len()));
        out.extend_from_slice(&[kind]);
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }

    fn parse(payload: &[u8]) -> Option<ExchangeFault> {
        let (&[kind, a, b, c, d], text) = payload.split_first_chunk()?;
        let code = u32::from_be_bytes([a, b, c, d]);
        Some(match kind {
            0 => ExchangeFault::Reset(code),
            1 => ExchangeFault::Refused(code),
            2 => ExchangeFault::GoneAway(code),
            3 => ExchangeFault::Invalid(text_of(text).into_owned()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(of: RecordFields<'_>, text: &[u8]) -> Vec<(String, String)> {
        let part = |range: Range<usize>| String::from_utf8(text[range].to_vec()).unwrap();
        of.map(|(name, value)| (part(name), part(value))).collect()
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let mut out = b"before".to_vec();
        request_head(&mut out, true, |head| {
            head.field(b":method", b"GET");
            head.field(b"X-Name", b" a\r\nb\0 ");
            head.field(b"empty", b"");
        });
        let record = &out[6..];
        let (kind, len) = parse(record).unwrap();
        assert_eq!((kind, len), (HEAD, record.len() - RECORD_HEAD));
        let (ends, got) = split_request(&record[RECORD_HEAD..]).unwrap();
        assert!(ends);
        let expected = [(":method", "GET"), ("X-Name", "a  b"), ("empty", "")];
        let expected: Vec<_> = expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        assert_eq!(fields(got, &record[RECORD_HEAD..]), expected);
        let mut out = Vec::new();
        body_head(&mut out, 7, false);
        body_head(&mut out, 8, true);
        end(&mut out);
        let kinds: Vec<_> = out.chunks(RECORD_HEAD).map(|record| parse(record).unwrap()).collect();
        assert_eq!(kinds, [(DATA, 7), (LAST, 8), (END, 0)]);
    }

    #[test]
    fn a_response_is_read_as_it_was_written() {
        let mut input = BytesMut::new();
        let mut list = Vec::new();
        push_field(&mut list, b"server", b"x");
        push_head(&mut input, false, 103, &list);
        push_head(&mut input, true, 200, &[]);
        input.extend_from_slice(&head(DATA, 3));
        input.extend_from_slice(b"abc");
        input.extend_from_slice(&head(TRAILERS, list.len()));
        input.extend_from_slice(&list);
        input.extend_from_slice(&head(END, 0));
        let broken = [
            ExchangeFault::Reset(0x0102_0304),
            ExchangeFault::Refused(267),
            ExchangeFault::GoneAway(11),
            ExchangeFault::Invalid("upstream sent nonsense".to_owned()),
        ];
        broken.iter().for_each(|broken| broken.push(&mut input));
        let mut next = || next_response(&mut input).unwrap().unwrap();
        let ResponseRecord::Head { ends: false, status: 103, fields: got } = next() else { panic!() };
        assert_eq!(got.iter().map(|(name, _)| &got.text[name]).collect::<Vec<_>>(), [b"server"]);
        let ResponseRecord::Head { ends: true, status: 200, fields: got } = next() else { panic!() };
        assert_eq!(got.iter().count(), 0);
        assert_eq!(next(), ResponseRecord::Data(3));
        assert_eq!(input.split_to(3), "abc");
        let mut next = || next_response(&mut input).unwrap();
        let Some(ResponseRecord::Trailers(got)) = next() else { panic!() };
        assert_eq!(got.iter().map(|(_, value)| &got.text[value]).collect::<Vec<_>>(), [b"x"]);
        assert_eq!(next(), Some(ResponseRecord::End));
        for broken in broken {
            assert_eq!(next(), Some(ResponseRecord::Broken(broken)));
        }
        assert_eq!(next(), None);
    }

    #[test]
    fn what_is_no_record_is_never_taken_for_one() {
        let mut whole = BytesMut::new();
        let mut list = Vec::new();
        push_field(&mut list, b"server", b"a value");
        push_head(&mut whole, false, 200, &list);
        for len in 1..whole.len() {
            assert_eq!(next_response(&mut BytesMut::from(&whole[..len])), Err(NoRecord), "{len}");
        }
        assert_eq!(next_response(&mut BytesMut::from(&[9, 0, 0, 0, 0][..])), Err(NoRecord));
        assert_eq!(next_response(&mut BytesMut::from(&[BROKEN, 0, 0, 0, 0][..])), Err(NoRecord));
        // Lengths of fields that lead beyond their record.
        let lying = [0, 1, 0xff, 0xff, 0xff, 0xff, b'a', b'b'];
        assert_eq!(RecordFields { text: &lying, at: 0 }.count(), 0);
    }
}
