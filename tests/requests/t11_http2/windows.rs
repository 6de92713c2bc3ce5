//! Flow control, and how many streams share a connection.

use super::{connect, content, plain, secure};
use crate::worker::InProcess;
use freerun_testkit::http2::{Frame, Http2, StreamEnd, Wire, code, flag, kind, setting};
use freerun_testkit::{ConnectionEnd, Site, Tls, require};

#[test]
fn what_the_server_says_of_itself() {
    let lines = "http2_max_concurrent_streams 33; http2_body_preread_size 70000;";
    let server = plain(&Site::new(), lines).run_in_process();
    let mut http2 = connect(&server);
    http2.greeted();
    let said = [setting::MAX_CONCURRENT_STREAMS, setting::INITIAL_WINDOW_SIZE, setting::MAX_FRAME_SIZE];
    let [streams, window, frame] = said.map(|name| http2.setting(name));
    assert_eq!((streams, window), (33, 70_000));
    assert!(frame >= 16_384);
    assert_eq!(http2.setting(setting::HEADER_TABLE_SIZE), 4096);
}

#[test]
fn the_usual_settings() {
    let server = plain(&Site::new(), "").run_in_process();
    let mut http2 = connect(&server);
    http2.greeted();
    assert_eq!(http2.setting(setting::MAX_CONCURRENT_STREAMS), 128);
    assert!(http2.setting(setting::INITIAL_WINDOW_SIZE) >= 65_535);
    http2.round_trip();
    assert!(http2.room(0) > 65_535, "the window of the connection is no limit");
}

#[test]
fn windows_of_a_few_bytes() {
    let site = Site::new();
    site.file("file", content(3000));
    for sendfile in ["on", "off"] {
        let server = plain(&site, &format!("sendfile {sendfile};")).run_in_process();
        for size in [1, 7, 1000] {
            let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, size)]);
            let streams = [http2.ask_for("/file"), http2.ask_for("/file")];
            for stream in streams {
                assert!(http2.answer(stream).body() == content(3000), "windows of {size} bytes");
            }
        }
    }
}

#[test]
fn nothing_comes_while_the_windows_are_closed() {
    let site = Site::new();
    site.file("file", content(100_000));
    let server = plain(&site, "location /ok { return 200 ok; }").run_in_process();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    http2.windows_by_hand();
    let stream = http2.ask_for("/file");
    assert_eq!(http2.head(stream), 200);
    http2.round_trip();
    let received = |http2: &Http2| http2.message(1).map_or(0, |message| message.body.len());
    assert_eq!(received(&http2), 0);
    // Exactly as much as is allowed comes.
    let mut allowed = 0;
    for more in [1, 2, 10, 10_000] {
        allowed += more;
        http2.open_window(stream, more);
        http2.body_of(stream, allowed as usize);
        http2.round_trip();
        assert_eq!(received(&http2), allowed as usize);
    }
    // A head is not subject to windows.
    let other = http2.ask(http2.block("HEAD", "/ok"));
    assert_eq!(http2.answer(other).status, 200);
    // The window of the stream does not help where that of the connection is used up.
    http2.open_window(stream, 100_000);
    http2.body_of(stream, 65_535);
    http2.round_trip();
    assert_eq!(received(&http2), 65_535);
    http2.open_window(0, 100_000);
    assert!(http2.answer(stream).body() == content(100_000));
}

#[test]
fn a_setting_opens_and_closes_windows_of_streams() {
    let site = Site::new();
    site.file("file", content(50_000));
    let server = plain(&site, "").run_in_process();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 100)]);
    http2.windows_by_hand();
    let stream = http2.ask_for("/file");
    http2.body_of(stream, 100);
    http2.send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 5000)]));
    http2.body_of(stream, 5000);
    // The window is 4000 below zero now.
    http2.send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 1000)])).round_trip();
    http2.open_window(stream, 4000).round_trip();
    assert_eq!(http2.message(stream).map(|message| message.body.len()), Some(5000));
    http2.open_window(stream, 45_000);
    assert!(http2.answer(stream).body() == content(50_000));
}

