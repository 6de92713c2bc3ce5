//! FastCGI, the side of the web server: the FastCGI Specification of Open Market, version 1.0.
//!
//! One request at a time on a connection, with the id 1, in the role of a responder. Requests are written piece by
//! piece; responses are split into their records without being copied.

use std::ops::Range;

use crate::response::ReplyError;

/// Bytes of a record's head.
pub const RECORD_HEAD: usize = 8;
/// Bytes that one record may carry: the greatest length that needs no padding.
pub const MAX_RECORD: usize = 65528;

/// The version of the protocol.
const VERSION: u8 = 1;
/// The id of all requests of this side.
const REQUEST_ID: u16 = 1;
/// The role of [`begin`].
const RESPONDER: u8 = 1;
/// The flag of [`begin`] that keeps the connection.
const KEEP_CONN: u8 = 1;
/// The length of a name or value from which on the length takes four bytes, and the bit that marks this.
const LONG: usize = 128;
const LONG_BIT: u32 = 1 << 31;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// Appends the beginning of a request. With `keep` the application leaves the connection open after its response.
pub fn begin(keep: bool, out: &mut Vec<u8>) {
    record_head(BEGIN_REQUEST, 8, out);
    out.extend_from_slice(&[0, RESPONDER, if keep { KEEP_CONN } else { 0 }, 0, 0, 0, 0, 0]);
}

fn record_head(kind: u8, len: usize, out: &mut Vec<u8>) {
    // No caller passes more than [`MAX_RECORD`].
    let [high, low] = (len as u16).to_be_bytes();
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    out.extend_from_slice(&[VERSION, kind, id_high, id_low, high, low, padding(len) as u8, 0]);
}

/// The bytes that fill a record up to a multiple of eight, as the specification recommends.
const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 7
}

fn pad(len: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + padding(len), 0);
}

/// Appends the head of a record with `len` bytes of the request's body, 1 to [`MAX_RECORD`]. The bytes follow, and then
/// [`stdin_end`].
pub fn stdin_begin(len: usize, out: &mut Vec<u8>) {
    record_head(STDIN, len, out);
}

/// Appends the end of a record with `len` bytes of the request's body.
pub fn stdin_end(len: usize, out: &mut Vec<u8>) {
    pad(len, out);
}

/// Appends the end of the request's body: an empty record.
pub fn stdin_done(out: &mut Vec<u8>) {
    record_head(STDIN, 0, out);
}

/// A parameter that does not fit a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("fastcgi request record is too big: {0}")]
pub struct TooBig(pub usize);

/// Writes parameters. They are put into one record as long as they fit, and a pair is never split between records, since
/// applications exist (PHP) that could not put it together.
#[derive(Debug)]
pub struct Params {
    /// The place of the current record's head in the output.
    record: usize,
}

impl Params {
    /// Begins at the end of the output.
    pub fn begin(out: &mut Vec<u8>) -> Params {
        let record = out.len();
        record_head(PARAMS, 0, out);
        Params { record }
    }

    /// Appends a parameter.
    ///
    /// # Errors
    /// [`TooBig`]: the parameter is longer than a record can be.
    pub fn pair(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), TooBig> {
        let len = |text: &[u8]| text.len() + if text.len() < LONG { 1 } else { 4 };
        let pair = len(name) + len(value);
        if pair > MAX_RECORD {
            return Err(TooBig(pair));
        }
        if out.len() - self.record - RECORD_HEAD + pair > MAX_RECORD {
            self.close(out);
            self.record = out.len();
            record_head(PARAMS, 0, out);
        }
        length(name.len(), out);
        length(value.len(), out);
        out.extend_from_slice(name);
        out.extend_from_slice(value);
        Ok(())
    }

    /// Appends the end of all parameters: an empty record.
    pub fn end(self, out: &mut Vec<u8>) {
        // An empty record is already the end.
        if out.len() > self.record + RECORD_HEAD {
            self.close(out);
            record_head(PARAMS, 0, out);
        }
    }

    /// Writes the length of the current record into its head.
    fn close(&self, out: &mut Vec<u8>) {
        let len = out.len() - self.record - RECORD_HEAD;
        let mut head = Vec::with_capacity(RECORD_HEAD);
        record_head(PARAMS, len, &mut head);
        out[self.record..self.record + RECORD_HEAD].copy_from_slice(&head);
        pad(len, out);
    }
}

