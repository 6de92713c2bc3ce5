//! Sessions of UDP: `listen … udp` in `stream`.

use std::net::SocketAddr;
use std::time::Duration;

use freerun_testkit::{Datagrams, Kind, Setup, TestClient, TestServer, eventually, require};
use rustix::process::Signal;

/// A server for datagrams on `@PORT2@` with these lines, and with others beside it; `@PORT@` is there to see that it runs.
fn serving(around: &str, lines: &str) -> Setup {
    listening("127.0.0.1:@PORT2@ udp", around, lines)
}

/// The same with what `listen` has.
fn listening(listen: &str, around: &str, lines: &str) -> Setup {
    Setup::new().http("server { listen 127.0.0.1:@PORT@; return 204; }").stream(&format!(
        "log_format way '$status|$protocol|$bytes_received|$bytes_sent|$upstream_addr|$upstream_bytes_received|$upstream_bytes_sent';
             access_log @DIR@/access.log way;
             {around}
             server {{ listen {listen}; {lines} }}"
    ))
}

/// The address of the server for datagrams.
fn front(server: &TestServer) -> SocketAddr {
    server.address_number(2)
}

/// The port in front of what the server behind has got: that of the session there.
fn port(answer: &str) -> u16 {
    answer.split(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

#[test]
fn datagrams_go_both_ways_and_are_counted() {
    let behind = Datagrams::new();
    let server = serving("proxy_timeout 300ms;", &format!("proxy_pass {};", behind.address())).run();
    let client = Datagrams::new();
    let mut from = None;
    for text in ["one", "", "three"] {
        client.send(text, front(&server));
        let (got, session) = behind.receive();
        assert_eq!(got, text.as_bytes());
        assert_eq!(*from.get_or_insert(session), session);
        behind.send(format!("to {text}"), session);
        assert_eq!(client.receive(), (format!("to {text}").into_bytes(), front(&server)));
    }
    // The server may also say something by itself.
    behind.send("more", from.unwrap());
    assert_eq!(client.receive().0, b"more");
    let expected = format!("200|UDP|8|21|{}|21|8", behind.address());
    assert_eq!(server.access_lines(1), [expected]);
    server.logs("udp timed out, packets from/to client:3/4, bytes from/to client:8/21, bytes from/to upstream:21/8");
    server.logs(&format!("udp client {} connected to {}", client.address(), front(&server)));
    server.logs(&format!("udp proxy {} connected to {}", from.unwrap(), behind.address()));
}

#[test]
fn a_session_ends_with_its_last_response_and_after_its_last_request_another_one_begins() {
    let echo = Datagrams::echo();
    let client = Datagrams::new();
    for (lines, sessions) in [
        ("", [1, 1, 1, 1]),
        ("proxy_responses 1;", [1, 2, 3, 4]),
        ("proxy_requests 1;", [1, 2, 3, 4]),
        ("proxy_requests 2;", [1, 1, 2, 2]),
        ("proxy_requests 2; proxy_responses 1;", [1, 1, 2, 2]),
        ("proxy_requests 3; proxy_responses 2;", [1, 1, 1, 2]),
    ] {
        let server = serving("", &format!("{lines} proxy_pass {echo};")).run();
        let mut ports = Vec::new();
        for _ in 0..4 {
            ports.push(port(&client.ask("n1", front(&server))));
        }
        let numbers: Vec<usize> = ports
            .iter()
            .map(|port| {
                let mut known: Vec<u16> = ports.clone();
                known.dedup();
                known.iter().position(|one| one == port).unwrap() + 1
            })
            .collect();
        assert_eq!(numbers, sessions, "{lines}: {ports:?}");
    }
    let server = serving("", &format!("proxy_responses 0; proxy_pass {echo};")).run();
    client.send("nobody answers", front(&server));
    server.logs("udp done, packets from/to client:1/0, bytes from/to client:14/0, bytes from/to upstream:0/14");
    assert!(!client.receives_within(Duration::from_millis(50)));
}

#[test]
fn return_and_access_have_a_session_for_each_datagram() {
    let around = "server { listen 127.0.0.1:@PORT3@ udp; deny all; return never; }";
    let server = serving(around, "return \"$remote_port $protocol $bytes_received\";").run();
    let client = Datagrams::new();
    for _ in 0..2 {
        let text = client.ask("hello", front(&server));
        assert!(text.starts_with(&format!("{} UDP", client.address().port())), "{text}");
    }
    client.send("?", server.address_number(3));
    let lines = server.access_lines(3);
    assert!(lines[0].starts_with("200|UDP|5|"), "{lines:?}");
    assert!(lines[2].starts_with("403|UDP|1|0|"), "{lines:?}");
    server.logs("access forbidden by rule");
}

#[test]
fn an_answer_leaves_from_the_address_that_was_asked() {
    let echo = Datagrams::echo();
    for listen in ["@PORT2@ udp", "@PORT2@ udp reuseport"] {
        let server = listening(listen, "", &format!("proxy_pass {echo};")).run();
        let client = Datagrams::new();
        let mut ports = Vec::new();
        for asked in ["127.0.0.9", "127.0.0.8", "127.0.0.9"] {
            let asked = SocketAddr::new(asked.parse().unwrap(), front(&server).port());
            client.send("x", asked);
            let (answer, from) = client.receive();
            assert_eq!(from, asked);
            ports.push(port(&String::from_utf8(answer).unwrap()));
        }
        assert!(ports[0] == ports[2] && ports[0] != ports[1], "{ports:?}: a session is between two addresses");
    }
}

#[test]
fn a_server_that_refuses_is_left_out_afterwards() {
    // nginx sends the client an empty datagram.
    if !require::freerun() {
        return;
    }
    let echo = Datagrams::echo();
    let gone = Datagrams::new().address();
    let around = format!("upstream u {{ server {gone}; server {echo} weight=2; }}");
    let server = serving(&around, "proxy_pass u;").run();
    // Of three clients, one at least comes to the server that is not there.
    let clients: Vec<_> = (0..3).map(|_| Datagrams::new()).collect();
    clients.iter().for_each(|client| client.send("first", front(&server)));
    server.logs(
        "recv() failed (111: Connection refused) while proxying and reading from upstream, udp client: 127.0.0.1",
    );
    for client in &clients {
        // Whoever was refused has another session now; the others go on.
        let answer = client.ask("again", front(&server));
        assert!(answer.ends_with("first") || answer.ends_with("again"), "{answer}");
    }
}

#[test]
fn long_datagrams_and_many_at_a_time_arrive_whole_and_in_order() {
    let behind = Datagrams::new();
    let server = serving("proxy_buffer_size 64k;", &format!("proxy_pass {};", behind.address())).run();
    let client = Datagrams::new();
    let long: Vec<u8> = (0..60_000u32).map(|at| (at % 251) as u8).collect();
    client.send(&long, front(&server));
    let (got, session) = behind.receive();
    assert!(got == long);
    behind.send(&long, session);
    assert!(client.receive().0 == long);
    for _ in 0..20 {
        for number in 0..40u32 {
            behind.send(format!("{number:03}"), session);
        }
        for number in 0..40u32 {
            assert_eq!(client.receive().0, format!("{number:03}").as_bytes());
        }
    }
}

#[test]
fn headers_of_the_proxy_protocol() {
    let behind = Datagrams::new();
    let client = Datagrams::new();
    let server = serving("", &format!("proxy_protocol on; proxy_pass {};", behind.address())).run();
    client.send("one", front(&server));
    client.send("two", front(&server));
    let header = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n", client.address().port(), front(&server).port());
    assert_eq!(behind.receive().0, format!("{header}one").as_bytes());
    assert_eq!(behind.receive().0, b"two");
    if server.kind() == Kind::Nginx {
        return;
    }
    // Version 2 has datagrams, and each has a header: servers keep no sessions.
    let server = serving("", &format!("proxy_protocol 2; proxy_pass {};", behind.address())).run();
    for text in [&b"one"[..], b"two"] {
        client.send(text, front(&server));
        let (got, _) = behind.receive();
        assert!(got.starts_with(b"\r\n\r\n\0\r\nQUIT\n\x21\x12"), "{got:?}");
        let [high, low] = client.address().port().to_be_bytes();
        assert_eq!(got[16..26], [127, 0, 0, 1, 127, 0, 0, 1, high, low]);
        assert!(got.ends_with(text));
    }
}

#[test]
fn headers_that_come_name_the_clients() {
    if !require::freerun() {
        return;
    }
    let echo = Datagrams::echo();
    let around = "set_real_ip_from 127.0.0.1; server { listen 127.0.0.1:@PORT3@ udp proxy_protocol; return \"$remote_addr $remote_port $proxy_protocol_server_port\"; }";
    let server = listening("127.0.0.1:@PORT2@ udp proxy_protocol", around, &format!("proxy_pass {echo};")).run();
    let proxy = Datagrams::new();
    let headed = |client: u16, text: &[u8]| {
        let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02";
        [&header[..], &client.to_be_bytes(), &53_u16.to_be_bytes(), text].concat()
    };
    assert_eq!(proxy.ask(headed(7, b"x"), server.address_number(3)), "192.0.2.1 7 53");
    // One proxy sends for several clients: each has a session.
    let mut ports = Vec::new();
    for client in [1, 2, 1] {
        let answer = proxy.ask(headed(client, b"question"), front(&server));
        assert!(answer.ends_with(":question"), "{answer}");
        ports.push(port(&answer));
    }
    assert!(ports[0] == ports[2] && ports[0] != ports[1], "{ports:?}");
    proxy.send("without a header", front(&server));
    server.logs("broken header of the PROXY protocol in a datagram");
}

/// Addresses that share a wildcard's socket keep settings of their own, for datagrams as well.
#[test]
fn an_address_beside_the_wildcard_has_its_own_settings() {
    if !require::freerun() {
        return;
    }
    let echo = Datagrams::echo();
    let around = format!(
        "set_real_ip_from 127.0.0.0/8;
         server {{ listen 127.0.0.2:@PORT2@ udp proxy_protocol; udp_sessions 1; return \"named $remote_addr\"; }}
         server {{ listen 127.0.0.3:@PORT2@ udp; udp_sessions 1; proxy_pass {echo}; }}"
    );
    let server = listening("@PORT2@ udp", &around, &format!("proxy_pass {echo};")).run();
    let at = |last| SocketAddr::new([127, 0, 0, last].into(), front(&server).port());
    let (client, other) = (Datagrams::new(), Datagrams::new());
    let headed = b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\0\x07\0\x35x";
    assert_eq!(client.ask(headed, at(2)), "named 192.0.2.1");
    // Elsewhere the same bytes are what the client says.
    let answer = client.ask("plain", at(1));
    assert!(answer.ends_with(":plain"), "{answer}");
    let ports = [&client, &other].map(|client| port(&client.ask("x", at(1))));
    let narrow = port(&client.ask("x", at(3)));
    other.ask("x", at(3));
    server.logs("udp session gives way to a new one (udp_sessions)");
    assert_ne!(port(&client.ask("x", at(3))), narrow);
    assert_eq!(ports, [&client, &other].map(|client| port(&client.ask("x", at(1)))), "the wildcard has room for both");
}

#[test]
fn sessions_stay_when_their_address_is_named_beside_the_wildcard_and_when_it_is_no_longer() {
    if !require::freerun() {
        return;
    }
    let echo = Datagrams::echo();
    let around = format!("server {{ listen unix:@DIR@/none.sock; proxy_pass {echo}; }}");
    let server = listening("@PORT2@ udp", &around, &format!("proxy_pass {echo};")).run();
    let at = SocketAddr::new([127, 0, 0, 2].into(), front(&server).port());
    let unix = format!("listen unix:{};", server.path("none.sock").display());
    let (client, later) = (Datagrams::new(), Datagrams::new());
    let before = port(&client.ask("x", at));
    server.edit(&unix, &format!("listen {at} udp;"));
    server.reload();
    let named = port(&later.ask("x", at));
    assert_eq!(port(&client.ask("x", at)), before);
    server.edit(&format!("listen {at} udp;"), &unix);
    server.reload();
    assert_eq!([&client, &later].map(|client| port(&client.ask("x", at))), [before, named]);
}

#[test]
fn sessions_outlive_a_reload_and_end_with_their_address() {
    if !require::freerun() {
        return;
    }
    let echo = Datagrams::echo();
    let around = format!("server {{ listen 127.0.0.1:@PORT3@ udp; proxy_pass {echo}; }}");
    let server = serving(&around, &format!("proxy_timeout 30s; proxy_pass {echo};")).run();
    let (client, other) = (Datagrams::new(), Datagrams::new());
    let before = port(&client.ask("a", front(&server)));
    other.ask("a", server.address_number(3));
    server.edit("proxy_timeout 30s;", "proxy_timeout 20s;");
    let elsewhere = format!("listen unix:{};", server.path("none.sock").display());
    server.edit(&format!("listen 127.0.0.1:{} udp;", server.port_number(3)), &elsewhere);
    server.reload();
    assert_eq!(port(&client.ask("b", front(&server))), before);
    // The other address is free, which its clients notice.
    let at = server.address_number(3);
    eventually("the address is free", || std::net::UdpSocket::bind(at).is_ok());
    server.logs("udp session closed, packets from/to client:1/1");
    // Other options of the socket leave its sessions alone.
    server.edit(&format!("listen {} udp", front(&server)), &format!("listen {} udp rcvbuf=100k", front(&server)));
    server.reload();
    assert_eq!(port(&client.ask("c", front(&server))), before);
}

#[test]
fn the_session_that_is_idle_longest_gives_way() {
    if !require::freerun() {
        return;
    }
    let echo = Datagrams::echo();
    let server = serving("udp_sessions 2;", &format!("proxy_pass {echo};")).run();
    let clients: Vec<_> = (0..3).map(|_| Datagrams::new()).collect();
    let ports: Vec<_> = clients[..2].iter().map(|client| port(&client.ask("x", front(&server)))).collect();
    assert_eq!(port(&clients[0].ask("x", front(&server))), ports[0]);
    clients[2].ask("x", front(&server));
    server.logs("udp session gives way to a new one (udp_sessions), packets from/to client:1/1");
    assert_eq!(port(&clients[0].ask("x", front(&server))), ports[0], "it was used last");
    assert_ne!(port(&clients[1].ask("x", front(&server))), ports[1]);
    // So it is when the connections of the loop run out.
    let setup = serving("", &format!("proxy_pass {echo};")).events("worker_connections 3;");
    let server = setup.run();
    let clients: Vec<_> = (0..20).map(|_| Datagrams::new()).collect();
    for client in &clients {
        client.ask("x", front(&server));
    }
    server.logs("worker_connections are not enough");
}

#[test]
fn on_several_loops_a_client_has_one_session() {
    if !require::freerun() {
        return;
    }
    let echo = Datagrams::echo();
    for listen in ["127.0.0.1:@PORT2@ udp", "127.0.0.1:@PORT2@ udp reuseport"] {
        let server = listening(listen, "", &format!("proxy_pass {echo};")).main("worker_processes 4;").run();
        let clients: Vec<_> = (0..30).map(|_| Datagrams::new()).collect();
        let ask = || clients.iter().map(|client| port(&client.ask("x", front(&server)))).collect::<Vec<_>>();
        let first = ask();
        assert_eq!((ask(), ask()), (first.clone(), first));
        server.reload();
        ask();
    }
}

#[test]
fn an_address_is_taken_by_one_server_alone() {
    let server = serving("", "return x;").run();
    let text = server.config().replace("server.pid", "other.pid");
    let taken = std::net::UdpSocket::bind(front(&server)).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    let path = server.path("other.conf");
    std::fs::write(&path, text).unwrap();
    let log = server.path("other.log");
    let arguments = ["-c", path.to_str().unwrap(), "-e", log.to_str().unwrap()];
    let checked = freerun_testkit::run(Kind::Freerun, &arguments, Duration::from_secs(20)).unwrap();
    let said = format!("{checked:?}{}", std::fs::read_to_string(&log).unwrap_or_default());
    assert!(said.contains(&format!("bind() to {} failed (98: Address already in use)", front(&server))), "{said}");
}

#[test]
fn a_worker_that_is_to_quit_waits_for_answers_and_for_no_more_questions() {
    // nginx waits for `proxy_timeout`.
    if !require::freerun() {
        return;
    }
    let behind = Datagrams::new();
    let mut server = serving("", &format!("proxy_pass {};", behind.address())).run();
    let (client, waiting) = (Datagrams::new(), Datagrams::new());
    client.send("answered", front(&server));
    behind.send("answer", behind.receive().1);
    client.receive();
    waiting.send("waiting", front(&server));
    let session = behind.receive().1;
    server.signal(Signal::QUIT);
    server.logs("udp done, packets from/to client:1/1");
    behind.send("late", session);
    assert_eq!(waiting.receive().0, b"late");
    assert!(server.wait().success());
    assert_eq!(server.access_lines(2).len(), 2);
}

#[test]
fn limits_count_sessions() {
    let echo = Datagrams::echo();
    let around = "limit_conn_zone $binary_remote_addr zone=z:1m;";
    let server = serving(around, &format!("limit_conn z 1; proxy_pass {echo};")).run();
    let (client, other) = (Datagrams::new(), Datagrams::new());
    let first = port(&client.ask("x", front(&server)));
    other.send("y", front(&server));
    assert!(server.access_lines(1)[0].starts_with("503|UDP|1|0|"));
    assert_eq!(port(&client.ask("x", front(&server))), first);
}

#[test]
fn what_does_not_go_together_with_datagrams_is_refused() {
    for (listen, lines, words) in [
        ("127.0.0.1:1 udp ssl", "return x;", "\"ssl\" parameter is incompatible with \"udp\""),
        ("127.0.0.1:1 udp backlog=5", "return x;", "\"backlog\" parameter is incompatible with \"udp\""),
        ("127.0.0.1:1 udp so_keepalive=on", "return x;", "\"so_keepalive\" parameter is incompatible with \"udp\""),
        ("127.0.0.1:1 udp fastopen=5", "return x;", "\"fastopen\" parameter is incompatible with \"udp\""),
    ] {
        let text = format!("events {{}}\nstream {{ server {{ listen {listen}; {lines} }} }}\n");
        let checked = freerun_testkit::check(Kind::Freerun, &text).unwrap();
        assert!(format!("{checked:?}").replace("\\\"", "\"").contains(words), "{listen}: {checked:?}");
    }
}

/// What the server's `status` says of stream.
fn status(server: &TestServer) -> serde_json::Value {
    let text = TestClient::connect(server.address_number(4)).get("/status").text();
    serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["stream"].clone()
}

/// A server as [`serving`] has it, whose `status` is at `/status`.
fn with_status(around: &str, lines: &str) -> Setup {
    serving(around, lines).http("server { listen 127.0.0.1:@PORT4@; location /status { status; } }")
}

/// IPv6 has longer datagrams than IPv4: a server that is reached by the one may answer what no client of the other can get.
#[test]
fn what_cannot_be_sent_to_a_client_is_logged_and_counted() {
    if !require::freerun() || !require::ipv6() {
        return;
    }
    let behind = Datagrams::at("[::1]:0".parse().unwrap());
    let server = with_status("", &format!("proxy_pass {};", behind.address())).freerun();
    let client = Datagrams::new();
    client.send("question", front(&server));
    let session = behind.receive().1;
    for _ in 0..3 {
        behind.send([b'x'; 65_527], session);
    }
    behind.send("answer", session);
    assert_eq!(client.receive().0, b"answer");
    server.logs(&format!(
        "sendmmsg() failed (90: Message too long) while proxying and sending to client, udp client: 127.0.0.1, server: {}",
        front(&server)
    ));
    let lost = status(&server)["lost_datagrams"].clone();
    assert_eq!((&lost["to_clients"], &lost["from_clients"]), (&3.into(), &0.into()));
    // Whoever chooses addresses that nothing can be sent to does not choose the size of the log.
    assert_eq!(server.error_log().matches("sendmmsg() failed").count(), 1);
}

#[test]
fn what_a_client_sends_beyond_its_rate_is_lost() {
    let behind = Datagrams::new();
    let lines = format!("proxy_upload_rate 100; proxy_timeout 2s; proxy_pass {};", behind.address());
    let server = serving("", &lines).run();
    let client = Datagrams::new();
    // In each second 100 bytes may begin.
    for number in 0..20_u8 {
        client.send([number; 60], front(&server));
    }
    assert_eq!((behind.receive().0, behind.receive().0), (vec![0; 60], vec![1; 60]));
    // The rest was lost, and does not come later.
    eventually("another second", || {
        client.send("late", front(&server));
        behind.receives_within(Duration::from_millis(100))
    });
}

#[test]
fn a_check_may_ask_by_datagrams() {
    if !require::freerun() {
        return;
    }
    let echo = Datagrams::echo();
    let silent = Datagrams::new();
    let gone = Datagrams::new().address();
    let around = format!(
        "match asked {{ send \"n1\"; expect ~ \":n1$\"; }}
         upstream g {{ server {echo}; server {}; server {gone}; }}",
        silent.address()
    );
    let lines = "proxy_pass g; health_check udp interval=50ms match=asked mandatory; health_check_timeout 300ms;";
    let server = serving(&around, lines).freerun();
    server.logs(&format!("peer is healthy, health check of peer {echo}"));
    server.logs(&format!(
        "peer is unhealthy while waiting for the end of the check, health check of peer {}",
        silent.address()
    ));
    server.logs(&format!("peer is unhealthy while checking the response, health check of peer {gone}"));
    for _ in 0..4 {
        let client = Datagrams::new();
        assert!(client.ask("question", front(&server)).ends_with(":question"));
    }
}
