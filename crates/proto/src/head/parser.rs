//! The incremental parser.

use super::line::{self, ParsedRequestLine};
use super::types::{BodyFraming, Field, Method, RequestHead, Version};
use crate::ascii::{self, NAME, class};
use crate::{ConnectionOptions, HeaderId, HostSpan, RequestError, Span};

/// The directives about reading a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadRules {
    /// `client_header_buffer_size`: bytes of the buffer that every head starts in.
    pub first_buffer: usize,
    /// `large_client_header_buffers`, first parameter: how many more buffers a head may take.
    pub large_buffers: u32,
    /// `large_client_header_buffers`, second parameter: bytes of each.
    pub large_buffer_size: usize,
    /// `max_headers`: how many header lines a head may have, ignored ones counted; 0 sets no limit.
    pub max_headers: usize,
    /// `ignore_invalid_headers`: drop fields whose names have other bytes than letters, digits and `-`. If off, such
    /// fields are kept as they are.
    pub ignore_invalid_headers: bool,
    /// `underscores_in_headers`: whether `_` is a valid byte of a name.
    pub underscores_in_headers: bool,
}

impl Default for HeadRules {
    fn default() -> Self {
        HeadRules {
            first_buffer: 1024,
            large_buffers: 4,
            large_buffer_size: 8192,
            max_headers: 1000,
            ignore_invalid_headers: true,
            underscores_in_headers: false,
        }
    }
}

impl HeadRules {
    /// The length that no acceptable head exceeds: a reader need not buffer more than this before the head is complete.
    pub fn max_len(&self) -> usize {
        let large = self.large_buffer_size.saturating_mul(self.large_buffers as usize);
        self.first_buffer.saturating_add(large).min(u32::MAX as usize)
    }
}

/// Whether the head is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More bytes are needed.
    Partial,
    /// The head is complete: [`HeadParser::into_head`] returns it.
    Complete,
}

/// The part of a head that the parser waits for, which decides how a silent or vanished client is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadStage {
    /// Only empty lines have come.
    Empty,
    /// A part of the request line has come.
    RequestLine,
    /// The request line is complete, the fields are not.
    Fields,
    /// The head is complete.
    Done,
}

/// Fields that nginx refuses if they occur twice.
pub(super) const UNIQUE: u64 = bit(HeaderId::Host)
    | bit(HeaderId::ContentLength)
    | bit(HeaderId::TransferEncoding)
    | bit(HeaderId::IfModifiedSince)
    | bit(HeaderId::IfUnmodifiedSince)
    | bit(HeaderId::IfMatch)
    | bit(HeaderId::IfNoneMatch)
    | bit(HeaderId::IfRange)
    | bit(HeaderId::Expect)
    | bit(HeaderId::Authorization)
    | bit(HeaderId::ContentRange);

/// The bit of a name in the presence of names.
pub(super) const fn bit(id: HeaderId) -> u64 {
    1 << id as u8
}

const _: () = assert!(HeaderId::ALL.len() < 64, "presence of names is kept in 64 bits");

/// Parses one request head out of a buffer that grows.
///
/// The buffer's first byte is the head's first, and bytes already there must not change between calls. A line is parsed
/// once: when its end has come.
#[derive(Debug)]
pub struct HeadParser {
    /// The head is boxed, because it is passed on several times.
    head: Box<RequestHead>,
    stage: HeadStage,
    /// The start of the line that is not parsed yet.
    line_start: usize,
    /// There is no further line end up to here.
    scanned: usize,
    /// The bytes left in the buffer that nginx would be filling now.
    room: usize,
    /// The number of large buffers taken so far.
    taken: u32,
    /// The number of header lines seen.
    lines: usize,
}

impl Default for HeadParser {
    fn default() -> Self {
        HeadParser::new()
    }
}

impl HeadParser {
    /// A parser before the first byte of a head.
    pub fn new() -> HeadParser {
        HeadParser::with(Box::new(RequestHead::empty()))
    }

