//! Tests of header lines, with nginx's answers.

use super::*;

fn kept(fields: &str, rules: &HeadRules) -> Result<Vec<(String, String)>, RequestError> {
    let text: Vec<u8> = with_fields(fields).chars().map(|c| c as u8).collect();
    let shown = |bytes: &[u8]| bytes.iter().map(|&b| b as char).collect::<String>();
    parse_request(&text, rules).map(|head| {
        let head = head.unwrap();
        head.fields()[1..].iter().map(|f| (shown(f.name().of(&text)), shown(f.value().of(&text)))).collect()
    })
}

#[track_caller]
fn one(line: &str, name: &str, value: &str) {
    assert_eq!(kept(line, &HeadRules::default()), Ok(vec![(name.into(), value.into())]), "{line:?}");
}

#[test]
fn accepted() {
    one("X-Foo: 1\r\n", "X-Foo", "1");
    one("X-Foo:1\n", "X-Foo", "1");
    one("X-Foo:  1  \r\n", "X-Foo", "1");
    one("X-Foo:\t1\t\r\n", "X-Foo", "\t1\t");
    one("X-Foo: a  b\r\n", "X-Foo", "a  b");
    one("X-Foo\r\n", "X-Foo", "");
    one("X-Foo:\r\n", "X-Foo", "");
    one("X-Foo:    \r\n", "X-Foo", "");
    one("X-Foo: a:b\r\n", "X-Foo", "a:b");
    one("X-Foo: a\x01\x7f\u{e9}\r\n", "X-Foo", "a\x01\x7f\u{e9}");
    one("-: 1\r\n", "-", "1");
    one("1: 1\r\n", "1", "1");
}

#[test]
fn odd_names_are_ignored_or_kept() {
    let keep = HeadRules { ignore_invalid_headers: false, ..HeadRules::default() };
    let underscores = HeadRules { underscores_in_headers: true, ..HeadRules::default() };
    for name in ["X-F(o", "X.F", "F\u{e9}", "X/F", "\"a\"", "X_F", "_", "Content_Length", "Host@"] {
        let line = format!("{name}: 1\r\n");
        assert_eq!(kept(&line, &HeadRules::default()), Ok(vec![]), "{name}");
        assert_eq!(kept(&line, &keep), Ok(vec![(name.to_owned(), "1".to_owned())]), "{name}");
        assert_eq!(kept(&line, &underscores).unwrap().len(), usize::from(name.contains('_')), "{name}");
    }
}

#[test]
fn refused() {
    let keep = HeadRules { ignore_invalid_headers: false, underscores_in_headers: true, ..HeadRules::default() };
    for line in [
        "X-Foo : 1",
        "X-Foo\t: 1",
        "X-F\x01o: 1",
        "X-F\0o: 1",
        "X-F\x7fo: 1",
        "X Foo: 1",
        ": 1",
        "X-Foo: a\0b",
        "X-Foo: a\rb",
        "X-Foo: a\r \n",
        "X-Foo: 1\r\n  2",
        "  X-Foo: 1",
        "\tX-Foo: 1",
        "X-Foo\r: 1",
        "\rX-Foo: 1",
        "X_Foo : 1",
        "X-F(o : 1",
        "X-Foo\t",
        "X(F: a\0",
        "X-Foo: a\r",
        "\r",
    ] {
        for rules in [HeadRules::default(), keep] {
            let error = kept(&format!("{line}\r\n"), &rules);
            assert!(matches!(error, Err(RequestError::HeaderLine(_))), "{line:?}: {error:?}");
        }
    }
}

#[test]
fn the_error_points_at_the_byte() {
    let text = with_fields("X-Foo: a\rb\r\n");
    let error = bad(text.as_bytes(), &HeadRules::default());
    assert_eq!(error.span().unwrap().of(text.as_bytes()), b"X-Foo: a\r");
    assert_eq!(error.status().code(), 400);
}

