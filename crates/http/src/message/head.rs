//! The head of a request: method, target and fields, however the protocol brought them.

use freerun_proto::{BodyFraming, Field, HeaderId, HostSpan, Method, RequestHead, Span, Version};
use freerun_runtime::buffers;

/// The head of a request as it came, with the bytes that it points into.
///
/// The protocol that read the head decides how it is stored: HTTP/1 keeps the text that it received, another protocol
/// keeps a text that it has written. All other code uses the methods here.
pub struct Head {
    /// The buffer that begins with the head. In HTTP/1 it is the connection's buffer, so bytes of a body or of
    /// pipelined requests may follow.
    pub(crate) buffer: Vec<u8>,
    /// The parsed head.
    pub(crate) parsed: Box<RequestHead>,
}

/// A field of the head of a request.
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
    /// A head whose spans refer to `buffer`.
    pub fn new(buffer: Vec<u8>, parsed: Box<RequestHead>) -> Head {
        Head { buffer, parsed }
    }

    /// The value of the client's first cookie with this name, ignoring case.
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

    /// A copy of the head for a request without a body: the buffer contains only the head.
    pub fn without_body(&self) -> Head {
        let len = (self.parsed.len as usize).min(self.buffer.len());
        let mut parsed = self.parsed.clone();
        parsed.body = BodyFraming::None;
        parsed.expect_continue = false;
        Head { buffer: self.buffer[..len].to_vec(), parsed }
    }

    /// Moves the bytes of the head into memory of their own length, and gives the loop its buffer back. It is for a
    /// request that may wait for long, on a connection that keeps nothing else there.
    pub(crate) fn settle(&mut self) {
        if self.buffer.capacity() > self.buffer.len() {
            let exact = self.buffer.as_slice().to_vec();
            buffers::give_back(std::mem::replace(&mut self.buffer, exact));
        }
    }

    /// Removes the fields whose names `is_gone` is true for, for all later code.
    pub(crate) fn remove_fields(&mut self, is_gone: impl FnMut(&[u8]) -> bool) {
        self.parsed.remove_fields(&self.buffer, is_gone);
    }

    /// Gives the field of this name a value, for all later code; returns by how many bytes the head has grown.
    pub(crate) fn set_field(&mut self, name: &[u8], value: &[u8]) -> usize {
        self.parsed.set_field(&mut self.buffer, name, value)
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

    /// The method that the client has sent; handlers may see another one
    /// ([`Request::method`](crate::request::Request)).
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

    /// The request line and the fields as they came, with the empty line behind them; of a protocol that has no such text, in
    /// the form of HTTP/1.
    pub fn as_text(&self) -> Vec<u8> {
        let line = self.parsed.request_line;
        if self.parsed.version < Version::Http2 {
            let end = line.start as usize + self.parsed.told_len() as usize;
            return self.buffer.get(line.start as usize..end).unwrap_or_default().to_vec();
        }
        let mut out = self.text(line).to_vec();
        out.extend_from_slice(b"\r\n");
        for field in self.fields() {
            freerun_proto::encode::field(&mut out, field.name, field.value);
        }
        out.extend_from_slice(b"\r\n");
        out
    }

    /// The version of the protocol.
    #[inline]
    pub fn version(&self) -> Version {
        self.parsed.version
    }

    /// The version as sent (`HTTP/1.7`, `HTTP/2.0`): `$server_protocol`. It is empty for HTTP/0.9.
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

    /// The host with its port, from the absolute target or else from the `Host` field.
    #[inline]
    pub fn host(&self) -> Option<HostSpan> {
        self.parsed.host
    }

    /// The framing of the body, as the client's head has it.
    #[inline]
    pub fn body(&self) -> BodyFraming {
        self.parsed.body
    }

    /// The length of the head that `$request_length` counts.
    #[inline]
    pub fn told_len(&self) -> u32 {
        self.parsed.told_len()
    }

    /// An upper bound of the number of bytes of the method, the target and the fields.
    #[inline]
    pub fn most_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether a field with this name came.
    #[inline]
    pub fn has(&self, id: HeaderId) -> bool {
        self.parsed.has(id)
    }

    /// The value of the first field with this name.
    #[inline]
    pub fn value(&self, id: HeaderId) -> Option<&[u8]> {
        self.parsed.value(&self.buffer, id)
    }

    /// The values of all fields with this name, in the order they came.
    #[inline]
    pub fn values(&self, id: HeaderId) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.parsed.all(id).map(|field| self.text(field.value()))
    }

    /// The values of all fields with this name, ignoring case.
    #[inline]
    pub fn values_named<'h, 'n>(&'h self, name: &'n [u8]) -> impl Iterator<Item = &'h [u8]> + use<'h, 'n> {
        self.parsed.named(&self.buffer, name).map(|field| self.text(field.value()))
    }

    /// The values of all fields that `$http_NAME` refers to; `name` is in lower case, with `_` for `-`.
    #[inline]
    pub fn values_of_variable<'h, 'n>(&'h self, name: &'n [u8]) -> impl Iterator<Item = &'h [u8]> + use<'h, 'n> {
        self.parsed.variable(&self.buffer, name).map(|field| self.text(field.value()))
    }

    /// The fields in the order they came, without ignored ones.
    #[inline]
    pub fn fields(&self) -> impl ExactSizeIterator<Item = HeadField<'_>> + Clone {
        self.parsed.fields().iter().map(|field| self.field(field))
    }
}

#[cfg(test)]
mod tests {
    use freerun_proto::{HeadRules, parse_request};

    use super::*;

    #[test]
    fn a_head_that_settles_leaves_the_buffer_to_others_and_says_the_same() {
        let mut buffer = buffers::take();
        let place = buffer.as_ptr();
        buffer.extend_from_slice(b"GET /path HTTP/1.1\r\nHost: a\r\nX-Field: value\r\n\r\n");
        let parsed = parse_request(&buffer, &HeadRules::default()).unwrap().unwrap();
        let mut head = Head::new(buffer, parsed);
        head.settle();
        assert_eq!(head.buffer.capacity(), head.buffer.len());
        let again = buffers::take();
        assert_eq!(again.as_ptr(), place, "the loop has its buffer back");
        assert_eq!(head.values_named(b"x-field").collect::<Vec<_>>(), [b"value"]);
        let settled = head.buffer.as_ptr();
        head.settle();
        assert_eq!(head.buffer.as_ptr(), settled, "once is enough");
    }
}
