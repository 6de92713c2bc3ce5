//! The response of a FastCGI application.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use freerun_proto::fastcgi::{Piece, Records};
use freerun_proto::response::{Asked, Framing, HeadKind, ReplyError, ResponseParser};

use crate::exchange::gather::Held;
use crate::exchange::reply::upstream_head;
use crate::exchange::{BodyStep, Fault, UpstreamHead};

/// Bytes of one record of error output that are kept for the log; what is behind them is not logged.
pub const MAX_ERROR_LINE: usize = 4096;
/// Records of error output that wait for the log; further ones are only counted until these were taken.
pub const MAX_ERROR_LINES: usize = 64;
/// Bytes of a body nobody wants (of an answer to HEAD) that are read so that the connection can be used again.
const MAX_UNWANTED: usize = 64 * 1024;

/// What has come of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The head is not complete.
    Head,
    /// In the body.
    Body,
    /// All of it was taken.
    Done,
}

/// Reads one response.
pub struct FastCgiReply {
    asked: Asked,
    records: Records,
    parser: ResponseParser,
    stage: Stage,
    /// Output up to the end of the head; bytes behind it wait in `body`.
    head: BytesMut,
    body: Bytes,
    /// Bytes of the body that are still to come, where the head said so.
    left: Option<u64>,
    /// There is no body, whatever comes.
    unwanted: bool,
    /// Bytes that came though no more were to come.
    surplus: usize,
    /// The application has closed its output.
    closed: bool,
    /// Its last record was read, and nothing came behind it.
    clean: bool,
    error: Vec<u8>,
    errors: VecDeque<Bytes>,
    /// Records that came when as many as may wait were waiting.
    left_out: usize,
    catch: Catch,
    held: Held,
}

impl FastCgiReply {
    /// A response with a head of at most `max_head` bytes; error output with one of the texts `catch` makes it invalid.
    pub fn new(asked: Asked, max_head: usize, catch: Vec<Box<[u8]>>) -> FastCgiReply {
        FastCgiReply {
            asked,
            records: Records::new(),
            parser: ResponseParser::new(HeadKind::Cgi, max_head),
            stage: Stage::Head,
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
            held: Held::default(),
        }
    }

    /// [`Exchange::head`](crate::exchange::Exchange::head)
    ///
    /// # Errors
    /// What is wrong with the records, or the head in them.
    pub fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault> {
        loop {
            match self.records.step(input)? {
                Piece::Stdout(range) => {
                    input.advance(range.start);
                    let output = input.split_to(range.len());
                    // A head is mostly in one record, and needs no copying then.
                    match self.head.is_empty() {
                        true => self.head = output,
                        false => self.head.extend_from_slice(&output),
                    }
                    let Some(head) = self.parser.advance(&self.head)? else { continue };
                    let bytes = self.head.split_to(head.len).freeze();
                    self.body = std::mem::take(&mut self.head).freeze();
                    // The end of the output is marked by its last record.
                    let framing = match Framing::of(&head, self.asked) {
                        Framing::Tunnel => Framing::UntilClose,
                        framing => framing,
                    };
                    self.unwanted = framing == Framing::None;
                    self.left = if self.unwanted { Some(0) } else { head.content_length };
                    self.stage = Stage::Body;
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

    /// [`Exchange::body`](crate::exchange::Exchange::body)
    ///
    /// # Errors
    /// What is wrong with the records; fewer bytes than the head has said.
    pub fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        let mut held = std::mem::take(&mut self.held);
        let step = held.step(self, input, FastCgiReply::step);
        self.held = held;
        step
    }

    /// The next piece, as it came.
    fn step(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        if self.stage == Stage::Done {
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

    /// What of the output belongs to the body.
    fn counted(&mut self, mut output: Bytes) -> Bytes {
        if let Some(left) = &mut self.left {
            let wanted = usize::try_from(*left).unwrap_or(usize::MAX);
            self.surplus += output.len().saturating_sub(wanted);
            output.truncate(wanted);
            *left -= output.len() as u64;
        }
        output
    }

    /// Reads up to the last record when all of the body was taken.
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
                // Nobody waits for the end of what is too much.
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
        (self.stage, self.clean) = (Stage::Done, clean);
    }

    /// Gathers a record of error output, and has it logged when it is complete.
    fn error_output(&mut self, input: &mut BytesMut, range: Range<usize>) -> Result<(), Fault> {
        let text = &input[range.clone()];
        if self.stage == Stage::Head {
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
        if self.catch.found && self.stage == Stage::Head {
            let text = String::from_utf8_lossy(&line);
            return Err(Fault::Invalid(format!("FastCGI sent in stderr: \"{text}\"").into()));
        }
        if self.errors.len() < MAX_ERROR_LINES {
            self.errors.push_back(line.into());
        } else {
            self.left_out += 1;
        }
        Ok(())
    }

    /// [`Exchange::take_error_output`](crate::exchange::Exchange::take_error_output)
    pub fn take_error_output(&mut self) -> Option<Bytes> {
        self.errors.pop_front().or_else(|| match std::mem::take(&mut self.left_out) {
            0 => None,
            number => Some(format!("({number} more records, which are not logged)").into()),
        })
    }

    /// [`Exchange::is_done`](crate::exchange::Exchange::is_done)
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done && !self.held.is_some()
    }

    /// [`Exchange::closed`](crate::exchange::Exchange::closed). An application that ends without the last record is
    /// cut, unless it has said that its output is complete: nginx takes that for a whole response.
    ///
    /// # Errors
    /// The response is not complete.
    pub fn closed(&mut self) -> Result<(), Fault> {
        let complete = match (self.stage, self.left) {
            (Stage::Head, _) => false,
            (Stage::Done, _) => true,
            (Stage::Body, Some(left)) => left == 0,
            (Stage::Body, None) => self.closed,
        };
        self.clean = false;
        if !complete {
            return Err(Fault::Cut);
        }
        self.stage = Stage::Done;
        Ok(())
    }

    /// Whether the application has sent more than it has said. The body that it sends with an answer to HEAD is no such thing.
    pub fn has_surplus(&self) -> bool {
        self.surplus > 0 && self.asked != Asked::Head
    }

    /// Whether nothing of this response is left on the connection.
    pub fn is_clean(&self) -> bool {
        self.stage == Stage::Done && self.clean
    }

    /// [`Exchange::remaining`](crate::exchange::Exchange::remaining)
    pub fn remaining(&self) -> Option<u64> {
        self.left
    }
}

/// `fastcgi_catch_stderr`: looks for texts in the error output, in all of it, however it is cut into records and reads.
struct Catch {
    texts: Vec<Box<[u8]>>,
    /// The end of what was looked at, where a text may have begun.
    tail: Vec<u8>,
    /// Whether one has come.
    found: bool,
}

impl Catch {
    fn new(texts: Vec<Box<[u8]>>) -> Catch {
        Catch { texts, tail: Vec::new(), found: false }
    }

    /// Looks at the next bytes.
    fn look(&mut self, bytes: &[u8]) {
        // A text that begins in what came before has one byte less of it than its length, at most.
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
