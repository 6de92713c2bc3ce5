//! Tests of request lines, with nginx's answers.

use super::*;

#[test]
fn accepted() {
    for (line, method, version, uri) in [
        ("GET /x HTTP/1.0\r\n", Method::Get, Version::Http10, "/x"),
        ("GET /x HTTP/1.2\r\n", Method::Get, Version::Http11, "/x"),
        ("GET /x HTTP/1.100\r\n", Method::Get, Version::Http11, "/x"),
        ("GET  /x   HTTP/1.1  \r\n", Method::Get, Version::Http11, "/x"),
        ("G_T /x HTTP/1.1\r\n", Method::Other, Version::Http11, "/x"),
        ("G-T /x HTTP/1.1\n", Method::Other, Version::Http11, "/x"),
        ("\r\n\r\nGET /x HTTP/1.1\r\n", Method::Get, Version::Http11, "/x"),
        ("\n\rGET /x HTTP/1.1\r\n", Method::Get, Version::Http11, "/x"),
        ("OPTIONS / HTTP/1.1\r\n", Method::Options, Version::Http11, "/"),
        ("GET /x#frag HTTP/1.1\r\n", Method::Get, Version::Http11, "/x#frag"),
        ("GET /x?a#frag HTTP/1.1\r\n", Method::Get, Version::Http11, "/x?a#frag"),
        ("GET /x\u{e9} HTTP/1.1\r\n", Method::Get, Version::Http11, "/x\u{e9}"),
    ] {
        let text = with_line(line);
        let head = good(&text);
        assert_eq!((head.method, head.version), (method, version), "{line:?}");
        assert_eq!(head.target.uri(text.as_bytes()), uri.as_bytes(), "{line:?}");
        assert_eq!(head.request_line.of(text.as_bytes()), line.trim_matches(['\r', '\n']).as_bytes());
    }
    let text = with_line("GET /x HTTP/1.7 \r\n");
    assert_eq!(good(&text).version_text.of(text.as_bytes()), b"HTTP/1.7");
}

#[test]
fn absolute_targets() {
    for (target, host, port, uri) in [
        ("http://H.b/P?q", "h.b", None, "/P?q"),
        ("http://H.b", "h.b", None, "/"),
        ("http://H.b?q=1", "h.b", None, "?q=1"),
        ("http://H.b:80/x", "h.b", Some(80), "/x"),
        ("http://H.b:/x", "h.b", None, "/x"),
        ("HTTPS://h/x", "h", None, "/x"),
        ("h2+x.y-z://h/x", "h", None, "/x"),
        ("http://[::1]:80/x", "[::1]", Some(80), "/x"),
    ] {
        let text = with_line(&format!("GET {target} HTTP/1.1\r\n"));
        let head = good(&text);
        let got = head.host.unwrap();
        assert_eq!((got.name(text.as_bytes()).as_ref(), got.port), (host, port), "{target}");
        assert_eq!(head.target.uri(text.as_bytes()), uri.as_bytes());
        assert_eq!(head.target.form, TargetForm::Absolute);
        assert!(target.as_bytes().starts_with(head.target.scheme.unwrap().of(text.as_bytes())));
    }
}

#[test]
fn connect_targets() {
    let text = "CONNECT A.b:443 HTTP/1.1\r\nHost: c\r\n\r\n";
    let head = good(text);
    let host = head.host.unwrap();
    assert_eq!(head.target.form, TargetForm::Authority);
    assert_eq!((host.name(text.as_bytes()).as_ref(), host.port), ("a.b", Some(443)));
    assert_eq!(head.target.uri(text.as_bytes()), b"/", "there is no path");
    for target in [
        "a",
        "a:",
        "a:x",
        "a:0",
        "a:65536",
        ":1",
        ":",
        "u@a:1",
        "a:1/",
        "a:1?",
        "a:1?q",
        "a:1#",
        "*",
        "/x",
        "http://a:1",
        "[::1:1",
    ] {
        let text = with_line(&format!("CONNECT {target} HTTP/1.1\r\n"));
        assert_eq!(bad(text.as_bytes(), &HeadRules::default()).status().code(), 400, "{target}");
    }
}

