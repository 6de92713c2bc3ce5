//! Tests: a head that comes in pieces is parsed like one that comes whole.

use proptest::prelude::*;

use super::*;

/// The result of parsing. The place of an error in a line may differ: a long line is refused when it has become too
/// long.
#[derive(PartialEq, Debug)]
enum Outcome {
    Head(Box<RequestHead>),
    Partial,
    Error(std::mem::Discriminant<RequestError>),
}

fn outcome(result: Result<Progress, RequestError>, parser: HeadParser) -> Outcome {
    match result {
        Ok(Progress::Complete) => Outcome::Head(parser.into_head()),
        Ok(Progress::Partial) => Outcome::Partial,
        Err(error) => Outcome::Error(std::mem::discriminant(&error)),
    }
}

fn in_pieces(text: &[u8], ends: impl IntoIterator<Item = usize>, rules: &HeadRules) -> Outcome {
    let mut parser = HeadParser::new();
    let mut result = Ok(Progress::Partial);
    for end in ends {
        result = parser.advance(&text[..end], rules);
        if result != Ok(Progress::Partial) {
            break;
        }
    }
    outcome(result, parser)
}

fn check(text: &[u8], rules: &HeadRules) {
    let whole = in_pieces(text, [text.len()], rules);
    assert_eq!(in_pieces(text, 0..=text.len(), rules), whole, "{:?}", String::from_utf8_lossy(text));
    for cut in 0..text.len() {
        assert_eq!(in_pieces(text, [cut, text.len()], rules), whole, "{:?} at {cut}", String::from_utf8_lossy(text));
    }
}

#[test]
fn at_every_byte() {
    let rules = HeadRules { first_buffer: 80, large_buffers: 2, large_buffer_size: 120, ..HeadRules::default() };
    for text in [
        "\r\nGET /a HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\nX: y\r\n\r\nGET /b HTTP/1.1\r\n",
        "POST http://h/ HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello",
        "GET /a HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n",
        "GET /a\r\nGET /b\r\n",
        "GET /a\r b HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\n\r\r\n",
    ] {
        check(text.as_bytes(), &rules);
        check(format!("{text}{}", "y".repeat(300)).as_bytes(), &rules);
    }
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec![
            "Host: a\r\n", "X-A: b\r\n", "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n", "x_y: 1\n",
            "A(: b\r\n", "\r\n", "\n", "If-Range: x\r\n", "Expect: 100-continue\r\n",
        ]).prop_map(str::to_owned),
        1 => (0usize..90).prop_map(|n| format!("Long: {}\r\n", "z".repeat(n))),
        1 => "[\\x00-\\x7f]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn built_heads(
        line in prop::sample::select(vec![
            "GET / HTTP/1.1\r\n", "GET /\r\n", "PUT http://h:1/x HTTP/1.0\n", "\r\nGET / HTTP/1.1\r\n", "CONNECT a:1 HTTP/1.1\r\n",
            "GET  /a\x01 HTTP/1.1\r\n", "GET / HTTP/2.0\r\n",
        ]),
        pieces in prop::collection::vec(piece(), 0..7),
        ignore: bool,
        underscores: bool,
    ) {
        let rules = HeadRules {
            first_buffer: 60, large_buffers: 2, large_buffer_size: 80, max_headers: 5,
            ignore_invalid_headers: ignore, underscores_in_headers: underscores,
        };
        check(format!("{line}{}", pieces.concat()).as_bytes(), &rules);
    }

    #[test]
    fn any_bytes(raw in prop::collection::vec(prop::sample::select(b"GET /hH:. \r\n\t\0a_-[]@?#%\xff".to_vec()), 0..60)) {
        let rules = HeadRules { first_buffer: 20, large_buffers: 1, large_buffer_size: 30, ..HeadRules::default() };
        check(&raw, &rules);
    }

    #[test]
    fn spans_lie_inside(pieces in prop::collection::vec(piece(), 0..7)) {
        let text = format!("GET http://h:80/x HTTP/1.1\r\nHost: a\r\n{}\r\n", pieces.concat());
        if let Ok(Some(head)) = parse_request(text.as_bytes(), &HeadRules::default()) {
            let len = head.len as usize;
            prop_assert!(len <= text.len());
            for field in head.fields() {
                prop_assert!(field.name().range().end < len && field.value().range().end < len);
                prop_assert!(!field.name().is_empty());
                prop_assert!(field.name().end <= field.value().start);
                prop_assert!(!field.value().of(text.as_bytes()).contains(&0));
                prop_assert!(!field.value().of(text.as_bytes()).contains(&b'\n'));
                prop_assert!(!field.value().of(text.as_bytes()).contains(&b'\r'));
            }
        }
    }
}
