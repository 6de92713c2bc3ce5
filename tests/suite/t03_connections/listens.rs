//! The forms of `listen`.

use freerun_testkit::{Setup, Site, TestClient, eventually, require};
use std::net::{Ipv6Addr, SocketAddr};

#[test]
fn a_unix_socket() {
    let site = Site::new();
    let setup = Setup::new()
        .root(&site)
        .http("server { listen unix:@DIR@/http.sock; return 200 \"$remote_addr $server_port\"; }");
    let mut server = setup.run();
    let path = server.path("http.sock");
    let mut client = TestClient::try_connect_unix(&path).expect("connecting");
    assert_eq!(client.get("/").text(), "unix: ");
    server.reload();
    assert_eq!(client.get("/").text(), "unix: ");
    server.stop();
    assert!(!path.exists(), "the socket's file goes with the server");
}

#[test]
fn ipv6() {
    if !require::ipv6() {
        return;
    }
    let site = Site::new();
    let http = "server { listen [::1]:@PORT@; return 200 \"$remote_addr $server_addr\"; }
        server { listen 127.0.0.1:@PORT@; return 200 four; }
        server { listen [::]:@PORT2@ ipv6only=off; return 200 \"both $remote_addr\"; }";
    let server = Setup::new().root(&site).http(http).run();
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, server.port()));
    assert_eq!(TestClient::connect(six).get("/").text(), "::1 ::1");
    assert_eq!(server.get("/").text(), "four");
    let both = SocketAddr::from((Ipv6Addr::LOCALHOST, server.port_number(2)));
    assert_eq!(TestClient::connect(both).get("/").text(), "both ::1");
    assert!(TestClient::connect(server.address_number(2)).get("/").text().ends_with("127.0.0.1"));
}

#[test]
fn multipath_serves_clients_that_know_it_and_those_that_do_not() {
    if !require::freerun() {
        return;
    }
    let http = "server { listen 127.0.0.1:@PORT@ multipath; return 200 \"$remote_addr\"; }";
    let server = Setup::new().http(http).freerun();
    assert_eq!(server.get("/").text(), "127.0.0.1");
    // Linux has had it since 5.6; it can be switched off.
    if std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|on| on.trim() == "1") {
        let lists = || std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
        let used = lists().lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("MPTCP")).then(|| words.nth(1).and_then(|count| count.parse::<u32>().ok()))?
        });
        assert!(used.is_some_and(|used| used > 0), "no socket of the protocol:\n{}", lists());
    } else {
        server.logs("is not possible, TCP is used");
    }
    server.edit(" multipath", "");
    server.reload();
    server.logs("without \"multipath\" takes effect at the next start");
    assert_eq!(server.get("/").text(), "127.0.0.1");
}

