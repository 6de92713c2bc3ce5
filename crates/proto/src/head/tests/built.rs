//! Heads that are made of the fields of HTTP/2.

use super::*;

const OFFERED: FieldRules = FieldRules {
    max_headers: 1000,
    ignore_invalid_headers: true,
    underscores_in_headers: false,
    extended_connect: true,
};

/// Builds a head of names and values.
fn built_by(rules: &FieldRules, fields: &[(&str, &str)], ends: bool) -> FieldHead {
    let mut builder = FieldHeadBuilder::new(Vec::new(), None);
    for (name, value) in fields {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        match Pseudo::of(name) {
            Some(Pseudo::Unknown) => builder.unknown_pseudo(name),
            Some(which) => builder.pseudo(which, value, rules),
            None => builder.field(HeaderId::of(name), name, value, rules),
        }
    }
    builder.finish(Version::Http2, rules, ends)
}

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":path", "/a?b"), (":authority", "h")];

/// A GET request with these fields.
fn with(fields: &[(&str, &str)]) -> FieldHead {
    built_by(&FieldRules::default(), &[&GET, fields].concat(), true)
}

/// The request with one of its pseudo-header fields changed, or removed.
fn changed(name: &str, value: Option<&str>) -> FieldHead {
    let fields = GET
        .into_iter()
        .filter_map(|(own, old)| if own == name { value.map(|value| (own, value)) } else { Some((own, old)) });
    built_by(&FieldRules::default(), &fields.collect::<Vec<_>>(), true)
}

fn text(head: &FieldHead) -> &str {
    std::str::from_utf8(&head.buffer[..head.parsed.len as usize]).unwrap()
}

fn fault(head: &FieldHead) -> Option<String> {
    head.fault.as_ref().map(ToString::to_string)
}

#[test]
fn a_request_becomes_the_text_that_http_1_has_for_it() {
    let head = with(&[("user-agent", "x/1"), ("x-a", "1"), ("accept", "*/*")]);
    assert_eq!(text(&head), "GET /a?b HTTP/2.0\r\nhost: h\r\nuser-agent: x/1\r\nx-a: 1\r\naccept: */*\r\n\r\n");
    let (parsed, buf) = (&head.parsed, &head.buffer[..]);
    assert_eq!((parsed.method, parsed.method_text.of(buf)), (Method::Get, &b"GET"[..]));
    assert_eq!(parsed.target.uri(buf), b"/a?b");
    assert_eq!((parsed.version, parsed.version_text.of(buf)), (Version::Http2, &b"HTTP/2.0"[..]));
    assert_eq!(parsed.request_line.of(buf), b"GET /a?b HTTP/2.0");
    assert_eq!(parsed.host.unwrap().name(buf), "h");
    assert_eq!(parsed.value(buf, HeaderId::Host), Some(&b"h"[..]));
    assert_eq!(parsed.value(buf, HeaderId::UserAgent), Some(&b"x/1"[..]));
    assert_eq!(parsed.variable(buf, b"x_a").next().unwrap().value().of(buf), b"1");
    assert_eq!(parsed.fields().len(), 4);
    assert_eq!((parsed.body, parsed.keep_alive, parsed.expect_continue), (BodyFraming::None, true, false));
    assert_eq!((parsed.told_len() as usize, head.fault), (buf.len(), None));
}

#[test]
fn pseudo_header_fields_may_come_in_any_order() {
    let expected = with(&[("accept", "*/*")]);
    // All orders of four.
    for order in 0..256 {
        let places = [order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6];
        if (0..4).any(|place| !places.contains(&place)) {
            continue;
        }
        let mut fields: Vec<_> = places.iter().map(|place| GET[*place]).collect();
        fields.push(("accept", "*/*"));
        let head = built_by(&FieldRules::default(), &fields, true);
        assert_eq!((text(&head), &head.parsed), (text(&expected), &expected.parsed), "{fields:?}");
    }
}

