//! The head of a request of HTTP/2 or HTTP/3, made of its fields as they are decoded.
//!
//! What comes out is what the parser of HTTP/1 makes of a text: a buffer with a request line and lines `name: value`,
//! and a [`RequestHead`] with offsets into it. The text is written once, field by field, and never parsed again.
//!
//! The rules are in RFC 9113 section 8 and RFC 9114 section 4; they are applied as nginx does.

use super::field_fault::FieldFault;
use super::field_lines::{FieldRules, has_space_around, is_lower, other_name, read_lines};
use super::parser::{UNIQUE, bit, parse_length};
use super::pseudo::Pseudo;
use super::types::{BodyFraming, Field, Method, RequestHead, TargetForm, Version};
use crate::ascii::{self, METHOD, SCHEME, TOKEN, class};
use crate::host::HostParts;
use crate::{HeaderId, HostSpan, Span};

/// A head that was made of fields.
#[derive(Debug)]
pub struct FieldHead {
    /// The text: the request line, the fields, an empty line.
    pub buffer: Vec<u8>,
    /// The head. Of a malformed request it has what came before the fault.
    pub parsed: Box<RequestHead>,
    /// The fault, if the request is malformed.
    pub fault: Option<FieldFault>,
    /// Whether it is an extended CONNECT. The head then is a GET with `Upgrade` and `Connection`, which is how HTTP/1
    /// says the same. A response with status 101 is sent as 200 (RFC 8441 section 5).
    pub is_extended_connect: bool,
    /// The number of fields that were received, as `max_headers` counts them.
    pub received: usize,
}

/// The fields that say something of a connection, which no message has here (RFC 9113 section 8.2.2).
const OF_CONNECTION: u64 = bit(HeaderId::Connection)
    | bit(HeaderId::KeepAlive)
    | bit(HeaderId::ProxyConnection)
    | bit(HeaderId::TransferEncoding)
    | bit(HeaderId::Upgrade);

/// The fields that need more than to be written down.
const SPECIAL: u64 = UNIQUE | OF_CONNECTION | bit(HeaderId::Te) | bit(HeaderId::Cookie);

/// The longest text of fields: offsets have 32 bits, and a little more is written behind it.
const MOST: usize = u32::MAX as usize - 64;

/// The end of a request line. The digit becomes the version's in the end.
const LINE_END: &[u8] = b" HTTP/2.0\r\n";

/// The place of the digit, counted from the end of the line.
const DIGIT: usize = 5;

/// The text in front of the protocol and behind it in the lines that are made of `:protocol`.
const AROUND_PROTOCOL: [&[u8]; 2] = [b"upgrade: ", b"\r\nconnection: upgrade\r\n"];

/// The mark beside the bits of pseudo-header fields: a `Host` that says what `:authority` says has come.
const SAME_HOST: u8 = 1 << 7;

/// Makes a head of fields as they are decoded. After a fault it takes no notice of what follows.
#[derive(Debug)]
pub struct FieldHeadBuilder {
    /// The text. Pseudo-header fields may come in any order. So the parts of the request line and the lines that are
    /// made of them are put where they belong, in front of what came earlier.
    buffer: Vec<u8>,
    head: Box<RequestHead>,
    /// The pseudo-header fields that have come, a bit for each.
    seen: u8,
    /// Whether a field has come that is none of them.
    has_fields: bool,
    /// Whether cookies are in several lines, with others between them.
    has_scattered_cookies: bool,
    /// The number of fields.
    lines: usize,
    /// The bytes of the method and the space behind it.
    method_len: usize,
    /// The bytes of the path and of the rest of the request line, with the end of the line.
    path_len: usize,
    /// The bytes of the line that is made of `:authority`.
    host_len: usize,
    /// The bytes of the lines that are made of `:protocol`.
    protocol_len: usize,
    /// The parts of the authority.
    authority: Option<HostParts>,
    fault: Option<FieldFault>,
}

/// The bit of a pseudo-header field.
const fn flag(which: Pseudo) -> u8 {
    1 << which as u8
}

/// The name of the field that is made of `:authority`.
const HOST: &[u8] = b"host";

