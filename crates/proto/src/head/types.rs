//! The parsed form of a request head.

use smallvec::SmallVec;

use crate::body::BodyDecoder;
use crate::host::{self, HostParts};
use crate::{HeaderId, HostSpan, Span};

/// The number of fields that a head holds without an allocation.
pub(super) const INLINE_FIELDS: usize = 16;

macro_rules! methods {
    ($($id:ident $text:literal,)*) => {
        /// A request method.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Method {
            $(
                #[doc = concat!("`", $text, "`")]
                $id,
            )*
            /// Another method; its text is in [`RequestHead::method_text`].
            Other,
        }

        impl Method {
            /// The method of a text; methods are case-sensitive.
            pub fn of(text: &[u8]) -> Method {
                $(if text == $text.as_bytes() {
                    return Method::$id;
                })*
                Method::Other
            }

            /// The method's text; `None` for [`Method::Other`].
            pub const fn as_str(self) -> Option<&'static str> {
                match self {
                    $(Method::$id => Some($text),)*
                    Method::Other => None,
                }
            }
        }
    };
}

methods! {
    Get "GET",
    Head "HEAD",
    Post "POST",
    Put "PUT",
    Delete "DELETE",
    Options "OPTIONS",
    Patch "PATCH",
    Trace "TRACE",
    Connect "CONNECT",
    Mkcol "MKCOL",
    Copy "COPY",
    Move "MOVE",
    Propfind "PROPFIND",
    Proppatch "PROPPATCH",
    Lock "LOCK",
    Unlock "UNLOCK",
}

/// The protocol version of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// The simple request `GET /path`, whose answer is the body alone.
    Http09,
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, and every later minor version of 1.
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Version {
    /// The version as text, such as `HTTP/1.1`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::Http09 => "HTTP/0.9",
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }
}

/// The form of a request target, by RFC 9112. The asterisk form is refused, as nginx does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetForm {
    /// The origin form: `/path?args`.
    Origin,
    /// The absolute form: `scheme://host/path?args`.
    Absolute,
    /// `host:port` of a CONNECT request; there is no path.
    Authority,
}

/// The request target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetSpans {
    /// The target's form.
    pub form: TargetForm,
    /// Path and arguments, as sent. Empty in `http://host`, and without a leading `/` in `http://host?args`.
    pub uri: Span,
    /// The scheme of the absolute form, as sent.
    pub scheme: Option<Span>,
}

impl TargetSpans {
    /// A target that was not understood: there is no URI.
    pub const UNKNOWN: TargetSpans = TargetSpans { form: TargetForm::Origin, uri: Span::new(0, 0), scheme: None };

    /// Whether it was understood.
    pub const fn is_known(self) -> bool {
        !(matches!(self.form, TargetForm::Origin) && self.uri.is_empty())
    }

    /// Path and arguments as sent, `$request_uri`: `/` if the absolute form has none.
    pub fn uri(self, buf: &[u8]) -> &[u8] {
        if self.uri.is_empty() { b"/" } else { self.uri.of(buf) }
    }
}

/// Framing of a request's body: RFC 9112 section 6.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// The body has this many bytes; 0 if the client said so.
    Length(u64),
    /// The body is in the chunked coding.
    Chunked,
}

impl BodyFraming {
    /// A decoder before the first byte of the body.
    pub fn decoder(self) -> BodyDecoder {
        match self {
            BodyFraming::None => BodyDecoder::Length(0),
            BodyFraming::Length(length) => BodyDecoder::Length(length),
            BodyFraming::Chunked => BodyDecoder::chunked(),
        }
    }
}

/// A header field, as offsets into the head's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    pub(super) name_start: u32,
    pub(super) value_start: u32,
    pub(super) value_end: u32,
    pub(super) name_len: u16,
    /// The interned name.
    pub id: HeaderId,
}

impl Field {
    /// The name as sent.
    pub const fn name(&self) -> Span {
        Span::new(self.name_start, self.name_start + self.name_len as u32)
    }

    /// The value, without the spaces around it.
    pub const fn value(&self) -> Span {
        Span::new(self.value_start, self.value_end)
    }
}

/// The `Host` that was parsed last in this memory, if it is short: a client nearly always asks for the same host again.
/// It is not part of the head.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownHost {
    text: [u8; 32],
    parts: Option<(u8, HostParts)>,
}

impl KnownHost {
    /// The result of [`host::parse`] for a text.
    pub(super) fn parse(&mut self, text: &[u8]) -> Option<HostParts> {
        if let Some((len, parts)) = self.parts
            && self.text.get(..usize::from(len)) == Some(text)
        {
            return Some(parts);
        }
        let parts = host::parse(text)?;
        if let Some(kept) = self.text.get_mut(..text.len()) {
            kept.copy_from_slice(text);
            self.parts = Some((text.len() as u8, parts));
        }
        Some(parts)
    }
}

impl PartialEq for KnownHost {
    fn eq(&self, _: &KnownHost) -> bool {
        true
    }
}

impl Eq for KnownHost {}