    /// A parser before the first byte of a head, in the memory of a head that is not needed any more.
    pub fn reusing(mut head: Box<RequestHead>) -> HeadParser {
        head.clear();
        HeadParser::with(head)
    }

    /// A parser that fills an empty head.
    fn with(head: Box<RequestHead>) -> HeadParser {
        HeadParser { head, stage: HeadStage::Empty, line_start: 0, scanned: 0, room: 0, taken: 0, lines: 0 }
    }

    /// The part of the head that the parser waits for.
    pub fn stage(&self) -> HeadStage {
        self.stage
    }

    /// The request line as far as it is known, also after an error in it: the value of `$request`.
    pub fn request_line(&self) -> Option<Span> {
        (!self.head.request_line.is_empty()).then_some(self.head.request_line)
    }

    /// The head as far as it was parsed: method, target and fields that came before an error, for the log.
    pub fn head(&self) -> &RequestHead {
        &self.head
    }

    /// The head. It is complete only after [`Progress::Complete`].
    pub fn into_head(self) -> Box<RequestHead> {
        self.head
    }

    /// The head as far as it came, of a request that ends here: its request line then is the part that has come.
    pub fn into_cut_head(mut self, buf: &[u8]) -> Box<RequestHead> {
        if self.stage == HeadStage::RequestLine {
            let line = &buf[self.line_start..];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.head.request_line = Span::new(self.line_start as u32, (self.line_start + line.len()) as u32);
        }
        self.into_head()
    }

    /// Parses the bytes that came since the last call.
    ///
    /// # Errors
    /// The first error in the head, or the first limit that it exceeds. The parser must not be used further, but
    /// [`HeadParser::request_line`] and [`HeadParser::head`] can still be called.
    pub fn advance(&mut self, buf: &[u8], rules: &HeadRules) -> Result<Progress, RequestError> {
        if self.stage == HeadStage::Done {
            return Ok(Progress::Complete);
        }
        // Offsets are 32 bits wide; `max_len` keeps below that.
        let buf = &buf[..buf.len().min(u32::MAX as usize)];
        if buf.len() < self.scanned {
            return Ok(Progress::Partial);
        }
        if self.stage == HeadStage::Empty && !self.skip_empty_lines(buf, rules)? {
            return Ok(Progress::Partial);
        }
        loop {
            // A line that was scanned before, and had no end, is only searched for its end.
            if self.stage == HeadStage::Fields
                && self.scanned == self.line_start
                && buf.get(self.line_start) != Some(&b'\r')
                && let Some((field, next)) = plain_field(buf, self.line_start)
            {
                self.take_plain(buf, field, next, rules)?;
                continue;
            }
            let found = match buf[self.scanned..] {
                // Most heads end like this.
                [b'\r', b'\n', ..] => Some(1),
                ref rest => memchr::memchr(b'\n', rest),
            };
            let Some(found) = found else {
                self.scanned = buf.len();
                self.check_pending(buf, rules)?;
                return Ok(Progress::Partial);
            };
            let newline = self.scanned + found;
            let start = self.line_start;
            let line = &buf[start..newline];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let next = newline + 1;
            let fits = self.charge(next - start, rules);
            if self.stage == HeadStage::RequestLine {
                self.head.request_line = Span::new(start as u32, (start + line.len()) as u32);
                let parsed = if fits {
                    line::parse(line, start as u32)
                } else {
                    Err(self.too_long(&buf[start..newline], rules))
                };
                let parsed = parsed.inspect_err(|_| self.head.method = method_of(line))?;
                self.take_line(parsed);
                self.stage = HeadStage::Fields;
                self.head.len = next as u32;
                if self.head.version == Version::Http09 {
                    return Ok(self.done(next));
                }
            } else if !fits {
                return Err(RequestError::HeaderTooLarge(Span::new(start as u32, next as u32)));
            } else if line.is_empty() {
                self.head.len = next as u32;
                self.finish(buf)?;
                return Ok(self.done(next));
            } else {
                let field = self.field(buf, start, start + line.len(), rules);
                // nginx counts all lines that have the form of a field, even if it then refuses them.
                if !matches!(field, Err(RequestError::HeaderLine(_))) {
                    self.head.len = next as u32;
                }
                field?;
            }
            self.line_start = next;
            self.scanned = next;
        }
    }

