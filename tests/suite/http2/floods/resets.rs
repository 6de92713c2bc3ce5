//! Streams that are begun and torn down.

use super::{Attacked, Nginx, can_be_tried};
use freerun_testkit::Site;
use freerun_testkit::http2::{Frame, Http2, code};

/// A request that is given up at once.
fn given_up(http2: &mut Http2, path: &str) -> [Frame; 2] {
    let stream = http2.next_stream();
    [Frame::headers(stream, http2.block("GET", path)).end(), Frame::reset(stream, code::CANCEL)]
}

/// CVE-2023-44487.
#[test]
fn rapid_reset() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    for size in [1, 20, 1000] {
        attacked.by_many(&format!("{size} at a time"), |http2, most| {
            http2.flood(most, |http2, _| (0..size).flat_map(|_| given_up(http2, "/")).collect())
        });
    }
}

impl Attacked {
    /// As [`ends`](Attacked::ends), without a look at the log.
    #[track_caller]
    fn by_many(&self, what: &str, attack: impl FnOnce(&mut Http2, usize) -> freerun_testkit::http2::Flooded) {
        let flooded = self.by(|http2| attack(http2, super::MOST));
        assert!(flooded.is_ended() && flooded.sent < super::MOST, "{what}: {flooded:?}");
        assert_eq!(flooded.code(), Some(code::ENHANCE_YOUR_CALM), "{what}: {flooded:?}");
    }
}

#[test]
fn resets_of_streams_that_have_ended() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    attacked.ends("RST_STREAM", |http2, most| {
        let stream = http2.ask_for("/");
        http2.answer(stream);
        http2.flood(most, |_, _| vec![Frame::reset(stream, code::CANCEL); 100])
    });
}

/// A browser that leaves a page gives up a hundred streams at once.
#[test]
fn a_page_that_is_left_is_no_attack() {
    let site = Site::new();
    site.file("file", vec![b'x'; 100_000]);
    let attacked = Attacked::new(site, "location /file { }");
    let mut http2 = attacked.connect();
    for _ in 0..3 {
        let streams: Vec<u32> = (0..100).map(|_| http2.ask_for("/file")).collect();
        let frames: Vec<Frame> = streams.iter().map(|stream| Frame::reset(*stream, code::CANCEL)).collect();
        http2.send_all(&frames);
        http2.round_trip();
        for _ in 0..100 {
            assert_eq!(http2.get("/").text(), "ok");
        }
    }
    assert!(http2.away().is_empty(), "{:?}", http2.away());
}
