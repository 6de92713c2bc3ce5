//! Clients that take nothing: windows that are held at zero, or opened by next to nothing.

use super::{Attacked, Nginx, can_be_tried};
use freerun_testkit::http2::{Frame, Http2, StreamEnd, setting};
use freerun_testkit::{ConnectionEnd, Kind, Site, TestUpstream, eventually};
use std::time::Duration;

/// A site with a file that no window holds.
fn site() -> Site {
    let site = Site::new();
    site.file("file", vec![b'x'; 4_000_000]);
    site
}

/// A connection whose streams have no window.
fn stalling(attacked: &Attacked) -> Http2 {
    let mut http2 = attacked.connect();
    http2.windows_by_hand().send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 0)])).round_trip();
    http2
}

/// CVE-2019-9511, CVE-2019-9517.
#[test]
fn streams_that_are_held_hold_no_memory_and_end() {
    let upstream = TestUpstream::answering(|_| freerun_testkit::ok(vec![b'x'; 4_000_000]));
    let lines = format!(
        "send_timeout 2s; location /file {{ }} location /up {{ proxy_max_temp_file_size 0; proxy_pass http://{}; }}",
        upstream.address()
    );
    for path in ["/file", "/up"] {
        let attacked = Attacked::new(site(), &lines);
        let mut http2 = stalling(&attacked);
        let streams: Vec<u32> = (0..100).map(|_| http2.ask_for(path)).collect();
        for stream in &streams {
            assert_eq!(http2.head(*stream), 200);
        }
        attacked.serves_others();
        attacked.has_not_grown();
        // Each stream ends, and the connection, which has none that goes on, too.
        for stream in streams {
            let answer = http2.answer(stream);
            assert!(
                !answer.is_whole() && answer.end != StreamEnd::Gone(ConnectionEnd::Silent, None),
                "{path}: {:?}",
                answer.end
            );
        }
        if attacked.server.kind() == Kind::Freerun {
            let (_, ending) = http2.end();
            assert_ne!(ending, ConnectionEnd::Silent, "{path}");
        }
        attacked.serves_others();
        eventually("the connections to the upstream are closed", || {
            attacked.server.workers().into_iter().all(|worker| established(worker, upstream.address()) == 0)
        });
    }
}

/// How many connections a process has to an address.
fn established(pid: u32, address: &str) -> usize {
    let port = address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).unwrap_or_default();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let wanted = format!(":{port:04X}");
    let open = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    // 01 is ESTABLISHED.
    open.filter(|fields| fields.len() > 3 && fields[2].ends_with(&wanted) && fields[3] == "01").count()
}

/// One stream that stands still does not end others that go on.
#[test]
fn a_stream_that_is_held_ends_alone() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(site(), "send_timeout 1s; location /file { limit_rate 500k; }");
    let mut http2 = attacked.connect();
    http2.windows_by_hand();
    // Only the windows of the second one are opened.
    let (held, going) = (http2.ask_for("/file"), http2.ask_for("/file"));
    http2.open_window(going, 8_000_000).open_window(0, 8_000_000);
    let ended = http2.answer(held);
    assert!(matches!(ended.end, StreamEnd::Reset(_)), "{:?}", ended.end);
    assert!(http2.answer(going).is_whole());
    assert_eq!(http2.get("/").text(), "ok");
    assert!(http2.away().is_empty(), "{:?}", http2.away());
}

/// A byte now and then is no progress that holds a connection for hours.
#[test]
fn windows_that_are_opened_by_a_byte() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(site(), "send_timeout 1s; location /file { }");
    attacked.ends("windows of a byte", |http2, most| {
        http2.windows_by_hand().send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 0)])).round_trip();
        let streams: Vec<u32> = (0..100).map(|_| http2.ask_for("/file")).collect();
        http2.flood(most, |_, _| streams.iter().map(|stream| Frame::window(*stream, 1)).collect())
    });
}

/// CVE-2019-9517: the windows are open, but the client does not read.
#[test]
fn a_client_that_does_not_read() {
    let attacked = Attacked::new(site(), "send_timeout 2s; location /file { }");
    let mut http2 = attacked.connect();
    http2.windows_by_hand().send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, (1 << 31) - 1)]));
    http2.open_window(0, (1 << 31) - 1 - 65_535);
    for _ in 0..100 {
        http2.ask_for("/file");
    }
    attacked.serves_others();
    attacked.has_not_grown();
    eventually("all streams have ended", || attacked.server.access_log().matches("/file").count() == 100);
    attacked.has_not_grown();
    // The server has gone, so that what the client's kernel has is all that comes.
    assert_ne!(http2.end().1, ConnectionEnd::Silent);
}

/// Requests whose bodies never end, as many as there may be.
#[test]
fn bodies_that_never_come() {
    let upstream = TestUpstream::answering(|_| freerun_testkit::ok("x"));
    let lines = format!("client_body_timeout 2s; location /up {{ proxy_pass http://{}; }}", upstream.address());
    let attacked = Attacked::new(site(), &lines);
    let mut http2 = attacked.connect();
    let streams: Vec<u32> =
        (0..100).map(|_| http2.begin(http2.block("POST", "/up").field("content-length", "9"))).collect();
    http2.round_trip();
    attacked.serves_others();
    for stream in streams {
        let answer = http2.answer(stream);
        assert!(answer.status == 408 || !answer.is_whole(), "{answer:?}");
    }
    attacked.has_not_grown();
}

/// `reset_timedout_connection` and the like change how, not whether, it ends.
#[test]
fn a_held_connection_ends_over_tls_too() {
    let site = site();
    let server = super::super::secure(&site, "send_timeout 1s;").run();
    let tls = freerun_testkit::Tls::new();
    let mut http2 = Http2::tls(server.connect(), &tls, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    http2.windows_by_hand().set_timeout(Duration::from_secs(20));
    let stream = http2.ask_for("/file");
    assert_eq!(http2.head(stream), 200);
    let answer = http2.answer(stream);
    assert!(!answer.is_whole() && answer.end != StreamEnd::Gone(ConnectionEnd::Silent, None), "{:?}", answer.end);
    if server.kind() == Kind::Freerun {
        server.logs("client timed out");
    }
}
