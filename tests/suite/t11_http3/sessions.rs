//! Handshakes, keys, addresses and what they need: QUIC itself.

use super::{connect, content, quic, quic_with};
use freerun_testkit::http3::{H3End, Http3, Http3Options, LinkEnd};
use freerun_testkit::{Datagrams, Site, TestServer, eventually, require};
use rustix::process::Signal;
use std::time::Duration;

#[test]
fn client_certificates_are_verified() {
    if !require::freerun() {
        return;
    }
    let lines = "ssl_client_certificate @CERTS@/ca.crt; ssl_verify_client on; return 200 \"$ssl_client_verify\";";
    let server = quic(&Site::new(), lines).freerun();
    let to = server.address_number(2);
    let with = |name: &str| Http3::with(to, &Http3Options::new().tls(|tls| tls.certificate(name)));
    assert_eq!(with("client").get("/").text(), "SUCCESS");
    for mut refused in [connect(&server), with("client-other"), with("client-stale")] {
        let answer = refused.get("/");
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    assert_eq!(with("client").get("/").text(), "SUCCESS");
}

#[test]
fn clients_are_told_why_they_get_no_session() {
    if !require::freerun() {
        return;
    }
    let server = quic_with(
        &Site::new(),
        "server { listen 127.0.0.1:@PORT2@ quic; server_name refused; ssl_reject_handshake on; }
         server { listen 127.0.0.1:@PORT2@ quic; server_name broken; ssl_certificate $ssl_server_name.crt;
                  ssl_certificate_key $ssl_server_name.key; }",
        "return 200 $ssl_server_name;",
    )
    .freerun();
    let end_for = |name: &str| Http3::try_with(server.address_number(2), &Http3Options::new().name(name)).err();
    for (name, alert) in [("refused", 112), ("broken", 80)] {
        let end = end_for(name);
        assert!(matches!(end, Some(LinkEnd::Refused(code, _)) if code == 0x100 + alert), "{name}: {end:?}");
    }
    assert_eq!(connect(&server).get("/").text(), "localhost");
}

#[test]
fn addresses_are_validated_by_retry_and_by_tokens() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "quic_retry on; return 200 ok;").freerun();
    let options = Http3Options::new().resuming();
    let mut http3 = Http3::with(server.address_number(2), &options);
    assert_eq!((http3.get("/").text().as_str(), http3.link().seen().retries), ("ok", 1));
    http3.close();
    // The client shows the token that it was given.
    let mut http3 = Http3::with(server.address_number(2), &options);
    assert_eq!((http3.get("/").text().as_str(), http3.link().seen().retries), ("ok", 0));
    // Many at a time: each finds its own connection.
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let to = server.address_number(2);
            std::thread::spawn(move || Http3::connect(to).get("/").text())
        })
        .collect();
    clients.into_iter().for_each(|client| assert_eq!(client.join().expect("a connection"), "ok"));
}

/// The text of a server that says what it knows of early data. A store of sessions lets each be used once, without which early
/// data is not taken.
const SAYS: &str =
    "ssl_session_cache shared:early:1m; location / { return 200 \"[$ssl_early_data] $ssl_session_reused\"; }";

/// A server, and options of a client that has a session with it.
fn with_session(lines: &str) -> (TestServer, Http3Options) {
    let server = quic(&Site::new(), &format!("{lines} {SAYS}")).freerun();
    let options = Http3Options::new().resuming();
    let mut http3 = Http3::begin(server.address_number(2), &options);
    assert!(!http3.has_early());
    http3.establish().expect("a connection");
    assert_eq!(http3.get("/").text(), "[] .");
    http3.close();
    (server, options)
}

#[test]
fn sessions_are_resumed() {
    if !require::freerun() {
        return;
    }
    let (server, options) = with_session("ssl_early_data off;");
    let mut http3 = Http3::with(server.address_number(2), &options);
    assert!(!http3.has_early());
    assert_eq!(http3.get("/").text(), "[] r");
}

