//! One client must not choose what another one gets.

use freerun_testkit::{TestUpstream, require};

use super::{before, counting, ok, said};

#[test]
fn the_body_of_a_get_is_nobody_elses() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| {
        ok("Cache-Control: max-age=1000", format!("{}{}", request.target(), String::from_utf8_lossy(&request.body)))
    });
    let server = before(&origin, "");
    let fat = "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nevil";
    assert_eq!(said(&server.send(fat)), ("MISS".into(), "/aevil".into()));
    let chunked = "GET /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n";
    assert_eq!(said(&server.send(chunked)), ("MISS".into(), "/aevil".into()));
    assert_eq!(said(&server.get("/a")), ("MISS".into(), "/a".into()));
    assert_eq!(said(&server.get("/a")), ("HIT".into(), "/a".into()));
}

#[test]
fn head_is_never_an_answer_to_get() {
    if !require::freerun() {
        return;
    }
    for convert in ["on", "off"] {
        let origin = TestUpstream::answering(|request| {
            let whole = ok("Cache-Control: max-age=1000", "the body");
            if request.line().starts_with("HEAD") { whole[..whole.len() - 8].to_vec() } else { whole }
        });
        let server = before(&origin, &format!("proxy_cache_convert_head {convert};"));
        for _ in 0..2 {
            let mut client = server.connect();
            client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.response_to("HEAD").header("content-length"), Some("8"));
        }
        assert_eq!(server.get("/a").text(), "the body", "{convert}");
        assert_eq!(said(&server.get("/a")), ("HIT".into(), "the body".into()));
        let asked: Vec<_> = origin.take_requests().iter().map(|request| request.line().to_owned()).collect();
        let want: &[&str] = if convert == "on" { &["GET"] } else { &["HEAD", "GET"] };
        assert!(
            asked.len() == want.len() && asked.iter().zip(want).all(|(line, start)| line.starts_with(start)),
            "{asked:?}"
        );
    }
}

#[test]
fn ambiguous_requests_come_to_no_cache() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000");
    let server = before(&origin, "proxy_cache_key $host$request_uri;");
    for request in [
        "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\nxx",
        "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        assert_eq!(server.send(request).status, 400, "{request:?}");
    }
    assert!(origin.take_requests().is_empty());
}

#[test]
fn what_a_client_asks_a_part_of_is_stored_whole() {
    if !require::freerun() {
        return;
    }
    for field in [
        "Range: bytes=0-1",
        "If-Range: \"x\"",
        "If-None-Match: *",
        "If-Modified-Since: Sat, 21 Nov 2099 13:42:48 GMT",
        "If-Match: \"x\"",
        "If-Unmodified-Since: Sat, 21 Nov 1999 13:42:48 GMT",
        "rAnGe: bytes=0-1",
    ] {
        let origin = TestUpstream::answering(|request| {
            let names = ["range", "if-range", "if-none-match", "if-modified-since", "if-match", "if-unmodified-since"];
            let asked = names.iter().any(|name| request.header(name).is_some());
            ok("Cache-Control: max-age=1000|ETag: \"a\"", if asked { "poison" } else { "whole" })
        });
        let server = before(&origin, "");
        server.get_with("/a", &format!("{field}\r\n"));
        assert_eq!(said(&server.get("/a")), ("HIT".into(), "whole".into()), "{field}");
    }
}

#[test]
fn what_is_asked_for_is_what_it_is_found_by() {
    if !require::freerun() {
        return;
    }
    // Paths that a server behind may take for one another, or not: each is stored as it was passed on.
    let targets = [
        "/a/b",
        "/a%2fb",
        "/a%2Fb",
        "/a/b?",
        "/a/b?c",
        "/a/b;c",
        "/a/b%3Fc",
        "/a/b%3fc",
        "/a/b/",
        "/A/b",
        "/a/b.css",
        "/a/b%2ecss",
        "/a/x/../b?d",
        "/a//b",
        "/a/./b?e",
    ];
    let origin = TestUpstream::answering(|request| ok("Cache-Control: max-age=1000", request.target()));
    for lines in ["", "location /a { proxy_pass http://@; }", "merge_slashes off;"] {
        let lines = lines.replace("http://@", &format!("http://{}", origin.address()));
        let server = before(&origin, &lines);
        for target in targets {
            server.get(target);
        }
        let passed: Vec<String> = origin.take_requests().iter().map(|request| request.target().to_owned()).collect();
        for target in targets {
            let response = server.get(target);
            assert!(passed.contains(&response.text()), "{target}");
            assert_eq!(said(&response), ("HIT".into(), server.get(target).text()), "{target}");
            assert_eq!(response.text(), target, "the text is the target that was passed on");
        }
    }
}

#[test]
fn fields_that_choose_are_kept_apart() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| {
        let host = request.header("x-forwarded-host").unwrap_or("none").to_owned();
        ok("Cache-Control: max-age=1000|Vary: X-Forwarded-Host", host)
    });
    let server = before(&origin, "");
    let get = |fields: &str| said(&server.get_with("/a", fields)).1;
    assert_eq!(get("X-Forwarded-Host: evil\r\n"), "evil");
    assert_eq!((get(""), get("x-forwarded-host: evil\r\n"), get("")), ("none".into(), "evil".into(), "none".into()));
}

#[test]
fn cookies_are_not_shared() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| {
        let who = request.header("cookie").unwrap_or("nobody").to_owned();
        ok(&format!("Cache-Control: max-age=1000|Set-Cookie: id={who}"), who)
    });
    let server = before(&origin, "");
    assert_eq!(said(&server.get_with("/a", "Cookie: x\r\n")), ("MISS".into(), "x".into()));
    assert_eq!(said(&server.get("/a")), ("MISS".into(), "nobody".into()));
}

/// What an origin looks at without saying so (`Vary`) is stored for everybody, as in nginx. `proxy_set_header` keeps a client from
/// saying it.
#[test]
fn fields_that_the_proxy_sets_are_never_the_clients() {
    if !require::freerun() {
        return;
    }
    const NAMES: [&str; 3] = ["x-forwarded-host", "x-forwarded-for", "x-forwarded-proto"];
    let origin = TestUpstream::answering(|request| {
        let is_one = |line: &&str| line.to_ascii_lowercase().replace('_', "-").starts_with("x-forwarded");
        let seen: Vec<&str> = request.head.lines().filter(is_one).collect();
        ok("Cache-Control: max-age=1000", seen.join(", "))
    });
    let set = "proxy_set_header X-Forwarded-Host shop; proxy_set_header X-Forwarded-For $remote_addr;
               proxy_set_header X-Forwarded-Proto \"\";";
    let server = before(&origin, set);
    let mut tricks: Vec<String> = NAMES.iter().map(|name| format!("{name}: evil\r\n")).collect();
    tricks.extend(NAMES.iter().map(|name| format!("{0}: evil\r\n{1}: evil\r\n", name.to_uppercase(), name)));
    tricks.extend(NAMES.iter().map(|name| format!("{}: evil\r\n", name.replace('-', "_"))));
    for (number, fields) in tricks.iter().enumerate() {
        let target = format!("/{number}");
        server.get_with(&target, fields);
        let want = "X-Forwarded-Host: shop, X-Forwarded-For: 127.0.0.1";
        assert_eq!(said(&server.get(&target)), ("HIT".into(), want.into()), "{fields}");
    }
}