#[test]
fn simple_requests() {
    for line in ["GET /x\r\n", "GET /x\n", "GET http://h/x\r\n", "GET /x \r\n"] {
        let text = with_line(line);
        let head = good(&text);
        assert_eq!(head.version, Version::Http09, "{line:?}");
        assert_eq!(head.target.uri(text.as_bytes()), b"/x");
        assert_eq!(head.len as usize, line.len(), "the request ends with its line");
        assert!(!head.keep_alive && head.version_text.is_empty());
    }
    assert_eq!(bad(b"POST /x\r\n", &HeadRules::default()), RequestError::SimpleMethod);
    assert_eq!(bad(b"HEAD /x\r\n", &HeadRules::default()), RequestError::SimpleMethod);
    assert_eq!(bad(b"GET http://h\r\n", &HeadRules::default()), RequestError::RequestLine);
}

#[test]
fn refused() {
    use RequestError::{Method, RequestLine, TargetHost, VersionNotSupported};
    for (line, error) in [
        ("GET /x HTTP/0.9", RequestLine),
        ("GET /x HTTP/01.1", RequestLine),
        ("GET /x HTTP/2.0", VersionNotSupported),
        ("GET /x HTTP/100.1", VersionNotSupported),
        ("GET /x HTTP/10", VersionNotSupported),
        ("GET /x HTTP/1.", RequestLine),
        ("GET /x HTTP/1", RequestLine),
        ("GET /x HTTP/.1", RequestLine),
        ("GET /x HTTP/0.5", RequestLine),
        ("GET /x http/1.1", RequestLine),
        ("GET /x HTTQ/1.1", RequestLine),
        ("GET /x HTTP/1.1\t", RequestLine),
        ("GET /x HTTP/1.1x", RequestLine),
        ("GET /x HTTP /1.1", RequestLine),
        (" GET /x HTTP/1.1", Method),
        ("get /x HTTP/1.1", Method),
        ("G1T /x HTTP/1.1", Method),
        ("GET\t/x HTTP/1.1", Method),
        ("GET x HTTP/1.1", RequestLine),
        ("GET * HTTP/1.1", RequestLine),
        ("OPTIONS * HTTP/1.1", RequestLine),
        ("GET a:80 HTTP/1.1", RequestLine),
        ("GET ?a HTTP/1.1", RequestLine),
        ("GET #f HTTP/1.1", RequestLine),
        ("GET http:/x HTTP/1.1", RequestLine),
        ("GET 1a://h/x HTTP/1.1", RequestLine),
        ("GET http:///x HTTP/1.1", TargetHost),
        ("GET http://u@h/x HTTP/1.1", TargetHost),
        ("GET http://h:8x/x HTTP/1.1", TargetHost),
        ("GET http://[::1/x HTTP/1.1", TargetHost),
        ("GET /x y HTTP/1.1", RequestLine),
        ("GET /x\ty HTTP/1.1", RequestLine),
        ("GET /x\0y HTTP/1.1", RequestLine),
        ("GET /x\x01 HTTP/1.1", RequestLine),
        ("GET /x\x7f HTTP/1.1", RequestLine),
        ("GET /x\r HTTP/1.1", RequestLine),
        ("GET /x HTTP/1.1\r", RequestLine),
        ("GET", RequestLine),
        ("GET ", RequestLine),
        ("\x16\x03\x01\x02", Method),
    ] {
        let text = with_line(&format!("{line}\r\n"));
        assert_eq!(bad(text.as_bytes(), &HeadRules::default()), error, "{line:?}");
        let mut parser = HeadParser::new();
        assert!(parser.advance(text.as_bytes(), &HeadRules::default()).is_err());
        let shown = parser.request_line().unwrap();
        assert_eq!(shown.of(text.as_bytes()), line.as_bytes(), "the log shows the line");
    }
    assert_eq!(VersionNotSupported.status().code(), 505);
}

#[test]
fn a_bad_line_is_refused_before_it_ends() {
    for (text, error) in [
        (&b"\x16\x03\x01"[..], RequestError::Method),
        (b"get", RequestError::Method),
        (b"GET /\x01", RequestError::RequestLine),
    ] {
        assert_eq!(bad(text, &HeadRules::default()), error);
    }
    for text in ["G", "GET", "GET ", "GET /x\r", "GET\r", "", "\r\n", "GET /x HTTP/9"] {
        assert_eq!(parse_request(text.as_bytes(), &HeadRules::default()), Ok(None), "{text:?}");
    }
}