#[test]
fn some_fields_come_once() {
    let rules = HeadRules::default();
    for name in [
        "Content-Length",
        "Transfer-Encoding",
        "If-Modified-Since",
        "If-Unmodified-Since",
        "If-Match",
        "If-None-Match",
        "If-Range",
        "Expect",
        "Authorization",
        "Content-Range",
        "host",
    ] {
        let text = with_fields(&format!("{name}: 0\r\n{}: 0\r\n", name.to_ascii_uppercase()));
        assert!(matches!(bad(text.as_bytes(), &rules), RequestError::DuplicateHeader(_)), "{name}");
    }
    for name in
        ["Connection", "User-Agent", "Referer", "Range", "Cookie", "Upgrade", "Via", "X-Forwarded-For", "Accept", "TE"]
    {
        let text = with_fields(&format!("{name}: a\r\n{name}: b\r\n"));
        assert_eq!(good(&text).all(HeaderId::of(name.as_bytes())).count(), 2, "{name}");
    }
}

#[test]
fn hosts() {
    let ask = |line: &str, fields: &str| {
        let text = format!("{line}\r\n{fields}\r\n");
        parse_request(text.as_bytes(), &HeadRules::default())
            .map(|head| head.unwrap().host.map(|h| h.name(text.as_bytes()).into_owned()))
    };
    let name = |n: &str| Ok(Some(n.to_owned()));
    assert_eq!(ask("GET / HTTP/1.1", "Host: A.B.:81\r\n"), name("a.b"));
    assert_eq!(ask("GET / HTTP/1.1", ""), Err(RequestError::HostMissing));
    assert_eq!(ask("GET / HTTP/1.2", ""), Err(RequestError::HostMissing));
    assert_eq!(ask("GET / HTTP/1.1", "Host:\r\n"), Err(RequestError::HostHeader));
    assert_eq!(ask("GET / HTTP/1.0", "Host:\r\n"), Err(RequestError::HostHeader));
    assert_eq!(ask("GET / HTTP/1.0", ""), Ok(None));
    assert_eq!(ask("GET http://q/ HTTP/1.1", "Host: a\r\n"), name("q"));
    assert_eq!(ask("GET http://q/ HTTP/1.1", ""), Err(RequestError::HostMissing));
    assert_eq!(ask("GET http://q/ HTTP/1.0", ""), name("q"));
    assert_eq!(ask("GET http://q/ HTTP/1.1", "Host: u@b\r\n"), Err(RequestError::HostHeader));
}

#[test]
fn the_end_of_a_head() {
    for end in ["\r\n", "\n"] {
        let text = format!("GET / HTTP/1.1\nHost: a\n{end}x");
        assert_eq!(good(&text).len as usize, text.len() - 1);
    }
    assert!(matches!(bad(with_fields("\r\r\n").as_bytes(), &HeadRules::default()), RequestError::HeaderLine(_)));
}

#[test]
fn many_fields_are_kept_in_order() {
    let fields: String = (0..100).map(|i| format!("X-{i}: {i}\r\n")).collect();
    let text = with_fields(&fields);
    let head = good(&text);
    assert_eq!(head.fields().len(), 101);
    assert_eq!(head.fields()[77].value().of(text.as_bytes()), b"76");
}

#[test]
fn lines_that_are_ignored_are_known() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\na_b: c\r\nOk: x\nd@e:  f \nfoo=bar\r\n\r\nbody: x\r\n";
    let head = parse_request(text, &HeadRules::default()).unwrap().unwrap();
    let ignored: Vec<&[u8]> = head.ignored_lines(text).collect();
    assert!(head.has_ignored);
    assert_eq!(ignored, [&b"a_b: c"[..], b"d@e:  f", b"foo=bar"]);
    let plain = b"GET / HTTP/1.1\r\nHost: a\r\nX-Y: z\r\n\r\n";
    let head = parse_request(plain, &HeadRules::default()).unwrap().unwrap();
    assert!(!head.has_ignored && head.ignored_lines(plain).next().is_none());
}
