//! A loop that is held up: what would wait for it is served by the others.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use freerun_testkit::http3::Http3;
use freerun_testkit::{ConnectionEnd, Datagrams, Setup, Site, TestClient, TestServer, Tls, eventually, require};
use rustix::process::Signal;

/// Connections, or clients of UDP, that come while a loop is held up.
const CLIENTS: usize = 100;

/// A loop is held up until the test lets go; a client that waits for it runs into its timeout before.
const HELD: &str = "debug_block_loop 60s @DIR@/go;";

/// The ways to share an address: lines of `events`, options of `listen`.
const WAYS: [(&str, &str); 4] = [("", ""), ("accept_mutex on;", ""), ("multi_accept on;", ""), ("", "reuseport")];

/// Whether the server under test can be made to be late.
fn can_be_held_up() -> bool {
    require::freerun() && cfg!(debug_assertions)
}

/// Sends what holds up a loop, and waits until it does.
fn hold_up(server: &TestServer, mut client: TestClient, bytes: &str) -> TestClient {
    client.send(bytes);
    server.logs("this loop is held up");
    client
}

/// The sum of a figure of the connections of all loops.
fn connections(server: &TestServer, figure: &str) -> u64 {
    let status = server.status();
    let loops = status["loops"].as_array().expect("loops").iter();
    loops.filter_map(|one| one["connections"][figure].as_u64()).sum()
}

/// Number of datagrams that were read for other loops. On a busy machine any loop may be late at times, and a client whose
/// session began elsewhere then has all its datagrams counted.
fn rescued_datagrams(server: &TestServer) -> u64 {
    let status = server.status();
    let loops = status["loops"].as_array().expect("loops").iter();
    loops.filter_map(|one| one["rescued_datagrams"].as_u64()).sum()
}

/// Lets the loop go on.
fn let_go(server: &TestServer) {
    std::fs::write(server.path("go"), "").expect("the server's folder");
}

#[test]
fn no_connection_waits_for_a_loop_that_is_late() {
    if !can_be_held_up() {
        return;
    }
    for (events, options) in WAYS {
        let http = format!(
            "server {{ listen 127.0.0.1:@PORT@ {options};
                location / {{ return 200 served; }}
                location /held {{ {HELD} empty_gif; }} }}"
        );
        let server = Setup::new().root(&Site::new()).main("worker_processes 3;").events(events).http(&http).run();
        let mut held = hold_up(&server, server.connect(), "GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
        for number in 0..CLIENTS {
            assert_eq!(server.get("/").text(), "served", "{events} {options} {number}");
        }
        let_go(&server);
        assert_eq!(held.response().status, 200);
    }
}

