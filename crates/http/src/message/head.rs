//! The head of a request: method, target and fields, however the protocol brought them.

use freerun_proto::{BodyFraming, Field, HeaderId, HostSpan, Method, RequestHead, Span, Version};

/// The head of a request as it came, with the bytes that it points into.
///
/// How it is stored is the business of the protocol that read it: HTTP/1 keeps the text that it received, another protocol one
/// that it has written. Everything else asks by the methods here.
pub struct Head {
    /// The head is at its beginning. In HTTP/1 it is the connection's buffer, so body or pipelined bytes may follow.
    pub(crate) buffer: Vec<u8>,
    /// The parsed head.
    pub(crate) parsed: Box<RequestHead>,
}

/// One field of the head of a request.
#[derive(Debug, Clone, Copy)]
pub struct HeadField<'h> {
    /// The interned name.
    pub id: HeaderId,
    /// The name as sent.
    pub name: &'h [u8],
    /// The value, without the spaces around it.
    pub value: &'h [u8],
}

impl Head {
    /// A head whose spans are those of `buffer`.
    pub fn new(buffer: Vec<u8>, parsed: Box<RequestHead>) -> Head {
        Head { buffer, parsed }
    }

    /// The value of the client's first cookie of that name, whatever its case.
    pub fn cookie(&self, name: &str) -> Option<&[u8]> {
        for cookies in self.values(HeaderId::Cookie) {
            for pair in cookies.split(|byte| *byte == b';') {
                let pair = pair.trim_ascii();
                let named = pair.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()));
                if named && let Some(value) = pair[name.len()..].trim_ascii_start().strip_prefix(b"=") {
                    return Some(value.trim_ascii_start());
                }
            }
        }
        None
    }

    /// The head of a request without a body that says the rest: nothing is in the buffer but the head.
    pub fn without_body(&self) -> Head {
        let len = (self.parsed.len as usize).min(self.buffer.len());
        let mut parsed = self.parsed.clone();
        parsed.body = BodyFraming::None;
        parsed.expect_continue = false;
        Head { buffer: self.buffer[..len].to_vec(), parsed }
    }

    /// The bytes of a span of the head.
    #[inline]
    pub(crate) fn text(&self, span: Span) -> &[u8] {
        span.of(&self.buffer)
    }

    #[inline]
    fn field(&self, field: &Field) -> HeadField<'_> {
        HeadField { id: field.id, name: self.text(field.name()), value: self.text(field.value()) }
    }

    /// The method that the client has sent; what handlers see may be another one ([`Request::method`](crate::request::Request)).
    #[inline]
    pub fn method(&self) -> Method {
        self.parsed.method
    }

    /// The method's text; empty when the request line was not understood.
    #[inline]
    pub fn method_text(&self) -> &[u8] {
        self.text(self.parsed.method_text)
    }

    /// Whether the request line was understood.
    #[inline]
    pub fn is_understood(&self) -> bool {
        !self.parsed.method_text.is_empty()
    }

    /// The protocol's version, as far as it is one of HTTP/1.
    #[inline]
    pub fn version(&self) -> Version {
        self.parsed.version
    }

    /// The version as sent (`HTTP/1.7`): `$server_protocol`. It is empty for HTTP/0.9.
    #[inline]
    pub fn version_text(&self) -> &[u8] {
        self.text(self.parsed.version_text)
    }

    /// The request line without its line end: `$request`.
    #[inline]
    pub fn request_line(&self) -> &[u8] {
        self.text(self.parsed.request_line)
    }

    /// Path and arguments as sent: `$request_uri`.
    #[inline]
    pub fn uri(&self) -> &[u8] {
        self.parsed.target.uri(&self.buffer)
    }

    /// Where the host stands, with its port: in the absolute target, or else in the `Host` field.
    #[inline]
    pub fn host(&self) -> Option<HostSpan> {
        self.parsed.host
    }

    /// How the client has delimited the body.
    #[inline]
    pub fn body(&self) -> BodyFraming {
        self.parsed.body
    }

    /// The length that `$request_length` tells of the head.
    #[inline]
    pub fn told_len(&self) -> u32 {
        self.parsed.told_len()
    }

    /// A number of bytes that head and method, target and fields do not exceed.
    #[inline]
    pub fn most_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether a field of this name came.
    #[inline]
    pub fn has(&self, id: HeaderId) -> bool {
        self.parsed.has(id)
    }

    /// The value of the first field of this name.
    #[inline]
    pub fn value(&self, id: HeaderId) -> Option<&[u8]> {
        self.parsed.value(&self.buffer, id)
    }

    /// The values of all fields of this name, in the order they came.
    #[inline]
    pub fn values(&self, id: HeaderId) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.parsed.all(id).map(|field| self.text(field.value()))
    }

    /// The values of all fields of this name, in any case.
    #[inline]
    pub fn values_named<'h, 'n>(&'h self, name: &'n [u8]) -> impl Iterator<Item = &'h [u8]> + use<'h, 'n> {
        self.parsed.named(&self.buffer, name).map(|field| self.text(field.value()))
    }

    /// The values of all fields that `$http_NAME` stands for: `name` in lower case, with `_` for `-`.
    #[inline]
    pub fn values_of_variable<'h, 'n>(&'h self, name: &'n [u8]) -> impl Iterator<Item = &'h [u8]> + use<'h, 'n> {
        self.parsed.variable(&self.buffer, name).map(|field| self.text(field.value()))
    }

    /// The fields in the order they came, ignored ones left out.
    #[inline]
    pub fn fields(&self) -> impl ExactSizeIterator<Item = HeadField<'_>> + Clone {
        self.parsed.fields().iter().map(|field| self.field(field))
    }
}