/// A complete request head. All spans are offsets into the buffer it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The method's text.
    pub method_text: Span,
    /// The version.
    pub version: Version,
    /// The version as sent (`HTTP/1.7`), `$server_protocol`; empty for HTTP/0.9.
    pub version_text: Span,
    /// The request line without its line end, `$request`.
    pub request_line: Span,
    /// The request target.
    pub target: TargetSpans,
    /// The host: the absolute target's, else the `Host` field's.
    pub host: Option<HostSpan>,
    /// The framing of the body.
    pub body: BodyFraming,
    /// Whether the client wants the connection kept, by version and `Connection`.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` (never in HTTP/1.0).
    pub expect_continue: bool,
    /// The bytes of the head, leading empty lines included: the bytes behind them are the body, or the next request.
    /// For an invalid head, the bytes of the lines that could be parsed.
    pub len: u32,
    /// Whether fields with bad names were ignored: [`RequestHead::ignored_lines`].
    pub has_ignored: bool,
    pub(super) fields: SmallVec<[Field; INLINE_FIELDS]>,
    pub(super) present: u64,
    pub(super) hosts: KnownHost,
    /// The bytes that the head had on the wire, if its text is not what was sent; 0 if it is.
    pub(super) wire_len: u32,
}

impl RequestHead {
    /// An empty head.
    pub(super) fn empty() -> RequestHead {
        let none = Span::new(0, 0);
        RequestHead {
            method: Method::Other,
            method_text: none,
            version: Version::Http09,
            version_text: none,
            request_line: none,
            target: TargetSpans::UNKNOWN,
            host: None,
            body: BodyFraming::None,
            keep_alive: false,
            expect_continue: false,
            len: 0,
            has_ignored: false,
            fields: SmallVec::new(),
            present: 0,
            hosts: KnownHost::default(),
            wire_len: 0,
        }
    }

    /// Empties the head, without an allocation.
    pub(super) fn clear(&mut self) {
        let none = Span::new(0, 0);
        let RequestHead { method, method_text, version, version_text, request_line, target, host, body, .. } = self;
        (*method, *method_text, *version, *version_text) = (Method::Other, none, Version::Http09, none);
        *request_line = none;
        *target = TargetSpans::UNKNOWN;
        (*host, *body) = (None, BodyFraming::None);
        let RequestHead { keep_alive, expect_continue, len, has_ignored, fields, present, wire_len, .. } = self;
        (*keep_alive, *expect_continue, *len, *has_ignored, *present, *wire_len) = (false, false, 0, false, 0, 0);
        fields.clear();
    }

    /// The length of the head in `$request_length`: it does not include empty lines in front.
    pub const fn told_len(&self) -> u32 {
        if self.wire_len > 0 { self.wire_len } else { self.len.saturating_sub(self.request_line.start) }
    }

    /// Sets the number of bytes that the head had on the wire where its form differed from its text. In HTTP/2 and
    /// HTTP/3 it is the length of the field block.
    pub const fn set_wire_len(&mut self, len: u32) {
        self.wire_len = len;
    }

    /// Whether the number of fields is so large that they took an allocation of their own.
    pub fn is_large(&self) -> bool {
        self.fields.spilled()
    }

    /// Removes everything but the request line, as if nothing behind it had been read.
    pub fn forget_fields(&mut self) {
        self.fields.clear();
        self.present = 0;
        self.host = None;
        self.body = BodyFraming::None;
    }

    /// The lines of the fields that were ignored because of their names, without their line ends.
    pub fn ignored_lines<'a>(&'a self, buf: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut at = self.request_line.end as usize;
        let lines = buf.get(at..self.len as usize).unwrap_or_default().split_inclusive(|byte| *byte == b'\n');
        lines.filter_map(move |line| {
            let start = at as u32;
            at += line.len();
            let line = line.trim_ascii();
            let is_kept = self.fields.iter().any(|field| field.name_start == start);
            (!line.is_empty() && !is_kept).then_some(line)
        })
    }

    /// The fields in the order in which they came, without ignored ones.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether there is a field of this name.
    #[inline]
    pub const fn has(&self, id: HeaderId) -> bool {
        self.present & (1 << id as u8) != 0
    }

    /// The first field of this name.
    #[inline]
    pub fn find(&self, id: HeaderId) -> Option<&Field> {
        if self.has(id) { self.fields.iter().find(|f| f.id == id) } else { None }
    }

    /// The value of the first field of this name.
    #[inline]
    pub fn value<'b>(&self, buf: &'b [u8], id: HeaderId) -> Option<&'b [u8]> {
        self.find(id).map(|f| f.value().of(buf))
    }

    /// All fields of this name.
    pub fn all(&self, id: HeaderId) -> impl DoubleEndedIterator<Item = &Field> {
        let fields = if self.has(id) { &self.fields[..] } else { &[] };
        fields.iter().filter(move |f| f.id == id)
    }

    /// All fields of this name, in any case.
    pub fn named<'a, 'n>(&'a self, buf: &'a [u8], name: &'n [u8]) -> impl Iterator<Item = &'a Field> + use<'a, 'n> {
        self.fields.iter().filter(move |f| f.name().of(buf).eq_ignore_ascii_case(name))
    }

    /// All fields that the variable `$http_NAME` stands for: `name` in lower case, with `_` for `-`.
    pub fn variable<'a, 'n>(&'a self, buf: &'a [u8], name: &'n [u8]) -> impl Iterator<Item = &'a Field> + use<'a, 'n> {
        self.fields.iter().filter(move |f| {
            let field = f.name().of(buf);
            field.len() == name.len()
                && field.iter().zip(name).all(|(&f, &n)| n == if f == b'-' { b'_' } else { f.to_ascii_lowercase() })
        })
    }
}
