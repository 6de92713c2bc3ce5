//! Groups of servers in `stream`: which of them gets a session, and whether they are well.

use std::collections::BTreeMap;

use freerun_testkit::{
    ConnectionEnd, Kind, RefusingAddress, TestClient, TestServer, TestUpstream, eventually, require,
};

use super::proxy::{session, streaming};

/// Servers that say their letter and close.
struct Letters {
    addresses: Vec<String>,
}

impl Letters {
    fn new(count: usize) -> Letters {
        let addresses = (0..count).map(|number| {
            let upstream = TestUpstream::new();
            let address = upstream.address();
            std::thread::spawn(move || {
                while let Some(mut peer) = upstream.try_accept(std::time::Duration::from_secs(600)) {
                    let _ = peer.try_send([b'a' + number as u8]);
                }
            });
            address
        });
        Letters { addresses: addresses.collect() }
    }

    /// A group with these lines, in which `@0@` and so on are the servers.
    fn group(&self, lines: &str) -> String {
        let filled = self
            .addresses
            .iter()
            .enumerate()
            .fold(lines.to_owned(), |lines, (number, address)| lines.replace(&format!("@{number}@"), address));
        format!("upstream g {{ {filled} }}")
    }
}

/// The letter that a session gets.
fn letter(server: &TestServer) -> String {
    said(session(server))
}

fn said(mut client: TestClient) -> String {
    let (bytes, _) = client.rest();
    String::from_utf8(bytes).expect("a letter")
}

fn counted(server: &TestServer, sessions: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..sessions {
        *counts.entry(letter(server)).or_default() += 1;
    }
    counts
}

fn counts(wanted: &[(&str, usize)]) -> BTreeMap<String, usize> {
    wanted.iter().map(|(letter, count)| ((*letter).to_owned(), *count)).collect()
}

#[test]
fn servers_take_turns_by_weight() {
    let letters = Letters::new(3);
    let group = letters.group("server @0@ weight=3; server @1@; server @2@ backup;");
    let server = streaming(&group, "proxy_pass g;").run();
    assert_eq!(counted(&server, 8), counts(&[("a", 6), ("b", 2)]));
    let group = letters.group("server @0@ down; server @1@;");
    let server = streaming(&group, "proxy_pass g;").run();
    assert_eq!(counted(&server, 4), counts(&[("b", 4)]));
}

#[test]
fn a_hash_chooses_by_values_of_the_session() {
    let letters = Letters::new(3);
    for method in ["hash $remote_addr;", "hash $remote_addr consistent;"] {
        let group = letters.group(&format!("{method} server @0@; server @1@; server @2@;"));
        let server = streaming(&group, "proxy_pass g;").run();
        let of = |last: u8| {
            let client = TestClient::try_connect_from([127, 0, 0, last].into(), server.address_number(2));
            said(client.expect("a connection"))
        };
        let first: Vec<String> = (1..20).map(of).collect();
        let again: Vec<String> = (1..20).map(of).collect();
        assert_eq!(first, again, "{method}");
        assert!(first.iter().any(|letter| *letter != first[0]), "{method}");
    }
}

#[test]
fn the_server_with_the_fewest_sessions_is_next() {
    let (one, two) = (TestUpstream::new(), TestUpstream::new());
    let group = format!("upstream g {{ least_conn; server {}; server {}; }}", one.address(), two.address());
    let server = streaming(&group, "proxy_pass g;").run();
    let _first = (session(&server), one.accept());
    let second = (session(&server), two.accept());
    drop(second);
    eventually("it has ended", || server.access_log().lines().count() == 1);
    for _ in 0..2 {
        let third = (session(&server), two.accept());
        drop(third);
        let ended = server.access_log().lines().count() + 1;
        eventually("it has ended", || server.access_log().lines().count() >= ended.min(3));
    }
}

#[test]
fn who_finds_no_room_is_refused_or_waits() {
    let upstream = TestUpstream::new();
    let group = format!("upstream g {{ server {} max_conns=1; }}", upstream.address());
    let server = streaming(&group, "proxy_pass g;").run();
    let (first, peer) = (session(&server), upstream.accept());
    assert_eq!(session(&server).ending(), ConnectionEnd::Closed);
    assert!(server.access_lines(1)[0].starts_with("502|g|"));
    drop((first, peer));
    if !require::freerun() {
        return;
    }
    let group = format!("upstream g {{ server {} max_conns=1; queue 1; }}", upstream.address());
    let server = streaming(&group, "proxy_pass g;").freerun();
    let (first, peer) = (session(&server), upstream.accept());
    let mut second = session(&server);
    second.send("at last");
    drop((first, peer));
    assert_eq!(upstream.accept().bytes(7), b"at last");
}

#[test]
fn clients_stay_with_the_server_that_was_learned() {
    if !require::freerun() {
        return;
    }
    let letters = Letters::new(2);
    let group =
        letters.group("sticky learn create=$remote_addr lookup=$remote_addr zone=clients:64k; server @0@; server @1@;");
    let server = streaming(&group, "proxy_pass g;").freerun();
    let of = |last: u8| {
        let client = TestClient::try_connect_from([127, 0, 0, last].into(), server.address_number(2));
        said(client.expect("a connection"))
    };
    let first: Vec<String> = (1..5).map(of).collect();
    assert!(first.contains(&"a".to_owned()) && first.contains(&"b".to_owned()), "{first:?}");
    for _ in 0..3 {
        assert_eq!((1..5).map(of).collect::<Vec<_>>(), first);
    }
}

