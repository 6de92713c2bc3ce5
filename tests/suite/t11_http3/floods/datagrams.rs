//! Datagrams of nobody: handshakes that are not gone on with, and bytes that are no packets.

use super::{Attacked, Bystander};
use freerun_testkit::http3::{Http3, Http3Options, QuicLink};
use freerun_testkit::{Datagrams, Site, require};

/// The number of handshakes that are begun.
const HANDSHAKES: usize = 1500;

#[test]
fn handshakes_that_are_not_gone_on_with() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    let bystander = Bystander::new(&attacked.server);
    let (to, options) = (attacked.server.address_number(2), Http3Options::new());
    for number in 0..HANDSHAKES {
        // Each has a port of its own, and hears no answer.
        QuicLink::begin(to, &options).send();
        if number % 300 == 299 {
            attacked.serves_others();
        }
    }
    bystander.has_been_served();
    let (open, retries) = (attacked.figure("/quic/open"), attacked.figure("/quic/retries"));
    // A quarter of `worker_connections`, whose default is 512, may be handshakes of addresses that nobody has shown to have.
    assert!((100..=140).contains(&open), "{open} connections are open");
    assert!(retries as usize >= HANDSHAKES / 2, "{retries} were asked for their addresses");
    // Those who answer are served.
    let mut http3 = Http3::connect(to);
    assert_eq!((http3.get("/").text().as_str(), http3.link().seen().retries), ("ok", 1));
    attacked.has_not_grown();
}

#[test]
fn connections_that_begin_at_once() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    let (to, options) = (attacked.server.address_number(2), Http3Options::new());
    // More than begin in a turn of the loop. A quarter of `worker_connections` may begin without showing their addresses.
    let mut clients: Vec<Http3> = (0..100).map(|_| Http3::begin(to, &options)).collect();
    clients.iter_mut().for_each(|client| client.link().send());
    for client in &mut clients {
        client.establish().expect("a connection");
        assert_eq!(client.get("/").text(), "ok");
    }
    assert_eq!(attacked.figure("/quic/lost_from_clients"), 0);
}

#[test]
fn bytes_that_are_no_packets() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    let bystander = Bystander::new(&attacked.server);
    let (client, to) = (Datagrams::new(), attacked.server.address_number(2));
    let mut random = 45_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for number in 0..20_000 {
        let length = (next() % 1400) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| next() as u8).collect();
        // Some look like packets of every kind, of this version or of another one.
        if let [first, version @ .., _, _] = &mut bytes[..]
            && number % 2 == 0
        {
            *first |= 0xc0;
            version.iter_mut().zip([0, 0, 0, (number % 4 / 2) as u8]).for_each(|(byte, new)| *byte = new);
        }
        if number % 5 == 0 {
            bytes.resize(1200, 0);
        }
        client.send(&bytes, to);
        if number % 500 == 0 {
            // The kernel would lose most of them otherwise.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    bystander.has_been_served();
    attacked.serves_others();
    attacked.has_not_grown();
    assert!(attacked.figure("/quic/open") < 300);
}
