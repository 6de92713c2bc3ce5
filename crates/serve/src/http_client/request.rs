//! A request of the server itself, as bytes.

use freerun_proto::ascii::{self, class};
use freerun_proto::response::RequestKind;
use freerun_proto::{Method, Version};

/// Reason for which bytes are no request: one of its parts would end the line that it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid {0} in a request")]
pub struct InvalidRequest(&'static str);

/// A request of HTTP/1, which asks for the connection to be closed after its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingRequest {
    kind: RequestKind,
    /// The head without the line that ends it.
    head: Vec<u8>,
    body: Vec<u8>,
}

impl OutgoingRequest {
    /// A request of HTTP/1.1 without a body. `host` is the field `Host`: a name or an address, with a port or without.
    ///
    /// # Errors
    /// A part has bytes that it must not have.
    pub fn new(method: &str, target: &str, host: &str) -> Result<OutgoingRequest, InvalidRequest> {
        let mut request = OutgoingRequest::of_version(Version::Http11, method, target, host)?;
        request.head.extend_from_slice(b"Connection: close\r\n");
        Ok(request)
    }

    /// A request of HTTP/1.0 without a body. Its connection is closed without a field that says so.
    ///
    /// # Errors
    /// A part has bytes that it must not have.
    pub fn http10(method: &str, target: &str, host: &str) -> Result<OutgoingRequest, InvalidRequest> {
        OutgoingRequest::of_version(Version::Http10, method, target, host)
    }

    fn of_version(version: Version, method: &str, target: &str, host: &str) -> Result<OutgoingRequest, InvalidRequest> {
        let is_word = |text: &str| !text.is_empty() && !ascii::has_space_or_control(text.as_bytes());
        if !is_token(method) {
            return Err(InvalidRequest("method"));
        }
        if !is_word(target) {
            return Err(InvalidRequest("target"));
        }
        if !is_word(host) {
            return Err(InvalidRequest("host"));
        }
        let version = if version == Version::Http10 { "1.0" } else { "1.1" };
        let head = format!("{method} {target} HTTP/{version}\r\nHost: {host}\r\n").into_bytes();
        let kind = RequestKind::by(Method::of(method.as_bytes()));
        Ok(OutgoingRequest { kind, head, body: Vec::new() })
    }

    /// Adds a field.
    ///
    /// # Errors
    /// The name or the value has bytes that it must not have.
    pub fn add_field(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidRequest> {
        if !is_token(name) {
            return Err(InvalidRequest("name of a field"));
        }
        if ascii::has_null_or_line_end(value) {
            return Err(InvalidRequest("value of a field"));
        }
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.head.extend_from_slice(part);
        }
        Ok(())
    }

    /// Sets the body, with its length. This may be done once.
    pub fn set_body(&mut self, body: Vec<u8>) {
        debug_assert!(self.body.is_empty(), "a request has one body");
        self.head.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        self.body = body;
    }

    /// The kind of the request, which decides where its response ends.
    pub(super) fn kind(&self) -> RequestKind {
        self.kind
    }

    /// The bytes to send.
    pub(super) fn bytes(&self) -> Vec<u8> {
        [&self.head, &b"\r\n"[..], &self.body].concat()
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| class(byte) & ascii::TOKEN != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_bytes() {
        let old = OutgoingRequest::http10("GET", "/a?b", "host").unwrap();
        assert_eq!(old.bytes(), b"GET /a?b HTTP/1.0\r\nHost: host\r\n\r\n");
        let mut new = OutgoingRequest::new("POST", "/", "[::1]:80").unwrap();
        new.add_field("Content-Type", b"text/plain").unwrap();
        new.set_body(b"hello".to_vec());
        let expected = "POST / HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\nContent-Type: text/plain\r\n\
                        Content-Length: 5\r\n\r\nhello";
        assert_eq!(new.bytes(), expected.as_bytes());
        assert_eq!(OutgoingRequest::new("HEAD", "/", "a").unwrap().kind(), RequestKind::Head);
    }

    #[test]
    fn no_part_leads_out_of_its_line() {
        let request = |method: &str, target: &str, host: &str| OutgoingRequest::new(method, target, host).err();
        assert_eq!(request("GET X", "/", "a"), Some(InvalidRequest("method")));
        assert_eq!(request("GET", "/ HTTP/1.0", "a"), Some(InvalidRequest("target")));
        assert_eq!(request("GET", "", "a"), Some(InvalidRequest("target")));
        assert_eq!(request("GET", "/", "a\r\nX: y"), Some(InvalidRequest("host")));
        let mut good = OutgoingRequest::new("GET", "/", "a").unwrap();
        assert_eq!(good.add_field("a b", b""), Err(InvalidRequest("name of a field")));
        assert_eq!(good.add_field("a", b"b\nc"), Err(InvalidRequest("value of a field")));
        assert_eq!(good.add_field("a", b"b\0c"), Err(InvalidRequest("value of a field")));
        assert_eq!(good, OutgoingRequest::new("GET", "/", "a").unwrap());
    }
}
