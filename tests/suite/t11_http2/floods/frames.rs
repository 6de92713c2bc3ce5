//! Frames that do nothing, or that are answered.

use super::{Attacked, Nginx, can_be_tried};
use freerun_testkit::http2::{FloodOutcome, Frame, Http2, flag, kind, setting};
use freerun_testkit::{Kind, Site};

/// Sends the same frames again and again, and reads the answers.
#[track_caller]
fn ends(what: &str, nginx: Nginx, frames: impl Fn(usize) -> Frame) {
    if !can_be_tried(nginx) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    attacked.ends(what, |http2, most| {
        http2.flood(most, |_, batch| (0..100).map(|number| frames(batch * 100 + number)).collect())
    });
}

/// As [`ends`], within a request that is not complete; `frame` gets its stream.
#[track_caller]
fn ends_within_a_request(what: &str, nginx: Nginx, frame: impl Fn(u32) -> Frame) {
    if !can_be_tried(nginx) {
        return;
    }
    // The body is read as it comes.
    let upstream = freerun_testkit::TestUpstream::new();
    let lines = format!(
        "location /up {{ client_max_body_size 0; proxy_request_buffering off; proxy_http_version 1.1;
                         proxy_pass http://{}; }}",
        upstream.address()
    );
    let attacked = Attacked::new(Site::new(), &lines);
    attacked.ends(what, |http2, most| {
        let stream = http2.begin(http2.block("POST", "/up"));
        http2.flood(most, |_, _| vec![frame(stream); 100])
    });
    drop(upstream);
}

/// CVE-2019-9512.
#[test]
fn pings() {
    ends("PING", Nginx::Ends, |number| Frame::ping((number as u64).to_be_bytes()));
}

#[test]
fn answers_to_pings_that_were_not_sent() {
    ends("PING with ACK", Nginx::Ends, |_| Frame::ping([0; 8]).with(flag::ACK));
}

/// CVE-2019-9515.
#[test]
fn settings() {
    ends("SETTINGS", Nginx::Ends, |_| Frame::settings(&[]));
    ends("SETTINGS with parameters", Nginx::Ends, |number| {
        Frame::settings(&[(setting::HEADER_TABLE_SIZE, (number % 2 * 4096) as u32)])
    });
}

#[test]
fn settings_that_change_the_windows_of_many_streams() {
    if !can_be_tried(Nginx::Ends) {
        return;
    }
    let site = Site::new();
    site.file("file", vec![b'x'; 100_000]);
    let attacked = Attacked::new(site, "location /file { }");
    attacked.ends("SETTINGS with many streams", |http2, most| {
        http2.windows_by_hand().send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]));
        for _ in 0..100 {
            http2.ask_for("/file");
        }
        http2.flood(most, |_, _| {
            // Half of them end at zero again.
            let change = |number: u32| Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, number % 2)]);
            (0..100).map(change).collect()
        })
    });
}

/// CVE-2019-9513.
#[test]
fn priorities() {
    ends("PRIORITY", Nginx::Ends, |number| Frame::priority(1 + 2 * (number % 1000) as u32, 0, number as u8));
    ends("PRIORITY of many streams", Nginx::Ends, |number| {
        Frame::priority(1 + 2 * number as u32, 2 * number as u32, 0)
    });
}

#[test]
fn priorities_of_rfc_9218() {
    ends("PRIORITY_UPDATE", Nginx::GoesOn, |number| Frame::priority_update(1 + 2 * number as u32, "u=0"));
}

#[test]
fn updates_of_windows() {
    ends("WINDOW_UPDATE of the connection", Nginx::GoesOn, |_| Frame::window(0, 1));
    ends_within_a_request("WINDOW_UPDATE of a stream", Nginx::GoesOn, |stream| Frame::window(stream, 1));
}

#[test]
fn frames_of_unknown_types() {
    ends("unknown frames", Nginx::GoesOn, |number| Frame::new(0xbb, 0, (number % 5) as u32, []));
    ends("unknown frames with content", Nginx::GoesOn, |_| Frame::new(0xbb, 0, 0, [0; 100]));
}

