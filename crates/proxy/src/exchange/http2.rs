//! A request and its response over a stream of HTTP/2 or HTTP/3, as the records of [`freerun_upstream::exchange::record`].

use bytes::{Bytes, BytesMut};
use freerun_conf::text_of;
use freerun_http::request::Request;
use freerun_http::request::response::Field;
use freerun_proto::head::parse_length;
use freerun_proto::response::{ReplyError, RequestKind, ResponseField};
use freerun_proto::{HeaderId, Span, status};
use freerun_upstream::exchange::record::{
    self, ExchangeFault, RECORD_HEAD, RequestHead, ResponseFields, ResponseRecord,
};

use crate::exchange::fields::{HeadFields, Places};
use crate::exchange::gather::HeldResult;
use crate::exchange::{BodyPlan, BodyStep, Exchange, Fault, To, UpstreamHead};

/// Writes the fields of a request's head, the pseudo-fields first. The method has to agree with the [`RequestKind`].
pub type WriteFields = fn(&Request, &To<'_>, BodyPlan, &mut RequestHead<'_>) -> Result<(), Fault>;

/// The text of the log line for a body that is longer than its `Content-Length`.
const TOO_LONG: &str = "upstream sent response body larger than indicated content length";

/// The text of the log line for a response that ends before its body is as long as its `Content-Length` says.
const TOO_SHORT: &str = "upstream prematurely closed stream";

impl From<ExchangeFault> for Fault {
    fn from(how: ExchangeFault) -> Fault {
        match how {
            ExchangeFault::Reset(code) => Fault::Reset(code),
            ExchangeFault::Refused(code) => Fault::Unprocessed(UnprocessedReason::Refused(code)),
            ExchangeFault::GoneAway(code) => Fault::Unprocessed(UnprocessedReason::GoneAway(code)),
            ExchangeFault::Invalid(text) => Fault::Invalid(text.into()),
        }
    }
}

/// Statement of a server that it has not looked at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnprocessedReason {
    /// The server has refused the stream, with this code of its protocol, or takes no more of them.
    #[error("upstream rejected request with error {0}")]
    Refused(u32),
    /// The server closes the connection, with this code.
    #[error("upstream sent goaway with error {0}")]
    GoneAway(u32),
}

/// An exchange over HTTP/2 or HTTP/3. `W` writes the fields of the request's head.
pub struct Http2Exchange<W> {
    write_fields: W,
    asked: RequestKind,
    /// The number of bytes of the request's body that are still to come, if it was announced.
    to_send: Option<u64>,
    /// Whether the end of the request was written.
    has_ended: bool,
    /// The number of bytes of the response's body that are still to come, if its head tells it.
    left: Option<u64>,
    /// Number of bytes of a body in the input before the next record.
    in_data: usize,
    /// Whether the whole response has come.
    done: bool,
    trailers: Vec<Field>,
    held: HeldResult,
}

impl<W> Http2Exchange<W>
where
    W: FnMut(&Request, &To<'_>, BodyPlan, &mut RequestHead<'_>) -> Result<(), Fault>,
{
    /// An exchange whose request has the method that `asked` was made of.
    pub fn new(asked: RequestKind, write_fields: W) -> Http2Exchange<W> {
        let (held, trailers) = Default::default();
        Http2Exchange {
            write_fields,
            asked,
            to_send: None,
            has_ended: false,
            left: None,
            in_data: 0,
            done: false,
            trailers,
            held,
        }
    }

    /// The head in the terms of `client/`, and what it says about the body.
    fn head_of(&mut self, ends: bool, status: u16, fields: ResponseFields) -> Result<UpstreamHead, Fault> {
        let text = fields.text.clone();
        let mut places = Places::spare();
        places.clear();
        let mut announced: Option<ResponseField> = None;
        for (name, value) in fields.iter() {
            let span = |range: std::ops::Range<usize>| {
                // A block of fields has a bound far below.
                Span::new(u32::try_from(range.start).unwrap_or(0), u32::try_from(range.end).unwrap_or(0))
            };
            let (id, usual) = HeaderId::look_up(&text[name.clone()]);
            let place = ResponseField { id, usual, name: span(name), value: span(value) };
            if id == HeaderId::ContentLength
                && status >= 200
                && let Some(previous) = announced.replace(place)
            {
                let line = |place: ResponseField| shown(&text, place);
                return Err(ReplyError::Duplicate { line: line(place), previous: line(previous) }.into());
            }
            places.push(place);
        }
        let bytes = text.len();
        let length = match announced {
            Some(place) => Some(parse_length(place.value.of(&text)).ok_or_else(|| {
                let value = text_of(place.value.of(&text)).into_owned();
                Fault::from(ReplyError::ContentLength(value))
            })?),
            None => None,
        };
        let head = |length| UpstreamHead {
            status,
            reason: Bytes::from_static(status::reason(status).as_bytes()),
            fields: HeadFields::Parsed(text.clone(), Places::new(places)),
            length,
            bytes,
        };
        if status < 200 {
            // Nothing follows, and this is no response.
            return if ends { Err(Fault::invalid(TOO_SHORT)) } else { Ok(head(Some(0))) };
        }
        let is_bodiless = self.asked == RequestKind::Head || matches!(status, 204 | 304);
        if ends && !is_bodiless && length.is_some_and(|length| length > 0) {
            return Err(Fault::invalid(TOO_SHORT));
        }
        self.left = if ends || is_bodiless { Some(0) } else { length };
        self.done = ends;
        Ok(head(self.left))
    }

    /// The next piece, without putting pieces together.
    fn step(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        loop {
            if self.in_data > 0 {
                if input.is_empty() {
                    return Ok(BodyStep::More);
                }
                let piece = input.split_to(self.in_data.min(input.len())).freeze();
                self.in_data -= piece.len();
                if let Some(left) = &mut self.left {
                    *left = left.checked_sub(piece.len() as u64).ok_or(Fault::invalid(TOO_LONG))?;
                }
                return Ok(BodyStep::Data(piece));
            }
            if self.done {
                return Ok(BodyStep::End);
            }
            match next(input)? {
                None => return Ok(BodyStep::More),
                Some(ResponseRecord::Data(len)) => self.in_data = len,
                Some(ResponseRecord::End) => self.end()?,
                Some(ResponseRecord::Trailers(fields)) => {
                    let part = |range| fields.text.slice(range);
                    let passed = fields.iter().map(|(name, value)| (part(name), part(value)));
                    self.trailers = passed.filter(|(name, _)| may_be_trailer(name)).collect();
                    self.end()?;
                }
                Some(ResponseRecord::Broken(how)) => return Err(how.into()),
                Some(ResponseRecord::Head { .. }) => return Err(Fault::invalid("upstream sent unexpected head")),
            }
        }
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.done = true;
        if self.left.is_some_and(|left| left > 0) { Err(Fault::invalid(TOO_SHORT)) } else { Ok(()) }
    }
}

