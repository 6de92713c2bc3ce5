//! Reloads while clients are there: addresses that go and come back, and clients whose ports change.

use super::{connect, quic};
use freerun_testkit::http3::{H3End, Http3, Http3Options, LinkEnd};
use freerun_testkit::{DatagramRelay, NetworkFaults, Site, TestServer, TestUpstream, eventually, ok, require};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// H3_NO_ERROR.
const NO_ERROR: u64 = 0x100;

/// The number of reloads.
const RELOADS: usize = 50;

/// The number of datagrams after which the client has another port.
const REBIND: u32 = 50;

/// Removes the address of QUIC from the configuration.
fn remove(server: &TestServer) {
    let port = server.port_number(2);
    server.edit(&format!("listen 127.0.0.1:{port} quic reuseport;"), "");
    server.reload();
}

/// Puts the address back.
fn restore(server: &TestServer, options: &str) {
    let port = server.port_number(2);
    server.edit("server_name localhost;", &format!("server_name localhost; listen 127.0.0.1:{port} quic {options};"));
    server.reload();
}

#[test]
fn requests_of_an_address_that_goes_are_served() {
    if !require::freerun() {
        return;
    }
    for loops in [1, 3] {
        let upstream = TestUpstream::new();
        let lines =
            format!("location / {{ return 200 ok; }} location /slow {{ proxy_pass http://{}; }}", upstream.address());
        let server = quic(&Site::new(), &lines).main(&format!("worker_processes {loops};")).freerun();
        let mut idle = connect(&server);
        assert_eq!(idle.get("/").text(), "ok");
        let mut http3 = connect(&server);
        let slow = http3.ask_for("/slow");
        let mut peer = upstream.accept();
        peer.head();
        remove(&server);
        http3.wait("GOAWAY", |http3| http3.away().last() == Some(&(slow + 4)));
        assert_eq!(idle.ending(), LinkEnd::Closed(NO_ERROR, String::new()));
        // Nobody answers new connections there.
        let nobody = Http3Options::new().idle(Duration::from_millis(300));
        assert!(Http3::try_with(server.address_number(2), &nobody).is_err());
        peer.send(ok("slow"));
        let answer = http3.answer(slow);
        assert_eq!((answer.text().as_str(), answer.end), ("slow", H3End::Whole));
        assert_eq!(http3.ending(), LinkEnd::Closed(NO_ERROR, String::new()));
        // The address is free then.
        eventually("the socket is closed", || std::net::UdpSocket::bind(server.address_number(2)).is_ok());
    }
}

#[test]
fn an_address_that_comes_back_is_served_though_it_has_not_quite_gone() {
    if !require::freerun() {
        return;
    }
    for options in ["reuseport", ""] {
        let upstream = TestUpstream::new();
        let lines =
            format!("location / {{ return 200 ok; }} location /slow {{ proxy_pass http://{}; }}", upstream.address());
        let server = quic(&Site::new(), &lines).main("worker_processes 2;").freerun();
        let mut http3 = connect(&server);
        let slow = http3.ask_for("/slow");
        let mut peer = upstream.accept();
        peer.head();
        remove(&server);
        http3.wait("GOAWAY", |http3| !http3.away().is_empty());
        restore(&server, options);
        for _ in 0..10 {
            assert_eq!(connect(&server).get("/").text(), "ok");
        }
        peer.send(ok("slow"));
        assert_eq!(http3.answer(slow).text(), "slow");
    }
}

#[test]
fn many_reloads_lose_no_request_of_a_client_that_moves() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "location / { return 200 v0; }").main("worker_processes 2;").freerun();
    let relay = DatagramRelay::new(
        server.address_number(2),
        NetworkFaults {
            seed: 47,
            delay: Duration::from_millis(1),
            rate: None,
            queue: Duration::ZERO,
            lost: 0,
            repeated: 0,
            damaged: 0,
            overtaken: 0,
            rebind: Some(REBIND),
        },
    );
    let (to, stop) = (relay.address(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let asking = std::thread::spawn(move || {
        let (mut http3, mut served) = (Http3::connect(to), 0);
        while !stopped.load(Relaxed) {
            let answer = http3.get("/");
            assert_eq!((answer.status, answer.end.clone()), (200, H3End::Whole), "{answer:?} after {served}");
            served += 1;
        }
        served
    });
    for version in 1..=RELOADS {
        server.edit(&format!("200 v{}", version - 1), &format!("200 v{version}"));
        server.reload();
    }
    eventually("the client has moved", || relay.so_far().rebound > 1);
    stop.store(true, Relaxed);
    assert!(asking.join().expect("every request is served") > RELOADS);
}