#[test]
fn names_stand_for_the_addresses_that_they_had_when_the_configuration_was_read() {
    let site = Site::new();
    let http = "set_real_ip_from localhost; real_ip_header X-Client;
        server { listen localhost:@PORT@; return 200 \"$remote_addr $server_addr\"; }";
    let server = Setup::new().root(&site).http(http).run();
    let asked = |server: &freerun_testkit::TestServer| server.get_with("/", "X-Client: 192.0.2.7\r\n").text();
    assert_eq!(asked(&server), "192.0.2.7 127.0.0.1");
    server.reload();
    assert_eq!(asked(&server), "192.0.2.7 127.0.0.1");
    for (http, message) in [
        (
            "server { listen no.such.invalid:80; }",
            "host not found in \"no.such.invalid:80\" of the \"listen\" directive",
        ),
        ("set_real_ip_from no.such.invalid;", "host not found in set_real_ip_from \"no.such.invalid\""),
    ] {
        let checked =
            freerun_testkit::check(freerun_testkit::Kind::under_test(), &format!("events {{ }} http {{ {http} }}"));
        let checked = checked.expect("it starts");
        assert!(checked.code != Some(0) && checked.stderr.contains(message), "{}", checked.stderr);
    }
}

#[test]
fn a_wildcard_and_an_address_share_a_port() {
    let site = Site::new();
    let http = "server { listen *:@PORT@; server_name w; return 200 \"wildcard $server_addr\"; }
        server { listen 127.0.0.2:@PORT@; server_name a; return 200 \"address $server_addr\"; }
        server { listen @PORT2@; return 200 port; }
        server { listen localhost:@PORT3@; return 200 name; }";
    let server = Setup::new().root(&site).http(http).run();
    assert_eq!(server.get("/").text(), "wildcard 127.0.0.1");
    let second = SocketAddr::from(([127, 0, 0, 2], server.port()));
    assert_eq!(TestClient::connect(second).get("/").text(), "address 127.0.0.2");
    assert_eq!(TestClient::connect(server.address_number(2)).get("/").text(), "port");
    assert_eq!(TestClient::connect(server.address_number(3)).get("/").text(), "name");
}

#[test]
fn default_servers_are_per_address() {
    let site = Site::new();
    let http = "server { listen 127.0.0.1:@PORT@; server_name one; return 200 one; }
        server { listen 127.0.0.1:@PORT@ default_server; listen 127.0.0.1:@PORT2@; server_name two; return 200 two; }
        server { listen 127.0.0.1:@PORT2@ default_server; server_name three; return 200 three; }";
    let server = Setup::new().root(&site).http(http).run();
    assert_eq!(server.get("/").text(), "two");
    assert_eq!(TestClient::connect(server.address_number(2)).get("/").text(), "three");
    let named = TestClient::connect(server.address_number(2)).send("GET / HTTP/1.1\r\nHost: two\r\n\r\n").response();
    assert_eq!(named.text(), "two");
}

#[test]
fn every_way_to_share_a_socket_serves_everyone() {
    let site = Site::new();
    site.file("a", "file a");
    for (events, options) in [
        ("", ""),
        ("accept_mutex on;", ""),
        ("accept_mutex off;", ""),
        ("multi_accept on;", ""),
        ("accept_mutex on; multi_accept on;", ""),
        ("use epoll;", "reuseport"),
        ("accept_mutex on;", "reuseport"),
    ] {
        let setup = Setup::new()
            .root(&site)
            .main("worker_processes 3;")
            .events(events)
            .http(&format!("server {{ listen 127.0.0.1:@PORT@ {options}; root @ROOT@; }}"));
        let server = setup.run();
        let mut clients: Vec<TestClient> = (0..60).map(|_| server.connect()).collect();
        for round in 0..3 {
            for client in &mut clients {
                assert_eq!(client.get("/a").text(), "file a", "{events} {options} round {round}");
            }
        }
    }
}

#[test]
fn a_new_connection_wakes_one_loop() {
    const LOOPS: usize = 8;
    const CONNECTIONS: u64 = 200;
    for events in ["", "accept_mutex on;"] {
        let server = Setup::new()
            .main(&format!("worker_processes {LOOPS};"))
            .events(events)
            .http("server { listen 127.0.0.1:@PORT@; return 200 ok; }")
            .run();
        let before = waits_of_loops(server.worker());
        for _ in 0..CONNECTIONS {
            assert_eq!(server.get("/").text(), "ok");
        }
        let waits = waits_of_loops(server.worker()) - before;
        // For the connection, its request and its end. If each woke all loops there would be more than a thousand besides.
        assert!(waits < 5 * CONNECTIONS, "{events} {waits} waits for {CONNECTIONS} connections");
    }
}

/// How often the loops of a worker have fallen asleep.
fn waits_of_loops(worker: u32) -> u64 {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{worker}/task")).expect("the worker's threads").flatten() {
        // Threads of pools may end meanwhile.
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        if status.starts_with("Name:\tloop-") {
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sum += line.expect("a count").trim().parse::<u64>().expect("a number");
        }
    }
    sum
}

#[test]
fn what_one_loop_has_no_room_for_another_one_takes() {
    let site = Site::new();
    site.file("a", "file a");
    for (events, listen) in [("", ""), ("accept_mutex on;", ""), ("multi_accept on;", ""), ("", "reuseport")] {
        // nginx closes a connection of a full worker's own socket.
        if !listen.is_empty() && !require::freerun() {
            continue;
        }
        let server = Setup::new()
            .root(&site)
            .main("worker_processes 3;")
            .events(&format!("worker_connections 8; {events}"))
            .http(&format!("server {{ listen 127.0.0.1:@PORT@ {listen}; root @ROOT@; }}"))
            .run();
        // None of them is idle, so that no loop can have one leave. They are accepted in the order in which they came.
        let begun = || {
            let mut client = server.connect();
            client.send("GET /a HTTP/1.1\r\n");
            client
        };
        let mut clients: Vec<TestClient> = (0..22).map(|_| begun()).collect();
        // With `reuseport`, the kernel chooses the loop.
        for _ in 0..10 {
            assert_eq!(server.get("/a").text(), "file a", "{events} {listen}");
        }
        for client in &mut clients {
            client.send("Host: a\r\n\r\n");
            assert_eq!(client.response().text(), "file a", "{events} {listen}");
        }
    }
}

#[test]
fn socket_options_are_taken() {
    let site = Site::new();
    let options = "backlog=64 rcvbuf=64k sndbuf=64k so_keepalive=30m::10";
    let server = Setup::new()
        .root(&site)
        .http(&format!(
            "server {{ listen 127.0.0.1:@PORT@ {options}; return 200 ok; }}
            server {{ listen 127.0.0.1:@PORT2@ so_keepalive=on deferred; return 200 two; }}"
        ))
        .run();
    assert_eq!(server.get("/").text(), "ok");
    assert_eq!(TestClient::connect(server.address_number(2)).get("/").text(), "two");
}

#[test]
fn listeners_come_and_go_with_a_reload() {
    let site = Site::new();
    let http = "server { listen 127.0.0.1:@PORT@; return 200 one; }\n# more\n";
    let server = Setup::new().root(&site).http(http).run();
    let extra = freerun_testkit::ports::free();
    let address = SocketAddr::from(([127, 0, 0, 1], extra));
    let block = format!("server {{ listen 127.0.0.1:{extra}; return 200 two; }}");
    server.edit("# more", &block);
    server.reload();
    eventually("the new listener", || TestClient::try_connect(address).is_ok());
    assert_eq!(TestClient::connect(address).get("/").text(), "two");
    server.edit(&block, "# more");
    server.reload();
    eventually("the listener is gone", || TestClient::try_connect(address).is_err());
    assert_eq!(server.get("/").text(), "one");
}
