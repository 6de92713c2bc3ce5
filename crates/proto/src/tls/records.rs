//! The record layer before anything is encrypted (RFC 8446 section 5.1), and the one message that is read from it.

use std::ops::ControlFlow;

use super::HelloError;
use crate::Span;

/// The type of records with messages of the handshake.
pub(super) const HANDSHAKE: u8 = 22;
/// The bit in the first byte of a hello of SSLv2, which begins with its length.
pub(super) const SSLV2_BIT: u8 = 0x80;
/// The type of the message ClientHello; hellos of SSLv2 have the same one.
pub(super) const CLIENT_HELLO: u8 = 1;
/// The beginning of a record: type, version, length.
pub(super) const RECORD_HEAD: usize = 5;
/// The beginning of a message: type, and length in three bytes (RFC 8446 section 4).
pub(super) const MESSAGE_HEAD: usize = 4;

/// The most bytes in a record that is not encrypted.
pub const MAX_RECORD: usize = 1 << 14;
/// The longest ClientHello that a server takes, its head included: the longest message that rustls reads. OpenSSL takes twice
/// as much.
pub const MAX_CLIENT_HELLO: usize = MESSAGE_HEAD + 0xffff;
/// The most bytes of a connection in which a server's ClientHello has to be whole, however it is cut into records. It
/// is the largest one and heads for records of six bytes or more.
pub const MAX_INPUT: usize = 2 * (MESSAGE_HEAD + 0xffff);
/// The most records in a row that may be empty; OpenSSL's. (RFC 8446 forbids to send even one.)
pub const MAX_EMPTY_RECORDS: u8 = 32;

/// Limits of a [`MessageReader`].
#[derive(Debug, Clone, Copy)]
struct MessageLimits {
    /// The longest message, its head included.
    message: usize,
    /// The most bytes of a connection in which the message has to be whole.
    input: usize,
}

/// The limits of a server.
const SERVER_LIMITS: MessageLimits = MessageLimits { message: MAX_CLIENT_HELLO, input: MAX_INPUT };
/// No limits but the protocol's, and the limits of spans.
const NO_LIMITS: MessageLimits = MessageLimits { message: MESSAGE_HEAD + 0xff_ffff, input: u32::MAX as usize };

/// A message that has come in one or several records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMessage {
    /// Its end in the input.
    pub input_len: u32,
    place: MessagePlace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum MessagePlace {
    /// In one record, as nearly always.
    Input(Span),
    /// The message came in several records.
    Joined {
        /// The message, put together.
        message: Box<[u8]>,
        /// The number of bytes that its last record has behind it, as the head of that record says.
        behind: u16,
    },
}

impl RawMessage {
    /// The message with its head; `input` is that which it was read from.
    pub fn bytes<'m>(&'m self, input: &'m [u8]) -> &'m [u8] {
        match &self.place {
            MessagePlace::Input(span) => span.of(input),
            MessagePlace::Joined { message, .. } => message,
        }
    }

    /// The place of the message in the input, if it came in one record.
    pub fn span(&self) -> Option<Span> {
        match self.place {
            MessagePlace::Input(span) => Some(span),
            MessagePlace::Joined { .. } => None,
        }
    }

    /// Everything that was received, `input`, with the message in as few records as possible. A peer may send each byte in a
    /// record of its own, and whoever reads them again would have all that work again. What the last record has behind the
    /// message becomes a record of its own.
    pub(super) fn reframed(&self, input: Vec<u8>) -> Vec<u8> {
        let MessagePlace::Joined { message, behind } = &self.place else { return input };
        let rest = input.get(self.input_len as usize..).unwrap_or_default();
        let heads = (message.len().div_ceil(MAX_RECORD) + 1) * RECORD_HEAD;
        let mut framed = Vec::with_capacity(heads + message.len() + rest.len());
        for part in message.chunks(MAX_RECORD) {
            framed.extend_from_slice(&record_head(part.len() as u16));
            framed.extend_from_slice(part);
        }
        if *behind > 0 {
            framed.extend_from_slice(&record_head(*behind));
        }
        framed.extend_from_slice(rest);
        framed
    }
}

