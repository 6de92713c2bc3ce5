//! One value asked of memcached.

use bytes::{Buf, Bytes, BytesMut};
use freerun_http::request::Request;
use freerun_proto::memcached::{self, Answer, Piece, Value};

use crate::proxy::exchange::{BodyPlan, BodyStep, Exchange, Fault, To, UpstreamHead};
use crate::proxy::fields::HeadFields;

/// An exchange.
pub struct MemcachedExchange {
    /// The key as it is sent.
    key: Vec<u8>,
    /// `memcached_gzip_flag`
    gzip_flag: u32,
    /// Behind the first line, if there is a value.
    value: Option<Value>,
    /// All of the response was taken.
    done: bool,
    /// Nothing came behind it.
    clean: bool,
}

impl MemcachedExchange {
    /// Asks for the value under this key. A value whose flags have a bit of `gzip_flag` is packed.
    pub fn new(key: &[u8], gzip_flag: u32) -> MemcachedExchange {
        MemcachedExchange { key: memcached::escape_key(key), gzip_flag, value: None, done: false, clean: false }
    }

    fn finish(&mut self, input: &BytesMut) {
        (self.done, self.clean) = (true, input.is_empty());
    }
}

impl Exchange for MemcachedExchange {
    fn begin(&mut self, _: &Request, _: &To<'_>, _: BodyPlan, out: &mut Vec<u8>) -> Result<(), Fault> {
        memcached::get(&self.key, out);
        Ok(())
    }

    fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault> {
        let Some((answer, used)) = memcached::answer(input, &self.key)? else { return Ok(None) };
        input.advance(used);
        let mut head = UpstreamHead { status: 200, bytes: used, ..UpstreamHead::default() };
        match answer {
            Answer::NotFound => {
                (head.status, head.length) = (404, Some(0));
                self.finish(input);
            }
            Answer::Value { flags, length } => {
                head.length = Some(length);
                // What an answer to HEAD says, too.
                let mut fields = vec![(Bytes::from_static(b"Content-Length"), length.to_string().into())];
                if flags & u64::from(self.gzip_flag) != 0 {
                    fields.push((Bytes::from_static(b"Content-Encoding"), Bytes::from_static(b"gzip")));
                }
                head.fields = HeadFields::Made(fields);
                self.value = Some(Value::new(length));
            }
        }
        Ok(Some(head))
    }

    fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        let Some(value) = self.value.as_mut().filter(|_| !self.done) else { return Ok(BodyStep::End) };
        match value.step(input)? {
            Piece::Data(range) => Ok(BodyStep::Data(input.split_to(range.end).freeze())),
            Piece::More => {
                input.clear();
                Ok(BodyStep::More)
            }
            Piece::Done(used) => {
                input.advance(used);
                self.finish(input);
                Ok(BodyStep::End)
            }
        }
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn closed(&mut self) -> Result<(), Fault> {
        self.clean = false;
        if self.done { Ok(()) } else { Err(Fault::Cut) }
    }

    fn reusable(&self) -> bool {
        self.done && self.clean
    }

    fn remaining(&self) -> Option<u64> {
        self.value.as_ref().map(Value::left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(input: &str) -> (MemcachedExchange, BytesMut, Result<Option<UpstreamHead>, Fault>) {
        let mut exchange = MemcachedExchange::new(b"k", 2);
        let mut input = BytesMut::from(input);
        let head = exchange.head(&mut input);
        (exchange, input, head)
    }

    #[test]
    fn a_value() {
        let (mut exchange, mut input, found) = head("VALUE k 0 5\r\nhello\r\nEND\r\n");
        let found = found.unwrap().unwrap();
        assert_eq!((found.status, found.length, found.fields.iter().count(), found.bytes), (200, Some(5), 1, 13));
        assert_eq!(exchange.remaining(), Some(5));
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::Data(Bytes::from_static(b"hello"))));
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::End));
        assert!(exchange.is_done() && exchange.reusable());
    }

    #[test]
    fn flags_say_that_a_value_is_packed() {
        for (flags, packed) in [(0u64, false), (1, false), (2, true), (3, true), (1u64 << 40, false)] {
            let (.., found) = head(&format!("VALUE k {flags} 1\r\n"));
            assert_eq!(found.unwrap().unwrap().fields.value(b"content-encoding").is_some(), packed, "{flags}");
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
        let (mut exchange, mut input, _) = head("VALUE k 0 2\r\nokEND\r\n");
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::Data(Bytes::from_static(b"ok"))));
        assert_eq!(exchange.body(&mut input), Err(Fault::invalid("memcached sent invalid trailer")));
        let (mut exchange, mut input, _) = head("VALUE k 0 2\r\nok\r\nEND");
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::Data(Bytes::from_static(b"ok"))));
        assert_eq!(exchange.body(&mut input), Ok(BodyStep::More));
        assert_eq!(exchange.closed(), Err(Fault::Cut));
    }
}
