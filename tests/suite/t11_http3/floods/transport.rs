//! Frames of QUIC, and datagrams to addresses that nobody has shown to have.

use super::{Attacked, Bystander};
use crate::t11_http3::content;
use freerun_proto::h3::frame::write_varint;
use freerun_testkit::http3::{Http3, Http3Options, LinkEnd, QuicLink};
use freerun_testkit::{Datagrams, Setup, Site, require};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Codes of RFC 9000 section 20.1.
const CONNECTION_ID_LIMIT_ERROR: u64 = 0x09;
const PROTOCOL_VIOLATION: u64 = 0x0a;

/// PING, which is acknowledged.
const PING: u8 = 0x01;

/// The room for frames in a packet.
const ROOM: usize = 1100;

fn integers(frame: u8, values: &[u64]) -> Vec<u8> {
    let mut out = vec![frame];
    values.iter().for_each(|value| write_varint(*value, &mut out));
    out
}

/// As many of these frames as a packet has room for, from this number on. Returns the next number.
fn packet_of(first: u64, frame: impl Fn(u64) -> Vec<u8>) -> (Vec<u8>, u64) {
    let (mut frames, mut number) = (Vec::new(), first);
    loop {
        let next = frame(number);
        if frames.len() + next.len() > ROOM {
            return (frames, number);
        }
        frames.extend_from_slice(&next);
        number += 1;
    }
}

fn new_connection_id(sequence: u64, retired_before: u64) -> Vec<u8> {
    let mut frame = integers(0x18, &[sequence, retired_before]);
    let [.., a, b, c] = sequence.to_be_bytes();
    frame.extend_from_slice(&[8, 7, 7, 7, 7, 7, a, b, c]);
    frame.extend_from_slice(&[0x5a ^ c; 16]);
    frame
}

fn forging(attacked: &Attacked) -> Http3 {
    let mut http3 = Http3::with(attacked.server.address_number(2), &Http3Options::new().forging());
    assert_eq!(http3.get("/").text(), "ok");
    http3
}

#[test]
fn frames_that_break_the_rules_end_the_connection() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    let too_many = (1..12).flat_map(|sequence| new_connection_id(sequence + 100, 0)).collect();
    for (what, frames, code) in [
        // RFC 9000 section 13.1.
        ("an acknowledgement of what was never sent", integers(0x02, &[1 << 20, 0, 0, 0]), PROTOCOL_VIOLATION),
        // RFC 9000 sections 19.15 and 19.16.
        ("more connection IDs than allowed", too_many, CONNECTION_ID_LIMIT_ERROR),
        ("the end of an ID that was never given", integers(0x19, &[1 << 20]), PROTOCOL_VIOLATION),
        // RFC 9000 sections 19.7 and 19.20: only servers send these.
        ("a token", [&[0x07, 4][..], b"word"].concat(), PROTOCOL_VIOLATION),
        ("the end of the handshake", vec![0x1e], PROTOCOL_VIOLATION),
    ] {
        let mut http3 = forging(&attacked);
        http3.send_frames(&[&frames[..], &[PING]].concat());
        let end = http3.ending();
        assert!(matches!(end, LinkEnd::Refused(found, _) if found == code), "{what}: {end:?}");
    }
    attacked.serves_others();
    attacked.has_not_grown();
}

/// Number of packets full of frames that an attack has.
const PACKETS: usize = 1500;

/// Sends packets full of these frames, which get a running number, until the server has enough. Returns the client.
fn flood(attacked: &Attacked, mut http3: Http3, frame: impl Fn(u64) -> Vec<u8>) -> Http3 {
    let bystander = Bystander::new(&attacked.server);
    let mut number = 0;
    for _ in 0..PACKETS {
        if http3.link().end().is_some() {
            break;
        }
        let (frames, next) = packet_of(number, &frame);
        number = next;
        http3.send_frames(&frames);
    }
    bystander.has_been_served();
    attacked.serves_others();
    attacked.has_not_grown();
    http3
}