#[test]
fn a_connection_that_a_late_loop_has_accepted_before_its_first_bytes_is_served_by_another_one() {
    const SILENT: u64 = 48;
    if !can_be_held_up() {
        return;
    }
    for (events, options) in WAYS {
        let http = format!(
            "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
            server {{ listen 127.0.0.1:@PORT@ {options}; listen 127.0.0.1:@PORT2@ ssl {options};
                location / {{ return 200 $connection; }}
                location /status {{ status; }}
                location /held {{ {HELD} empty_gif; }} }}"
        );
        let server = Setup::new().main("worker_processes 3;").events(events).http(&http).run();
        let connect = |number: u64| TestClient::connect(server.address_number(1 + (number % 2) as usize));
        let mut silent: Vec<TestClient> = (0..SILENT).map(connect).collect();
        eventually("all are accepted", || connections(&server, "active") > SILENT);
        let accepted = connections(&server, "accepted");
        // The loop that has one of them is likely to have others, however they were shared out.
        let mut held = hold_up(&server, silent.swap_remove(0), "GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
        let tls = Tls::new();
        let mut heard: Vec<TestClient> = Vec::new();
        for (number, client) in silent.into_iter().enumerate() {
            // The last one is where the first was.
            let is_plain = number % 2 == 0 && number > 0;
            let mut client = if is_plain { client } else { client.tls(&tls) };
            let ends = number % 4 > 1;
            let field = if ends { "Connection: close\r\n" } else { "" };
            let own = client.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{field}\r\n")).response().text();
            let own: u64 = own.parse().expect("$connection");
            assert!(own <= accepted, "{events} {options} {number}: it is the same connection");
            if ends {
                assert_eq!(client.ending(), ConnectionEnd::Closed, "{events} {options} {number}")
            } else {
                heard.push(client)
            }
        }
        if options == "reuseport" {
            assert!(connections(&server, "rescued") > 0, "that loop had some of them");
        }
        let_go(&server);
        assert_eq!(held.response().status, 200);
        // Each goes on where it is now, and counts once; so do the one that was held up and that of the status.
        for client in &mut heard {
            client.get("/");
        }
        let kept = heard.len() as u64;
        eventually("the loop has let go", || connections(&server, "active") == kept + 2);
        drop(heard);
        eventually("all have ended", || connections(&server, "active") == 2);
    }
}

#[test]
fn a_connection_of_an_address_that_is_gone_waits_for_the_loop_that_knows_its_configuration() {
    const SILENT: usize = 24;
    if !can_be_held_up() {
        return;
    }
    let http = format!(
        "server {{ listen 127.0.0.1:@PORT@ reuseport; location / {{ return 200 one; }}
            location /status {{ status; }}
            location /held {{ {HELD} empty_gif; }} }}
        server {{ listen 127.0.0.1:@PORT2@ reuseport; return 200 old; }}"
    );
    let server = Setup::new().main("worker_processes 3;").http(&http).run();
    let mut silent: Vec<TestClient> = (0..SILENT).map(|_| TestClient::connect(server.address_number(2))).collect();
    eventually("all are accepted", || connections(&server, "active") > SILENT as u64);
    let mut held = hold_up(&server, server.connect(), "GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
    server.edit("return 200 one", "return 200 two");
    let old = format!("{} reuseport; return 200 old;", server.address_number(2));
    server.edit(&old, "127.0.0.1:@PORT3@ reuseport; return 200 new;");
    server.signal(Signal::HUP);
    // All of the other loops have the new configuration when many connections in a row are served by it.
    let mut in_a_row = 0;
    eventually("the others have the new configuration", || {
        in_a_row = if server.get("/").text() == "two" { in_a_row + 1 } else { 0 };
        in_a_row > 20
    });
    for client in &mut silent {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    // New connections that the late loop would have had are served meanwhile: the rescue has looked at it.
    (0..20).for_each(|_| assert_eq!(server.get("/").text(), "two"));
    let_go(&server);
    assert_eq!(held.response().status, 200);
    for client in &mut silent {
        assert_eq!(client.response().text(), "old");
    }
}

#[test]
fn a_turn_that_is_passed_to_a_loop_that_is_late_keeps_nobody_waiting() {
    // A loop passes its turn on when it has accepted 16 connections that stay.
    const TURN: usize = 16;
    if !can_be_held_up() {
        return;
    }
    let http = format!(
        "server {{ listen 127.0.0.1:@PORT@;
            location / {{ return 200 served; }}
            location /held {{ {HELD} empty_gif; }} }}"
    );
    let server = Setup::new().main("worker_processes 2;").events("accept_mutex on;").http(&http).run();
    let served = |number: usize| {
        let mut client = server.connect();
        assert_eq!(client.get("/").text(), "served", "{number}");
        client
    };
    // The other loop has the turn after these.
    let mut kept: Vec<TestClient> = (0..TURN + TURN / 4).map(served).collect();
    let mut held = hold_up(&server, kept.swap_remove(0), "GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
    kept.extend((0..3 * TURN).map(served));
    let_go(&server);
    assert_eq!(held.response().status, 200);
}

#[test]
fn no_session_waits_for_a_loop_that_is_late() {
    if !can_be_held_up() {
        return;
    }
    for (events, options) in WAYS {
        let stream = format!(
            "server {{ listen 127.0.0.1:@PORT2@ {options}; return served; }}
            server {{ listen 127.0.0.1:@PORT3@ {options}; {HELD} return held; }}"
        );
        let http = "server { listen 127.0.0.1:@PORT@; return 204; }";
        let setup = Setup::new().main("worker_processes 3;").events(events).http(http).stream(&stream);
        let server = setup.run();
        let mut held = hold_up(&server, TestClient::connect(server.address_number(3)), "");
        for number in 0..CLIENTS {
            let (text, ending) = TestClient::connect(server.address_number(2)).rest();
            let text = String::from_utf8_lossy(&text).into_owned();
            assert_eq!((&*text, ending), ("served", ConnectionEnd::Closed), "{events} {options} {number}");
        }
        let_go(&server);
        assert_eq!(held.rest(), (b"held".to_vec(), ConnectionEnd::Closed));
    }
}

