//! Networks that delay, lose, reorder, repeat and damage datagrams, and change the port of a client: what is sent arrives
//! whole, in both directions.

use super::{content, quic};
use freerun_testkit::http3::{H3End, Http3, Http3Options};
use freerun_testkit::{DatagramRelay, NetworkFaults, RelayedDatagrams, Site, TestUpstream, ok, require};
use std::time::Duration;

const LENGTH: usize = 1_000_000;

/// Sends and receives a body over a network, and returns what has happened to its datagrams.
fn carry(what: &str, faults: NetworkFaults) -> Option<RelayedDatagrams> {
    if !require::freerun() {
        return None;
    }
    let upstream = TestUpstream::answering(|request| ok(&request.body));
    let site = Site::new();
    site.file("file", content(LENGTH));
    let lines = format!("client_max_body_size 0; location /echo {{ proxy_pass http://{}; }}", upstream.address());
    let server = quic(&site, &lines).main("worker_processes 2;").freerun();
    let relay = DatagramRelay::new(server.address_number(2), faults);
    let alive = Http3Options::new().alive(Duration::from_millis(50));
    let mut http3 = Http3::with(relay.address(), &alive);
    let answer = http3.get("/file");
    assert!(answer.body() == content(LENGTH) && answer.end == H3End::Whole, "{what}: {:?}", answer.end);
    let answer = http3.post("/echo", content(LENGTH));
    assert!(answer.body() == content(LENGTH) && answer.end == H3End::Whole, "{what}: {:?}", answer.end);
    assert_eq!(http3.link().end(), None, "{what}");
    Some(relay.so_far())
}

const NONE: NetworkFaults = NetworkFaults {
    seed: 45,
    delay: Duration::from_millis(2),
    rate: None,
    queue: Duration::ZERO,
    lost: 0,
    repeated: 0,
    damaged: 0,
    overtaken: 0,
    rebind: None,
};

#[test]
fn a_long_way() {
    carry("a delay", NetworkFaults { delay: Duration::from_millis(25), ..NONE });
}

#[test]
fn a_narrow_way() {
    let faults = NetworkFaults { rate: Some(4_000_000), queue: Duration::from_millis(30), ..NONE };
    carry("a rate", faults);
}

#[test]
fn a_way_that_loses() {
    let so_far = carry("loss", NetworkFaults { lost: 20, ..NONE });
    assert!(so_far.is_none_or(|so_far| so_far.lost > 5), "{so_far:?}");
}

#[test]
fn a_way_that_reorders() {
    let so_far = carry("reordering", NetworkFaults { overtaken: 50, ..NONE });
    assert!(so_far.is_none_or(|so_far| so_far.overtaken > 10), "{so_far:?}");
}

#[test]
fn a_way_that_repeats() {
    let so_far = carry("repetition", NetworkFaults { repeated: 100, ..NONE });
    assert!(so_far.is_none_or(|so_far| so_far.repeated > 10), "{so_far:?}");
}

#[test]
fn a_way_that_damages() {
    let so_far = carry("damage", NetworkFaults { damaged: 20, ..NONE });
    assert!(so_far.is_none_or(|so_far| so_far.damaged > 5), "{so_far:?}");
}

#[test]
fn a_way_that_changes_ports() {
    let so_far = carry("new ports", NetworkFaults { rebind: Some(60), ..NONE });
    assert!(so_far.is_none_or(|so_far| so_far.rebound > 0), "{so_far:?}");
}

#[test]
fn a_way_that_does_everything() {
    let faults = NetworkFaults {
        delay: Duration::from_millis(10),
        lost: 10,
        repeated: 20,
        damaged: 10,
        overtaken: 20,
        rebind: Some(150),
        ..NONE
    };
    carry("everything", faults);
}