    /// Skips empty lines before the request line: RFC 9112 section 2.2. Returns whether the request line has begun.
    fn skip_empty_lines(&mut self, buf: &[u8], rules: &HeadRules) -> Result<bool, RequestError> {
        let rest = &buf[self.line_start..];
        let skipped = rest.iter().position(|&b| b != b'\r' && b != b'\n').unwrap_or(rest.len());
        self.line_start += skipped;
        self.scanned = self.line_start;
        if self.line_start >= rules.first_buffer && self.line_start > 0 {
            return Err(RequestError::RequestLine);
        }
        if self.line_start == buf.len() {
            return Ok(false);
        }
        self.room = rules.first_buffer - self.line_start.min(rules.first_buffer);
        self.stage = HeadStage::RequestLine;
        Ok(true)
    }

    fn done(&mut self, len: usize) -> Progress {
        self.head.len = len as u32;
        self.stage = HeadStage::Done;
        Progress::Complete
    }

    /// Places a line in nginx's buffers: a line that does not fit the rest of one moves to the next, whole. Returns
    /// whether there was a buffer for it.
    fn charge(&mut self, len: usize, rules: &HeadRules) -> bool {
        if len <= self.room {
            self.room -= len;
            return true;
        }
        if self.taken >= rules.large_buffers || len > rules.large_buffer_size {
            return false;
        }
        self.taken += 1;
        self.room = rules.large_buffer_size - len;
        true
    }

    /// Checks a line whose end has not come yet.
    fn check_pending(&mut self, buf: &[u8], rules: &HeadRules) -> Result<(), RequestError> {
        let pending = &buf[self.line_start..];
        let fits = pending.len() < self.longest_line(rules);
        let span = Span::new(self.line_start as u32, buf.len() as u32);
        if self.stage == HeadStage::RequestLine {
            let checked = if fits { line::check_prefix(pending) } else { Err(self.too_long(pending, rules)) };
            return checked.inspect_err(|_| {
                self.head.request_line = span;
                self.head.method = method_of(pending);
            });
        }
        if fits { Ok(()) } else { Err(RequestError::HeaderTooLarge(span)) }
    }

    /// The length of the longest line that the buffer has room for now: the rest of the current one, or a large one.
    fn longest_line(&self, rules: &HeadRules) -> usize {
        if self.taken < rules.large_buffers { self.room.max(rules.large_buffer_size) } else { self.room }
    }

    /// The error of a request line that does not fit: an error within the limit counts first.
    fn too_long(&self, line: &[u8], rules: &HeadRules) -> RequestError {
        let limit = self.longest_line(rules).min(line.len());
        line::check_prefix(&line[..limit]).err().unwrap_or(RequestError::UriTooLong)
    }

    fn take_line(&mut self, line: ParsedRequestLine) {
        let head = &mut self.head;
        head.method = line.method;
        head.method_text = line.method_text;
        head.version = line.version;
        head.version_text = line.version_text;
        head.target = line.target;
        head.host = line.host;
    }

    /// Takes a header line of the usual form; the next one begins at `next`.
    fn take_plain(&mut self, buf: &[u8], field: Field, next: usize, rules: &HeadRules) -> Result<(), RequestError> {
        let start = self.line_start;
        if !self.charge(next - start, rules) {
            return Err(RequestError::HeaderTooLarge(Span::new(start as u32, next as u32)));
        }
        self.head.len = next as u32;
        self.count_line(rules)?;
        self.keep(buf, field, next)?;
        self.line_start = next;
        self.scanned = next;
        Ok(())
    }

