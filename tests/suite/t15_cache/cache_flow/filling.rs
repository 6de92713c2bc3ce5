//! Objects that are being fetched, and those who wait for them.

use freerun_testkit::{ConnectionEnd, TestClient, TestUpstream, eventually, require};
use rustix::process::Signal;

use super::{counting, ok, said, serve};

#[test]
fn who_comes_later_gets_what_has_come_and_the_rest_as_it_comes() {
    if !require::freerun() {
        return;
    }
    for lock in ["proxy_cache_lock on;", ""] {
        let upstream = TestUpstream::new();
        let lines = format!("{lock} location / {{ proxy_pass http://{}; }}", upstream.address());
        let server = serve(&lines, "");
        let mut first = server.connect();
        first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: 10\r\n\r\n01234");
        let half = |bytes: &[u8]| bytes.ends_with(b"\r\n\r\n01234");
        first.until(half);
        let mut second = server.connect();
        second.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        second.until(half);
        // A part of it, from behind what has come.
        let mut third = server.connect();
        third.send("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=7-8\r\n\r\n");
        peer.send("56789");
        let answers = [first.response(), second.response()].map(|response| said(&response));
        assert_eq!(answers, [("MISS".into(), "0123456789".into()), ("HIT".into(), "0123456789".into())]);
        assert!(upstream.try_accept(std::time::Duration::ZERO).is_none(), "the origin is asked once");
        // Without Accept-Ranges of the origin it is given whole, as nginx does.
        assert_eq!(said(&third.response()), ("HIT".into(), "0123456789".into()));
    }
}

/// The head, and a part of the body.
const BEGUN: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: 10\r\n\r\n01234";

/// Whoever follows a response that comes to a halt asks the origin itself, and goes on where it is; whoever comes later
/// asks, too.
#[test]
fn what_does_not_go_on_takes_nobody_with_it() {
    if !require::freerun() {
        return;
    }
    for lock in ["proxy_cache_lock on;", ""] {
        let upstream = TestUpstream::new();
        let lines =
            format!("{lock} proxy_cache_lock_age 200ms; location / {{ proxy_pass http://{}; }}", upstream.address());
        let server = serve(&lines, "");
        let mut first = server.connect();
        first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut stuck = upstream.accept();
        stuck.head();
        stuck.send(BEGUN);
        first.until(|bytes| bytes.ends_with(b"01234"));
        let mut second = server.connect();
        second.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        second.until(|bytes| bytes.ends_with(b"01234"));
        let mut peer = upstream.accept();
        peer.head();
        peer.send(format!("{BEGUN}56789"));
        assert_eq!(said(&second.response()), ("HIT".into(), "0123456789".into()), "with the own response");
        let mut third = server.connect();
        third.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head();
        peer.send(ok("Cache-Control: max-age=1000", "new"));
        assert_eq!(third.response().text(), "new");
        // It is stored, and those that follow get it.
        assert_eq!(said(&server.get("/a")), ("HIT".into(), "new".into()));
        stuck.send("56789");
        assert_eq!(said(&first.response()), ("MISS".into(), "0123456789".into()));
    }
}

/// A follower is cut only where the origin has another response by now.
#[test]
fn who_follows_what_breaks_off_goes_on_with_the_same_response_only() {
    if !require::freerun() {
        return;
    }
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: 10\r\n";
    for (first_tag, answer, goes_on) in [
        ("", format!("{head}\r\n0123456789"), true),
        ("ETag: \"a\"\r\n", format!("{head}ETag: \"a\"\r\n\r\n0123456789"), true),
        ("ETag: \"a\"\r\n", format!("{head}ETag: \"b\"\r\n\r\n0123456789"), false),
        ("", format!("{head}\r\n9876543210"), false),
        ("", "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n01234567890".to_owned(), false),
        ("", "HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\n0123456789".to_owned(), false),
    ] {
        let upstream = TestUpstream::new();
        let server = serve(&format!("location / {{ proxy_pass http://{}; }}", upstream.address()), "");
        let mut first = server.connect();
        first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut leader = upstream.accept();
        leader.head();
        leader.send(format!("{head}{first_tag}\r\n01234"));
        first.until(|bytes| bytes.ends_with(b"01234"));
        let mut second = server.connect();
        second.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        second.until(|bytes| bytes.ends_with(b"01234"));
        drop(leader);
        let mut peer = upstream.accept();
        peer.head();
        peer.send(&answer);
        if goes_on {
            assert_eq!(said(&second.response()), ("HIT".into(), "0123456789".into()), "{answer}")
        } else {
            assert!(second.try_response("GET").is_err(), "{answer}")
        }
        assert!(first.try_response("GET").is_err(), "who leads is cut, as without a cache");
    }
}