#[test]
fn a_server_that_is_not_well_gets_no_session() {
    if !require::freerun() {
        return;
    }
    let (letters, refusing) = (Letters::new(1), RefusingAddress::new());
    let group = format!(
        "upstream g {{ server {} max_fails=0; server {} max_fails=0; }}",
        letters.addresses[0],
        refusing.address()
    );
    let server = streaming(&group, "proxy_pass g; proxy_next_upstream off; health_check interval=50ms;").freerun();
    server
        .logs(&format!("peer is unhealthy while connecting to upstream, health check of peer {}", refusing.address()));
    assert_eq!(counted(&server, 6), counts(&[("a", 6)]));
}

#[test]
fn a_check_may_ask_and_expect() {
    if !require::freerun() {
        return;
    }
    // The servers answer with their letters, whatever they are asked.
    let letters = Letters::new(2);
    let matching = "match is_a { send \"PING\\x0d\\x0a\"; expect ~ ^[a]$; }";
    let group = letters.group("server @0@; server @1@;");
    let lines = "proxy_pass g; health_check interval=50ms match=is_a mandatory;";
    let server = streaming(&format!("{matching} {group}"), lines).freerun();
    server
        .logs(&format!("peer is unhealthy while checking the response, health check of peer {}", letters.addresses[1]));
    server.logs(&format!("peer is healthy, health check of peer {}", letters.addresses[0]));
    assert_eq!(counted(&server, 6), counts(&[("a", 6)]));
}

#[test]
fn sessions_end_with_their_server_if_they_are_told_to() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let group = format!("upstream g {{ server {} max_fails=0; server 127.0.0.1:1 down; }}", upstream.address());
    let lines = "proxy_pass g; proxy_session_drop on; health_check interval=50ms fails=1; proxy_timeout 60s;";
    let server = streaming(&group, lines).freerun();
    let mut client = session(&server);
    client.send("hello");
    // The checks come to the same server.
    let mut peer = loop {
        let mut peer = upstream.accept();
        if let Some(bytes) = peer.try_bytes(5) {
            assert_eq!(bytes, b"hello");
            break peer;
        }
    };
    drop(upstream);
    server.logs("peer is unhealthy while connecting to upstream");
    let _ = peer.try_send("more");
    let (_, ending) = client.rest();
    assert_eq!(ending, ConnectionEnd::Closed);
    server.logs("upstream server is no longer used");
}

#[test]
fn status_shows_groups_and_their_servers() {
    if !require::freerun() {
        return;
    }
    let letters = Letters::new(1);
    let group = letters.group("server @0@; server 127.0.0.1:1 down;");
    let server = streaming(&group, "proxy_pass g;")
        .http("server { listen 127.0.0.1:@PORT3@; location / { status; } }")
        .freerun();
    assert_eq!(letter(&server), "a");
    eventually("it has ended", || server.access_log().lines().count() == 1);
    let status = TestClient::connect(server.address_number(3)).get("/").text();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let group = &status["stream"]["upstreams"][0];
    assert_eq!((&group["name"], &group["declared"]), (&"g".into(), &true.into()), "{status}");
    let first = &group["servers"][0];
    assert_eq!((&first["address"], &first["state"]), (&letters.addresses[0].as_str().into(), &"up".into()));
    assert_eq!((&first["requests"], &first["connects"], &first["received"]), (&1.into(), &1.into(), &1.into()));
    assert_eq!(group["servers"][1]["state"], "down");
    assert_eq!(status["upstreams"].as_array().map(Vec::len), Some(0));
}

#[test]
fn methods_have_the_words_of_stream() {
    let verdict = |lines: &str| {
        let text = format!(
            "events {{ }}\npid /dev/null;\nstream {{ upstream g {{ {lines} server 127.0.0.1:1; server 127.0.0.2:1; }}
             server {{ listen 127.0.0.1:1234; proxy_pass g; }} }}\n"
        );
        freerun_testkit::check(Kind::Freerun, &text).expect("a check")
    };
    for lines in [
        "least_time connect;",
        "least_time first_byte inflight;",
        "least_time last_byte;",
        "random two least_time=connect;",
        "random two least_time=first_byte;",
        "ip_hash;",
        "outlier_detection consecutive=3;",
        "queue 10 timeout=1s;",
        "sticky route $remote_addr;",
    ] {
        let checked = verdict(lines);
        assert_eq!(checked.code, Some(0), "{lines}: {}", checked.stderr);
    }
    for (lines, message) in [
        ("least_time header;", "invalid parameter \"header\""),
        ("random two least_time=header;", "invalid parameter \"least_time=header\""),
        ("sticky cookie a;", "invalid parameter \"cookie\""),
        ("sticky learn create=$remote_addr lookup=$remote_addr;", "must have \"zone\" parameter"),
    ] {
        let checked = verdict(lines);
        assert!(checked.code == Some(1) && checked.stderr.contains(message), "{lines}: {}", checked.stderr);
    }
}

#[test]
fn a_server_that_breaks_sessions_off_is_left_out_as_an_outlier() {
    if !require::freerun() {
        return;
    }
    let (letters, breaking) = (Letters::new(1), TestUpstream::new());
    let address = breaking.address();
    std::thread::spawn(move || {
        while let Some(peer) = breaking.try_accept(std::time::Duration::from_secs(600)) {
            peer.reset();
        }
    });
    let group = format!(
        "upstream g {{ outlier_detection consecutive=2 rate=0; server {} max_fails=0; server {address} max_fails=0; }}",
        letters.addresses[0]
    );
    let server = streaming(&group, "proxy_pass g;").freerun();
    for _ in 0..6 {
        letter(&server);
    }
    server.logs("upstream server ejected as an outlier");
    assert_eq!(counted(&server, 6), counts(&[("a", 6)]));
}
