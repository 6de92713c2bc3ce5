//! `proxy_cache_rfc9111`, and settings of our own.

use freerun_testkit::{TestUpstream, require};

use super::{before, ok, said};

#[test]
fn an_unsafe_method_invalidates() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| match request.line().split(' ').next() {
        Some("GET") => ok("Cache-Control: max-age=1000", request.target()),
        _ if request.target() == "/fails" => b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => ok("Location: /other", ""),
    });
    for (rfc, after) in [("on", "MISS"), ("off", "HIT")] {
        let server = before(&origin, &format!("proxy_cache_rfc9111 {rfc};"));
        for target in ["/a", "/other", "/third", "/fails"] {
            server.get(target);
        }
        server.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
        server.send("DELETE /fails HTTP/1.1\r\nHost: a\r\n\r\n");
        let told = ["/a", "/other", "/third", "/fails"].map(|target| said(&server.get(target)).0);
        assert_eq!(told, [after, after, "HIT", "HIT"], "{rfc}");
    }
}

#[test]
fn age_and_what_the_client_wants() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| ok("Cache-Control: max-age=1000|Age: 100", request.target()));
    let server = before(&origin, "proxy_cache_rfc9111 on;");
    server.get("/a");
    let hit = server.get("/a");
    assert_eq!(said(&hit).0, "HIT");
    let age: u64 = hit.header("age").and_then(|age| age.parse().ok()).expect("an age");
    assert!((100..200).contains(&age), "{age}");
    assert_eq!(hit.all("age").len(), 1);
    assert_eq!(said(&server.get_with("/a", "Cache-Control: max-age=50\r\n")).0, "EXPIRED");
    assert_eq!(server.get_with("/never", "Cache-Control: only-if-cached\r\n").status, 504);
}

#[test]
fn a_304_changes_what_is_stored() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| match request.header("if-none-match") {
        Some("\"a\"") => b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=1000\r\nX-New: yes\r\n\r\n".to_vec(),
        _ => ok("Cache-Control: max-age=0|ETag: \"a\"|X-New: no", "the body"),
    });
    let server = before(&origin, "proxy_cache_rfc9111 on;");
    assert_eq!(server.get("/a").header("x-new"), Some("no"));
    let renewed = server.get("/a");
    assert_eq!((said(&renewed), renewed.header("x-new")), (("REVALIDATED".into(), "the body".into()), Some("yes")));
    let hit = server.get("/a");
    assert_eq!((said(&hit).0.as_str(), hit.header("x-new")), ("HIT", Some("yes")));
}
