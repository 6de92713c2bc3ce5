use super::*;
use crate::{HeaderId, Version};

fn parser(kind: HeadKind) -> ResponseParser {
    ResponseParser::new(kind, 4096)
}

/// The result of parsing a head in pieces of `step` bytes, which is the same for all widths.
fn parse_as(kind: HeadKind, text: &[u8]) -> Result<Option<ResponseHead>, ReplyError> {
    let in_steps = |step: usize| {
        let mut parser = parser(kind);
        let mut end = 0;
        while end < text.len() {
            end = (end + step).min(text.len());
            if let Some(head) = parser.advance(&text[..end])? {
                return Ok(Some(head));
            }
        }
        Ok(None)
    };
    let whole = in_steps(text.len().max(1));
    for step in [1, 2, 3, 7] {
        assert_eq!(in_steps(step), whole, "in steps of {step}");
    }
    for other in [text, b"HTTP/1.1 200 OK\r\nServer: a\r\nX-A: b\r\nContent-Length: 3\r\nETag:\r\nA: b \r\n\r\n"] {
        let mut before = Before::default();
        let _ = parser(kind).advance_after(other, &mut before);
        assert_eq!(parser(kind).advance_after(text, &mut before), whole, "after {}", other.escape_ascii());
    }
    whole
}

fn parse(text: &str) -> Result<ResponseHead, ReplyError> {
    parse_as(HeadKind::Http, text.as_bytes()).map(|head| head.expect("a whole head"))
}