/// The head of a handshake record with this number of bytes, in the version that first records have (RFC 8446 section
/// 5.1).
fn record_head(len: u16) -> [u8; RECORD_HEAD] {
    let [high, low] = len.to_be_bytes();
    [HANDSHAKE, 3, 1, high, low]
}

/// The content of the handshake records among these, one behind the other, with as much as is there of the last one; other
/// records are passed over. Nothing of them may be encrypted.
pub fn message_bytes(records: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (begin, end) in handshake_records(records) {
        bytes.extend_from_slice(&records[begin..end]);
    }
    bytes
}

/// Whether these bytes begin with a whole message of the handshake.
pub fn is_whole_message(bytes: &[u8]) -> bool {
    let Some([_, length @ ..]) = bytes.first_chunk::<MESSAGE_HEAD>() else { return false };
    bytes.len() - MESSAGE_HEAD >= u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize
}

/// Replaces bytes of [`message_bytes`] from the offset `at` on, wherever heads of records stand between them.
pub fn replace_in_messages(records: &mut [u8], at: usize, new: &[u8]) {
    let places: Vec<_> = handshake_records(records).collect();
    let mut new = new.iter();
    let mut before = 0;
    for (begin, end) in places {
        let skipped = at.saturating_sub(before).min(end - begin);
        before += end - begin;
        if before > at {
            records[begin + skipped..end].iter_mut().zip(&mut new).for_each(|(old, new)| *old = *new);
        }
    }
}

/// The begins and ends of the contents of the handshake records among these. The last one may end before its length
/// says so: a message may be whole before its record is.
fn handshake_records(records: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let &[kind, _, _, high, low] = records.get(next..next + RECORD_HEAD)? else { return None };
        let begin = next + RECORD_HEAD;
        next = begin + usize::from(u16::from_be_bytes([high, low]));
        Some((kind, begin, next.min(records.len())))
    })
    .filter(|(kind, ..)| *kind == HANDSHAKE)
    .map(|(_, begin, end)| (begin, end))
}

/// Finds the ClientHello in the records of a connection.
#[derive(Debug)]
pub struct MessageReader {
    limits: MessageLimits,
    /// The begin of the next record in the input.
    next: usize,
    /// The number of bytes of the message in the records before.
    before: usize,
    /// The head of the message, as far as it has come.
    head: [u8; MESSAGE_HEAD],
    /// The number of records in a row that were empty.
    empty: u8,
}

/// A record, as much of it as is there.
struct Record<'i> {
    payload: &'i [u8],
    /// The length that its head says.
    len: usize,
}

impl Default for MessageReader {
    fn default() -> MessageReader {
        MessageReader::with_limits(SERVER_LIMITS)
    }
}

impl MessageReader {
    /// A reader for a connection that has sent nothing yet, with the limits of a server.
    pub fn new() -> MessageReader {
        MessageReader::default()
    }

    /// A reader for a connection that has sent nothing yet, for whose bytes the caller has a limit.
    pub fn unlimited() -> MessageReader {
        MessageReader::with_limits(NO_LIMITS)
    }

    fn with_limits(limits: MessageLimits) -> MessageReader {
        MessageReader { limits, next: 0, before: 0, head: [0; MESSAGE_HEAD], empty: 0 }
    }

