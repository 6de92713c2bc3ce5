//! The parser of response heads.

use crate::head::parse_length;
use crate::{ConnectionOptions, HeaderId, Span, Version};

use super::error::{ReplyError, shown};
use super::{fields, status_line};

/// The most fields of a response.
pub const MAX_RESPONSE_FIELDS: usize = 1000;
/// The longest head in bytes, whatever buffer is configured: offsets have 32 bits.
const MAX_HEAD: usize = 1 << 30;
/// The number of fields that a head has room for at first: most have no more.
const USUAL_FIELDS: usize = 16;

/// The beginning of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadKind {
    /// A status line: HTTP.
    Http,
    /// Fields, with `Status` among them unless it is 200: FastCGI.
    Cgi,
    /// Either: uwsgi and SCGI, as in nginx.
    HttpOrCgi,
}

/// A field, as offsets into the buffer that the head was parsed from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseField {
    /// The id of the name.
    pub id: HeaderId,
    /// Whether the name is known and written in the usual way, which is [`HeaderId::name`].
    pub usual: bool,
    /// The name as sent.
    pub name: Span,
    /// The value without the spaces around it.
    pub value: Span,
}

/// A complete head. All spans are offsets into the buffer it was parsed from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResponseHead {
    /// The version; [`Version::Http11`] also for later ones. Of a CGI response [`Version::Http10`].
    pub version: Version,
    /// The status, from 100 to 999.
    pub status: u16,
    /// The reason phrase, without spaces around it; empty if there is none.
    pub reason: Span,
    /// Whether the head has a status; otherwise `status` is the default of a CGI response.
    pub says_status: bool,
    /// All fields in the order in which they came.
    pub fields: Vec<ResponseField>,
    /// The value of `Content-Length`.
    pub content_length: Option<u64>,
    /// Whether `Transfer-Encoding: chunked` came. Always false for a CGI response, whose body is as the script wrote
    /// it.
    pub chunked: bool,
    /// The options of `Connection`.
    pub connection: ConnectionOptions,
    /// The bytes of the head, with its last empty line.
    pub len: usize,
}

impl ResponseHead {
    /// Whether this is an interim response, with another one to follow (101 is not).
    pub const fn is_interim(&self) -> bool {
        matches!(self.status, 100 | 102..=199)
    }

    /// The value of the first field of that name, in any case.
    pub fn value<'b>(&self, buf: &'b [u8], name: &[u8]) -> Option<&'b [u8]> {
        self.fields.iter().find(|field| field.name.of(buf).eq_ignore_ascii_case(name)).map(|field| field.value.of(buf))
    }
}

/// The head that came before another one: the same server repeats most of its lines in every response.
#[derive(Debug, Default)]
pub struct Before {
    text: Vec<u8>,
    fields: Vec<ResponseField>,
}

impl Before {
    /// Longer heads, in bytes, are not kept.
    const LONGEST: usize = 2048;

    /// The line at `at`, if it equals the line with this number in the earlier head; also returns where the next line
    /// begins.
    #[inline]
    fn line(&self, number: usize, buf: &[u8], at: usize) -> Option<(ResponseField, usize)> {
        let field = self.fields.get(number)?;
        let start = field.name.start as usize;
        let line = self.text.get(start..field.value.end as usize + 2)?;
        let next = at + line.len();
        if buf.get(at..next)? != line {
            return None;
        }
        let moved = |span: Span| fields::span(span.start as usize - start + at, span.end as usize - start + at);
        Some((ResponseField { name: moved(field.name), value: moved(field.value), ..*field }, next))
    }

    /// Keeps a head whose lines are all plain; up to a line that does not end with CRLF.
    #[cold]
    fn keep(&mut self, text: &[u8], fields: &[ResponseField]) {
        self.text.clear();
        self.fields.clear();
        if text.len() <= Before::LONGEST {
            let whole = |field: &&ResponseField| {
                text.get(field.value.end as usize..).is_some_and(|end| end.starts_with(b"\r\n"))
            };
            self.text.extend_from_slice(text);
            self.fields.extend(fields.iter().take_while(whole));
        }
    }
}

/// Parses heads that come in pieces. One parser reads all heads of a response, interim ones included.
#[derive(Debug)]
pub struct ResponseParser {
    kind: HeadKind,
    max: usize,
    /// There is no end of the line that begins at `line` up to here.
    scanned: usize,
    line: usize,
    /// Whether the beginning of the head has been read.
    begun: bool,
    length: Option<Span>,
    encoding: Option<Span>,
    head: ResponseHead,
}

impl ResponseParser {
    /// A parser of heads of at most `max` bytes.
    pub fn new(kind: HeadKind, max: usize) -> ResponseParser {
        ResponseParser {
            kind,
            max: max.min(MAX_HEAD),
            scanned: 0,
            line: 0,
            begun: false,
            length: None,
            encoding: None,
            head: empty_head(),
        }
    }