#[test]
fn windows_that_are_too_large() {
    let site = Site::new();
    site.file("file", content(10));
    let server = plain(&site, "").run_in_process();
    let mut http2 = connect(&server);
    http2.send(Frame::window(0, (1 << 31) - 1));
    assert_eq!(http2.end(), (Some(code::FLOW_CONTROL_ERROR), ConnectionEnd::Closed));
    let mut http2 = connect(&server);
    http2.send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)]));
    assert_eq!(http2.end(), (Some(code::FLOW_CONTROL_ERROR), ConnectionEnd::Closed));
    let mut http2 = connect(&server);
    http2.send(Frame::window(0, 0));
    assert_eq!(http2.end(), (Some(code::PROTOCOL_ERROR), ConnectionEnd::Closed));
}

#[test]
fn frames_are_no_longer_than_allowed() {
    let site = Site::new();
    site.file("file", content(1_000_000));
    for (lines, settings, most) in [
        ("", &[][..], 8192),
        ("http2_chunk_size 1000;", &[], 1000),
        ("http2_chunk_size 64k;", &[], 16_384),
        ("http2_chunk_size 64k;", &[(setting::MAX_FRAME_SIZE, 20_000)], 20_000),
        (
            "http2_chunk_size 64k;",
            &[(setting::MAX_FRAME_SIZE, 1 << 20), (setting::INITIAL_WINDOW_SIZE, 1 << 20)],
            65_536,
        ),
    ] {
        let server = plain(&site, lines).run_in_process();
        let mut http2 = Http2::with(server.connect(), settings);
        http2.open_window(0, 2_000_000);
        assert!(http2.get("/file").body() == content(1_000_000));
        let longest = http2.seen().iter().filter(|seen| seen.kind == kind::DATA).map(|seen| seen.length).max();
        assert!(longest.is_some_and(|longest| longest <= most), "{lines}: {longest:?}");
    }
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let site = Site::new();
    site.file("file", content(100_000));
    let server = plain(&site, "http2_max_concurrent_streams 4; location /ok { return 200 ok; }").run_in_process();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    http2.windows_by_hand();
    http2.greeted();
    let open: Vec<u32> = (0..4).map(|_| http2.ask_for("/file")).collect();
    for _ in 0..10 {
        let refused = http2.ask_for("/file");
        assert_eq!(http2.answer(refused).end, StreamEnd::Reset(code::REFUSED_STREAM));
    }
    // What was there before goes on.
    http2.open_window(0, 1_000_000);
    for stream in open {
        http2.open_window(stream, 100_000);
        assert!(http2.answer(stream).body() == content(100_000));
    }
    http2.send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 65_535)]));
    assert_eq!(http2.get("/ok").text(), "ok");
}

#[test]
fn a_stream_that_was_given_up_makes_room() {
    let site = Site::new();
    site.file("file", content(100_000));
    let server = plain(&site, "http2_max_concurrent_streams 2; location /ok { return 200 ok; }").run_in_process();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    http2.windows_by_hand();
    http2.greeted();
    for _ in 0..20 {
        let streams = [http2.ask_for("/file"), http2.ask_for("/file")];
        for stream in streams {
            assert_eq!(http2.head(stream), 200);
            http2.send(Frame::reset(stream, code::CANCEL));
        }
        http2.round_trip();
    }
    http2.send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 65_535)]));
    assert_eq!(http2.get("/ok").text(), "ok");
}

/// A megabyte of text that is in memory, so that no stream waits for a disk.
const LONG: &str = "location /long {
    set $text 0123456789; set $text $text$text$text$text$text$text$text$text$text$text;
    set $text $text$text$text$text$text$text$text$text$text$text;
    set $text $text$text$text$text$text$text$text$text$text$text;
    set $text $text$text$text$text$text$text$text$text$text$text;
    set $text $text$text$text$text$text$text$text$text$text$text;
    return 200 $text;
}";