#[test]
fn a_head_is_made_in_the_memory_of_another_one() {
    let first = with(&[("x-a", "1")]);
    let place = (&raw const *first.parsed, first.buffer.as_ptr());
    let rules = FieldRules::default();
    let mut builder = FieldHeadBuilder::new(first.buffer, Some(first.parsed));
    GET.iter().for_each(|(name, value)| builder.pseudo(Pseudo::of(name.as_bytes()).unwrap(), value.as_bytes(), &rules));
    let second = builder.finish(Version::Http3, &rules, true);
    assert_eq!(text(&second), "GET /a?b HTTP/3.0\r\nhost: h\r\n\r\n");
    assert_eq!((&raw const *second.parsed, second.buffer.as_ptr()), place);
    assert_eq!((second.parsed.version, second.parsed.fields().len()), (Version::Http3, 1));
}

#[test]
fn the_host_is_that_of_the_authority_or_of_the_field() {
    for fields in
        [&[(":authority", "H:8080")][..], &[("host", "H:8080")], &[(":authority", "H:8080"), ("host", "H:8080")]]
    {
        let head = built_by(&FieldRules::default(), &[&GET[..3], fields].concat(), true);
        assert_eq!(text(&head), "GET /a?b HTTP/2.0\r\nhost: H:8080\r\n\r\n");
        let host = head.parsed.host.unwrap();
        assert_eq!((host.name(&head.buffer).as_ref(), host.port, head.fault), ("h", Some(8080), None));
    }
}

#[test]
fn the_first_fault_counts() {
    let duplicate = |name: &str| format!("client sent duplicate {name} header");
    let rows: &[(&[(&str, &str)], String)] = &[
        (&[("X-A", "1")], "client sent invalid header name: \"X-A\"".into()),
        (&[("Accept", "1")], "client sent invalid header name: \"Accept\"".into()),
        (&[("x a", "1")], "client sent invalid header name: \"x a\"".into()),
        (&[("x:a", "1")], "client sent invalid header name: \"x:a\"".into()),
        (&[("x\u{7f}a", "1")], "client sent invalid header name: \"x\u{7f}a\"".into()),
        (&[("", "1")], "client sent invalid header name: \"\"".into()),
        (&[("x", "a\nb")], "client sent header \"x\" with invalid value: \"a\nb\"".into()),
        (&[("x", "a\0")], "client sent header \"x\" with invalid value: \"a\0\"".into()),
        (&[("x", "\r")], "client sent header \"x\" with invalid value: \"\r\"".into()),
        (&[(":method", "GET")], duplicate(":method")),
        (&[(":scheme", "http")], duplicate(":scheme")),
        (&[(":path", "/")], duplicate(":path")),
        (&[(":authority", "h")], duplicate(":authority")),
        (&[(":foo", "1")], "client sent unknown pseudo-header \":foo\"".into()),
        (&[(":status", "200")], "client sent unknown pseudo-header \":status\"".into()),
        (&[(":protocol", "x")], "client sent unknown pseudo-header \":protocol\"".into()),
        (&[("x", "1"), (":path", "/")], "client sent pseudo-header \":path\" after a header".into()),
        (&[("connection", "close")], "client sent \"Connection\" header".into()),
        (&[("keep-alive", "1")], "client sent \"Keep-Alive\" header".into()),
        (&[("proxy-connection", "1")], "client sent \"Proxy-Connection\" header".into()),
        (&[("transfer-encoding", "chunked")], "client sent \"Transfer-Encoding\" header".into()),
        (&[("upgrade", "x")], "client sent \"Upgrade\" header".into()),
        (&[("te", "gzip")], "client sent invalid \"TE\" header: \"gzip\"".into()),
        (
            &[("te", "trailers"), ("te", "Trailers")],
            "client sent duplicate header line: \"te: Trailers\", previous value: \"te: trailers\"".into(),
        ),
        (
            &[("authorization", "a"), ("authorization", "b")],
            "client sent duplicate header line: \"authorization: b\", previous value: \"authorization: a\"".into(),
        ),
        (
            &[("host", "h"), ("host", "h")],
            "client sent duplicate header line: \"host: h\", previous value: \"host: h\"".into(),
        ),
        (&[("host", "H")], "client sent \":authority\" and \"Host\" headers with different values".into()),
        (&[("content-length", "+1")], "client sent invalid \"Content-Length\" header".into()),
        (
            &[("content-length", "0"), ("content-length", "0")],
            "client sent duplicate header line: \"content-length: 0\", previous value: \"content-length: 0\"".into(),
        ),
        (&[("content-length", "1")], "client prematurely closed stream".into()),
        (&[("X", "1"), ("y", "\0")], "client sent invalid header name: \"X\"".into()),
    ];
    for (fields, words) in rows {
        let head = with(fields);
        assert_eq!(fault(&head).as_deref(), Some(words.as_str()), "{fields:?}");
        let line = if words.contains("Content-Length") || words.contains("stream") { "GET /a?b HTTP/2.0" } else { "" };
        assert_eq!(head.parsed.request_line.of(&head.buffer), line.as_bytes(), "{fields:?}");
        assert_eq!(head.parsed.version_text.of(&head.buffer), b"HTTP/2.0");
    }
}