    /// A parser with memory to use for the fields.
    #[must_use]
    pub fn with_room(mut self, fields: Vec<ResponseField>) -> ResponseParser {
        self.head.fields = fields;
        self.head.fields.clear();
        self
    }

    /// Parses the part of a head that has come; `buf` begins with its first byte and has grown since the last call.
    /// `None`: more bytes are needed. After a head the parser is ready for the next one, which begins `len` bytes
    /// later.
    ///
    /// # Errors
    /// See [`ReplyError`]; returned with the first invalid line. The parser must not be used further.
    pub fn advance(&mut self, buf: &[u8]) -> Result<Option<ResponseHead>, ReplyError> {
        self.look(buf, None)
    }

    /// Parses like [`ResponseParser::advance`], with the head that came before: lines that both have are not parsed
    /// again.
    ///
    /// # Errors
    /// See [`ResponseParser::advance`].
    pub fn advance_after(&mut self, buf: &[u8], before: &mut Before) -> Result<Option<ResponseHead>, ReplyError> {
        self.look(buf, Some(before))
    }

    fn look(&mut self, buf: &[u8], mut before: Option<&mut Before>) -> Result<Option<ResponseHead>, ReplyError> {
        if !self.begun
            && self.kind != HeadKind::Cgi
            && let Some((parsed, reason, next)) = status_line::plain(buf)
            && next <= self.max
        {
            self.begin();
            (self.line, self.scanned) = (next, next);
            (self.head.version, self.head.status, self.head.reason) = (parsed.version, parsed.status, reason);
        }
        loop {
            if self.begun
                && self.scanned == self.line
                && let Some(next) = self.plain_fields(buf, before.as_deref_mut())?
            {
                return self.finish(buf, next).map(Some);
            }
            let Some(found) = memchr::memchr(b'\n', buf.get(self.scanned..).unwrap_or_default()) else { break };
            let end = self.scanned + found;
            if end >= self.max {
                return Err(ReplyError::TooBig);
            }
            let (start, next) = (self.line, end + 1);
            (self.line, self.scanned) = (next, next);
            let line = &buf[start..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !self.begun {
                self.begin();
                if self.status_line(line)? {
                    continue;
                }
            }
            if line.is_empty() {
                return self.finish(buf, next).map(Some);
            }
            self.field(line, start, buf)?;
        }
        self.scanned = buf.len().max(self.scanned);
        if !self.begun && self.kind == HeadKind::Http && !status_line::may_begin(buf) {
            return Err(ReplyError::NoHead);
        }
        if buf.len() >= self.max { Err(ReplyError::TooBig) } else { Ok(None) }
    }

    /// Takes all lines up to the first that is not plain. Returns the end of the head, if that comes before.
    fn plain_fields(&mut self, buf: &[u8], before: Option<&mut Before>) -> Result<Option<usize>, ReplyError> {
        let first = self.line;
        let (mut at, mut known) = (first, 0);
        let end = loop {
            if buf.get(at..at + 2) == Some(b"\r\n") && at + 2 <= self.max {
                break Some(at + 2);
            }
            let same = before.as_ref().and_then(|before| before.line(self.head.fields.len(), buf, at));
            known += usize::from(same.is_some());
            match same.or_else(|| fields::plain(buf, at)) {
                Some((field, next)) if next <= self.max => {
                    at = next;
                    if self.matters(field.id) {
                        self.note(field, buf)?;
                    }
                    self.keep(field)?;
                }
                _ => break None,
            }
        };
        (self.line, self.scanned) = (at, at);
        if let (Some(end), Some(before)) = (end, before)
            && known < self.head.fields.len()
        {
            before.keep(&buf[..end], &self.head.fields);
        }
        Ok(end)
    }

    fn begin(&mut self) {
        self.begun = true;
        self.head.fields.reserve(USUAL_FIELDS);
    }

    /// Takes the first line, if it is a status line.
    fn status_line(&mut self, line: &[u8]) -> Result<bool, ReplyError> {
        if self.kind == HeadKind::Cgi {
            return Ok(false);
        }
        match status_line::parse(line) {
            Some(parsed) => {
                self.head.version = parsed.version;
                self.head.status = parsed.status;
                let spaces = line[parsed.reason..].iter().take_while(|&&b| b == b' ').count();
                self.head.reason = fields::span(parsed.reason + spaces, line.trim_ascii_end().len());
                Ok(true)
            }
            None if self.kind == HeadKind::HttpOrCgi => Ok(false),
            None => Err(ReplyError::NoHead),
        }
    }

    fn field(&mut self, line: &[u8], start: usize, buf: &[u8]) -> Result<(), ReplyError> {
        match fields::parse(line, start)? {
            Some(field) => {
                self.note(field, buf)?;
                self.keep(field)
            }
            None => Ok(()),
        }
    }

    /// Whether a field may be about the response as a whole. `Status`, of a script, is not one of the known names.
    const fn matters(&self, id: HeaderId) -> bool {
        match id {
            HeaderId::Connection | HeaderId::ContentLength | HeaderId::TransferEncoding => true,
            HeaderId::Other => !matches!(self.kind, HeadKind::Http),
            _ => false,
        }
    }

    #[inline]
    fn keep(&mut self, field: ResponseField) -> Result<(), ReplyError> {
        if self.head.fields.len() == MAX_RESPONSE_FIELDS {
            return Err(ReplyError::TooManyFields);
        }
        self.head.fields.push(field);
        Ok(())
    }

    /// Handles a field that may be about the response as a whole.
    #[inline(never)]
    fn note(&mut self, field: ResponseField, buf: &[u8]) -> Result<(), ReplyError> {
        match field.id {
            // An interim response ends with its head, whatever that says (RFC 9112 section 6.3).
            HeaderId::ContentLength | HeaderId::TransferEncoding if matches!(self.head.status, 100..=199) => {}
            // After a status line it has no meaning.
            HeaderId::Other
                if self.kind != HeadKind::Http
                    && self.head.status == 0
                    && field.name.of(buf).eq_ignore_ascii_case(b"status") =>
            {
                self.cgi_status(field.value.of(buf), field.value)?;
            }
            HeaderId::Connection => self.head.connection.add(field.value.of(buf)),
            HeaderId::ContentLength => {
                once(&mut self.length, field, buf)?;
                let value = field.value.of(buf);
                let length = parse_length(value);
                self.head.content_length = Some(length.ok_or_else(|| ReplyError::ContentLength(shown(value)))?);
            }
            HeaderId::TransferEncoding => {
                once(&mut self.encoding, field, buf)?;
                let value = field.value.of(buf);
                if self.kind != HeadKind::Cgi && !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ReplyError::TransferEncoding(shown(value)));
                }
                self.head.chunked = self.kind == HeadKind::Http;
            }
            _ => {}
        }
        Ok(())
    }

    /// `Status: 404 Not Found`: RFC 3875 section 6.3.3. Text directly behind the digits (`401.1` of IIS) is left out:
    /// nginx passes it on, which makes a status line that clients cannot read.
    fn cgi_status(&mut self, value: &[u8], span: Span) -> Result<(), ReplyError> {
        let digits =
            value.first_chunk::<3>().filter(|digits| digits.iter().all(u8::is_ascii_digit) && digits[0] != b'0');
        let status = digits.map_or(0, |digits| digits.iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0')));
        let rest = value.get(3..).unwrap_or_default();
        // A script has one response: no other follows an interim one.
        if status < 200 && status != 101 || rest.first().is_some_and(u8::is_ascii_digit) {
            return Err(ReplyError::Status(shown(value)));
        }
        self.head.status = status;
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
        let word = rest.iter().take_while(|byte| !is_space(byte)).count();
        let spaces = rest[word..].iter().take_while(|byte| is_space(byte)).count();
        self.head.reason = Span::new(span.start + (3 + word + spaces) as u32, span.end);
        Ok(())
    }

    fn finish(&mut self, buf: &[u8], len: usize) -> Result<ResponseHead, ReplyError> {
        if self.length.is_some() && self.encoding.is_some() {
            return Err(ReplyError::LengthAndEncoding);
        }
        let mut head = std::mem::replace(&mut self.head, empty_head());
        head.len = len;
        head.says_status = head.status != 0;
        if !head.says_status {
            // RFC 3875 section 6.2.3: a Location alone is a redirect; section 6.3.3: without a status it is 200.
            head.status = if head.value(buf, b"location").is_some() { 302 } else { 200 };
        }
        (self.scanned, self.line, self.begun) = (0, 0, false);
        (self.length, self.encoding) = (None, None);
        Ok(head)
    }
}

fn empty_head() -> ResponseHead {
    ResponseHead {
        version: Version::Http10,
        status: 0,
        reason: Span::default(),
        says_status: false,
        fields: Vec::new(),
        content_length: None,
        chunked: false,
        connection: ConnectionOptions::default(),
        len: 0,
    }
}

/// Notes a field that may occur once.
fn once(seen: &mut Option<Span>, field: ResponseField, buf: &[u8]) -> Result<(), ReplyError> {
    let line = |value: Span| format!("{}: {}", shown(field.name.of(buf)), shown(value.of(buf)));
    match seen.replace(field.value) {
        None => Ok(()),
        Some(previous) => Err(ReplyError::Duplicate { line: line(field.value), previous: line(previous) }),
    }
}