/// The port in front of what the server behind has got: that of the session there.
fn session(answer: &str) -> u16 {
    answer.split(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Clients of UDP at these addresses, in turn, each with a session, and the port of that.
fn clients_of(fronts: &[SocketAddr]) -> Vec<(Datagrams, SocketAddr, u16)> {
    let begin = |front: &SocketAddr| {
        let client = Datagrams::new();
        let session = session(&client.ask("x", *front));
        (client, *front, session)
    };
    fronts.iter().cycle().take(CLIENTS).map(begin).collect()
}

/// Whether each client still has its session.
fn go_on(clients: &[(Datagrams, SocketAddr, u16)]) -> bool {
    clients.iter().all(|(client, front, known)| session(&client.ask("x", *front)) == *known)
}

/// Holds up one of three loops, while clients with sessions and new ones send to these addresses, which the servers of `listen`
/// have.
fn serves_udp_beside_a_late_loop(listen: &str, fronts: impl Fn(&TestServer) -> Vec<SocketAddr>) -> TestServer {
    let http = format!(
        "server {{ listen 127.0.0.1:@PORT@;
            location / {{ return 200 served; }}
            location /status {{ status; }}
            location /held {{ {HELD} empty_gif; }} }}"
    );
    let stream = format!("server {{ listen {listen}; proxy_pass {}; }}", Datagrams::echo());
    let server = Setup::new().main("worker_processes 3;").http(&http).stream(&stream).run();
    let fronts = fronts(&server);
    let known = clients_of(&fronts);
    let mut held = hold_up(&server, server.connect(), "GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
    // Those whose sessions are on that loop wait for it.
    known.iter().for_each(|(client, front, _)| (0..3).for_each(|number| client.send(format!("{number}"), *front)));
    let new = clients_of(&fronts);
    assert!(go_on(&new), "{listen}");
    assert!(rescued_datagrams(&server) > 0, "{listen}");
    let_go(&server);
    assert_eq!(held.response().status, 200);
    for (client, _, session) in &known {
        for number in 0..3 {
            let answer = String::from_utf8(client.receive().0).expect("text");
            assert_eq!(answer, format!("{session}:{number}"), "in order, and from the session that there was");
        }
    }
    assert!(go_on(&known) && go_on(&new), "{listen}");
    assert_eq!(server.status()["stream"]["lost_datagrams"]["from_clients"], 0);
    server
}

#[test]
fn no_new_client_of_udp_waits_for_a_loop_that_is_late_and_sessions_stay_where_they_are() {
    if !can_be_held_up() {
        return;
    }
    for listen in ["127.0.0.1:@PORT2@ udp", "@PORT2@ udp reuseport"] {
        serves_udp_beside_a_late_loop(listen, |server| vec![server.address_number(2)]);
    }
}

#[test]
fn no_new_client_of_a_range_of_ports_waits_for_a_loop_that_is_late() {
    // Below those that other tests use, at an address that no other process uses.
    const PORTS: std::ops::RangeInclusive<u16> = 9301..=9306;
    if !can_be_held_up() {
        return;
    }
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 77, high, low);
    let fronts: Vec<SocketAddr> = PORTS.map(|port| (address, port).into()).collect();
    let listen = format!("{address}:{}-{} udp", PORTS.start(), PORTS.end());
    let server = serves_udp_beside_a_late_loop(&listen, |_| fronts.clone());
    // The sockets are closed, although several loops have answered by them.
    server.edit(&format!("listen {listen}"), "listen 127.0.0.1:@PORT2@ udp");
    server.reload();
    for front in fronts {
        eventually("the port is free", || UdpSocket::bind(front).is_ok());
    }
}

/// A packet of QUIC in a version that nobody speaks, which comes to the socket with this number.
fn unknown_version(socket: u8) -> Vec<u8> {
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, socket, 7, 7, 7, 7, 7, 7, 7, 0];
    packet.resize(1200, 0);
    packet
}

#[test]
fn no_new_client_of_quic_waits_for_a_loop_that_is_late_and_connections_stay_where_they_are() {
    const LOOPS: u8 = 3;
    if !can_be_held_up() {
        return;
    }
    for options in ["", "quic_retry on;"] {
        let http = format!(
            "server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ quic; {options}
                ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
                location / {{ return 200 $connection; }}
                location /status {{ status; }}
                location /held {{ {HELD} empty_gif; }} }}"
        );
        let server = Setup::new().main(&format!("worker_processes {LOOPS};")).http(&http).run();
        let address = server.address_number(2);
        let clients = || {
            let begin = |_| {
                let mut http3 = Http3::connect(address);
                let number = http3.get("/").text();
                (http3, number)
            };
            (0..CLIENTS / 4).map(begin).collect::<Vec<_>>()
        };
        let mut known = clients();
        let mut held = hold_up(&server, server.connect(), "GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
        // Those whose connections are on that loop wait for it.
        let waiting: Vec<u64> = known
            .iter_mut()
            .map(|(http3, _)| {
                let stream = http3.ask_for("/");
                http3.step();
                stream
            })
            .collect();
        let mut new = clients();
        let nobody = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        nobody.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        for socket in 0..LOOPS {
            nobody.send_to(&unknown_version(socket), address).expect("a datagram leaves");
            let mut answer = [0; 100];
            nobody.recv(&mut answer).expect("the versions that are spoken");
            assert_eq!((answer[0] & 0x80, &answer[1..5]), (0x80, &[0; 4][..]), "{options} {socket}");
        }
        assert!(rescued_datagrams(&server) > 0, "{options}");
        let_go(&server);
        assert_eq!(held.response().status, 200);
        for ((http3, number), stream) in known.iter_mut().zip(waiting) {
            assert_eq!(http3.answer(stream).text(), *number, "{options}");
        }
        for (http3, number) in known.iter_mut().chain(&mut new) {
            assert_eq!(http3.get("/").text(), *number, "{options}");
        }
        assert_eq!(server.status()["quic"]["lost_from_clients"], 0, "{options}");
    }
}