#[test]
fn early_data_is_taken_where_it_is_allowed() {
    if !require::freerun() {
        return;
    }
    let (server, options) = with_session("ssl_early_data on;");
    // Requests that the server has read together with the end of the handshake are early no more.
    let is_early = || {
        let mut http3 = Http3::begin(server.address_number(2), &options);
        assert!(http3.has_early());
        let streams: Vec<u64> = (0..3).map(|_| http3.ask_for("/")).collect();
        let answers: Vec<_> = streams.into_iter().map(|stream| http3.answer(stream)).collect();
        for answer in &answers {
            assert!(matches!(answer.text().as_str(), "[1] r" | "[] r") && answer.end == H3End::Whole, "{answer:?}");
        }
        http3.establish().expect("a connection");
        assert!(http3.early_accepted());
        assert_eq!(http3.get("/").text(), "[] r", "the handshake is complete");
        http3.close();
        answers[0].text() == "[1] r"
    };
    eventually("an early request", is_early);
}

/// A client remembers limits for its early data, so that data may pass those that a reload has made smaller (RFC 9001 section
/// 4.6.1, RFC 9114 section 7.2.4.2).
#[test]
fn early_data_by_limits_that_have_become_smaller_is_refused() {
    if !require::freerun() {
        return;
    }
    let early = "ssl_early_data on; location = /status { status; }";
    for (limit, (less, more)) in [
        ("http3_max_concurrent_streams 20;", ("http3_max_concurrent_streams 19;", "http3_max_concurrent_streams 21;")),
        // Up to 1 MiB the window is the same.
        ("http3_stream_buffer_size 4m;", ("http3_stream_buffer_size 2m;", "http3_stream_buffer_size 8m;")),
        ("http3_extended_connect on;", ("http3_extended_connect off;", "http3_extended_connect on;")),
    ] {
        for (after, is_taken) in [(less, false), (more, true)] {
            let (server, options) = with_session(&format!("{early} {limit}"));
            server.edit(limit, after);
            server.reload();
            let mut http3 = Http3::begin(server.address_number(2), &options.bare());
            assert!(http3.has_early());
            let stream = http3.open();
            http3.write_all(stream, b"\x01");
            http3.establish().expect("a connection");
            assert_eq!(http3.early_accepted(), is_taken, "{limit} {after}");
            let status: serde_json::Value = serde_json::from_slice(&server.get("/status").body).expect("JSON");
            let figure = |name: &str| status.pointer(name).and_then(serde_json::Value::as_u64);
            let figures = (figure("/quic/early_accepted"), figure("/quic/early_rejected"));
            assert_eq!(figures, (Some(is_taken.into()), Some((!is_taken).into())), "{limit} {after}");
        }
    }
}

#[test]
fn keys_change_while_bodies_come() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", content(1_000_000));
    let server = quic(&site, "").freerun();
    let mut http3 = connect(&server);
    for round in 1..=4 {
        let stream = http3.ask_for("/file");
        http3.body_of(stream, 200_000);
        http3.update_keys();
        assert!(http3.answer(stream).body() == content(1_000_000), "{round}");
    }
}

#[test]
fn clients_change_their_ports_in_the_middle_of_downloads() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", content(3_000_000));
    let server = quic(&site, "location /ok { return 200 $remote_port; }").main("worker_processes 2;").freerun();
    let mut http3 = connect(&server);
    for change in 0..4 {
        let stream = http3.ask_for("/file");
        http3.body_of(stream, 500_000);
        if change % 2 == 0 {
            http3.link().rebind();
        } else {
            http3.link().migrate();
        }
        http3.ping();
        let answer = http3.answer(stream);
        assert!(answer.body() == content(3_000_000), "{change}: {} bytes, {:?}", answer.body().len(), answer.end);
    }
    assert_eq!(http3.get("/ok").status, 200);
}

