//! The head of a response as text, in the form of HTTP/1, also for `$sent_http_…`.

use std::io::Write;

use freerun_proto::encode::{field, push_number, push_value, status_line};
use freerun_proto::{Status, Version};

use crate::content::error_page::server_name;
use crate::request::Request;
use crate::request::core_settings::{CoreSettings, ServerTokens};
use crate::request::response::{AsWritten, Response};
use crate::write::decide::{ResponseDecision, decide};
use crate::write::fields::{self, HeadSink};

/// A head as text, which is appended to a buffer.
pub struct TextHead<'o> {
    out: &'o mut Vec<u8>,
    /// The offset of the fields for `$sent_http_…`: behind the server's own `Server` and `Date`.
    fields: usize,
}

impl<'o> TextHead<'o> {
    /// A head that is appended to `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>) -> TextHead<'o> {
        TextHead { fields: out.len(), out }
    }
}

impl HeadSink for TextHead<'_> {
    #[inline]
    fn start(&mut self, request: &Request, response: &Response, core: &CoreSettings) {
        let written = response.as_written.as_deref();
        if request.sent.status == Some(Status::OK)
            && written.is_none_or(|written| written.begins_plainly() && !response.special)
        {
            let tokens = core.server_tokens;
            let which = usize::from(tokens == ServerTokens::Off);
            let make = |date: &[u8; 29], start: &mut Vec<u8>| plain_start(tokens, date, start);
            request.client.loop_state.clock.dated(which, make, |start| self.out.extend_from_slice(start));
        } else {
            match written.filter(|written| written.status == request.sent.code() && !response.special) {
                Some(written) => written_status_line(written, self.out),
                None => status_line(request.sent.code(), self.out),
            }
            fields::own_start(request, response, core, self);
        }
        self.fields = self.out.len();
    }

    #[inline]
    fn connection(&mut self, request: &Request, response: &Response, decided: &ResponseDecision, core: &CoreSettings) {
        let out = &mut *self.out;
        if decided.is_chunked() {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        if response.status == Status::SWITCHING_PROTOCOLS {
            out.extend_from_slice(b"Connection: upgrade\r\n");
        } else if decided.upgrades {
            // The tunnel of CONNECT: what becomes of the connection is not HTTP's business any more.
        } else if request.answered.persistence.is_kept() {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
            if let Some(seconds) = core.keepalive_timeout.header.filter(|seconds| *seconds > 0) {
                out.extend_from_slice(b"Keep-Alive: timeout=");
                let _ = write!(out, "{seconds}");
                out.extend_from_slice(b"\r\n");
            }
        } else {
            out.extend_from_slice(b"Connection: close\r\n");
        }
    }

    #[inline]
    fn lines(&mut self, lines: &[u8]) {
        self.out.extend_from_slice(lines);
    }

    #[inline]
    fn begin(&mut self, name: &[u8]) {
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
    }

    #[inline]
    fn push(&mut self, value: &[u8]) {
        push_value(value, self.out);
    }

    #[inline]
    fn push_clean(&mut self, value: &[u8]) {
        self.out.extend_from_slice(value);
    }

    #[inline]
    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Decides about a response and writes its head into `out`. Also returns where the fields for `$sent_http_…` begin:
/// behind the server's own `Server` and `Date`.
pub fn head(
    request: &mut Request,
    response: &Response,
    upgrades: bool,
    out: &mut Vec<u8>,
) -> (ResponseDecision, usize) {
    let decided = decide(request, response, upgrades);
    if request.head.version() == Version::Http09 {
        return (decided, out.len());
    }
    let mut text = TextHead::new(out);
    fields::print(request, response, &decided, &mut text);
    let fields = text.fields;
    out.extend_from_slice(b"\r\n");
    (decided, fields)
}

fn written_status_line(written: &AsWritten, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_number(out, written.status.into());
    out.push(b' ');
    push_value(&written.reason, out);
    out.extend_from_slice(b"\r\n");
}

/// Keeps the current head in the request, for `$sent_http_…` and `$status` in fields that filters add to it.
pub fn preview(request: &mut Request, response: &Response) {
    if !request.generation.http.keeps_sent_head {
        request.sent.status = Some(response.sent_status());
        return;
    }
    let persistence = request.answered.persistence;
    let mut text = std::mem::take(&mut request.answered.head);
    text.clear();
    let (_, fields) = head(request, response, response.takeover.is_some(), &mut text);
    text.drain(..fields);
    request.answered.head = text;
    request.answered.persistence = persistence;
}

/// Adds a field to the head that [`preview`] has kept.
pub fn preview_field(request: &mut Request, name: &[u8], value: &[u8]) {
    if request.generation.http.keeps_sent_head {
        field(&mut request.answered.head, name, value);
    }
}

/// Prints the beginning of a head with status 200: the status line of HTTP/1, `Server` and `Date`.
fn plain_start(tokens: ServerTokens, date: &[u8; 29], out: &mut Vec<u8>) {
    out.extend_from_slice(
        &[b"HTTP/1.1 200 OK\r\nServer: ", server_name(tokens).as_bytes(), b"\r\nDate: ", date, b"\r\n"].concat(),
    );
}