    fn count_line(&mut self, rules: &HeadRules) -> Result<(), RequestError> {
        self.lines += 1;
        let too_many = rules.max_headers != 0 && self.lines > rules.max_headers;
        if too_many { Err(RequestError::TooManyHeaders) } else { Ok(()) }
    }

    /// Parses one header line, `start..end` of the buffer.
    fn field(&mut self, buf: &[u8], start: usize, end: usize, rules: &HeadRules) -> Result<(), RequestError> {
        self.count_line(rules)?;
        let line = &buf[start..end];
        let bad = |at: usize| RequestError::HeaderLine(Span::new(start as u32, (start + at + 1).min(buf.len()) as u32));
        let known = ascii::find_colon(&line[..line.len().min(HeaderId::LONGEST + 1)])
            .map(|colon| (colon, HeaderId::of(&line[..colon])))
            .filter(|(_, id)| *id != HeaderId::Other);
        let (name_len, id, invalid) = match known {
            Some((colon, id)) => (colon, id, false),
            None => {
                let (name_len, invalid) = other_name(line, rules).map_err(bad)?;
                (name_len, HeaderId::Other, invalid)
            }
        };
        let mut from = (name_len + 1).min(line.len());
        if ascii::find_control(&line[from..]).is_some()
            && let Some(at) = memchr::memchr2(0, b'\r', &line[from..])
        {
            return Err(bad(from + at));
        }
        let mut to = line.len();
        while from < to && line[from] == b' ' {
            from += 1;
        }
        while to > from && line[to - 1] == b' ' {
            to -= 1;
        }
        if invalid && rules.ignore_invalid_headers {
            self.head.has_ignored = true;
            return Ok(());
        }
        // A name whose length does not fit 16 bits is not a meaningful one.
        let short = u16::try_from(name_len).map_err(|_| bad(name_len))?;
        let (value_start, value_end) = ((start + from) as u32, (start + to) as u32);
        self.keep(buf, Field { name_start: start as u32, value_start, value_end, name_len: short, id }, end)
    }

    /// Keeps a field, if it may occur (again); its line ends at `end`.
    fn keep(&mut self, buf: &[u8], field: Field, end: usize) -> Result<(), RequestError> {
        let id = field.id;
        if id != HeaderId::Other {
            if self.head.present & bit(id) & UNIQUE != 0 {
                let line = &buf[..end];
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                return Err(RequestError::DuplicateHeader(Span::new(field.name_start, line.len() as u32)));
            }
            if id == HeaderId::Host {
                let Some(parts) = self.head.hosts.parse(field.value().of(buf)) else {
                    // The log shows what the client has sent.
                    self.head.present |= bit(id);
                    self.head.fields.push(field);
                    return Err(RequestError::HostHeader);
                };
                // The host of an absolute target takes precedence: RFC 9112 section 3.2.2.
                self.head.host.get_or_insert(HostSpan::at(field.value_start, parts));
            }
        }
        self.head.present |= bit(id);
        self.head.fields.push(field);
        Ok(())
    }

    /// Applies the rules about the head as a whole.
    fn finish(&mut self, buf: &[u8]) -> Result<(), RequestError> {
        let head = &mut self.head;
        if head.version == Version::Http11 && !head.has(HeaderId::Host) {
            return Err(RequestError::HostMissing);
        }
        let length = match head.value(buf, HeaderId::ContentLength) {
            Some(text) => Some(parse_length(text).ok_or(RequestError::ContentLength)?),
            None => None,
        };
        head.body = match (head.value(buf, HeaderId::TransferEncoding), length) {
            (None, None) => BodyFraming::None,
            (None, Some(length)) => BodyFraming::Length(length),
            (Some(_), _) if head.version < Version::Http11 => return Err(RequestError::EncodingInOldVersion),
            (Some(coding), _) if !coding.eq_ignore_ascii_case(b"chunked") => {
                return Err(RequestError::TransferEncoding);
            }
            (Some(_), Some(_)) => return Err(RequestError::LengthAndEncoding),
            (Some(_), None) => BodyFraming::Chunked,
        };
        let mut options = ConnectionOptions::default();
        for field in head.all(HeaderId::Connection) {
            options.add(field.value().of(buf));
        }
        head.keep_alive = options.persists(head.version);
        let expect = head.value(buf, HeaderId::Expect);
        head.expect_continue =
            head.version == Version::Http11 && expect.is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue"));
        Ok(())
    }
}

