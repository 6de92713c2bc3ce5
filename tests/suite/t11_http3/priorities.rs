//! Priorities of responses (RFC 9218): the order in which their bytes come.

use super::{content, quic};
use freerun_testkit::http3::{Http3, Http3Options};
use freerun_testkit::{DatagramRelay, NetworkFaults, Site, TestServer, require};
use std::time::Duration;

/// The files are much larger than what QUIC has of a response before it may send it, which the order does not change.
const LENGTH: usize = 3_000_000;

/// A server with two files, and a narrow way to it, so that responses wait for each other.
struct NarrowWay {
    _site: Site,
    _server: TestServer,
    relay: DatagramRelay,
}

impl NarrowWay {
    fn new() -> NarrowWay {
        let site = Site::new();
        site.file("one", content(LENGTH)).file("two", content(LENGTH));
        let server = quic(&site, "").freerun();
        let faults = NetworkFaults {
            seed: 45,
            delay: Duration::from_millis(2),
            rate: Some(4_000_000),
            queue: Duration::from_millis(30),
            lost: 0,
            repeated: 0,
            damaged: 0,
            overtaken: 0,
            rebind: None,
        };
        let relay = DatagramRelay::new(server.address_number(2), faults);
        NarrowWay { _site: site, _server: server, relay }
    }

    fn client(&self) -> Http3 {
        Http3::with(self.relay.address(), &Http3Options::new())
    }
}

fn length_of(http3: &Http3, stream: u64) -> usize {
    http3.message(stream).map_or(0, |message| message.body.len())
}

fn is_whole(http3: &Http3, stream: u64) -> bool {
    http3.message(stream).is_some_and(|message| message.whole)
}

/// Waits for the end of a response. Returns how many bytes of another one have come since its first byte.
#[track_caller]
fn meanwhile(http3: &mut Http3, stream: u64, other: u64) -> usize {
    http3.body_of(stream, 1);
    let before = length_of(http3, other);
    http3.wait("the whole response", |http3| is_whole(http3, stream));
    length_of(http3, other) - before
}

/// Receives both responses to their ends.
#[track_caller]
fn finish(http3: &mut Http3, streams: [u64; 2]) {
    for stream in streams {
        assert!(http3.answer(stream).body() == content(LENGTH));
    }
}

#[test]
fn an_urgent_response_overtakes_one_in_the_background() {
    if !require::freerun() {
        return;
    }
    let way = NarrowWay::new();
    let mut http3 = way.client();
    let background = http3.ask("GET", "/one", &[("priority", "u=7, i")]);
    http3.body_of(background, LENGTH / 20);
    let urgent = http3.ask("GET", "/two", &[("priority", "u=0")]);
    let behind = meanwhile(&mut http3, urgent, background);
    assert!(behind < LENGTH / 5, "{behind} bytes of the one in the background");
    assert!(!is_whole(&http3, background));
    finish(&mut http3, [urgent, background]);
}

#[test]
fn incremental_responses_take_turns_and_others_do_not() {
    if !require::freerun() {
        return;
    }
    let way = NarrowWay::new();
    for (priority, is_incremental) in [("u=3, i", true), ("u=3", false)] {
        let mut http3 = way.client();
        let fields = [("priority", priority)];
        let (first, second) = (http3.ask("GET", "/one", &fields), http3.ask("GET", "/two", &fields));
        http3.wait("one whole response", |http3| is_whole(http3, first) || is_whole(http3, second));
        let other = if is_whole(&http3, first) { second } else { first };
        let come = length_of(&http3, other);
        if is_incremental {
            assert!(come > LENGTH / 10 * 3, "{come} bytes of the other one");
        } else {
            assert_eq!(other, second, "the first one is asked for first");
            assert!(come < LENGTH / 4, "{come} bytes of the second one");
        }
        finish(&mut http3, [first, second]);
    }
}

#[test]
fn a_priority_may_change_while_the_response_comes() {
    if !require::freerun() {
        return;
    }
    let way = NarrowWay::new();
    let mut http3 = way.client();
    let first = http3.ask("GET", "/one", &[("priority", "u=2")]);
    let second = http3.ask("GET", "/two", &[("priority", "u=5")]);
    http3.body_of(first, LENGTH / 20);
    http3.prioritize(second, "u=0");
    let behind = meanwhile(&mut http3, second, first);
    assert!(behind < LENGTH / 5, "{behind} bytes of the one that was first");
    finish(&mut http3, [first, second]);
}