/// CVE-2019-9518.
#[test]
fn empty_data() {
    ends_within_a_request("empty DATA", Nginx::GoesOn, |stream| Frame::data(stream, []));
    ends_within_a_request("DATA of nothing but padding", Nginx::GoesOn, |stream| Frame::data(stream, []).padded(0));
}

#[test]
fn goodbyes() {
    ends("GOAWAY", Nginx::GoesOn, |_| Frame::goaway(0, 0));
}

/// One wakes the server up with each small frame, and asks for nothing.
#[test]
fn wake_ups_for_nothing() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    attacked.ends("a PING at a time", one_at_a_time);
}

fn one_at_a_time(http2: &mut Http2, most: usize) -> FloodOutcome {
    let mut answers = 0;
    http2.flood(most, |http2, _| {
        // The answer to the one before has come.
        while http2.count(kind::PING) < answers && http2.try_frame().is_ok() {}
        answers += 1;
        vec![Frame::ping([0; 8])]
    })
}

/// The attacker reads none of the answers.
#[test]
fn answers_that_nobody_reads() {
    for (what, frame) in [("PING", Frame::ping([0; 8])), ("SETTINGS", Frame::settings(&[]))] {
        let attacked = Attacked::new(Site::new(), "");
        let flooded = attacked.by(|http2| {
            let frames = vec![frame.clone(); 1000];
            // Neither what the client's kernel takes nor what the server may have in its queue is more than this.
            let sent = (0..3000).take_while(|_| http2.try_send(&frames).is_ok()).count() * 1000;
            http2.silent();
            FloodOutcome { sent, away: None, ending: None }
        });
        assert!(flooded.sent < 3_000_000 && flooded.is_ended(), "{what}: {flooded:?}");
    }
}

/// Small pieces of a body cost the server more than they are worth; but an upload in small pieces is none.
#[test]
fn an_upload_in_small_pieces_is_no_attack() {
    let upstream =
        freerun_testkit::TestUpstream::answering(|request| freerun_testkit::ok(request.body.len().to_string()));
    for buffering in ["on", "off"] {
        let lines = format!(
            "location /up {{ client_max_body_size 0; proxy_request_buffering {buffering}; proxy_http_version 1.1;
                             proxy_pass http://{}; }}",
            upstream.address()
        );
        let attacked = Attacked::new(Site::new(), &lines);
        let mut http2 = attacked.connect();
        let stream = http2.begin(http2.block("POST", "/up"));
        let piece = vec![b'x'; 1000];
        for number in 0..2000 {
            http2.upload(stream, &piece, number == 1999);
        }
        assert_eq!(http2.answer(stream).text(), "2000000", "{buffering}");
    }
}

/// What well-known clients do: a PING in every second, small windows that are opened often, many short requests.
#[test]
fn busy_clients_are_no_attackers() {
    let site = Site::new();
    site.file("file", vec![b'x'; 2_000_000]);
    let attacked = Attacked::new(site, "location /file { }");
    let mut http2 = attacked.connect();
    for _ in 0..3000 {
        assert_eq!(http2.get("/").text(), "ok");
    }
    // An update of both windows for each frame.
    http2.windows_by_hand();
    let stream = http2.ask_for("/file");
    let mut received = 0;
    while received < 2_000_000 {
        let frame = http2.frame();
        if frame.kind == kind::DATA {
            received += frame.payload.len();
            http2.open_window(0, frame.payload.len() as u32);
            if !frame.has(flag::END_STREAM) {
                http2.open_window(stream, frame.payload.len() as u32);
            }
        }
    }
    for _ in 0..200 {
        http2.round_trip();
    }
    assert_eq!(http2.get("/").text(), "ok");
    assert!(http2.away().is_empty(), "{:?}", http2.away());
    if attacked.server.kind() == Kind::Freerun {
        attacked.is_told("busy clients", 0);
    }
}