    /// Reads on in `input`, all bytes of the connection so far. `None`: more are needed.
    ///
    /// # Errors
    /// The errors of [`HelloError`] that concern records, the type of the message or its length.
    pub fn advance(&mut self, input: &[u8]) -> Result<Option<RawMessage>, HelloError> {
        while let Some(record) = self.record(input)? {
            match self.take(&record)? {
                ControlFlow::Break(len) => {
                    let end = self.next + RECORD_HEAD + (len - self.before);
                    return Ok(Some(RawMessage { input_len: end as u32, place: self.place(input, end, len) }));
                }
                ControlFlow::Continue(()) if record.payload.len() < record.len => break,
                ControlFlow::Continue(()) => {
                    self.before += record.len;
                    self.next += RECORD_HEAD + record.len;
                    // Not even a record of one byte has room any more.
                    if self.next + RECORD_HEAD >= self.limits.input {
                        return Err(HelloError::TooLong);
                    }
                }
            }
        }
        Ok(None)
    }

    /// The record that begins at `next`, if its head is there.
    fn record<'i>(&mut self, input: &'i [u8]) -> Result<Option<Record<'i>>, HelloError> {
        let Some(&[kind, major, minor, high, low]) = input.get(self.next..self.next + RECORD_HEAD) else {
            return Ok(None);
        };
        let is_first = self.next == 0;
        if is_first && kind & SSLV2_BIT != 0 {
            // Behind its length of two bytes comes the type of the message.
            return Err(if minor == CLIENT_HELLO { HelloError::Sslv2 } else { HelloError::NotTls });
        }
        if major != 3 {
            let version = u16::from_be_bytes([major, minor]);
            return Err(if is_first { HelloError::NotTls } else { HelloError::RecordVersion(version) });
        }
        if kind != HANDSHAKE {
            return Err(HelloError::UnexpectedRecord(kind));
        }
        let len = u16::from_be_bytes([high, low]);
        if usize::from(len) > MAX_RECORD {
            return Err(HelloError::RecordTooLong(len));
        }
        let begin = self.next + RECORD_HEAD;
        let len = usize::from(len);
        if begin + len > self.limits.input {
            return Err(HelloError::TooLong);
        }
        let end = (begin + len).min(input.len());
        Ok(Some(Record { payload: &input[begin..end], len }))
    }

    /// Looks at what a record has of the message's head; the message's length, once it is whole.
    fn take(&mut self, record: &Record) -> Result<ControlFlow<usize>, HelloError> {
        if record.len == 0 {
            self.empty += 1;
            if self.empty > MAX_EMPTY_RECORDS {
                return Err(HelloError::EmptyRecords);
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.empty = 0;
        let known = self.before + record.payload.len();
        if self.before < MESSAGE_HEAD {
            for (to, from) in self.head[self.before..].iter_mut().zip(record.payload) {
                *to = *from;
            }
        }
        let [kind, len @ ..] = self.head;
        if known > 0 && kind != CLIENT_HELLO {
            return Err(HelloError::UnexpectedMessage(kind));
        }
        if known < MESSAGE_HEAD {
            return Ok(ControlFlow::Continue(()));
        }
        let len = MESSAGE_HEAD + u32::from_be_bytes([0, len[0], len[1], len[2]]) as usize;
        if len > self.limits.message {
            return Err(HelloError::TooLong);
        }
        Ok(if known < len { ControlFlow::Continue(()) } else { ControlFlow::Break(len) })
    }

    /// The place of the message that ends at `end` of the input and has `len` bytes.
    fn place(&self, input: &[u8], end: usize, len: usize) -> MessagePlace {
        if self.before == 0 {
            return MessagePlace::Input(Span::new((end - len) as u32, end as u32));
        }
        let mut joined = Vec::with_capacity(len);
        let mut behind = 0;
        let mut at = 0;
        while joined.len() < len {
            let Some(&[_, _, _, high, low]) = input.get(at..at + RECORD_HEAD) else { break };
            at += RECORD_HEAD;
            let record = u16::from_be_bytes([high, low]);
            let part = usize::from(record).min(len - joined.len());
            joined.extend_from_slice(&input[at..at + part]);
            at += part;
            behind = record - part as u16;
        }
        debug_assert_eq!((joined.len(), at), (len, end), "the records that were counted are those that are joined");
        MessagePlace::Joined { message: joined.into(), behind }
    }
}
