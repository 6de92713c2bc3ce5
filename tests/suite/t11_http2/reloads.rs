//! Connections that meet a new configuration, or the end of the server.

use super::{connect, content, plain};
use freerun_testkit::http2::{FieldBlock, Http2, StreamEnd, code, setting};
use freerun_testkit::{ConnectionEnd, Kind, Site, TestUpstream, eventually, ok, require};
use rustix::process::Signal;

#[test]
fn a_reload_is_not_noticed_by_a_connection() {
    // nginx ends its connections at a reload.
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", content(3_000_000));
    let server = plain(&site, "location /v { return 200 one; }").run();
    let worker = server.worker();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 1000)]);
    http2.windows_by_hand();
    assert_eq!(http2.get("/v").text(), "one");
    // A stream in the middle of its response goes on with what it began.
    let slow = http2.ask_for("/file");
    http2.body_of(slow, 1000);
    for (from, to) in [("one", "two"), ("two", "three"), ("three", "four")] {
        server.edit(&format!("return 200 {from}"), &format!("return 200 {to}"));
        server.edit("root ", "root /nowhere");
        server.reload();
        eventually("the new answer", || http2.get("/v").text() == to);
    }
    http2.open_window(0, 5_000_000).open_window(slow, 5_000_000);
    assert!(http2.answer(slow).body() == content(3_000_000));
    assert_eq!(http2.get("/v").text(), "four");
    assert_eq!((http2.away(), server.workers()), (&[][..], vec![worker]));
}

#[test]
fn settings_of_the_connection_are_those_that_it_began_with() {
    if !require::freerun() {
        return;
    }
    let server = plain(&Site::new(), "http2_max_concurrent_streams 5; location / { return 200 ok; }").run();
    let mut http2 = connect(&server);
    http2.greeted();
    server.edit("http2_max_concurrent_streams 5", "http2_max_concurrent_streams 50");
    server.reload();
    eventually("a connection with the new limit", || {
        let mut other = connect(&server);
        other.greeted();
        other.setting(setting::MAX_CONCURRENT_STREAMS) == 50
    });
    assert_eq!((http2.get("/").text().as_str(), http2.setting(setting::MAX_CONCURRENT_STREAMS)), ("ok", 5));
}

#[test]
fn an_upload_over_a_reload() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|request| ok(request.body.len().to_string()));
    let lines = format!("client_max_body_size 0; location / {{ proxy_pass http://{}; }}", upstream.address());
    let server = plain(&Site::new(), &lines).run();
    let mut http2 = connect(&server);
    let stream = http2.begin(http2.block("POST", "/"));
    let body = content(1_000_000);
    http2.upload(stream, &body[..500_000], false);
    server.reload();
    http2.upload(stream, &body[500_000..], true);
    assert_eq!(http2.answer(stream).text(), "1000000");
}

#[test]
fn an_idle_connection_ends_at_quit() {
    let server = &mut plain(&Site::new(), "keepalive_timeout 1h; location / { return 200 ok; }").run();
    let mut http2 = connect(server);
    assert_eq!(http2.get("/").text(), "ok");
    let mut silent = connect(server);
    silent.greeted();
    server.signal(Signal::QUIT);
    for http2 in [&mut http2, &mut silent] {
        assert_eq!(http2.end(), (Some(code::NO_ERROR), ConnectionEnd::Closed));
    }
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn streams_are_finished_at_quit() {
    let site = Site::new();
    site.file("file", content(3_000_000));
    let upstream = TestUpstream::new();
    let lines = format!("keepalive_timeout 1h; location /slow {{ proxy_pass http://{}; }}", upstream.address());
    let server = &mut plain(&site, &lines).run();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 1000)]);
    http2.windows_by_hand();
    let (file, slow) = (http2.ask_for("/file"), http2.ask_for("/slow"));
    http2.body_of(file, 1000);
    let mut peer = upstream.accept();
    peer.head();
    server.signal(Signal::QUIT);
    http2.wait("GOAWAY", |wire| !wire.away().is_empty());
    assert_eq!(http2.away()[0].code, code::NO_ERROR);
    assert!(http2.away()[0].last >= slow);
    http2.open_window(0, 5_000_000).open_window(file, 5_000_000);
    assert!(http2.answer(file).body() == content(3_000_000));
    peer.send(ok("slow"));
    let answer = http2.answer(slow);
    assert_eq!((answer.text().as_str(), answer.end), ("slow", StreamEnd::Whole));
    assert_eq!(http2.end(), (Some(code::NO_ERROR), ConnectionEnd::Closed));
    assert_eq!(server.wait().code(), Some(0));
}