impl FieldHeadBuilder {
    /// A builder before the first field; `buffer` is empty and may have memory, and `spare` is the memory of a head that is
    /// not needed any more.
    pub fn new(mut buffer: Vec<u8>, spare: Option<Box<RequestHead>>) -> FieldHeadBuilder {
        buffer.clear();
        let head = match spare {
            Some(mut head) => {
                head.clear();
                head
            }
            None => Box::new(RequestHead::empty()),
        };
        FieldHeadBuilder {
            buffer,
            head,
            seen: 0,
            has_fields: false,
            has_scattered_cookies: false,
            lines: 0,
            method_len: 0,
            path_len: 0,
            host_len: 0,
            protocol_len: 0,
            authority: None,
            fault: None,
        }
    }

    /// Whether something is wrong already: the fields that follow are of no interest.
    pub fn is_faulty(&self) -> bool {
        self.fault.is_some()
    }

    /// The fault so far.
    pub fn fault(&self) -> Option<&FieldFault> {
        self.fault.as_ref()
    }

    /// Whether an extended CONNECT has been seen so far.
    pub fn is_extended_connect(&self) -> bool {
        self.has(Pseudo::Protocol)
    }

    fn has(&self, which: Pseudo) -> bool {
        self.seen & flag(which) != 0
    }

    /// Notes that the head is larger than it may be, so that further fields do not come.
    pub fn too_large(&mut self) {
        self.fail(FieldFault::TooLarge);
    }

    /// Notes the first fault.
    #[cold]
    fn fail(&mut self, fault: FieldFault) {
        self.fault.get_or_insert(fault);
    }

    /// Takes a pseudo-header field whose name is none of those that there are.
    #[cold]
    pub fn unknown_pseudo(&mut self, name: &[u8]) {
        self.fail(FieldFault::UnknownPseudo(name.into()));
    }

    /// Takes a pseudo-header field.
    pub fn pseudo(&mut self, which: Pseudo, value: &[u8], rules: &FieldRules) {
        if self.fault.is_some() {
            return;
        }
        if let Err(fault) = self.take_pseudo(which, value, rules) {
            // Bytes that may not stand in any field are reported as such.
            let fault = match memchr::memchr3(0, b'\r', b'\n', value) {
                Some(_) => FieldFault::Value { name: which.name().as_bytes().into(), value: value.into() },
                None => fault,
            };
            self.fail(fault);
        }
    }

    fn take_pseudo(&mut self, which: Pseudo, value: &[u8], rules: &FieldRules) -> Result<(), FieldFault> {
        let is_known = match which {
            Pseudo::Method | Pseudo::Scheme | Pseudo::Path | Pseudo::Authority => true,
            Pseudo::Protocol => rules.extended_connect,
            Pseudo::Status | Pseudo::Unknown => false,
        };
        if !is_known {
            return Err(FieldFault::UnknownPseudo(which.name().as_bytes().into()));
        }
        if self.has_fields {
            return Err(FieldFault::LatePseudo(which));
        }
        if self.has(which) {
            return Err(FieldFault::DuplicatePseudo(which));
        }
        if value.is_empty() && which != Pseudo::Authority {
            return Err(FieldFault::EmptyPseudo(which));
        }
        let invalid = || Err(FieldFault::Pseudo { which, value: value.into() });
        match which {
            Pseudo::Method => {
                let method = Method::of(value);
                if method == Method::Other && !value.iter().all(|&b| class(b) & METHOD != 0) {
                    return Err(FieldFault::Method(value.into()));
                }
                self.head.method = method;
                self.method_len = self.insert(0, [value, b" ", b""])?;
            }
            Pseudo::Path => {
                if value[0] != b'/' || ascii::has_space_or_control(value) {
                    return invalid();
                }
                self.path_len = self.insert(self.method_len, [value, LINE_END, b""])?;
            }
            Pseudo::Authority => {
                self.authority = Some(self.head.hosts.parse(value).ok_or(FieldFault::Host)?);
                let at = self.method_len + self.path_len;
                self.host_len = self.insert(at, [b"host: ", value, b"\r\n"])?;
            }
            Pseudo::Scheme => {
                let is_usual = matches!(value, b"https" | b"http");
                let is_scheme = || value[0].is_ascii_alphabetic() && value.iter().all(|&b| class(b) & SCHEME != 0);
                if !(is_usual || is_scheme()) {
                    return invalid();
                }
            }
            Pseudo::Protocol => {
                if !value.iter().all(|&b| class(b) & TOKEN != 0) {
                    return invalid();
                }
                // These lines are the last ones, also when another pseudo-header field comes later.
                let [before, behind] = AROUND_PROTOCOL;
                self.protocol_len = self.insert(self.buffer.len(), [before, value, behind])?;
            }
            Pseudo::Status | Pseudo::Unknown => {}
        }
        self.seen |= flag(which);
        Ok(())
    }