/// Appends the length of a name or value: one byte, or four.
fn length(len: usize, out: &mut Vec<u8>) {
    if len < LONG {
        out.push(len as u8);
    } else {
        out.extend_from_slice(&(len as u32 | LONG_BIT).to_be_bytes());
    }
}

/// The result of [`Records::step`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Bytes of the response, at this place of the input (never empty). The next step takes the input from the range's end.
    Stdout(Range<usize>),
    /// Bytes for the error log.
    Stderr(Range<usize>),
    /// The application has closed its output; this many bytes of the input are used up.
    StdoutEnd(usize),
    /// All of the input is used up and the response continues.
    More,
    /// The response is complete; this many bytes of the input belonged to it.
    End(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecordState {
    /// In a record's head; this number of its bytes have come.
    Head(u8),
    /// In its content.
    Content,
    /// In the padding.
    Padding,
    /// Behind the end.
    Done,
}

/// Splits the output of an application into its records.
#[derive(Clone, Debug)]
pub struct Records {
    state: RecordState,
    head: [u8; RECORD_HEAD],
    /// Bytes of the content that are still to come.
    left: u16,
    /// Bytes of padding that are still to come.
    padding: u8,
}

impl Default for Records {
    fn default() -> Self {
        Records::new()
    }
}

impl Records {
    /// A splitter before the first byte of a response.
    pub const fn new() -> Records {
        Records { state: RecordState::Head(0), head: [0; RECORD_HEAD], left: 0, padding: 0 }
    }

    /// Whether the last record of the response is complete.
    pub fn is_done(&self) -> bool {
        self.state == RecordState::Done
    }

    /// Bytes of the current record that are still to come.
    pub fn left_in_record(&self) -> usize {
        if self.state == RecordState::Content { usize::from(self.left) } else { 0 }
    }

    /// Splits the next piece of the response.
    ///
    /// # Errors
    /// A record of another version or request, or of a type that applications do not send. This value must not be used
    /// further then.
    pub fn step(&mut self, input: &[u8]) -> Result<Piece, ReplyError> {
        let mut at = 0;
        loop {
            match self.state {
                RecordState::Done => return Ok(Piece::End(at)),
                _ if at == input.len() => return Ok(Piece::More),
                RecordState::Head(there) => {
                    let there = usize::from(there);
                    self.head[there] = input[at];
                    at += 1;
                    self.state = RecordState::Head(there as u8 + 1);
                    self.check(there)?;
                    if there + 1 == RECORD_HEAD {
                        self.left = u16::from_be_bytes([self.head[4], self.head[5]]);
                        self.padding = self.head[6];
                        self.state = RecordState::Content;
                        let is_empty = self.left == 0;
                        self.enter_padding();
                        if is_empty && self.head[1] == STDOUT {
                            return Ok(Piece::StdoutEnd(at));
                        }
                    }
                }
                RecordState::Content => {
                    let take = usize::from(self.left).min(input.len() - at);
                    let range = at..at + take;
                    self.left -= take as u16;
                    at += take;
                    self.enter_padding();
                    match self.head[1] {
                        STDOUT => return Ok(Piece::Stdout(range)),
                        STDERR => return Ok(Piece::Stderr(range)),
                        // The content of the end record (the program's exit code) is not needed.
                        _ => {}
                    }
                }
                RecordState::Padding => {
                    let take = usize::from(self.padding).min(input.len() - at);
                    self.padding -= take as u8;
                    at += take;
                    self.enter_padding();
                }
            }
        }
    }

    /// Moves on to the next part once the content, or the padding, is complete.
    fn enter_padding(&mut self) {
        if self.left == 0 {
            self.state = match (self.padding, self.head[1]) {
                (0, END_REQUEST) => RecordState::Done,
                (0, _) => RecordState::Head(0),
                _ => RecordState::Padding,
            };
        }
    }

    /// Checks the byte of the head that has just come, so that a response that is not FastCGI is refused at once.
    fn check(&self, at: usize) -> Result<(), ReplyError> {
        let byte = self.head[at];
        match at {
            0 if byte != VERSION => Err(ReplyError::FastCgiVersion(byte)),
            1 if !matches!(byte, STDOUT | STDERR | END_REQUEST) => Err(ReplyError::FastCgiType(byte)),
            3 => match u16::from_be_bytes([self.head[2], byte]) {
                REQUEST_ID => Ok(()),
                id => Err(ReplyError::FastCgiId(id)),
            },
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
