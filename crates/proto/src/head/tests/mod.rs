use super::*;
use crate::{HeaderId, RequestError};

mod built;
mod fields;
mod limits;
mod lines;
mod split;

/// Parses a head that must be complete.
#[track_caller]
fn good(text: &str) -> RequestHead {
    match parse_request(text.as_bytes(), &HeadRules::default()) {
        Ok(Some(head)) => *head,
        other => panic!("{text:?}: {other:?}"),
    }
}

/// The error of a head.
#[track_caller]
fn bad(text: &[u8], rules: &HeadRules) -> RequestError {
    match parse_request(text, rules) {
        Err(error) => error,
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(text)),
    }
}

/// A request line with the fields that HTTP/1.1 needs.
fn with_line(line: &str) -> String {
    format!("{line}Host: a\r\n\r\n")
}

/// A request with these header lines besides `Host`.
fn with_fields(fields: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn a_browsers_request() {
    let text = "GET /a/b?c=d HTTP/1.1\r\nHost: Example.COM:8080\r\nUser-Agent: x/1\r\nAccept: */*\r\nX-Custom-Thing: v\r\n\
                Accept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\nrest";
    let head = good(text);
    let buf = text.as_bytes();
    assert_eq!(head.method, Method::Get);
    assert_eq!(head.method_text.of(buf), b"GET");
    assert_eq!(head.version, Version::Http11);
    assert_eq!(head.request_line.of(buf), b"GET /a/b?c=d HTTP/1.1");
    assert_eq!(head.target.uri(buf), b"/a/b?c=d");
    assert_eq!(head.target.form, TargetForm::Origin);
    let host = head.host.unwrap();
    assert_eq!((host.name(buf).as_ref(), host.port), ("example.com", Some(8080)));
    assert_eq!(head.fields().len(), 6);
    assert_eq!(head.value(buf, HeaderId::UserAgent), Some(&b"x/1"[..]));
    assert_eq!(head.value(buf, HeaderId::Cookie), None);
    assert!(head.has(HeaderId::AcceptEncoding) && !head.has(HeaderId::Cookie));
    assert_eq!(head.named(buf, b"x-custom-thing").count(), 1);
    assert_eq!(head.variable(buf, b"x_custom_thing").next().unwrap().value().of(buf), b"v");
    assert_eq!(&buf[head.len as usize..], b"rest");
    assert_eq!((head.body, head.keep_alive, head.expect_continue), (BodyFraming::None, true, false));
}

#[test]
fn framing() {
    let body =
        |fields: &str| parse_request(with_fields(fields).as_bytes(), &HeadRules::default()).map(|h| h.unwrap().body);
    assert_eq!(body(""), Ok(BodyFraming::None));
    assert_eq!(body("Content-Length: 0\r\n"), Ok(BodyFraming::Length(0)));
    assert_eq!(body("Content-Length: 03 \r\n"), Ok(BodyFraming::Length(3)));
    assert_eq!(body("Content-Length: 9223372036854775807\r\n"), Ok(BodyFraming::Length(i64::MAX as u64)));
    for value in ["", "+3", "-3", "3,3", "0x3", "3 3", "9223372036854775808", "99999999999999999999", "\t3"] {
        assert_eq!(body(&format!("Content-Length: {value}\r\n")), Err(RequestError::ContentLength), "{value}");
    }
    assert_eq!(body("Transfer-Encoding: Chunked\r\n"), Ok(BodyFraming::Chunked));
    for value in ["", "gzip, chunked", "identity", "chunked, chunked", "chunked;q=1", "\x0bchunked", "chunked,"] {
        assert_eq!(body(&format!("Transfer-Encoding: {value}\r\n")), Err(RequestError::TransferEncoding), "{value}");
    }
    assert_eq!(RequestError::TransferEncoding.status().code(), 501);
    assert_eq!(body("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), Err(RequestError::LengthAndEncoding));
    assert_eq!(body("Transfer-Encoding: identity\r\nContent-Length: 3\r\n"), Err(RequestError::TransferEncoding));
    for coding in ["chunked", "identity"] {
        let text = format!("POST / HTTP/1.0\r\nTransfer-Encoding: {coding}\r\n\r\n");
        assert_eq!(bad(text.as_bytes(), &HeadRules::default()), RequestError::EncodingInOldVersion);
    }
}

#[test]
fn keep_alive() {
    let keeps =
        |version: &str, fields: &str| good(&format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n")).keep_alive;
    for (fields, old, new) in [
        ("", false, true),
        ("Connection: close\r\n", false, false),
        ("Connection: CLOSE\r\n", false, false),
        ("Connection: keep-alive\r\n", true, true),
        ("Connection: Keep-Alive\r\n", true, true),
        ("Connection: foo, close\r\n", false, false),
        ("Connection: foo,keep-alive\r\n", true, true),
        ("Connection: close, keep-alive\r\n", false, false),
        ("Connection: keep-alive\r\nConnection: close\r\n", false, false),
        ("Connection: foo\r\nConnection: close\r\n", false, false),
        ("Connection: upgrade\r\n", false, true),
    ] {
        assert_eq!(keeps("1.0", fields), old, "1.0 {fields}");
        assert_eq!(keeps("1.1", fields), new, "1.1 {fields}");
        assert_eq!(keeps("1.2", fields), new, "1.2 {fields}");
    }
}

#[test]
fn expect() {
    for (version, value, expected) in [
        ("1.1", "100-continue", true),
        ("1.1", "100-Continue", true),
        ("1.1", "foo", false),
        ("1.0", "100-continue", false),
    ] {
        let head = good(&format!("POST / HTTP/{version}\r\nHost: a\r\nExpect: {value}\r\n\r\n"));
        assert_eq!(head.expect_continue, expected, "{version} {value}");
    }
}

/// A head parses without an allocation up to the number of fields that fit in it.
#[test]
fn usual_heads_stay_inline() {
    let with = |n: usize| good(&with_fields(&"X: y\r\n".repeat(n - 1)));
    assert!(!with(types::INLINE_FIELDS).fields.spilled());
    assert!(with(types::INLINE_FIELDS + 1).fields.spilled());
}

#[test]
fn a_buffer_that_shrank_is_no_panic() {
    let mut parser = HeadParser::new();
    assert_eq!(parser.advance(b"GET / HTTP/1.1\r\nHost", &HeadRules::default()), Ok(Progress::Partial));
    assert_eq!(parser.advance(b"GET", &HeadRules::default()), Ok(Progress::Partial));
}

#[test]
fn a_head_in_used_memory_is_the_head_in_new_memory() {
    let many: String = (0..40).map(|i| format!("X-{i}: {i}\r\n")).collect();
    let long = format!("GET / HTTP/1.1\r\nHost: {}:81\r\n\r\n", "a".repeat(60));
    let texts = [
        "POST /a?b HTTP/1.1\r\nHost: A.b:80\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: A.b:80\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: A.b:8\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: A.b:80x\r\n\r\n",
        "GET http://h/ HTTP/1.0\r\n\r\n",
        &long,
        &long,
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &with_fields(&many),
        "GET /x\r\n",
        "DELETE /a HTTP/1.1\r\nHost: A.b:80\r\nTransfer-Encoding: chunked\r\n\r\n",
    ];
    let rules = HeadRules::default();
    let mut memory = HeadParser::new().into_head();
    for text in texts {
        let mut parser = HeadParser::reusing(memory);
        let result = parser.advance(text.as_bytes(), &rules);
        let mut new = HeadParser::new();
        assert_eq!(result, new.advance(text.as_bytes(), &rules), "{text}");
        assert_eq!((parser.stage(), parser.head()), (new.stage(), new.head()), "{text}");
        memory = parser.into_head();
    }
}
