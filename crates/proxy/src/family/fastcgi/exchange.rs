//! A request and its response over FastCGI.

use bytes::{Bytes, BytesMut};
use freerun_conf::bytes_of;
use freerun_http::request::Request;
use freerun_proto::fastcgi::{self, MAX_RECORD, Params};
use freerun_runtime::log::Level;

use crate::exchange::{BodyPlan, BodyStep, Exchange, Fault, TOO_MUCH, To, UpstreamHead};
use crate::family::cgi::asked;
use crate::family::fastcgi::FastCgiSettings;
use crate::family::fastcgi::reply::FastCgiReply;
use crate::family::params;

/// Number of bytes that an application sends besides the last bytes of a body. They are the head and the padding of
/// their record, the end of the output, and the end of the request. Padding usually has at most seven bytes.
const END: usize = 64;

/// An exchange over FastCGI.
pub struct FastCgiExchange {
    keep: bool,
    fields: bool,
    /// The number of bytes in the piece of the request's body that is being sent.
    piece: usize,
    reply: FastCgiReply,
}

impl FastCgiExchange {
    /// An exchange with the settings of the request's location; the response's head may have `max_head` bytes.
    /// `fields`: whether the request's fields are passed on.
    pub fn new(request: &Request, max_head: usize, fields: bool) -> FastCgiExchange {
        let settings = request.settings().get::<FastCgiSettings>();
        let catch = settings.fastcgi_catch_stderr.iter().map(|text| bytes_of(text).into()).collect();
        FastCgiExchange {
            keep: settings.fastcgi_keep_conn,
            fields,
            piece: 0,
            reply: FastCgiReply::new(asked(request), max_head, catch),
        }
    }
}

impl Exchange for FastCgiExchange {
    fn begin(&mut self, request: &Request, _: &To<'_>, _: BodyPlan, out: &mut Vec<u8>) -> Result<(), Fault> {
        let settings = request.settings().get::<FastCgiSettings>();
        fastcgi::begin(self.keep, out);
        let mut params = Params::begin(out);
        let written =
            params::each(request, &settings.fastcgi_param, self.fields, |name, value| params.pair(name, value, out));
        written.map_err(|error| Fault::Request(error.to_string().into()))?;
        params.end(out);
        Ok(())
    }

    fn before_piece(&mut self, len: usize, out: &mut Vec<u8>) {
        self.piece = len;
        fastcgi::stdin_begin(len, out);
    }

    fn after_piece(&mut self, out: &mut Vec<u8>) {
        fastcgi::stdin_end(self.piece, out);
    }

    fn max_piece(&self) -> usize {
        MAX_RECORD
    }

    fn body_end(&mut self, out: &mut Vec<u8>) {
        fastcgi::stdin_done(out);
    }

    fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault> {
        self.reply.head(input)
    }

    fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        self.reply.body(input)
    }

    fn is_done(&self) -> bool {
        self.reply.is_done()
    }

    fn closed(&mut self) -> Result<(), Fault> {
        self.reply.closed()
    }

    fn reusable(&self) -> bool {
        self.keep && self.reply.is_clean()
    }

    fn remaining(&self) -> Option<u64> {
        self.reply.remaining()
    }

    fn framing(&self) -> usize {
        // Otherwise the application closes the connection.
        if self.keep { END } else { 0 }
    }

    fn surplus(&self) -> Option<(Level, &'static str)> {
        self.reply.has_surplus().then_some((Level::Warn, TOO_MUCH))
    }

    fn take_error_output(&mut self) -> Option<Bytes> {
        self.reply.take_error_output()
    }
}