/// Asks for a megabyte on each stream, with these values of `priority` (RFC 9218). When all are ready, the window
/// of the connection is opened step by step, so that the server has to choose each time, however fast it is. Returns the
/// streams.
fn at_the_same_time(http2: &mut Http2, priorities: &[&str]) -> Vec<u32> {
    const STEP: usize = 50_000;
    http2.windows_by_hand();
    let ask = |http2: &mut Http2, priority: &str| http2.ask(http2.block("GET", "/long").field("priority", priority));
    let streams: Vec<u32> = priorities.iter().map(|priority| ask(http2, priority)).collect();
    for stream in &streams {
        assert_eq!(http2.head(*stream), 200);
    }
    http2.send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 2_000_000)])).round_trip();
    let received = |wire: &Wire, stream: &u32| wire.message(*stream).map_or(0, |message| message.body.len());
    let (mut open, all) = (65_535, streams.len() * 1_000_000);
    while open < all {
        http2.wait("all that the window allows", |wire| {
            streams.iter().map(|stream| received(wire, stream)).sum::<usize>() == open
        });
        http2.open_window(0, STEP as u32);
        open += STEP;
    }
    for stream in &streams {
        http2.wait("a whole response", |wire| wire.message(*stream).is_some_and(|message| message.whole));
        assert!(http2.message(*stream).is_some_and(|message| message.body == b"0123456789".repeat(100_000)));
    }
    streams
}

/// How much of a stream came before the end of another one.
fn before_the_end(http2: &Http2, of: u32, other: u32) -> usize {
    let data: Vec<_> = http2.seen().iter().filter(|seen| seen.kind == kind::DATA).collect();
    let end = data.iter().position(|seen| seen.stream == other && seen.flags & flag::END_STREAM != 0).expect("an end");
    data[..end].iter().filter(|seen| seen.stream == of).map(|seen| seen.length).sum()
}

#[test]
fn incremental_responses_share_a_connection_evenly() {
    // nginx does not know this field.
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    for tls in [false, true] {
        let server = if tls { secure(&site, LONG) } else { plain(&site, LONG) }.run_in_process();
        let settings = &[(setting::INITIAL_WINDOW_SIZE, 0)];
        let mut http2 = if tls {
            Http2::tls(server.connect(), &Tls::new(), settings)
        } else {
            Http2::with(server.connect(), settings)
        };
        let streams = at_the_same_time(&mut http2, &["i", "u=3, i", "i", "i, u=3"]);
        for of in &streams {
            for other in streams.iter().filter(|other| *other != of) {
                let before = before_the_end(&http2, *of, *other);
                assert!(before > 500_000, "{before} bytes of {of} before the end of {other}, tls {tls}");
            }
        }
    }
}

#[test]
fn urgent_responses_come_first() {
    if !require::freerun() {
        return;
    }
    let server = plain(&Site::new(), LONG).run_in_process();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    let streams = at_the_same_time(&mut http2, &["u=5", "u=1, i", "u=1, i", "u=0"]);
    // The first window is given away before all are ready, and another one where the request of an urgent stream was not
    // in time with more of its body. Without an order, it would be nearly all.
    const BEGUN: usize = 400_000;
    assert!(before_the_end(&http2, streams[0], streams[1]) < BEGUN);
    assert!(before_the_end(&http2, streams[0], streams[2]) < BEGUN);
    assert!(before_the_end(&http2, streams[1], streams[3]) < BEGUN);
    // A later word of the client counts.
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    // The connection rests in between.
    http2.send(Frame::priority_update(3, "u=0")).round_trip();
    let streams = at_the_same_time(&mut http2, &["u=2", "u=5"]);
    assert!(before_the_end(&http2, streams[0], streams[1]) < BEGUN);
}

#[test]
fn a_response_that_waits_does_not_hold_up_others() {
    let upstream = freerun_testkit::TestUpstream::new();
    let lines =
        format!("location /slow {{ proxy_pass http://{}; }} location / {{ return 200 ok; }}", upstream.address());
    let server = plain(&Site::new(), &lines).run_in_process();
    let mut http2 = connect(&server);
    let slow = http2.ask_for("/slow");
    let mut peer = upstream.accept();
    peer.head();
    for _ in 0..50 {
        assert_eq!(http2.get("/").text(), "ok");
    }
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
    assert_eq!(http2.answer(slow).text(), "slow");
}