fn with_field(field: &str) -> Result<ResponseHead, ReplyError> {
    parse(&format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n"))
}

fn message(field: &str) -> String {
    with_field(field).expect_err(field).to_string()
}

#[test]
fn lines_that_came_before_are_those_of_this_head() {
    let mut before = Before::default();
    let mut parse = |text: &str| {
        let head = parser(HeadKind::Http).advance_after(text.as_bytes(), &mut before).unwrap().unwrap();
        let field = |field: &ResponseField| {
            let part = |span: crate::Span| String::from_utf8_lossy(span.of(text.as_bytes())).into_owned();
            (field.id, part(field.name), part(field.value))
        };
        (head.content_length, head.fields.iter().map(field).collect::<Vec<_>>())
    };
    for (text, length, values) in [
        ("HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 12\r\nX-A: b\r\n\r\n", 12, ["a", "12", "b"]),
        ("HTTP/1.1 200 Fine\r\nServer: a\r\nContent-Length: 12\r\nX-A: b\r\n\r\n", 12, ["a", "12", "b"]),
        ("HTTP/1.1 200 OK\r\nServer: abc\r\nContent-Length: 12\r\nX-A: b\r\n\r\n", 12, ["abc", "12", "b"]),
        ("HTTP/1.1 200 OK\r\nServer: abc\r\nContent-Length: 1\r\nX-A: b\r\n\r\n", 1, ["abc", "1", "b"]),
        ("HTTP/1.1 200 OK\nServer: abc\nContent-Length: 1\nX-A: b\n\n", 1, ["abc", "1", "b"]),
    ] {
        let (said, fields) = parse(text);
        assert_eq!(said, Some(length));
        let ids = [HeaderId::Server, HeaderId::ContentLength, HeaderId::Other];
        let names = ["Server", "Content-Length", "X-A"];
        let wanted = ids.into_iter().zip(names).zip(values);
        assert_eq!(fields, wanted.map(|((id, name), value)| (id, name.into(), value.into())).collect::<Vec<_>>());
    }
}

#[test]
fn a_head() {
    let text = b"HTTP/1.1 404 Not Here\r\nServer:  a b \t\r\nX:\r\nContent-Length: 12\nY: \xff\x01\r\n\r\nbody";
    let head = parse_as(HeadKind::Http, text).unwrap().unwrap();
    assert_eq!((head.version, head.status), (Version::Http11, 404));
    assert_eq!(head.reason.of(text), b"Not Here");
    let fields: Vec<_> = head.fields.iter().map(|f| (f.name.of(text), f.value.of(text))).collect();
    let expected: [(&[u8], &[u8]); 4] =
        [(b"Server", b"a b"), (b"X", b""), (b"Content-Length", b"12"), (b"Y", b"\xff\x01")];
    assert_eq!(fields, expected);
    assert_eq!(&text[head.len..], b"body");
    assert_eq!(Framing::of(&head, RequestKind::Other), Framing::Length(12));
    assert_eq!(head.value(text, b"server"), Some(&b"a b"[..]));
}

#[test]
fn status_lines() {
    for (line, status, reason) in [
        ("HTTP/1.1 200 OK", 200, "OK"),
        ("HTTP/1.1 200", 200, ""),
        ("HTTP/1.1 200 ", 200, ""),
        ("HTTP/1.1  200 OK", 200, "OK"),
        ("HTTP/1.0 999 x", 999, "x"),
        ("HTTP/1.7 207 a  b ", 207, "a  b"),
        ("HTTP/2.0 200 OK", 200, "OK"),
        ("HTTP/11.1 200 OK", 200, "OK"),
        ("HTTP/1.1 401.1 IIS", 401, "IIS"),
        ("HTTP/1.1 200 \u{e9}", 200, "\u{e9}"),
    ] {
        let text = format!("{line}\r\n\r\n");
        let head = parse(&text).expect(line);
        assert_eq!((head.status, head.reason.of(text.as_bytes())), (status, reason.as_bytes()), "{line}");
    }
    for line in [
        "",
        " HTTP/1.1 200 OK",
        "garbage",
        "http/1.1 200 OK",
        "HTTP/0.9 200 OK",
        "HTTP/1 200 OK",
        "HTTP/1.1 20",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 200OK",
        "HTTP/1.1 099 x",
        "HTTP/1.1 000 x",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 O\rK",
        "HTTP/1.1",
        "HTTP/1.1 -20 x",
        "HTTP/. 200",
        "HTTP/1.1111 200 x",
    ] {
        assert_eq!(parse(&format!("{line}\r\n\r\n")), Err(ReplyError::NoHead), "{line:?}");
    }
    // Garbage without a line end is refused at once, the beginning of a status line is waited for.
    assert_eq!(parser(HeadKind::Http).advance(b"HTTQ"), Err(ReplyError::NoHead));
    assert_eq!(parser(HeadKind::Http).advance(b"HTT"), Ok(None));
    assert_eq!(parser(HeadKind::Http).advance(b""), Ok(None));
}

#[test]
fn lines_that_are_no_fields() {
    assert_eq!(message("A b: c"), r#"upstream sent invalid header: "A\x20...""#);
    assert_eq!(message("A : c"), r#"upstream sent invalid header: "A\x20...""#);
    assert_eq!(message(": c"), r#"upstream sent invalid header: "\x3a...""#);
    assert_eq!(message("A: c\rd"), r#"upstream sent invalid header: "A: c\x0d...""#);
    assert_eq!(message("A: c\r"), r#"upstream sent invalid header: "A: c\x0d...""#);
    assert_eq!(message("A: c\0d"), r#"upstream sent invalid header: "A: c\x00...""#);
    assert_eq!(message("A: c\r\n d"), r#"upstream sent invalid header: "\x20...""#);
    assert_eq!(message(" A: c"), r#"upstream sent invalid header: "\x20...""#);
    assert_eq!(message("A\x01: c"), r#"upstream sent invalid header: "A\x01...""#);
    // Invalid names are passed on; without a colon there is no value.
    let text = "HTTP/1.1 200 OK\r\nA(: c\r\n\u{e9}:d\r\n\r\n";
    let head = parse(text).unwrap();
    let fields: Vec<_> =
        head.fields.iter().map(|f| (f.name.of(text.as_bytes()), f.value.of(text.as_bytes()))).collect();
    assert_eq!(fields, [(&b"A("[..], &b"c"[..]), (b"\xc3\xa9", b"d")]);
    assert_eq!(with_field("HTTP/1.1 200 OK\r\nHTTP/x: y").unwrap().fields.len(), 0);
    let head = with_field("A").unwrap();
    assert!(head.fields[0].value.is_empty());
    assert_eq!(head.fields[0].name.len(), 1);
}

#[test]
fn framing() {
    let framing = |head: &str, asked| Framing::of(&with_field(head).unwrap(), asked);
    assert_eq!(framing("Content-Length: 5", RequestKind::Other), Framing::Length(5));
    assert_eq!(framing("content-length:0", RequestKind::Other), Framing::Length(0));
    assert_eq!(framing("Content-Length: 5", RequestKind::Head), Framing::None);
    assert_eq!(framing("Content-Length: 5", RequestKind::Connect), Framing::Tunnel);
    assert_eq!(framing("Transfer-Encoding: Chunked", RequestKind::Other), Framing::Chunked);
    assert_eq!(framing("X: y", RequestKind::Other), Framing::UntilClose);
    for (status, expected) in [
        (100, Framing::None),
        (101, Framing::Tunnel),
        (103, Framing::None),
        (204, Framing::None),
        (304, Framing::None),
        (205, Framing::Length(5)),
        (404, Framing::Length(5)),
    ] {
        let head = parse(&format!("HTTP/1.1 {status} x\r\nContent-Length: 5\r\n\r\n")).unwrap();
        assert_eq!(Framing::of(&head, RequestKind::Other), expected, "{status}");
        assert_eq!(head.is_interim(), matches!(status, 100 | 103));
    }
}

#[test]
fn ambiguous_framing_is_refused() {
    assert_eq!(
        message("Content-Length: 2\r\nContent-Length: 2"),
        r#"upstream sent duplicate header line: "Content-Length: 2", previous value: "Content-Length: 2""#
    );
    assert_eq!(
        message("Content-Length: 2\r\nTransfer-Encoding: chunked"),
        r#"upstream sent "Content-Length" and "Transfer-Encoding" headers at the same time"#
    );
    for value in ["2, 2", "-1", "+2", "0x2", "", "2 3", "99999999999999999999", "9223372036854775808"] {
        let expected = format!("upstream sent invalid \"Content-Length\" header: \"{value}\"");
        assert_eq!(message(&format!("Content-Length: {value}")), expected);
    }
    for value in ["gzip", "gzip, chunked", "identity", "chunked, chunked", "chunked;q=1", ""] {
        let expected = format!("upstream sent unknown \"Transfer-Encoding\": \"{value}\"");
        assert_eq!(message(&format!("Transfer-Encoding: {value}")), expected);
    }
    assert!(message("Transfer-Encoding: chunked\r\ntransfer-encoding: chunked").contains("duplicate header line"));
}

#[test]
fn keeping_the_connection() {
    for (text, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: x, Close\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\n\r\n", false),
        ("HTTP/1.1 204 No\r\n\r\n", true),
        ("HTTP/1.1 101 Up\r\nConnection: upgrade\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n", true),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive\r\n\r\n", true),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive, close\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n", false),
    ] {
        let head = parse(text).unwrap();
        assert_eq!(Framing::of(&head, RequestKind::Other).keeps(&head), expected, "{text}");
    }
}

#[test]
fn interim_responses_come_one_by_one_and_are_counted() {
    let text = b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    let mut reader = parser(HeadKind::Http);
    let first = reader.advance(text).unwrap().unwrap();
    assert!(first.is_interim());
    let second = reader.advance(&text[first.len..]).unwrap().unwrap();
    assert_eq!((second.status, first.len + second.len), (200, text.len()));
}

#[test]
fn an_interim_head_has_no_body_whatever_it_says() {
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: x\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ] {
        for status in [100, 102, 103, 199] {
            let text = format!("HTTP/1.1 {status} Early\r\n{fields}\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
            let mut reader = parser(HeadKind::Http);
            let first = reader.advance(text.as_bytes()).unwrap().unwrap();
            assert!(first.is_interim() && first.content_length.is_none() && !first.chunked, "{status} {fields}");
            let second = reader.advance(&text.as_bytes()[first.len..]).unwrap().unwrap();
            assert_eq!((second.status, second.content_length), (200, Some(2)), "{status} {fields}");
        }
    }
}

#[test]
fn a_server_of_shoutcast_speaks_http10() {
    let text = b"ICY 200 OK\r\nicy-name: x\r\n\r\n";
    for split in 0..text.len() {
        let mut reader = parser(HeadKind::Http);
        assert_eq!(reader.advance(&text[..split]), Ok(None), "{split}");
        let head = reader.advance(text).unwrap().unwrap();
        assert_eq!((head.version, head.status, head.reason.of(text)), (Version::Http10, 200, &b"OK"[..]), "{split}");
        assert_eq!(Framing::of(&head, RequestKind::Other), Framing::UntilClose, "{split}");
    }
    for refused in ["ICY\r\n", "ICY/1.0 200 OK\r\n", "icy 200 OK\r\n", "ICY OK\r\n"] {
        assert_eq!(parser(HeadKind::Http).advance(refused.as_bytes()), Err(ReplyError::NoHead), "{refused}");
    }
}

#[test]
fn limits() {
    let text = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(100));
    let with_limit = |max: usize| {
        let mut parser = ResponseParser::new(HeadKind::Http, max);
        (1..=text.len()).find_map(|end| parser.advance(&text.as_bytes()[..end]).transpose())
    };
    assert!(with_limit(text.len()).unwrap().is_ok());
    assert_eq!(with_limit(text.len() - 1), Some(Err(ReplyError::TooBig)));
    assert_eq!(ResponseParser::new(HeadKind::Http, text.len() - 1).advance(text.as_bytes()), Err(ReplyError::TooBig));
    let many = |n: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "A:\r\n".repeat(n));
    let mut reader = ResponseParser::new(HeadKind::Http, 1 << 20);
    assert!(reader.advance(many(MAX_RESPONSE_FIELDS).as_bytes()).unwrap().is_some());
    assert_eq!(reader.advance(many(MAX_RESPONSE_FIELDS + 1).as_bytes()), Err(ReplyError::TooManyFields));
}

#[test]
fn cgi_heads() {
    let cgi = |text: &str| parse_as(HeadKind::Cgi, text.as_bytes()).map(|head| head.expect("a whole head"));
    let head = cgi("Content-Type: text/html\r\nStatus: 404 Not There\r\n\r\nbody").unwrap();
    assert_eq!((head.status, head.fields.len()), (404, 2));
    assert_eq!(head.reason.of(b"Content-Type: text/html\r\nStatus: 404 Not There\r\n\r\n"), b"Not There");
    assert_eq!(cgi("\r\n").unwrap().status, 200);
    assert_eq!(cgi("Status: 500\n\n").unwrap().status, 500);
    assert_eq!(cgi("Location: /x\r\n\r\n").unwrap().status, 302);
    assert_eq!(cgi("Location: /x\r\nStatus: 201 Created\r\n\r\n").unwrap().status, 201);
    for (value, status, reason) in [
        ("401.1 IIS", 401, "IIS"),
        ("400, x", 400, "x"),
        ("404x", 404, ""),
        ("404", 404, ""),
        ("404\tTab", 404, "Tab"),
        ("200  two  words", 200, "two  words"),
    ] {
        let text = format!("Status: {value}\r\n\r\n");
        let head = cgi(&text).unwrap();
        assert_eq!((head.status, head.reason.of(text.as_bytes())), (status, reason.as_bytes()), "{value}");
    }
    for bad in ["", "40", "abc", "099 x", "-12 x", "103 Early", "2000 OK"] {
        assert_eq!(cgi(&format!("Status: {bad}\r\n\r\n")), Err(ReplyError::Status(bad.to_owned())), "{bad}");
    }
    // A status line is not recognised here, and has no meaning.
    assert_eq!(cgi("HTTP/1.1 404 No\r\n\r\n").unwrap().status, 200);

    let either = |text: &str| parse_as(HeadKind::HttpOrCgi, text.as_bytes()).map(|head| head.expect("a whole head"));
    assert_eq!(either("HTTP/1.0 404 No\r\nStatus: 200 OK\r\nA: b\r\n\r\n").unwrap().status, 404);
    assert_eq!(either("Status: 404 No\r\nA: b\r\n\r\n").unwrap().status, 404);
    assert_eq!(either("A: b\r\n\r\n").unwrap().status, 200);
}

/// Status lines of all kinds: the fast way and the slower way give the same result.
#[test]
fn plain_status_lines_are_read_as_others() {
    let pieces: [&[u8]; 9] = [b"200", b" ", b"OK", b"Not Found", b"\t", b"\0", b"099", b".1", b"\r"];
    let mut plain = 0;
    for version in [&b"HTTP/1.1 "[..], b"HTTP/1.0 ", b"HTTP/1.2 ", b"HTTP/2.0 ", b"http/1.1 "] {
        for number in 0..9usize.pow(5) {
            let mut line = version.to_vec();
            let mut left = number;
            while left > 0 {
                line.extend_from_slice(pieces[left % 9]);
                left /= 9;
            }
            for end in [&b"\r\n"[..], b"\n"] {
                let text = [&line[..], end, b"X: y\r\n\r\n"].concat();
                let read = ResponseParser::new(HeadKind::Http, 4096).advance(&text);
                let Some((_, reason, next)) = status_line::plain(&text) else { continue };
                plain += 1;
                assert_eq!(next, line.len() + end.len(), "{}", text.escape_ascii());
                let line = line.strip_suffix(b"\r").unwrap_or(&line);
                let closely = status_line::parse(line).unwrap();
                let head = read.unwrap().unwrap();
                assert_eq!((head.version, head.status, head.reason), (closely.version, closely.status, reason));
                let spaces = line[closely.reason..].iter().take_while(|&&b| b == b' ').count();
                assert_eq!(reason, fields::span(closely.reason + spaces, line.trim_ascii_end().len()));
            }
        }
    }
    assert!(plain > 100, "{plain} lines were plain");
    assert!(status_line::plain(b"HTTP/1.1 200 OK").is_none() && status_line::plain(b"HTTP/1.1 200 OK\r").is_none());
}

/// Lines of all kinds: the fast way and the slower way give the same result.
#[test]
fn plain_lines_are_read_as_others() {
    let pieces: [&[u8]; 11] =
        [b"a", b"B-", b":", b" ", b"\t", b"\r", b"\0", b"\n", b"\xff", b"/", b"long enough for a word"];
    let mut plain = 0;
    for number in 0..11usize.pow(5) {
        let mut text = b"..".to_vec();
        let mut left = number;
        while left > 0 {
            text.extend_from_slice(pieces[left % 11]);
            left /= 11;
        }
        text.extend_from_slice(b"\r\nX: y\r\n");
        let Some((field, next)) = fields::plain(&text, 2) else { continue };
        plain += 1;
        let line = &text[2..next];
        assert_eq!(line.iter().position(|&b| b == b'\n'), Some(line.len() - 1), "{}", text.escape_ascii());
        let line = line.strip_suffix(b"\r\n").unwrap_or(&line[..line.len() - 1]);
        assert_eq!(fields::parse(line, 2), Ok(Some(field)), "{}", text.escape_ascii());
    }
    assert!(plain > 1000, "{plain} lines were plain");
    assert_eq!(fields::plain(b"a: b", 0), None);
    assert_eq!(fields::plain(b"a: b\r", 0), None);
}