/// As long as a waiting request has nothing of the body, it waits no longer than the lock's timeout.
#[test]
fn who_waits_for_a_body_waits_no_longer_than_for_a_head() {
    if !require::freerun() {
        return;
    }
    for lock in ["proxy_cache_lock on;", ""] {
        let upstream = TestUpstream::new();
        let lines = format!(
            "{lock} proxy_cache_lock_age 1h; proxy_cache_lock_timeout 200ms; location / {{ proxy_pass http://{}; }}",
            upstream.address()
        );
        let server = serve(&lines, "");
        let mut first = server.connect();
        first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut stuck = upstream.accept();
        stuck.head();
        stuck.send(BEGUN.trim_end_matches("01234"));
        first.until(|bytes| bytes.ends_with(b"\r\n\r\n"));
        let mut second = server.connect();
        second.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head();
        peer.send(ok("Cache-Control: max-age=1000", "new"));
        assert_eq!(said(&second.response()), ("MISS".into(), "new".into()));
        stuck.send("0123456789");
        assert_eq!(said(&first.response()), ("MISS".into(), "0123456789".into()));
    }
}

#[test]
fn a_part_of_what_is_being_fetched() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = serve(&format!("location / {{ proxy_pass http://{}; }}", upstream.address()), "");
    let mut first = server.connect();
    first.send("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n");
    let mut peer = upstream.accept();
    assert!(!peer.head().contains("Range"), "the origin is asked for the whole");
    peer.send(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nAccept-Ranges: bytes\r\nContent-Length: 10\r\n\r\n01234",
    );
    assert_eq!((first.response().text(), 206), ("12".into(), 206), "it does not wait for the rest");
    let mut second = server.connect();
    second.send("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=6-7\r\n\r\n");
    peer.send("56789");
    let part = second.response();
    assert_eq!((part.status, part.text().as_str(), part.header("content-range")), (206, "67", Some("bytes 6-7/10")));
}

#[test]
fn a_client_that_leaves_does_not_end_the_fetch() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = serve(&format!("location / {{ proxy_pass http://{}; }}", upstream.address()), "");
    let mut first = server.connect();
    first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept();
    peer.head();
    first.reset();
    peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: 10\r\n\r\n01234");
    let mut second = server.connect();
    second.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut other = upstream.accept();
    other.head();
    other.send(ok("Cache-Control: max-age=1000", "other"));
    assert_eq!(said(&second.response()).0, "MISS");
    peer.send("56789");
    eventually("the response is stored", || said(&server.get("/a")) == ("HIT".into(), "0123456789".into()));
}