/// The first packet of a client with this version.
fn initial_of(version: u32) -> Vec<u8> {
    let mut packet = vec![0xc0];
    packet.extend_from_slice(&version.to_be_bytes());
    packet.extend_from_slice(&[8, 1, 2, 3, 4, 5, 6, 7, 8, 4, 0xa, 0xb, 0xc, 0xd]);
    packet.resize(1200, 0);
    packet
}

#[test]
fn versions_are_negotiated() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "return 200 ok;").freerun();
    let client = Datagrams::new();
    client.send(initial_of(0x1a2a_3a4a), server.address_number(2));
    let (answer, from) = client.receive();
    assert_eq!(from, server.address_number(2));
    // RFC 9000 section 17.2.1: a version of 0, the client's connection IDs changed round, and the versions.
    assert_eq!((answer[0] & 0x80, &answer[1..5]), (0x80, &[0; 4][..]));
    assert_eq!(answer[5..19], [4, 0xa, 0xb, 0xc, 0xd, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(answer[19..].chunks(4).any(|version| version == 1_u32.to_be_bytes()), "{answer:?}");
    assert!(answer.len() < 1200, "it is no larger than what came");
    // A short one is not answered.
    client.send(&initial_of(0x1a2a_3a4a)[..600], server.address_number(2));
    assert!(!client.receives_within(Duration::from_millis(100)));
}

fn kill_worker(server: &TestServer) {
    let worker = server.worker();
    server.signal_pid(worker, Signal::KILL);
    eventually("another worker", || server.workers().iter().any(|&other| other != worker));
}

#[test]
fn connections_that_a_worker_has_forgotten_are_reset() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("host.key", content(32));
    for key in ["", "quic_host_key @ROOT@/host.key;"] {
        let server = quic(&site, &format!("{key} return 200 ok;")).freerun();
        let mut http3 = connect(&server);
        assert_eq!(http3.get("/").text(), "ok");
        kill_worker(&server);
        http3.ping();
        assert_eq!(http3.ending(), LinkEnd::Reset, "{key}");
        assert_eq!(connect(&server).get("/").text(), "ok");
    }
}

/// Number of bytes of the server's connection IDs.
const ID: usize = 18;

/// RFC 9000 section 21.11: whoever has seen a connection ID must not hear anywhere how to reset the connection.
#[test]
fn connections_in_use_are_reset_by_nobody() {
    if !require::freerun() {
        return;
    }
    let lines = "listen 127.0.0.1:@PORT3@ quic; listen @PORT4@ quic; return 200 ok;";
    let server = quic(&Site::new(), lines).main("worker_processes 2;").freerun();
    let mut clients: Vec<Http3> = (0..4).map(|_| connect(&server)).collect();
    let stranger = Datagrams::new();
    for http3 in &mut clients {
        assert_eq!(http3.get("/").text(), "ok");
        let id = http3.link().sent_to(ID).to_vec();
        assert_eq!(id.len(), ID);
        for port in [2, 3, 4] {
            for length in [30, 100, 1200] {
                let mut packet = [&[0x41], &id[..]].concat();
                packet.resize(length, 0x55);
                stranger.send(&packet, server.address_number(port));
            }
        }
        // Whatever comes, it does not end the connection.
        while let Some(answer) = stranger.receive_within(Duration::from_millis(50)) {
            http3.link().take_forged(&answer);
        }
        assert_eq!((http3.get("/").text().as_str(), http3.link().end()), ("ok", None));
    }
}

#[test]
fn every_loop_finds_the_connections_of_its_clients() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "return 200 $request_uri;").main("worker_processes 2;").freerun();
    let mut clients: Vec<Http3> = (0..24).map(|_| connect(&server)).collect();
    for round in 0..4 {
        for (number, http3) in clients.iter_mut().enumerate() {
            if round == 2 {
                // From another port, the kernel's own choice would be another socket for half of them.
                http3.link().rebind();
            }
            let path = format!("/{round}/{number}");
            assert_eq!(http3.get(&path).text(), path);
        }
    }
    for http3 in &mut clients {
        assert_eq!(http3.link().end(), None);
    }
}
