//! The exchange for one value of memcached.

use bytes::{Buf, Bytes, BytesMut};
use freerun_http::request::Request;
use freerun_proto::memcached::{self, ResponseLine, Value, ValuePiece};
use freerun_proto::response::ReplyError;
use freerun_runtime::log::Level;

use crate::exchange::fields::HeadFields;
use crate::exchange::{BodyPlan, BodyStep, Exchange, Fault, To, UpstreamHead};

/// An exchange over memcached's protocol.
pub struct MemcachedExchange {
    /// The key as it is sent.
    key: Vec<u8>,
    /// The value of `memcached_gzip_flag`.
    gzip_flag: u32,
    /// The value of `memcached_buffer_size`.
    max_line: usize,
    /// The value after the first line, if there is one.
    value: Option<Value>,
    /// The end of the value, until it is known that it is the end: a value with another length than announced is never
    /// sent as complete.
    last: Bytes,
    /// Whether the whole response was taken.
    done: bool,
    /// Whether no bytes came after the response.
    clean: bool,
}

impl MemcachedExchange {
    /// An exchange for the value under this key. A value whose flags have a bit of `gzip_flag` is compressed; the line
    /// before it may have `max_line` bytes.
    pub fn new(key: &[u8], gzip_flag: u32, max_line: usize) -> MemcachedExchange {
        MemcachedExchange {
            key: memcached::escape_key(key),
            gzip_flag,
            max_line,
            value: None,
            last: Bytes::new(),
            done: false,
            clean: false,
        }
    }

    /// Ends the response. Bytes after it belong to no response.
    fn finish(&mut self, input: &mut BytesMut) {
        (self.done, self.clean) = (true, input.is_empty());
        input.clear();
    }
}

impl Exchange for MemcachedExchange {
    fn begin(&mut self, _: &Request, _: &To<'_>, _: BodyPlan, out: &mut Vec<u8>) -> Result<(), Fault> {
        memcached::get(&self.key, out);
        Ok(())
    }

    fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault> {
        let wants_flags = self.gzip_flag != 0;
        let Some((answer, used)) = memcached::answer(input, &self.key, wants_flags, self.max_line)? else {
            return Ok(None);
        };
        let mut head = UpstreamHead { status: 200, bytes: used, ..UpstreamHead::default() };
        match answer {
            ResponseLine::NotFound => {
                input.advance(used);
                (head.status, head.length) = (404, Some(0));
                self.finish(input);
            }
            ResponseLine::Value { flags, length } => {
                let value = Value::new(length);
                let rest = &input[used..];
                if value.is_wrong(rest) {
                    return Err(ReplyError::MemcachedTrailer.into());
                }
                // An empty value cannot be cut.
                if length == 0 && (rest.len() as u64) < value.to_come() {
                    return Ok(None);
                }
                input.advance(used);
                head.length = Some(length);
                // An answer to HEAD has this field, too.
                let mut fields = vec![(Bytes::from_static(b"Content-Length"), length.to_string().into())];
                if flags & u64::from(self.gzip_flag) != 0 {
                    fields.push((Bytes::from_static(b"Content-Encoding"), Bytes::from_static(b"gzip")));
                }
                head.fields = HeadFields::Made(fields);
                self.value = Some(value);
            }
        }
        Ok(Some(head))
    }

    fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        let Some(value) = self.value.as_mut().filter(|_| !self.done) else { return Ok(BodyStep::End) };
        loop {
            match value.step(input)? {
                ValuePiece::Data(range) => {
                    let piece = input.split_to(range.end).freeze();
                    if value.left() > 0 {
                        return Ok(BodyStep::Data(piece));
                    }
                    self.last = piece;
                }
                ValuePiece::More => {
                    input.clear();
                    return Ok(BodyStep::More);
                }
                ValuePiece::Done(used) => {
                    input.advance(used);
                    let last = std::mem::take(&mut self.last);
                    self.finish(input);
                    return Ok(if last.is_empty() { BodyStep::End } else { BodyStep::Data(last) });
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn closed(&mut self) -> Result<(), Fault> {
        if self.done { Ok(()) } else { Err(Fault::Cut) }
    }

    fn reusable(&self) -> bool {
        self.done && self.clean
    }

    /// The number of bytes still to come, including those that end the value, because they follow it at once.
    fn remaining(&self) -> Option<u64> {
        self.value.as_ref().map(Value::to_come)
    }

    fn framing(&self) -> usize {
        // One byte more, which would show that there are surplus bytes.
        memcached::TRAILER.len() + 1
    }

    fn surplus(&self) -> Option<(Level, &'static str)> {
        let more = self.value.is_some() && self.done && !self.clean;
        more.then_some((Level::Error, "memcached sent invalid trailer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(input: &str) -> (MemcachedExchange, BytesMut, Result<Option<UpstreamHead>, Fault>) {
        let mut exchange = MemcachedExchange::new(b"k", 2, 4096);
        let mut input = BytesMut::from(input);
        let head = exchange.head(&mut input);
        (exchange, input, head)
    }

    #[test]
    fn a_value() {
        let (mut exchange, mut input, found) = head("VALUE k 0 5\r\nhello\r\nEND\r\n");
        let found = found.unwrap().unwrap();
        assert_eq!((found.status, found.length, found.fields.iter().count(), found.bytes), (200, Some(5), 1, 13));
        assert_eq!(exchange.remaining(), Some(12));
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::Data(Bytes::from_static(b"hello"))));
        assert!(exchange.is_done() && exchange.reusable() && exchange.surplus().is_none());
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::End));
    }

    #[test]
    fn the_end_of_a_value_waits_for_what_ends_it() {
        let (mut exchange, mut input, _) = head("VALUE k 0 5\r\nhel");
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::Data(Bytes::from_static(b"hel"))));
        for piece in ["l", "o", "\r\n", "END\r"] {
            input.extend_from_slice(piece.as_bytes());
            let got = exchange.body(&mut input);
            let step = if piece == "l" { BodyStep::Data(Bytes::from_static(b"l")) } else { BodyStep::More };
            assert_eq!((got, exchange.is_done()), (Ok(step), false), "{piece:?}");
        }
        assert_eq!(exchange.remaining(), Some(1));
        input.extend_from_slice(b"\n");
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::Data(Bytes::from_static(b"o"))));
        assert!(exchange.is_done() && exchange.reusable());
    }

    #[test]
    fn an_empty_value_is_there_when_its_end_has_come() {
        let (mut exchange, mut input, found) = head("VALUE k 0 0\r\n\r\nEND\r");
        assert!(found.unwrap().is_none());
        input.extend_from_slice(b"\n");
        assert_eq!(exchange.head(&mut input).unwrap().unwrap().length, Some(0));
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::End));
        assert!(exchange.is_done() && exchange.reusable());
        assert_eq!(head("VALUE k 0 0\r\n\r\nEN").0.closed(), Err(Fault::Cut));
    }

    #[test]
    fn what_stands_behind_the_response_is_told() {
        let (mut exchange, mut input, _) = head("VALUE k 0 2\r\nok\r\nEND\r\nX");
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::Data(Bytes::from_static(b"ok"))));
        assert!(exchange.is_done() && !exchange.reusable() && input.is_empty());
        assert_eq!(exchange.surplus(), Some((Level::Error, "memcached sent invalid trailer")));
        assert_eq!(head("END\r\nX").0.surplus(), None);
    }

    #[test]
    fn flags_say_that_a_value_is_packed() {
        for (flags, packed) in [(0u64, false), (1, false), (2, true), (3, true), (1u64 << 40, false)] {
            let (.., found) = head(&format!("VALUE k {flags} 1\r\n"));
            assert_eq!(found.unwrap().unwrap().fields.values(b"content-encoding").next().is_some(), packed, "{flags}");
        }
    }

    #[test]
    fn no_value() {
        let (exchange, _, found) = head("END\r\n");
        let found = found.unwrap().unwrap();
        assert_eq!((found.status, found.length), (404, Some(0)));
        assert!(exchange.is_done() && exchange.reusable());
        assert!(!head("END\r\nX").0.reusable());
    }

    #[test]
    fn cut_and_wrong_responses() {
        assert_eq!(
            head("SERVER_ERROR x\r\n").2.unwrap_err().to_string(),
            "memcached sent invalid response: \"SERVER_ERROR x\""
        );
        let (mut exchange, ..) = head("VALUE");
        assert_eq!(exchange.closed(), Err(Fault::Cut));
        let wrong = Fault::invalid("memcached sent invalid trailer");
        for text in ["VALUE k 0 2\r\nokEND\r\n", "VALUE k 0 0\r\nX", "VALUE k 0 1\r\nok\r\nEND\r\n"] {
            assert_eq!(head(text).2.unwrap_err(), wrong, "{text:?}");
        }
        for (first, second) in [("o", "kEND\r\n"), ("ok", "\n"), ("ok\r\nEN", "X")] {
            let (mut exchange, mut input, _) = head(&format!("VALUE k 0 2\r\n{first}"));
            while matches!(exchange.body(&mut input), Ok(BodyStep::Data(_))) {}
            input.extend_from_slice(second.as_bytes());
            assert_eq!(exchange.body(&mut input), Err(wrong.clone()), "{second:?}");
        }
        let (mut exchange, mut input, _) = head("VALUE k 0 2\r\nok\r\nEND");
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::More));
        assert_eq!(exchange.closed(), Err(Fault::Cut));
    }
}