#[test]
fn pseudo_header_fields_have_to_be_right() {
    let invalid = |name: &str, value: &str| format!("client sent invalid {name} header: \"{value}\"");
    let rows = [
        (":method", None, "client sent no :method header".to_owned()),
        (":method", Some(""), "client sent empty :method header".into()),
        (":method", Some("get"), "client sent invalid method: \"get\"".into()),
        (":method", Some("G T"), "client sent invalid method: \"G T\"".into()),
        (":scheme", None, "client sent no :scheme header".into()),
        (":scheme", Some(""), "client sent empty :scheme header".into()),
        (":scheme", Some("ht!tp"), invalid(":scheme", "ht!tp")),
        (":scheme", Some("1a"), invalid(":scheme", "1a")),
        (":path", None, "client sent no :path header".into()),
        (":path", Some(""), "client sent empty :path header".into()),
        (":path", Some("x"), invalid(":path", "x")),
        (":path", Some("*"), invalid(":path", "*")),
        (":path", Some("/a b"), invalid(":path", "/a b")),
        (":path", Some("/a\u{7f}"), invalid(":path", "/a\u{7f}")),
        (":path", Some("/\n"), "client sent header \":path\" with invalid value: \"/\n\"".into()),
        (":authority", None, "client sent neither \":authority\" nor \"Host\" header".into()),
        (":authority", Some(""), "client sent invalid host header".into()),
        (":authority", Some("a b"), "client sent invalid host header".into()),
    ];
    for (name, value, words) in rows {
        assert_eq!(fault(&changed(name, value)), Some(words), "{name} {value:?}");
    }
    for (name, value) in [(":method", "G_T-X"), (":scheme", "a+1.-"), (":path", "/a#b?c"), (":path", "/\u{e9}")] {
        assert_eq!(fault(&changed(name, Some(value))), None, "{name} {value}");
    }
}

#[test]
fn what_was_understood_of_a_malformed_request_is_known() {
    let head = built_by(&FieldRules::default(), &[(":method", "HEAD"), (":foo", "1"), (":path", "/")], true);
    let (parsed, buf) = (&head.parsed, &head.buffer[..]);
    assert_eq!((parsed.method, parsed.method_text.of(buf)), (Method::Head, &b"HEAD"[..]));
    assert_eq!((parsed.version_text.of(buf), parsed.target.uri(buf)), (&b"HTTP/2.0"[..], &b"/"[..]));
    assert!(parsed.request_line.is_empty() && parsed.host.is_none());
    let head = with(&[("x", "1"), ("y", "\0"), ("z", "1")]);
    assert_eq!(head.parsed.host.unwrap().name(&head.buffer), "h");
    assert_eq!(head.parsed.fields().len(), 2);
}

