//! `proxy_cache_rfc9111 on`: what nginx does not do. No test waits for a time to be over: what is to be stale is so from its
//! beginning (`Age`, `max-age=0`).

use std::collections::HashMap;
use std::sync::Mutex;

use freerun_testkit::{AnsweringUpstream, Response, Setup, Site, TestServer, TestUpstream, require};

use crate::t15_cache::cache_flow::until_open;

/// A target, the fields of its response (`|` between them), and those of a 304 for who asks with a condition.
type Row = (&'static str, &'static str, &'static str);

/// A server whose cache follows RFC 9111, in front of one that answers by the table: each body says how often its target
/// was answered in full.
struct Node {
    server: TestServer,
    origin: AnsweringUpstream,
}

impl Node {
    fn start(rows: &'static [Row], lines: &str) -> Node {
        let counts = Mutex::new(HashMap::<String, usize>::new());
        let origin = TestUpstream::answering(move |request| {
            let target = request.target();
            let row = rows.iter().find(|row| row.0 == target);
            let (fields, renewed) = row.map_or(("", ""), |row| (row.1, row.2));
            let lines = |fields: &str| fields.split('|').map(|field| format!("{field}\r\n")).collect::<String>();
            let lines = |fields: &str| if fields.is_empty() { String::new() } else { lines(fields) };
            if request.header("If-None-Match").is_some() && !renewed.is_empty() {
                return format!("HTTP/1.1 304 Not Modified\r\n{}\r\n", lines(renewed)).into_bytes();
            }
            let mut counts = counts.lock().expect("counts");
            let count = counts.entry(target.to_owned()).or_default();
            *count += 1;
            let body = format!("answer {count} of {target}");
            format!("HTTP/1.1 200 OK\r\n{}Content-Length: {}\r\n\r\n{body}", lines(fields), body.len()).into_bytes()
        });
        let location = format!(
            "location = /status {{ status; }} location / {{ proxy_pass http://{}; proxy_cache z; {lines} }}",
            origin.address()
        );
        let http = "proxy_cache_path @DIR@/cache levels=1:2 keys_zone=z:1m; proxy_cache_rfc9111 on;
            add_header X-Cache $upstream_cache_status always;";
        let server = Setup::server(&Site::new(), &location).http(http).freerun();
        until_open(&server);
        Node { server, origin }
    }

    /// `HIT 1`: how the cache has answered, and the number in the body.
    fn says(&self, target: &str, fields: &str) -> String {
        said(&self.server.get_with(target, fields))
    }

    fn posts(&self, target: &str) {
        let request = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(self.server.send(request).status, 200);
    }
}

fn said(response: &Response) -> String {
    let text = response.text();
    let number = text.split(' ').nth(1).unwrap_or_default();
    format!("{} {number}", response.header("X-Cache").unwrap_or("-"))
}

const FRESH: &str = "Cache-Control: max-age=1000";

#[test]
fn unsafe_methods_invalidate_their_target_with_its_variants_and_what_they_name() {
    if !require::freerun() {
        return;
    }
    let rows: &[Row] = &[
        ("/a", "Cache-Control: max-age=1000|Vary: X", ""),
        ("/b", FRESH, ""),
        ("/c", FRESH, ""),
        ("/d?e", FRESH, ""),
        ("/names", "Location: /c|Content-Location: d?e", ""),
        ("/elsewhere", "Location: http://other/b", ""),
    ];
    let node = Node::start(rows, "");
    let kept = ["/b", "/c", "/d?e"];
    for target in kept {
        assert_eq!((node.says(target, ""), node.says(target, "")), ("MISS 1".into(), "HIT 1".into()));
    }
    let variants = || ["1", "2", "3"].map(|x| node.says("/a", &format!("X: {x}\r\n")));
    assert_eq!(variants(), ["MISS 1", "MISS 2", "MISS 3"]);
    assert_eq!(variants(), ["HIT 1", "HIT 2", "HIT 3"]);
    node.posts("/a");
    assert_eq!(variants(), ["MISS 5", "MISS 6", "MISS 7"], "the fourth answer was that to POST");
    assert_eq!(variants(), ["HIT 5", "HIT 6", "HIT 7"]);
    for _ in 0..1000 {
        // More than purges are remembered at a time.
        node.posts("/elsewhere");
    }
    assert_eq!(kept.map(|target| node.says(target, "")), ["HIT 1"; 3], "others stay");
    assert_eq!(variants(), ["HIT 5", "HIT 6", "HIT 7"]);
    node.posts("/names");
    assert_eq!(kept.map(|target| node.says(target, "")), ["HIT 1", "MISS 2", "MISS 2"]);
}

#[test]
fn a_304_changes_what_is_stored() {
    if !require::freerun() {
        return;
    }
    let rows: &[Row] = &[
        (
            "/a",
            "Cache-Control: max-age=0|ETag: \"x\"|A: 1|A: 2|B: 1|Date: Thu, 01 Jan 2026 00:00:00 GMT",
            "Cache-Control: max-age=1000|ETag: \"x\"|A: 3|Set-Cookie: c|Content-Encoding: y|Connection: Z|Z: 1",
        ),
        ("/gone", "Cache-Control: max-age=0|ETag: \"x\"", "Cache-Control: no-store|ETag: \"x\""),
        ("/old", "Cache-Control: max-age=100|Age: 50|ETag: \"x\"", ""),
    ];
    let node = Node::start(rows, "");
    let first = node.server.get("/a");
    assert_eq!((said(&first), first.header("Age")), ("MISS 1".into(), None));
    for expected in ["REVALIDATED 1", "HIT 1", "HIT 1"] {
        let response = node.server.get("/a");
        assert_eq!(said(&response), expected);
        let has = |name: &str| response.header(name).map(str::to_owned);
        assert_eq!((has("A"), has("B")), (Some("3".into()), Some("1".into())), "{expected}");
        assert_eq!((has("Set-Cookie"), has("Content-Encoding"), has("Z")), (None, None, None), "{expected}");
        assert_eq!(has("Cache-Control").as_deref(), Some("max-age=1000"), "{expected}");
        // It is as old as the 304, and so says its Date.
        let age: u64 = has("Age").and_then(|age| age.parse().ok()).expect("an age");
        assert!(age < 100, "{expected}: {age}");
        assert!(!has("Date").expect("a date").contains("Jan 2026"), "{expected}");
    }
    assert_eq!(node.says("/gone", ""), "MISS 1");
    assert_eq!(node.says("/gone", ""), "REVALIDATED 1");
    assert_eq!(node.says("/gone", ""), "MISS 2", "a 304 may forbid storing");
    assert_eq!(node.says("/old", ""), "MISS 1");
    let age: u64 = node.server.get("/old").header("Age").and_then(|age| age.parse().ok()).expect("an age");
    assert!((50..100).contains(&age), "{age}");
}

#[test]
fn a_304_of_another_response_renews_nothing() {
    if !require::freerun() {
        return;
    }
    let rows: &[Row] = &[
        ("/same", "Cache-Control: max-age=0|ETag: \"a\"", "ETag: \"a\"|Cache-Control: max-age=1000"),
        ("/weak", "Cache-Control: max-age=0|ETag: \"a\"", "ETag: W/\"b\"|Cache-Control: max-age=1000"),
        ("/other", "Cache-Control: max-age=0|ETag: \"a\"", "ETag: \"b\"|Cache-Control: max-age=1000"),
        ("/both", "Cache-Control: max-age=0|ETag: \"a\"", "ETag: \"b\"|ETag: \"a\"|Cache-Control: max-age=1000"),
    ];
    let node = Node::start(rows, "");
    let (renewed, another) = ("REVALIDATED 1", "EXPIRED 2");
    for (target, then) in [("/same", renewed), ("/weak", renewed), ("/other", another), ("/both", renewed)] {
        assert_eq!(node.says(target, ""), "MISS 1");
        assert_eq!(node.says(target, ""), then, "{target}");
    }
}

#[test]
fn clients_say_what_they_take() {
    if !require::freerun() {
        return;
    }
    let rows: &[Row] = &[
        ("/fresh", "Cache-Control: max-age=1000|Age: 500|ETag: \"x\"", "Cache-Control: max-age=1000|Age: 500"),
        ("/stale", "Cache-Control: max-age=100|Age: 200|ETag: \"x\"", "Cache-Control: max-age=100|Age: 200"),
        ("/strict", "Cache-Control: max-age=100, must-revalidate|Age: 200|ETag: \"x\"", "Age: 200"),
        ("/secret", FRESH, ""),
    ];
    let node = Node::start(rows, "");
    let says = |target, control: &str| node.says(target, &format!("Cache-Control: {control}\r\n"));
    assert_eq!(node.server.get_with("/fresh", "Cache-Control: only-if-cached\r\n").status, 504);
    assert_eq!(node.origin.take_requests().len(), 0);
    assert_eq!(node.says("/fresh", ""), "MISS 1");
    for (control, expected) in [
        ("max-age=900", "HIT 1"),
        ("max-age=400", "REVALIDATED 1"),
        ("max-age=0", "REVALIDATED 1"),
        ("no-cache", "REVALIDATED 1"),
        ("min-fresh=100", "HIT 1"),
        ("min-fresh=900", "REVALIDATED 1"),
        ("only-if-cached", "HIT 1"),
        ("max-age=\"900\", x=\"no-cache\"", "HIT 1"),
    ] {
        assert_eq!(says("/fresh", control), expected, "{control}");
    }
    assert_eq!(node.says("/fresh", "Pragma: no-cache\r\n"), "REVALIDATED 1");
    assert_eq!(node.says("/stale", ""), "MISS 1");
    assert_eq!(says("/stale", "max-stale"), "STALE 1");
    assert_eq!(says("/stale", "max-stale=900"), "STALE 1");
    assert_eq!(says("/stale", "max-stale=10"), "REVALIDATED 1");
    assert_eq!(node.server.get_with("/stale", "Cache-Control: only-if-cached\r\n").status, 504);
    assert_eq!(node.says("/strict", ""), "MISS 1");
    assert_eq!(says("/strict", "max-stale"), "REVALIDATED 1");
    assert_eq!((says("/secret", "no-store"), says("/secret", "no-store")), ("MISS 1".into(), "MISS 2".into()));
}

#[test]
fn what_is_stored_of_a_response() {
    if !require::freerun() {
        return;
    }
    let rows: &[Row] = &[
        ("/named", "Cache-Control: max-age=1000, no-cache=\"A\", private=\"B, C\"|A: 1|B: 2|C: 3|D: 4", ""),
        ("/connection", "Cache-Control: max-age=1000|Connection: A, B|A: 1|B: 2|D: 4", ""),
        ("/star", "Cache-Control: max-age=1000|Vary: A, *", ""),
        ("/shared", "Cache-Control: max-age=1000, public", ""),
        ("/private", FRESH, ""),
        ("/heuristic", "Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT", ""),
        ("/unsaid", "ETag: \"x\"", ""),
        ("/cookie", "Cache-Control: max-age=1000|Set-Cookie: a=b", ""),
    ];
    let node = Node::start(rows, "");
    let names = |response: &Response| ["A", "B", "C", "D"].map(|name| response.header(name).is_some());
    let first = node.server.get("/named");
    assert_eq!((said(&first), names(&first)), ("MISS 1".into(), [true; 4]));
    let second = node.server.get("/named");
    assert_eq!((said(&second), names(&second)), ("HIT 1".into(), [false, false, false, true]));
    node.server.get("/connection");
    let second = node.server.get("/connection");
    assert_eq!((said(&second), names(&second)), ("HIT 1".into(), [false, false, false, true]));
    for (target, fields, expected) in [
        ("/star", "", "MISS 2"),
        ("/shared", "Authorization: x\r\n", "HIT 1"),
        ("/private", "Authorization: x\r\n", "MISS 2"),
        ("/heuristic", "", "HIT 1"),
        ("/unsaid", "", "MISS 2"),
        ("/cookie", "", "MISS 2"),
    ] {
        assert_eq!(node.says(target, fields), "MISS 1", "{target}");
        assert_eq!(node.says(target, fields), expected, "{target}");
    }
}

#[test]
fn conditions_and_parts_of_what_is_stored() {
    if !require::freerun() {
        return;
    }
    let rows: &[Row] =
        &[("/a", "Cache-Control: max-age=1000|ETag: \"x\"|Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT", "")];
    let node = Node::start(rows, "");
    assert_eq!(node.says("/a", ""), "MISS 1");
    let old = "If-Modified-Since: Wed, 01 Jan 2014 00:00:00 GMT\r\n";
    let new = "If-Modified-Since: Fri, 01 Jan 2016 00:00:00 GMT\r\n";
    for (fields, status) in [
        (format!("If-None-Match: \"x\"\r\n{old}"), 304),
        (format!("If-None-Match: \"y\"\r\n{new}"), 200),
        (old.to_owned(), 200),
        (new.to_owned(), 304),
        ("If-Match: \"y\"\r\n".to_owned(), 412),
        ("Range: bytes=0-5\r\n".to_owned(), 206),
        ("Range: bytes=900-\r\n".to_owned(), 416),
    ] {
        let response = node.server.get_with("/a", &fields);
        assert_eq!(response.status, status, "{fields}");
        if status == 206 {
            assert_eq!(response.text(), "answer");
        }
    }
    assert_eq!(node.origin.take_requests().len(), 1);
}
