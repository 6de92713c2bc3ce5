//! The response of a FastCGI application.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use freerun_conf::text_of;
use freerun_proto::fastcgi::{Piece, Records};
use freerun_proto::response::{Framing, HeadKind, ReplyError, RequestKind, ResponseParser};

use crate::exchange::gather::HeldResult;
use crate::exchange::reply::upstream_head;
use crate::exchange::{BodyStep, Fault, UpstreamHead};

/// The bytes of one record of error output that are kept for the log; the rest of the record is not logged.
pub const MAX_ERROR_LINE: usize = 4096;
/// The most records of error output that wait for the log; further ones are only counted until these were taken.
pub const MAX_ERROR_LINES: usize = 64;
/// The most bytes of an unwanted body (in an answer to HEAD) that are read so that the connection can be used again.
const MAX_UNWANTED: usize = 64 * 1024;

/// The progress of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyStage {
    /// The head is not complete.
    Head,
    /// The head was taken, and the body continues.
    Body,
    /// The whole response was taken.
    Done,
}

/// Parses one response.
pub struct FastCgiReply {
    asked: RequestKind,
    records: Records,
    parser: ResponseParser,
    stage: ReplyStage,
    /// The output up to the end of the head; bytes behind it wait in `body`.
    head: BytesMut,
    body: Bytes,
    /// The number of bytes of the body that are still to come, if the head told its length.
    left: Option<u64>,
    /// Whether bytes of a body are dropped, because the response has none.
    unwanted: bool,
    /// The number of surplus bytes, beyond the length of the body.
    surplus: usize,
    /// Whether the application has closed its output.
    closed: bool,
    /// Whether the last record was read, and no bytes came after it.
    clean: bool,
    error: Vec<u8>,
    errors: VecDeque<Bytes>,
    /// The number of records that came when as many as may wait were waiting.
    left_out: usize,
    catch: Catch,
    held: HeldResult,
}

impl FastCgiReply {
    /// A response whose head has at most `max_head` bytes; error output with one of the texts `catch` makes it invalid.
    pub fn new(asked: RequestKind, max_head: usize, catch: Vec<Box<[u8]>>) -> FastCgiReply {
        FastCgiReply {
            asked,
            records: Records::new(),
            parser: ResponseParser::new(HeadKind::Cgi, max_head),
            stage: ReplyStage::Head,
            head: BytesMut::new(),
            body: Bytes::new(),
            left: None,
            unwanted: false,
            surplus: 0,
            closed: false,
            clean: false,
            error: Vec::new(),
            errors: VecDeque::new(),
            left_out: 0,
            catch: Catch::new(catch),
            held: HeldResult::default(),
        }
    }

    /// Takes the next head, as [`Exchange::head`](crate::exchange::Exchange::head) requires.
    ///
    /// # Errors
    /// The records, or the head in them, are not valid.
    pub fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault> {
        loop {
            match self.records.step(input)? {
                Piece::Stdout(range) => {
                    input.advance(range.start);
                    let output = input.split_to(range.len());
                    // A head is usually in one record, and needs no copying then.
                    if self.head.is_empty() {
                        self.head = output
                    } else {
                        self.head.extend_from_slice(&output)
                    }
                    let Some(head) = self.parser.advance(&self.head)? else { continue };
                    let bytes = self.head.split_to(head.len).freeze();
                    self.body = std::mem::take(&mut self.head).freeze();
                    // The last record of the output marks its end.
                    let framing = match Framing::of(&head, self.asked) {
                        Framing::Tunnel => Framing::UntilClose,
                        framing => framing,
                    };
                    self.unwanted = framing == Framing::None;
                    self.left = if self.unwanted { Some(0) } else { head.content_length };
                    self.stage = ReplyStage::Body;
                    return Ok(Some(upstream_head(head, bytes, framing)));
                }
                Piece::Stderr(range) => self.error_output(input, range)?,
                Piece::StdoutEnd(_) => return Err(ReplyError::FastCgiEnd.into()),
                Piece::End(_) if self.head.is_empty() => return Err(ReplyError::FastCgiNoHead.into()),
                Piece::End(_) => return Err(ReplyError::FastCgiEnd.into()),
                Piece::More => {
                    input.clear();
                    return Ok(None);
                }
            }
        }
    }