#[test]
fn names_follow_the_rules_of_the_server() {
    let fields = [("x_a", "1"), ("x.b", "2"), ("x-c", "3")];
    let names = |head: &FieldHead| {
        let names = head.parsed.fields().iter().map(|field| field.name().of(&head.buffer).to_vec());
        names.map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>().join(" ")
    };
    for (ignore_invalid_headers, underscores_in_headers, kept) in [
        (true, false, "host x-c"),
        (true, true, "host x_a x-c"),
        (false, false, "host x_a x.b x-c"),
        (false, true, "host x_a x.b x-c"),
    ] {
        let rules = FieldRules { ignore_invalid_headers, underscores_in_headers, ..FieldRules::default() };
        let head = built_by(&rules, &[&GET[..], &fields].concat(), true);
        assert_eq!(names(&head), kept);
        // The server was not known when the fields came.
        let mut other = with(&fields);
        apply_name_rules(&mut other.parsed, &other.buffer, &rules);
        assert_eq!((text(&other), &other.parsed), (text(&head), &head.parsed));
    }
}

#[test]
fn white_space_around_a_value_is_malformed() {
    for value in [" a", "a ", "\ta", "a\t", " "] {
        for name in ["x", "accept", "cookie"] {
            let fault = with(&[(name, value)]).fault;
            assert!(matches!(fault, Some(FieldFault::SpaceAround { .. })), "{name}: {value:?}: {fault:?}");
        }
    }
    let head = with(&[("x", "a b"), ("y", "")]);
    assert_eq!(text(&head), "GET /a?b HTTP/2.0\r\nhost: h\r\nx: a b\r\ny: \r\n\r\n");
}

#[test]
fn cookies_become_one_field() {
    let rows: [(&[(&str, &str)], &str); 5] = [
        (&[("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3"), ("x", "1")], "cookie: a=1; b=2; c=3\r\nx: 1\r\n"),
        (&[("cookie", "a=1"), ("x", "1"), ("cookie", "b=2"), ("cookie", "c=3")], "cookie: a=1; b=2; c=3\r\nx: 1\r\n"),
        (&[("x_y", "1"), ("cookie", "a"), ("x.y", "2"), ("cookie", "b")], "x_y: 1\r\ncookie: a; b\r\nx.y: 2\r\n"),
        (&[("cookie", ""), ("cookie", "b=2"), ("cookie", "")], "cookie: b=2\r\n"),
        (&[("cookie", ""), ("cookie", "")], "cookie: \r\n"),
    ];
    for (fields, expected) in rows {
        let head = with(fields);
        assert_eq!(text(&head), format!("GET /a?b HTTP/2.0\r\nhost: h\r\n{expected}\r\n"));
        assert_eq!(head.parsed.all(HeaderId::Cookie).count(), 1);
        assert_eq!(head.parsed.host.unwrap().name(&head.buffer), "h");
        let cookies = expected.lines().find_map(|line| line.strip_prefix("cookie: ")).unwrap();
        assert_eq!(head.parsed.value(&head.buffer, HeaderId::Cookie), Some(cookies.as_bytes()));
    }
}

#[test]
fn many_scattered_cookies_are_gathered_once() {
    let fields: Vec<_> = (0..20_000).flat_map(|_| [("cookie", "a"), ("x", "")]).collect();
    let rules = FieldRules { max_headers: 0, ..FieldRules::default() };
    let head = built_by(&rules, &[&GET[..], &fields].concat(), true);
    assert_eq!(head.parsed.value(&head.buffer, HeaderId::Cookie).unwrap().len(), 20_000 * 3 - 2);
    assert_eq!(head.parsed.fields().len(), 20_002);
}

#[test]
fn fields_are_counted_but_not_those_that_become_one() {
    let rules = FieldRules { max_headers: 3, ..FieldRules::default() };
    let fields = [("x", "1"), ("x_y", "2"), ("cookie", "a"), ("cookie", "b"), ("x", "3"), ("x", "4")];
    let of = |count: usize| fault(&built_by(&rules, &[&GET[..], &fields[..count]].concat(), true));
    assert_eq!(of(5), None);
    assert_eq!(of(6).as_deref(), Some("client sent too many header lines"));
}