#[test]
fn connection_ids_that_are_given_and_retired_at_once() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    // The server has to retire each, and no more than a few may wait for that (RFC 9000 section 5.1.2).
    let http3 = &mut flood(&attacked, forging(&attacked), |number| new_connection_id(number + 100, number + 100));
    // The server's last word goes to an ID that the client does not know, so the client may hear of a reset alone.
    let end = http3.ending();
    assert!(matches!(end, LinkEnd::Refused(CONNECTION_ID_LIMIT_ERROR, _) | LinkEnd::Reset), "{end:?}");
}

#[test]
fn ids_that_are_retired_again_and_again() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    let mut http3 = forging(&attacked);
    // The client uses its first ID no more.
    let before = http3.stats().frame_rx.new_connection_id;
    http3.link().migrate();
    http3.ping();
    http3.wait("another ID", |http3| http3.stats().frame_rx.new_connection_id > before);
    let before = http3.stats().frame_rx.new_connection_id;
    let mut http3 = flood(&attacked, http3, |_| integers(0x19, &[0]));
    // An ID that is retired again costs no further one.
    assert_eq!(http3.stats().frame_rx.new_connection_id, before);
    assert_eq!((http3.get("/").text().as_str(), http3.link().end()), ("ok", None));
}

#[test]
fn questions_for_the_address_without_end() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    let mut http3 = flood(&attacked, forging(&attacked), |number| [&[0x1a][..], &number.to_be_bytes()].concat());
    // Each answer fills a datagram (RFC 9000 section 8.2.2), so there is no answer to most.
    let answers = http3.stats().frame_rx.path_response;
    assert!(answers > 0 && answers as usize <= 20 * PACKETS, "{answers}");
    assert_eq!((http3.get("/").text().as_str(), http3.link().end()), ("ok", None));
}

/// RFC 9000 section 8.1: three bytes for each that has come, until the client has shown that it has its address.
#[test]
fn a_handshake_is_no_amplifier() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let certificates = freerun_testkit::certificates().folder();
    let read = |name: &str| std::fs::read_to_string(certificates.join(name)).expect("a certificate");
    // The server has more to send than it may.
    site.file("long.crt", read("ec.crt") + &read("ca.crt").repeat(20));
    let server = Setup::new()
        .root(&site)
        .http(
            "server { listen 127.0.0.1:@PORT2@ quic; ssl_certificate @ROOT@/long.crt; ssl_certificate_key @CERTS@/ec.key;
                      return 200 ok; }",
        )
        .freerun();
    let to = server.address_number(2);
    let mut http3 = Http3::connect(to);
    assert_eq!(http3.get("/").text(), "ok");
    assert!(http3.link().seen().bytes > 3 * 1200, "{:?}", http3.link().seen());
    let (stranger, mut sent) = (Datagrams::new(), 0);
    for datagram in QuicLink::begin(to, &Http3Options::new()).output() {
        sent += datagram.len();
        stranger.send(&datagram, to);
    }
    let mut received = 0;
    // What is not acknowledged is sent again after a second or so.
    while let Some(datagram) = stranger.receive_within(Duration::from_millis(2500)) {
        received += datagram.len();
        assert!(received <= 3 * sent, "{received} bytes for {sent}");
    }
    assert!(received > sent, "{received} bytes for {sent}");
}

/// The same holds for an address that a client seems to have moved to (RFC 9000 section 9.3.1).
#[test]
fn a_move_is_no_amplifier() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", content(4_000_000));
    let attacked = Attacked::new(site, "location /file { }");
    let mut http3 = Http3::connect(attacked.server.address_number(2));
    assert_eq!(http3.get("/").text(), "ok");
    http3.link().forge(Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))));
    let stream = http3.ask("GET", "/file", &[("x-long", &"long-".repeat(150))]);
    // Nobody answers there.
    std::thread::sleep(Duration::from_millis(500));
    let forged = http3.link().forged();
    assert!(forged.received <= 3 * forged.sent, "{forged:?}");
    assert!(forged.received > 0, "{forged:?}");
    http3.link().forge(None);
    let answer = http3.answer(stream);
    assert!(
        answer.body() == content(4_000_000),
        "{} of {} bytes, {:?}",
        answer.status,
        answer.body().len(),
        answer.end
    );
}