#[test]
fn what_was_cut_is_not_stored_and_nobody_takes_it_for_whole() {
    if !require::freerun() {
        return;
    }
    for framing in ["Content-Length: 10\r\n\r\n01234", "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n"] {
        let upstream = TestUpstream::new();
        let server = serve(&format!("location / {{ proxy_pass http://{}; }}", upstream.address()), "");
        let mut clients = [server.connect(), server.connect()];
        clients[0].send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head();
        peer.send(format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\n{framing}"));
        clients[0].at_least(60);
        clients[1].send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        clients[1].at_least(60);
        drop(peer);
        // Who follows it asks, and gets nothing either.
        let mut own = upstream.accept();
        own.head();
        drop(own);
        for mut client in clients {
            let (bytes, ending) = client.rest();
            assert!(!bytes.ends_with(b"0\r\n\r\n") && ending != ConnectionEnd::Silent, "{framing}");
        }
        let mut again = server.connect();
        again.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head();
        peer.send(ok("", "whole"));
        assert_eq!(again.response().text(), "whole", "{framing}");
    }
}

#[test]
fn what_may_not_be_stored_is_asked_for_by_each_who_waits() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!("proxy_cache_lock on; location / {{ proxy_pass http://{}; }}", upstream.address());
    let server = serve(&lines, "");
    let mut clients = [server.connect(), server.connect(), server.connect()];
    clients[0].send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut first = upstream.accept();
    first.head();
    for client in &mut clients[1..] {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    first.send(ok("Cache-Control: private|Connection: close", "mine"));
    assert_eq!(said(&clients[0].response()), ("MISS".into(), "mine".into()));
    let mut others = [upstream.accept(), upstream.accept()];
    for (number, peer) in others.iter_mut().enumerate() {
        peer.head();
        peer.send(ok("Cache-Control: private|Connection: close", number.to_string()));
    }
    let mut texts = [1, 2].map(|index| clients[index].response().text());
    texts.sort();
    assert_eq!(texts, ["0", "1"]);
}

#[test]
fn a_stale_response_is_there_at_once_while_the_origin_hangs() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!(
        "proxy_cache_use_stale updating; proxy_cache_background_update on;
         location / {{ proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = serve(&lines, "");
    let mut first = server.connect();
    first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept();
    peer.head();
    peer.send(ok("X-Accel-Expires: @1000000000", "old"));
    assert_eq!(said(&first.response()).0, "MISS");
    assert_eq!(said(&server.get("/a")), ("STALE".into(), "old".into()));
    // The origin is asked in the background, once, and does not answer.
    let mut peer = upstream.accept();
    peer.head();
    for _ in 0..3 {
        assert_eq!(said(&server.get("/a")), ("UPDATING".into(), "old".into()));
    }
    peer.send(ok("Cache-Control: max-age=1000", "new"));
    eventually("the new one is there", || said(&server.get("/a")) == ("HIT".into(), "new".into()));
    assert!(upstream.try_accept(std::time::Duration::ZERO).is_none());
}

#[test]
fn slices_are_stored_each_for_itself() {
    if !require::freerun() {
        return;
    }
    let content: Vec<u8> = (0..250_000).map(|at| (at % 251) as u8).collect();
    let body = content.clone();
    let origin = TestUpstream::answering(move |request| {
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")).expect("a range");
        let (first, last) = range.split_once('-').expect("two ends");
        let first: usize = first.parse().expect("a number");
        let end = (last.parse::<usize>().expect("a number") + 1).min(body.len());
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nETag: \"a\"\r\nContent-Range: bytes {first}-{}/{}\r\n\r\n",
            end - first,
            end - 1,
            body.len()
        );
        [head.as_bytes(), &body[first..end]].concat()
    });
    let lines = format!(
        "location / {{ slice 100k; proxy_cache_key $uri$slice_range; proxy_cache_valid 200 206 1h;
            proxy_set_header Range $slice_range; proxy_pass http://{}; }}",
        origin.address()
    );
    let server = serve(&lines, "");
    let whole = server.get("/a");
    assert_eq!(said(&whole).0, "MISS");
    assert!(whole.body == content);
    eventually("all slices are stored", || {
        let part = server.get_with("/a", "Range: bytes=90000-220000\r\n");
        assert!(part.status == 206 && part.body == content[90_000..=220_000]);
        origin.take_requests();
        said(&server.get("/a")).0 == "HIT" && origin.take_requests().is_empty()
    });
}

#[test]
fn a_reload_loses_nothing() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000");
    let server = serve(&format!("location / {{ proxy_pass http://{}; }}", origin.address()), "max_size=10m");
    assert_eq!(said(&server.get("/a")), ("MISS".into(), "/a 1".into()));
    server.edit("max_size=10m", "max_size=20m");
    server.reload();
    assert_eq!(said(&server.get("/a")), ("HIT".into(), "/a 1".into()));
    server.edit("levels=1:2", "levels=2:2");
    server.signal(Signal::HUP);
    server.logs("cache \"z\" had previously different levels");
    assert_eq!(said(&server.get("/a")), ("HIT".into(), "/a 1".into()));
}

#[test]
fn what_leaves_http_is_passed_on_for_one_client_alone() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!(
        "proxy_cache_lock on; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
         location / {{ proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = serve(&lines, "");
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head();
        peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello");
        client.until(|bytes| bytes.ends_with(b"\r\n\r\nhello"));
        client.send("ping");
        assert_eq!(peer.bytes(4), b"ping");
    }
}

/// Where there is no room for a response, nobody who follows it waits for who takes nothing of it.
#[test]
fn a_slow_client_of_what_is_not_stored_holds_nobody_up() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!("proxy_cache_lock on; location / {{ proxy_pass http://{}; }}", upstream.address());
    let server = serve(&lines, "max_size=1m");
    let cache = || server.status()["caches"][0].clone();
    let body: Vec<u8> = (0..20_000_000u32).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
    for slow_leads in [true, false] {
        let mut slow = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
        let mut quick = server.connect();
        let request = format!("GET /{slow_leads} HTTP/1.1\r\nHost: a\r\n\r\n");
        let (first, second) = if slow_leads { (&mut slow, &mut quick) } else { (&mut quick, &mut slow) };
        first.send(&request);
        let mut peer = upstream.accept();
        peer.head();
        second.send(&request);
        eventually("the other one waits", || cache()["waiting"] == 1);
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=9\r\nContent-Length: {length}\r\n\r\n");
        let answer = [head.as_bytes(), &body].concat();
        std::thread::spawn(move || peer.try_send(&answer));
        assert!(quick.response().body == body, "{slow_leads}: the quick one");
        assert!(slow.response().body == body, "{slow_leads}: the slow one");
        assert!(upstream.try_accept(std::time::Duration::ZERO).is_none(), "the origin is asked once");
    }
    assert_eq!(cache()["fills"]["stored"], 0);
}