    /// Takes the next bytes of the body, as [`Exchange::body`](crate::exchange::Exchange::body) requires.
    ///
    /// # Errors
    /// The records are not valid, or there are fewer bytes than the head has told.
    pub fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        let mut held = std::mem::take(&mut self.held);
        let step = held.step(self, input, FastCgiReply::step);
        self.held = held;
        step
    }

    /// The next piece, without gathering.
    fn step(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        if self.stage == ReplyStage::Done {
            return Ok(BodyStep::End);
        }
        if self.left == Some(0) {
            return self.skip(input);
        }
        let waiting = std::mem::take(&mut self.body);
        if !waiting.is_empty() {
            return Ok(BodyStep::Data(self.counted(waiting)));
        }
        loop {
            match self.records.step(input)? {
                Piece::Stdout(range) => {
                    input.advance(range.start);
                    let output = input.split_to(range.len()).freeze();
                    return Ok(BodyStep::Data(self.counted(output)));
                }
                Piece::Stderr(range) => self.error_output(input, range)?,
                Piece::StdoutEnd(used) => {
                    self.closed = true;
                    input.advance(used);
                }
                Piece::End(used) => {
                    input.advance(used);
                    self.finish(input.is_empty());
                    return match self.left {
                        None => Ok(BodyStep::End),
                        Some(_) => Err(ReplyError::FastCgiEnd.into()),
                    };
                }
                Piece::More => {
                    input.clear();
                    return Ok(BodyStep::More);
                }
            }
        }
    }

    /// The part of the output that belongs to the body.
    fn counted(&mut self, mut output: Bytes) -> Bytes {
        if let Some(left) = &mut self.left {
            let wanted = usize::try_from(*left).unwrap_or(usize::MAX);
            self.surplus += output.len().saturating_sub(wanted);
            output.truncate(wanted);
            *left -= output.len() as u64;
        }
        output
    }

    /// Reads up to the last record after the whole body was taken.
    fn skip(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        self.surplus += std::mem::take(&mut self.body).len();
        while self.surplus <= MAX_UNWANTED {
            match self.records.step(input)? {
                Piece::Stdout(range) => {
                    self.surplus += range.len();
                    input.advance(range.end);
                }
                Piece::Stderr(range) => self.error_output(input, range)?,
                Piece::StdoutEnd(used) => input.advance(used),
                Piece::End(used) => {
                    input.advance(used);
                    self.finish(input.is_empty());
                    return Ok(BodyStep::End);
                }
                // The end of surplus bytes is not waited for.
                Piece::More if self.has_surplus() => break,
                Piece::More => {
                    input.clear();
                    return Ok(BodyStep::More);
                }
            }
        }
        input.clear();
        self.finish(false);
        Ok(BodyStep::End)
    }

    fn finish(&mut self, clean: bool) {
        (self.stage, self.clean) = (ReplyStage::Done, clean);
    }

    /// Gathers a record of error output, and passes it to the log when it is complete.
    fn error_output(&mut self, input: &mut BytesMut, range: Range<usize>) -> Result<(), Fault> {
        let text = &input[range.clone()];
        if self.stage == ReplyStage::Head {
            self.catch.look(text);
        }
        self.error.extend_from_slice(&text[..text.len().min(MAX_ERROR_LINE - self.error.len())]);
        input.advance(range.end);
        if self.records.left_in_record() > 0 {
            return Ok(());
        }
        let mut line = std::mem::take(&mut self.error);
        while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r' | b' ' | b'.')) {
            line.pop();
        }
        if self.catch.found && self.stage == ReplyStage::Head {
            let text = text_of(&line);
            return Err(Fault::Invalid(format!("FastCGI sent in stderr: \"{text}\"").into()));
        }
        if self.errors.len() < MAX_ERROR_LINES {
            self.errors.push_back(line.into());
        } else {
            self.left_out += 1;
        }
        Ok(())
    }

    /// Takes the error output; see [`Exchange::take_error_output`](crate::exchange::Exchange::take_error_output).
    pub fn take_error_output(&mut self) -> Option<Bytes> {
        self.errors.pop_front().or_else(|| match std::mem::take(&mut self.left_out) {
            0 => None,
            number => Some(format!("({number} more records, which are not logged)").into()),
        })
    }

    /// Whether the whole body was taken; see [`Exchange::is_done`](crate::exchange::Exchange::is_done).
    pub fn is_done(&self) -> bool {
        self.stage == ReplyStage::Done && !self.held.is_some()
    }

    /// Reports the end of the connection; see [`Exchange::closed`](crate::exchange::Exchange::closed). A response
    /// without the last record is cut, unless the application has closed its output: nginx takes that for a whole
    /// response.
    ///
    /// # Errors
    /// The response is not complete.
    pub fn closed(&mut self) -> Result<(), Fault> {
        let complete = match (self.stage, self.left) {
            (ReplyStage::Head, _) => false,
            (ReplyStage::Done, _) => true,
            (ReplyStage::Body, Some(left)) => left == 0,
            (ReplyStage::Body, None) => self.closed,
        };
        self.clean = false;
        if !complete {
            return Err(Fault::Cut);
        }
        self.stage = ReplyStage::Done;
        Ok(())
    }

    /// Whether the application has sent more than it has announced. The body that it sends with an answer to HEAD does
    /// not count.
    pub fn has_surplus(&self) -> bool {
        self.surplus > 0 && self.asked != RequestKind::Head
    }

    /// Whether no bytes of this response are left on the connection.
    pub fn is_clean(&self) -> bool {
        self.stage == ReplyStage::Done && self.clean
    }

    /// The number of bytes still to come; see [`Exchange::remaining`](crate::exchange::Exchange::remaining).
    pub fn remaining(&self) -> Option<u64> {
        self.left
    }
}

/// `fastcgi_catch_stderr`: looks for texts in the whole error output, however it is split into records and reads.
struct Catch {
    texts: Vec<Box<[u8]>>,
    /// The end of the searched output, where a text may have begun.
    tail: Vec<u8>,
    /// Whether a text was found.
    found: bool,
}

impl Catch {
    fn new(texts: Vec<Box<[u8]>>) -> Catch {
        Catch { texts, tail: Vec::new(), found: false }
    }

    /// Searches the next bytes.
    fn look(&mut self, bytes: &[u8]) {
        // A text that begins in the earlier bytes has at most its length less one byte of them.
        let Some(most) = self.texts.iter().map(|text| text.len().saturating_sub(1)).max() else { return };
        let has = |bytes: &[u8]| self.texts.iter().any(|text| memchr::memmem::find(bytes, text).is_some());
        let before = self.tail.len();
        self.tail.extend_from_slice(&bytes[..bytes.len().min(most)]);
        self.found |= has(&self.tail) || has(bytes);
        if bytes.len() >= most {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - most..]);
        } else {
            debug_assert!(self.tail.len() == before + bytes.len());
            self.tail.drain(..self.tail.len().saturating_sub(most));
        }
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