/// The line of a field, for the log.
fn shown(text: &[u8], place: ResponseField) -> String {
    let part = |span: Span| text_of(span.of(text)).into_owned();
    format!("{}: {}", part(place.name), part(place.value))
}

/// The next record.
fn next(input: &mut BytesMut) -> Result<Option<ResponseRecord>, Fault> {
    record::next_response(input).map_err(|error| Fault::Invalid(error.to_string().into()))
}

/// Whether a field may be a trailer: it does not frame the message (RFC 9110 section 6.5.1).
fn may_be_trailer(name: &[u8]) -> bool {
    !matches!(HeaderId::of(name), HeaderId::ContentLength | HeaderId::Te | HeaderId::Trailer)
}

impl<W> Exchange for Http2Exchange<W>
where
    W: FnMut(&Request, &To<'_>, BodyPlan, &mut RequestHead<'_>) -> Result<(), Fault>,
{
    fn begin(&mut self, request: &Request, to: &To<'_>, body: BodyPlan, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.to_send = match body {
            BodyPlan::None => Some(0),
            BodyPlan::Length(length) => Some(length),
            BodyPlan::Unknown => None,
        };
        self.has_ended = self.to_send == Some(0);
        record::request_head(out, self.has_ended, |head| (self.write_fields)(request, to, body, head))
    }

    fn before_piece(&mut self, len: usize, out: &mut Vec<u8>) {
        if let Some(left) = &mut self.to_send {
            *left = left.saturating_sub(len as u64);
            self.has_ended = *left == 0;
        }
        record::body_head(out, len, self.has_ended);
    }

    fn last_piece(&mut self, len: usize) {
        self.to_send.get_or_insert(len as u64);
    }

    fn body_end(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_ended, true) {
            record::end(out);
        }
    }

    fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault> {
        match next(input)? {
            None => Ok(None),
            Some(ResponseRecord::Head { ends, status: status @ (100 | 102..), fields }) => {
                self.head_of(ends, status, fields).map(Some)
            }
            Some(ResponseRecord::Head { status, .. }) => {
                Err(Fault::Invalid(format!("upstream sent unexpected :status \"{status}\"").into()))
            }
            Some(ResponseRecord::Broken(how)) => Err(how.into()),
            Some(_) => Err(Fault::invalid("upstream sent no head")),
        }
    }

    fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        let mut held = std::mem::take(&mut self.held);
        let step = held.step(self, input, Self::step);
        self.held = held;
        step
    }

    fn is_done(&self) -> bool {
        self.done && self.in_data == 0 && !self.held.is_some()
    }

    fn closed(&mut self) -> Result<(), Fault> {
        if self.done { Ok(()) } else { Err(Fault::Cut) }
    }

    fn reusable(&self) -> bool {
        self.done
    }

    fn remaining(&self) -> Option<u64> {
        self.left
    }

    fn framing(&self) -> usize {
        RECORD_HEAD
    }

    fn may_have_trailers(&self) -> bool {
        !self.done
    }

    fn take_trailers(&mut self) -> Vec<Field> {
        std::mem::take(&mut self.trailers)
    }
}

#[cfg(test)]
#[path = "http2_tests.rs"]
mod tests;