/// RFC 9113 section 6.8: the first GOAWAY names no last stream, so that what is on its way is served; the second one
/// names the last one that was, so that everything else can be sent again.
#[test]
fn requests_on_their_way_at_quit_are_served_or_may_be_sent_again() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!(
        "keepalive_timeout 1h; location /slow {{ proxy_pass http://{}; }} location / {{ return 200 ok; }}",
        upstream.address()
    );
    let server = &mut plain(&Site::new(), &lines).run();
    let mut http2 = connect(server);
    let slow = http2.ask_for("/slow");
    let mut peer = upstream.accept();
    peer.head();
    server.signal(Signal::QUIT);
    http2.wait("GOAWAY", |wire| !wire.away().is_empty());
    assert_eq!((http2.away()[0].last, http2.away()[0].code), ((1 << 31) - 1, code::NO_ERROR));
    // These were sent, as far as the server knows, before the client had read GOAWAY.
    let late: Vec<u32> = (0..3).map(|_| http2.ask_for("/")).collect();
    for stream in late {
        assert_eq!(http2.answer(stream).text(), "ok");
    }
    peer.send(ok("slow"));
    assert_eq!(http2.answer(slow).text(), "slow");
    let (code, ending) = http2.end();
    assert_eq!((code, ending, http2.away().len()), (Some(code::NO_ERROR), ConnectionEnd::Closed, 2));
    assert!(http2.away()[1].last >= 7 && http2.away()[1].last < 1 << 31, "{:?}", http2.away());
    assert_eq!(server.wait().code(), Some(0));
}

/// Clients that go on asking lose nothing: each request is answered, or known not to have been begun.
#[test]
fn nothing_is_lost_under_load_at_quit() {
    let server = &mut plain(&Site::new(), "location / { return 200 ok; }").run();
    let address = server.address();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let Ok(client) = freerun_testkit::TestClient::try_connect(address) else { return (0, Vec::new()) };
                let mut http2 = Http2::new(client);
                let (mut served, mut lost) = (0, Vec::new());
                loop {
                    let stream = http2.next_stream();
                    let frame = freerun_testkit::http2::Frame::headers(stream, http2.block("GET", "/")).end();
                    if !http2.away().is_empty() || http2.try_send(&[frame]).is_err() {
                        return (served, lost);
                    }
                    let answer = http2.answer(stream);
                    match answer.end {
                        StreamEnd::Whole if answer.text() == "ok" => served += 1,
                        StreamEnd::Away(code::NO_ERROR) | StreamEnd::Reset(code::REFUSED_STREAM) => {
                            return (served, lost);
                        }
                        _ => lost.push(answer),
                    }
                    if matches!(lost.last().map(|answer| answer.end), Some(StreamEnd::Gone(..))) {
                        return (served, lost);
                    }
                }
            })
        })
        .collect();
    eventually("some requests", || server.access_log().lines().count() > 200);
    server.signal(Signal::QUIT);
    for client in clients {
        let (served, lost) = client.join().expect("a client");
        assert!(served > 0);
        // nginx names the last stream that it has seen, and may reset the connection under a request on its way.
        assert!(lost.is_empty() || server.kind() == Kind::Nginx, "{lost:?}");
    }
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn term_ends_at_once() {
    let site = Site::new();
    site.file("file", content(3_000_000));
    let server = &mut plain(&site, "").run();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    http2.windows_by_hand();
    let stream = http2.ask_for("/file");
    assert_eq!(http2.head(stream), 200);
    assert_eq!(server.stop().code(), Some(0));
    assert!(matches!(http2.answer(stream).end, StreamEnd::Gone(..) | StreamEnd::Reset(_)));
}

/// A tunnel of the configuration before ends when its time is over; the connection goes on.
#[test]
fn a_tunnel_ends_when_worker_shutdown_timeout_is_over() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let setup = plain(&Site::new(), "tunnel_pass; location = /v { return 200 one; }");
    let server = setup.main("worker_shutdown_timeout 500ms;").freerun();
    let mut http2 = connect(&server);
    let open = |http2: &mut Http2| {
        let stream =
            http2.begin(FieldBlock::new().fields(&[(":method", "CONNECT"), (":authority", &upstream.address())]));
        let peer = upstream.accept();
        assert_eq!(http2.head(stream), 200);
        (stream, peer)
    };
    let (old, mut peer) = open(&mut http2);
    server.edit("return 200 one", "return 200 two");
    server.edit("worker_shutdown_timeout 500ms", "worker_shutdown_timeout 1h");
    server.reload();
    eventually("the new answer", || http2.get("/v").text() == "two");
    let (new, mut its_peer) = open(&mut http2);
    assert_eq!(http2.reset_of(old), code::CANCEL);
    assert_eq!(peer.rest(), b"");
    http2.upload(new, b"goes on", false);
    assert_eq!(its_peer.bytes(7), b"goes on");
    assert_eq!(http2.get("/v").text(), "two");
}