/// The longest name that [`plain_field`] looks for.
const PLAIN_NAME: usize = 63;

/// Reads the header line that begins at `start`, if it is complete and of the usual form: a good name, and no control
/// character in the value. Also returns where the next line begins. It reads each byte once, which pays with lines as
/// short as these.
#[inline(always)]
fn plain_field(buf: &[u8], start: usize) -> Option<(Field, usize)> {
    let line = &buf[start..];
    let name_len = ascii::find_colon(&line[..line.len().min(PLAIN_NAME + 1)])?;
    let name = &line[..name_len];
    let id = HeaderId::of(name);
    if id == HeaderId::Other && (name.is_empty() || !name.iter().all(|&b| class(b) & NAME != 0)) {
        return None;
    }
    let mut from = name_len + 1;
    while line.get(from) == Some(&b' ') {
        from += 1;
    }
    let mut to = from + ascii::find_control(&line[from..])?;
    let next = match line[to] {
        b'\n' => to + 1,
        b'\r' if line.get(to + 1) == Some(&b'\n') => to + 2,
        _ => return None,
    };
    while to > from && line[to - 1] == b' ' {
        to -= 1;
    }
    let (value_start, value_end) = ((start + from) as u32, (start + to) as u32);
    Some((Field { name_start: start as u32, value_start, value_end, name_len: name_len as u16, id }, start + next))
}

/// The length of an unknown name, and whether the name is invalid.
///
/// # Errors
/// The place in the line, if the name makes the line invalid.
fn other_name(line: &[u8], rules: &HeadRules) -> Result<(usize, bool), usize> {
    let mut invalid = false;
    let mut name_len = line.len();
    for (i, &b) in line.iter().enumerate() {
        if class(b) & NAME != 0 {
            continue;
        }
        match b {
            b':' => {
                name_len = i;
                break;
            }
            b'_' => invalid |= !rules.underscores_in_headers,
            // These are a space or tab before the colon, a folded line, and every control character.
            0..=b' ' | 0x7f => return Err(i),
            _ => invalid = true,
        }
    }
    if name_len == 0 { Err(0) } else { Ok((name_len, invalid)) }
}

/// The method of a request line that may be invalid further on: an answer to HEAD has no body then either.
fn method_of(line: &[u8]) -> Method {
    memchr::memchr(b' ', line).map_or(Method::Other, |end| Method::of(&line[..end]))
}

/// The largest body length: nginx counts in signed 64 bits, and so does every `off_t`.
const MAX_LENGTH: u64 = i64::MAX as u64;

/// A decimal number without sign, up to [`MAX_LENGTH`].
pub fn parse_length(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut n: u64 = 0;
    for &b in text {
        if !b.is_ascii_digit() {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
        if n > MAX_LENGTH {
            return None;
        }
    }
    Some(n)
}

/// Parses a head that begins with the first byte of `buf`; `None` if it is not complete.
///
/// # Errors
/// See [`HeadParser::advance`].
pub fn parse_request(buf: &[u8], rules: &HeadRules) -> Result<Option<Box<RequestHead>>, RequestError> {
    let mut parser = HeadParser::new();
    Ok(match parser.advance(buf, rules)? {
        Progress::Complete => Some(parser.into_head()),
        Progress::Partial => None,
    })
}
