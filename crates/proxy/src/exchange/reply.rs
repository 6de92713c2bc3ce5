//! The response side of an exchange over a plain stream: HTTP, uwsgi and SCGI.

use std::cell::RefCell;

use bytes::{Buf, Bytes, BytesMut};
use freerun_http::request::response::Field;
use freerun_proto::HeaderId;
use freerun_proto::body::BodyDecoder;
use freerun_proto::chunked::ChunkStep;
use freerun_proto::response::{
    Before, Framing, HeadKind, MAX_RESPONSE_FIELDS, ReplyError, RequestKind, ResponseHead, ResponseParser,
};

use crate::exchange::fields::{HeadFields, Places};
use crate::exchange::gather::HeldResult;
use crate::exchange::{BodyStep, Fault, UpstreamHead};

impl From<ReplyError> for Fault {
    fn from(error: ReplyError) -> Fault {
        match error {
            ReplyError::TooBig => Fault::TooBig,
            ReplyError::Closed => Fault::Cut,
            error => Fault::Invalid(error.to_string().into()),
        }
    }
}

thread_local! {
    /// The state of the head that this loop has parsed last.
    static BEFORE: RefCell<Before> = RefCell::default();
}

/// Converts a parsed head for `client/`. The fields share the head's bytes.
pub fn upstream_head(head: ResponseHead, bytes: Bytes, framing: Framing) -> UpstreamHead {
    debug_assert!(head.fields.len() <= MAX_RESPONSE_FIELDS);
    UpstreamHead {
        status: head.status,
        reason: if head.reason.is_empty() && head.says_status {
            Bytes::new()
        } else {
            let (reason, usual) = (head.reason.of(&bytes), freerun_proto::status::reason(head.status).as_bytes());
            let is_usual = reason.is_empty() || reason == usual;
            if is_usual { Bytes::from_static(usual) } else { bytes.slice_ref(reason) }
        },
        fields: HeadFields::Parsed(bytes, Places::new(head.fields)),
        length: match framing {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose | Framing::Tunnel => None,
        },
        bytes: head.len,
    }
}

/// Parses one response.
pub struct Reply {
    kind: HeadKind,
    asked: RequestKind,
    parser: ResponseParser,
    /// The decoder of the body, after the final head.
    body: Option<BodyDecoder>,
    /// Whether the head allows another request on this connection.
    keeps: bool,
    /// Whether the body is complete.
    done: bool,
    /// Whether the upstream server has sent nothing after the response.
    clean: bool,
    held: HeldResult,
}

impl Reply {
    /// A response whose head has at most `max` bytes.
    pub fn new(kind: HeadKind, asked: RequestKind, max: usize) -> Reply {
        Reply {
            kind,
            asked,
            parser: ResponseParser::new(kind, max).with_room(Places::spare()),
            body: None,
            keeps: false,
            done: false,
            clean: false,
            held: HeldResult::default(),
        }
    }

    /// Takes the next head, as [`Exchange::head`](super::Exchange::head) requires.
    ///
    /// # Errors
    /// The head is not valid.
    pub fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault> {
        let Some(head) = BEFORE.with_borrow_mut(|before| self.parser.advance_after(input, before))? else {
            return Ok(None);
        };
        let framing = Framing::of(&head, self.asked);
        let bytes = input.split_to(head.len).freeze();
        if !head.is_interim() {
            self.keeps = self.is_http() && framing.keeps(&head);
            let body = framing.decoder();
            if framing != Framing::Tunnel && body.remaining() == Some(0) {
                self.finish(input);
            }
            self.body = Some(body);
        }
        Ok(Some(upstream_head(head, bytes, framing)))
    }

    fn finish(&mut self, input: &mut BytesMut) {
        (self.done, self.clean) = (true, input.is_empty());
        // As in nginx a body after an answer to HEAD is not logged as too much; the connection is not used again.
        if self.asked == RequestKind::Head {
            input.clear();
        }
    }

    /// Takes the next bytes of the body, as [`Exchange::body`](super::Exchange::body) requires.
    ///
    /// # Errors
    /// The framing is not valid.
    pub fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        let mut held = std::mem::take(&mut self.held);
        let step = held.step(self, input, Reply::step);
        self.held = held;
        step
    }

    /// The next piece, without gathering.
    fn step(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        let Some(body) = self.body.as_mut().filter(|_| !self.done) else { return Ok(BodyStep::End) };
        match body.step(input).map_err(|_| ReplyError::Chunked)? {
            ChunkStep::Data(range) => {
                input.advance(range.start);
                let data = input.split_to(range.len()).freeze();
                if body.remaining() == Some(0) {
                    self.finish(input);
                }
                Ok(BodyStep::Data(data))
            }
            ChunkStep::More => {
                input.clear();
                Ok(BodyStep::More)
            }
            ChunkStep::Done(used) => {
                input.advance(used);
                self.finish(input);
                Ok(BodyStep::End)
            }
        }
    }

    /// Whether the whole body was taken; see [`Exchange::is_done`](super::Exchange::is_done).
    pub fn is_done(&self) -> bool {
        self.done && !self.held.is_some()
    }

    /// Reports the end of the connection; see [`Exchange::closed`](super::Exchange::closed).
    ///
    /// # Errors
    /// The response is not complete.
    pub fn closed(&mut self) -> Result<(), Fault> {
        self.keeps = false;
        match &self.body {
            Some(_) if self.done => Ok(()),
            Some(body) if body.is_done_when_closed() => {
                self.done = true;
                Ok(())
            }
            Some(_) => Err(ReplyError::Closed.into()),
            None => Err(Fault::Cut),
        }
    }

    /// Whether the connection can be used again; see [`Exchange::reusable`](super::Exchange::reusable).
    pub fn reusable(&self) -> bool {
        self.keeps && self.done && self.clean
    }

    /// The number of bytes still to come; see [`Exchange::remaining`](super::Exchange::remaining).
    pub fn remaining(&self) -> Option<u64> {
        self.body.as_ref().and_then(BodyDecoder::remaining)
    }

    /// Whether the head has to be in HTTP, not in CGI.
    pub fn is_http(&self) -> bool {
        self.kind == HeadKind::Http
    }

    /// Takes the trailer fields; see [`Exchange::take_trailers`](super::Exchange::take_trailers). Fields about the
    /// message itself are left out: RFC 9110 section 6.5.1.
    pub fn take_trailers(&mut self) -> Vec<Field> {
        let Some(body @ BodyDecoder::Chunked(_)) = self.body.as_ref().filter(|_| self.done) else { return Vec::new() };
        let may = |name: &[u8]| {
            !matches!(
                HeaderId::of(name),
                HeaderId::Connection
                    | HeaderId::ContentLength
                    | HeaderId::KeepAlive
                    | HeaderId::Te
                    | HeaderId::Trailer
                    | HeaderId::TransferEncoding
                    | HeaderId::Upgrade
            )
        };
        let trailers = body.trailers().filter(|(name, _)| may(name));
        trailers.map(|(name, value)| (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value))).collect()
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