    /// Puts a text at a place of the buffer, and says how long it is.
    fn insert(&mut self, at: usize, parts: [&[u8]; 3]) -> Result<usize, FieldFault> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let end = self.buffer.len();
        if len > MOST - end {
            return Err(FieldFault::TooLarge);
        }
        self.buffer.reserve(len);
        parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
        if at < end {
            self.buffer[at..].rotate_right(len);
        }
        Ok(len)
    }

    /// Takes a field. `id` belongs to the name: [`HeaderId::of`].
    #[inline]
    pub fn field(&mut self, id: HeaderId, name: &[u8], value: &[u8], rules: &FieldRules) {
        if self.fault.is_none()
            && let Err(fault) = self.take(id, name, value, rules)
        {
            self.fail(fault);
        }
    }

    #[inline]
    fn take(&mut self, id: HeaderId, name: &[u8], value: &[u8], rules: &FieldRules) -> Result<(), FieldFault> {
        if !self.has_fields {
            self.end_pseudo()?;
        }
        let is_kept = if id == HeaderId::Other {
            match other_name(name, rules) {
                Some(is_valid) => is_valid || !rules.ignore_invalid_headers,
                None => return Err(FieldFault::Name(name.into())),
            }
        } else if is_lower(name) {
            true
        } else {
            return Err(FieldFault::Name(name.into()));
        };
        if ascii::has_null_or_line_end(value) {
            return Err(FieldFault::Value { name: name.into(), value: value.into() });
        }
        if has_space_around(value) {
            return Err(FieldFault::SpaceAround { name: name.into(), value: value.into() });
        }
        if id != HeaderId::Cookie {
            self.lines += 1;
            if rules.max_headers != 0 && self.lines > rules.max_headers {
                return Err(FieldFault::TooManyHeaders);
            }
        }
        if bit(id) & SPECIAL != 0 && !self.takes_special(id, name, value)? {
            return Ok(());
        }
        let field = self.write(id, name, value)?;
        if is_kept {
            self.head.present |= bit(id);
            self.head.fields.push(field);
        }
        Ok(())
    }

    /// Looks at a field that has rules of its own, and says whether it still has to be written.
    fn takes_special(&mut self, id: HeaderId, name: &[u8], value: &[u8]) -> Result<bool, FieldFault> {
        if bit(id) & OF_CONNECTION != 0 {
            return Err(FieldFault::OfConnection(id));
        }
        match id {
            HeaderId::Te if !value.eq_ignore_ascii_case(b"trailers") => return Err(FieldFault::Te(value.into())),
            HeaderId::Cookie => return Ok(!self.joins_cookies(value)?),
            HeaderId::Host if self.has(Pseudo::Authority) => {
                let authority = self.head.value(&self.buffer, id).unwrap_or_default();
                if authority != value {
                    return Err(FieldFault::OtherHost);
                }
                if self.seen & SAME_HOST == 0 {
                    self.seen |= SAME_HOST;
                    return Ok(false);
                }
            }
            _ => {}
        }
        if self.head.has(id) {
            let previous = self.head.value(&self.buffer, id).unwrap_or_default().into();
            return Err(FieldFault::Duplicate { name: name.into(), value: value.into(), previous });
        }
        if id == HeaderId::Host {
            let parts = self.head.hosts.parse(value).ok_or(FieldFault::Host)?;
            let start = self.buffer.len() + name.len() + 2;
            self.head.host = u32::try_from(start).ok().map(|start| HostSpan::at(start, parts));
        }
        Ok(true)
    }

    /// Appends a cookie to those before it, if their line is the last one (RFC 9113 section 8.2.3): nearly always they come one
    /// after the other. Returns whether it has.
    fn joins_cookies(&mut self, value: &[u8]) -> Result<bool, FieldFault> {
        if !self.head.has(HeaderId::Cookie) {
            return Ok(false);
        }
        if value.is_empty() {
            return Ok(true);
        }
        let end = self.buffer.len() - 2;
        let last = self.head.fields.last_mut().filter(|last| last.id == HeaderId::Cookie);
        let Some(last) = last.filter(|last| last.value_end as usize == end) else {
            self.has_scattered_cookies = true;
            return Ok(false);
        };
        if value.len() + 4 > MOST - end {
            return Err(FieldFault::TooLarge);
        }
        self.buffer.truncate(end);
        push_cookie(&mut self.buffer, last.value_start as usize, value);
        last.value_end = self.buffer.len() as u32;
        self.buffer.extend_from_slice(b"\r\n");
        Ok(true)
    }

    /// Writes a field's line.
    #[inline]
    fn write(&mut self, id: HeaderId, name: &[u8], value: &[u8]) -> Result<Field, FieldFault> {
        let start = self.buffer.len();
        let Ok(name_len) = u16::try_from(name.len()) else { return Err(FieldFault::Name(name.into())) };
        let len = name.len() + value.len() + 4;
        if len > MOST - start {
            return Err(FieldFault::TooLarge);
        }
        self.buffer.reserve(len);
        self.buffer.extend_from_slice(name);
        self.buffer.extend_from_slice(b": ");
        let value_start = self.buffer.len();
        self.buffer.extend_from_slice(value);
        let value_end = self.buffer.len() as u32;
        self.buffer.extend_from_slice(b"\r\n");
        Ok(Field { name_start: start as u32, value_start: value_start as u32, value_end, name_len, id })
    }

    /// Everything that is made of pseudo-header fields is where it stays: notes where that is.
    fn end_pseudo(&mut self) -> Result<(), FieldFault> {
        self.has_fields = true;
        let judged = match (self.has(Pseudo::Protocol), self.head.method) {
            (true, Method::Connect) => {
                self.head.method = Method::Get;
                self.buffer.splice(..self.method_len, *b"GET ");
                self.method_len = 4;
                Ok(())
            }
            (true, _) => Err(FieldFault::ProtocolWithoutConnect),
            (false, Method::Connect) if !self.has(Pseudo::Path) && !self.has(Pseudo::Scheme) => self.connect_line(),
            (false, _) => Ok(()),
        };
        let span = |from: usize, len: usize| Span::new(from as u32, (from + len) as u32);
        let head = &mut self.head;
        head.method_text = span(0, self.method_len.saturating_sub(1));
        let fields = self.method_len + self.path_len;
        if self.path_len > 0 {
            let uri = self.path_len - LINE_END.len();
            head.version_text = span(self.method_len + uri + 1, LINE_END.len() - 3);
            head.target.uri = match head.target.form {
                TargetForm::Authority => span(self.method_len + uri, 0),
                _ => span(self.method_len, uri),
            };
        }
        if let Some(parts) = self.authority {
            let name = HOST.len();
            push_made(head, HeaderId::Host, [fields, name, self.host_len - name - 4]);
            head.host = Some(HostSpan::at((fields + name + 2) as u32, parts));
        }
        if self.protocol_len > 0 {
            let start = fields + self.host_len;
            let [before, behind] = AROUND_PROTOCOL.map(<[u8]>::len);
            let protocol = self.protocol_len - before - behind;
            push_made(head, HeaderId::Upgrade, [start, before - 2, protocol]);
            let behind = start + before + protocol + 2;
            push_made(head, HeaderId::Connection, [behind, "connection".len(), "upgrade".len()]);
        }
        judged
    }

    /// Makes the rest of the request line of a CONNECT, whose target is the authority (RFC 9113 section 8.5).
    fn connect_line(&mut self) -> Result<(), FieldFault> {
        let Some(parts) = self.authority else { return Err(FieldFault::NoPseudo(Pseudo::Authority)) };
        let value = self.buffer[self.method_len + HOST.len() + 2..][..self.host_len - HOST.len() - 4].to_vec();
        if parts.port.is_none() {
            return Err(FieldFault::Pseudo { which: Pseudo::Authority, value: value[..].into() });
        }
        self.path_len = self.insert(self.method_len, [&value, LINE_END, b""])?;
        self.head.target.form = TargetForm::Authority;
        Ok(())
    }

    /// The head, when all fields have come. `ends` says that the request ends with it.
    pub fn finish(mut self, version: Version, rules: &FieldRules, ends: bool) -> FieldHead {
        if !self.has_fields
            && let Err(fault) = self.end_pseudo()
        {
            self.fail(fault);
        }
        if self.fault.is_none()
            && let Err(fault) = self.judge(ends)
        {
            self.fail(fault);
        }
        self.head.version = version;
        self.head.keep_alive = true;
        if self.has_scattered_cookies && self.fault.is_none() {
            self.gather_cookies(rules);
        }
        let line = self.method_len + self.path_len;
        let is_known = self.fault.as_ref().is_none_or(FieldFault::is_of_the_whole_head);
        if self.path_len > 0 {
            self.buffer[line - DIGIT] = if version == Version::Http3 { b'3' } else { b'2' };
            if self.method_len > 0 && is_known {
                self.head.request_line = Span::new(0, line as u32 - 2);
            }
        }
        self.buffer.extend_from_slice(b"\r\n");
        self.head.len = self.buffer.len() as u32;
        if self.path_len == 0 {
            // Without a request line, the version stands behind the head.
            self.buffer.extend_from_slice(version.as_str().as_bytes());
            self.head.version_text = Span::new(self.head.len, self.buffer.len() as u32);
        }
        let is_extended_connect = self.has(Pseudo::Protocol);
        let received = self.lines;
        FieldHead { buffer: self.buffer, parsed: self.head, fault: self.fault, is_extended_connect, received }
    }

    /// Applies the rules about the head as a whole.
    fn judge(&mut self, ends: bool) -> Result<(), FieldFault> {
        let is_connect = self.head.target.form == TargetForm::Authority;
        let wanted = if is_connect { &[][..] } else { &[Pseudo::Method, Pseudo::Scheme, Pseudo::Path][..] };
        if let Some(missing) = wanted.iter().find(|which| !self.has(**which)) {
            return Err(FieldFault::NoPseudo(*missing));
        }
        let head = &mut self.head;
        if !head.has(HeaderId::Host) {
            return Err(FieldFault::NoHost);
        }
        let length = match head.value(&self.buffer, HeaderId::ContentLength) {
            Some(text) => Some(parse_length(text).ok_or(FieldFault::ContentLength)?),
            None => None,
        };
        head.body = match length {
            // What follows is not a body but what a tunnel carries.
            _ if is_connect || self.protocol_len > 0 => BodyFraming::None,
            Some(1..) if ends => return Err(FieldFault::EndsEarly),
            Some(length) => BodyFraming::Length(length),
            None if ends => BodyFraming::None,
            None => BodyFraming::Chunked,
        };
        let expect = head.value(&self.buffer, HeaderId::Expect);
        head.expect_continue = !ends && expect.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        Ok(())
    }

    /// Makes one line of the cookies of several, in place of the first. It is done once, since a client may put a field
    /// behind each of its cookies.
    #[cold]
    fn gather_cookies(&mut self, rules: &FieldRules) {
        let mut cookies = Vec::new();
        for field in self.head.all(HeaderId::Cookie) {
            push_cookie(&mut cookies, 0, field.value().of(&self.buffer));
        }
        let line = self.method_len + self.path_len;
        let text = std::mem::take(&mut self.buffer);
        self.buffer = Vec::with_capacity(text.len());
        self.buffer.extend_from_slice(&text[..line]);
        let mut is_first = true;
        for line in text[line..].split_inclusive(|byte| *byte == b'\n') {
            if !line.starts_with(b"cookie: ") {
                self.buffer.extend_from_slice(line);
            } else if std::mem::take(&mut is_first) {
                [&b"cookie: "[..], &cookies, b"\r\n"].into_iter().for_each(|part| self.buffer.extend_from_slice(part));
            }
        }
        read_lines(&mut self.head, &self.buffer, line, rules);
    }
}

/// Notes the field of a line that was made of a pseudo-header field: where it begins, and how long name and value are.
fn push_made(head: &mut RequestHead, id: HeaderId, [start, name, value]: [usize; 3]) {
    let value_start = start + name + 2;
    let (name_start, name_len, value_end) = (start as u32, name as u16, (value_start + value) as u32);
    head.fields.push(Field { name_start, value_start: value_start as u32, value_end, name_len, id });
    head.present |= bit(id);
}

/// Appends a cookie to those that begin at `start`.
fn push_cookie(cookies: &mut Vec<u8>, start: usize, value: &[u8]) {
    if cookies.len() > start {
        cookies.extend_from_slice(b"; ");
    }
    cookies.extend_from_slice(value);
}