#[test]
fn the_length_of_a_body_is_what_the_client_says_or_unknown() {
    let body = |fields: &[(&str, &str)], ends| {
        let head = built_by(&FieldRules::default(), &[&GET[..], fields].concat(), ends);
        assert_eq!(head.fault, None);
        (head.parsed.body, head.parsed.expect_continue)
    };
    let (length, expect) = (("content-length", "5"), ("expect", "100-Continue"));
    assert_eq!(body(&[], true), (BodyFraming::None, false));
    assert_eq!(body(&[("content-length", "0")], true), (BodyFraming::Length(0), false));
    assert_eq!(body(&[length], false), (BodyFraming::Length(5), false));
    assert_eq!(body(&[expect], false), (BodyFraming::Chunked, true));
    assert_eq!(body(&[expect], true), (BodyFraming::None, false));
}

#[test]
fn connect_names_an_authority() {
    let connect = |fields: &[(&str, &str)]| {
        built_by(&FieldRules::default(), &[&[(":method", "CONNECT")], fields].concat(), false)
    };
    let head = connect(&[(":authority", "h:80"), ("x", "1")]);
    assert_eq!(text(&head), "CONNECT h:80 HTTP/2.0\r\nhost: h:80\r\nx: 1\r\n\r\n");
    let parsed = &head.parsed;
    assert_eq!(
        (parsed.method, parsed.target.form, parsed.body),
        (Method::Connect, TargetForm::Authority, BodyFraming::None)
    );
    assert_eq!(parsed.request_line.of(&head.buffer), b"CONNECT h:80 HTTP/2.0");
    let host = parsed.host.unwrap();
    assert_eq!((host.name(&head.buffer).as_ref(), host.port, head.fault.as_ref()), ("h", Some(80), None));
    assert!(parsed.target.uri.is_empty() && !head.is_extended_connect);
    let words = |fields| fault(&connect(fields)).unwrap();
    assert_eq!(words(&[(":authority", "h")]), "client sent invalid :authority header: \"h\"");
    assert_eq!(words(&[("host", "h:80")]), "client sent no :authority header");
    assert_eq!(words(&[(":authority", "h:80"), (":path", "/")]), "client sent no :scheme header");
    assert_eq!(words(&[(":authority", "h:80"), (":scheme", "http")]), "client sent no :path header");
    // It is refused as a method, not as a malformed request.
    let head = connect(&[(":authority", "h:80"), (":scheme", "http"), (":path", "/")]);
    assert_eq!((head.parsed.method, head.parsed.target.form, head.fault), (Method::Connect, TargetForm::Origin, None));
}

#[test]
fn an_extended_connect_becomes_an_upgrade() {
    let expected = "GET /chat HTTP/2.0\r\nhost: h\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                    sec-websocket-version: 13\r\n\r\n";
    let pseudo = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/chat")];
    for turn in 0..4 {
        let mut fields = pseudo.to_vec();
        fields.push((":authority", "h"));
        fields.rotate_left(turn);
        fields.push(("sec-websocket-version", "13"));
        let head = built_by(&OFFERED, &fields, false);
        assert_eq!((text(&head), &head.fault), (expected, &None));
        let (parsed, buf) = (&head.parsed, &head.buffer[..]);
        assert_eq!((parsed.method, parsed.method_text.of(buf)), (Method::Get, &b"GET"[..]));
        assert_eq!(parsed.value(buf, HeaderId::Upgrade), Some(&b"websocket"[..]));
        assert_eq!(parsed.value(buf, HeaderId::Connection), Some(&b"upgrade"[..]));
        assert_eq!((parsed.host.unwrap().name(buf).as_ref(), parsed.body), ("h", BodyFraming::None));
        assert!(head.is_extended_connect);
    }
    let words = |fields: &[(&str, &str)]| fault(&built_by(&OFFERED, fields, false)).unwrap();
    assert_eq!(
        words(&[&GET[..], &[(":protocol", "x")]].concat()),
        "client sent :protocol header without CONNECT method"
    );
    assert_eq!(words(&[(":method", "CONNECT"), (":protocol", "a b")]), "client sent invalid :protocol header: \"a b\"");
    assert_eq!(words(&[pseudo[0], pseudo[1], (":authority", "h")]), "client sent no :scheme header");
    assert_eq!(
        words(&[&pseudo[..], &[(":authority", "h"), ("upgrade", "x")]].concat()),
        "client sent \"Upgrade\" header"
    );
}
