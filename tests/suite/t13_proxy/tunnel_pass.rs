//! CONNECT (`tunnel_pass`): what opens a tunnel, what goes through it, how it ends, and what is in the log.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use freerun_testkit::http2::{FieldBlock, Frame, Http2, code};
use freerun_testkit::{
    ConnectionEnd, Dns, DnsReply, Full, Kind, Peer, RefusingAddress, Setup, Site, TempDir, TestClient, TestServer,
    TestUpstream, Tls, check, eventually, on_time, require,
};
use rustix::process::Signal;

/// The log lines of these tests.
const FORMAT: &str = "log_format way '$request|$status|$bytes_sent|$body_bytes_sent|$upstream_addr|$upstream_status|$upstream_bytes_sent|$upstream_bytes_received|$host|$request_port|$uri|$request_uri|$remote_user';
    access_log @DIR@/access.log way;";

/// A server with a tunnel at its own level, and further lines.
fn open_proxy(lines: &str) -> TestServer {
    with_http("", lines)
}

/// The same, with lines of the level around it.
fn with_http(http: &str, lines: &str) -> TestServer {
    let http = format!("{FORMAT} {http} server {{ listen 127.0.0.1:@PORT@; root @ROOT@; {lines} tunnel_pass; }}");
    Setup::new().root(&Site::new()).http(&http).freerun()
}

/// The head of a request for a tunnel.
fn connect(target: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
}

/// Takes the head of the answer.
fn head(client: &mut TestClient) -> String {
    let end = |bytes: &[u8]| bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
    let end = end(client.until(|bytes| end(bytes).is_some())).expect("a head");
    let all = client.take();
    assert_eq!(all.len(), end, "nothing follows");
    String::from_utf8(all).expect("text")
}

/// Both ends of a tunnel through a client's connection.
fn open_by(mut client: TestClient, upstream: &TestUpstream) -> (TestClient, Peer) {
    client.send(connect(&upstream.address()));
    let peer = upstream.accept();
    let head = head(&mut client);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    (client, peer)
}

/// Both ends of a tunnel.
fn open(server: &TestServer, upstream: &TestUpstream) -> (TestClient, Peer) {
    open_by(server.connect(), upstream)
}

fn got(client: &mut TestClient, bytes: &[u8]) {
    assert_eq!(client.at_least(bytes.len()), bytes);
    client.take();
}

#[test]
fn bytes_go_both_ways_and_the_log_line_comes_at_the_end() {
    let upstream = TestUpstream::new();
    let server = open_proxy("add_header X-Via here;");
    let mut client = server.connect();
    client.send(connect(&upstream.address()));
    let mut peer = upstream.accept();
    let head = head(&mut client);
    let fields: Vec<&str> = head.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert_eq!(fields, ["Server", "Date", "X-Via"], "a success has neither a length nor a coding: {head}");
    for _ in 0..3 {
        client.send("ping");
        assert_eq!(peer.bytes(4), b"ping");
        peer.send("pong!");
        got(&mut client, b"pong!");
    }
    assert_eq!(server.access_log(), "", "it is not over");
    drop(peer);
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    drop(client);
    let address = upstream.address();
    let all = head.len() + 15;
    let port = upstream.port();
    assert_eq!(
        server.access_lines(1),
        [format!("CONNECT {address} HTTP/1.1|200|{all}|15|{address}|200|12|15|127.0.0.1|{port}|/|/|-")]
    );
}

#[test]
fn what_the_client_sends_behind_its_request_is_passed_on() {
    let upstream = TestUpstream::new();
    let server = open_proxy("");
    let mut client = server.connect();
    client.send(connect(&upstream.address()) + "at once");
    let mut peer = upstream.accept();
    assert_eq!(peer.bytes(7), b"at once");
    peer.send("answer");
    head_then(&mut client, b"answer");
}

/// The head and these bytes, which may come together.
fn head_then(client: &mut TestClient, bytes: &[u8]) {
    let all = client.until(|all| all.ends_with(bytes));
    assert!(all.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

/// The server of many protocols speaks first, and the client must not miss it.
#[test]
fn the_server_may_speak_first() {
    let upstream = TestUpstream::new();
    let server = open_proxy("");
    let mut client = server.connect();
    client.send(connect(&upstream.address()));
    let mut peer = upstream.accept();
    peer.send("220 ready\r\n");
    head_then(&mut client, b"\r\n\r\n220 ready\r\n");
    client.take();
    peer.send("more");
    got(&mut client, b"more");
}

/// RFC 9110 section 9.3.6: when one side has ended, the other one gets what came before, and both connections are closed.
#[test]
fn the_end_of_one_side_ends_the_tunnel() {
    let upstream = TestUpstream::new();
    let server = open_proxy("tunnel_read_timeout 1h;");
    let (mut client, mut peer) = open(&server, &upstream);
    client.send("last").half_close();
    assert_eq!(peer.rest(), b"last");
    assert_eq!(client.ending(), ConnectionEnd::Closed);

    let (mut client, mut peer) = open(&server, &upstream);
    peer.send("last");
    peer.half_close();
    got(&mut client, b"last");
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    assert_eq!(peer.rest(), b"");
    server.access_lines(2);

    let (client, mut peer) = open(&server, &upstream);
    client.reset();
    assert_eq!(peer.rest(), b"");
    let (mut client, peer) = open(&server, &upstream);
    peer.reset();
    assert!(client.is_closed());
    server.logs("recv() failed (104: Connection reset by peer) while proxying upgraded connection, client: 127.0.0.1");
}

/// Over HTTP/2 a tunnel is a stream, whose end is END_STREAM or a reset: of CONNECT, and of a WebSocket (RFC 8441 section 5).
#[test]
fn the_end_of_the_server_or_a_reset_ends_the_tunnel_over_http2() {
    let upstream = TestUpstream::new();
    let http = format!(
        "{FORMAT} server {{ listen 127.0.0.1:@PORT@; http2 on; http2_extended_connect on; tunnel_read_timeout 1h; tunnel_pass;
             location /chat {{ proxy_pass http://{}; proxy_read_timeout 1h;
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}",
        upstream.address()
    );
    let server = Setup::new().http(&http).freerun();
    let mut http2 = Http2::new(server.connect());
    http2.greeted();
    let mut ended = 0;
    for is_websocket in [false, true] {
        let open = |http2: &mut Http2| {
            let block = if is_websocket {
                FieldBlock::new().fields(&[
                    (":method", "CONNECT"),
                    (":protocol", "websocket"),
                    (":scheme", "http"),
                    (":path", "/chat"),
                    (":authority", "localhost"),
                ])
            } else {
                FieldBlock::new().fields(&[(":method", "CONNECT"), (":authority", &upstream.address())])
            };
            let stream = http2.begin(block);
            let mut peer = upstream.accept();
            if is_websocket {
                peer.head();
                peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
            }
            assert_eq!(http2.head(stream), 200);
            (stream, peer)
        };
        let (stream, mut peer) = open(&mut http2);
        // The client's end is the end of its sending (RFC 9113 section 8.5): the server still answers.
        http2.upload(stream, b"last", true);
        assert_eq!(peer.rest(), b"last");
        peer.send("answer");
        peer.half_close();
        let answer = http2.answer(stream);
        assert!(answer.is_whole() && answer.text() == "answer", "{is_websocket}: {answer:?}");

        let (stream, mut peer) = open(&mut http2);
        http2.send(Frame::reset(stream, code::CANCEL));
        assert_eq!(peer.rest(), b"");

        let (stream, mut peer) = open(&mut http2);
        peer.send("last");
        peer.half_close();
        let answer = http2.answer(stream);
        assert!(answer.is_whole() && answer.text() == "last", "{is_websocket}: {answer:?}");
        assert_eq!(peer.rest(), b"");
        ended += 3;
        server.access_lines(ended);
    }
    // The connection goes on.
    assert_eq!(http2.get("/").status, 405);
}

#[test]
fn large_messages_of_slow_readers_are_not_lost_whatever_the_buffer() {
    let upstream = TestUpstream::new();
    for (size, length) in [("", 3_000_000), ("tunnel_buffer_size 100;", 200_000), ("tunnel_buffer_size 1m;", 3_000_000)]
    {
        let server = open_proxy(size);
        let (mut client, mut peer) = open(&server, &upstream);
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let (there, back) = (bytes.clone(), bytes.clone());
        let sending = std::thread::spawn(move || {
            peer.send(&there);
            assert!(peer.bytes(back.len()) == back);
            peer
        });
        got(&mut client, &bytes);
        client.send(&bytes);
        drop(sending.join().unwrap());
    }
}

#[test]
fn it_may_be_a_later_request_of_its_connection() {
    let upstream = TestUpstream::new();
    let server = with_http("", "location /page { return 200 page; } location / { tunnel_pass; }");
    let mut client = server.connect();
    assert_eq!(client.get("/page").text(), "page");
    assert_eq!(client.get("/page").text(), "page");
    let (mut client, mut peer) = open_by(client, &upstream);
    client.send("x");
    assert_eq!(peer.bytes(1), b"x");
}

#[test]
fn the_client_may_have_tls() {
    let upstream = TestUpstream::new();
    let http = "server { listen 127.0.0.1:@PORT@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; tunnel_pass; }";
    let server = Setup::new().root(&Site::new()).http(http).freerun();
    let (mut client, mut peer) = open_by(server.connect_tls(&Tls::new()), &upstream);
    client.send("question");
    assert_eq!(peer.bytes(8), b"question");
    peer.send("answer");
    got(&mut client, b"answer");
    client.send("last").half_close();
    assert_eq!(peer.rest(), b"last");
    assert_eq!(client.ending(), ConnectionEnd::Closed);
}

#[test]
fn targets_that_are_no_authority_are_refused() {
    let server = open_proxy("");
    for target in [
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:80/",
        "127.0.0.1:80?",
        "127.0.0.1:80#",
        "u:p@127.0.0.1:80",
        "http://127.0.0.1:80",
        "/",
        "/x",
        "*",
        ":80",
        ":",
        "[::1:80",
        "a b:80",
    ] {
        let response = server.send(format!("CONNECT {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(response.status, 400, "{target}");
    }
}

#[test]
fn where_nothing_answers_connect_it_is_not_allowed() {
    let upstream = TestUpstream::new();
    let http = "server { listen 127.0.0.1:@PORT@; server_name none; location / { return 200; } }
                server { listen 127.0.0.1:@PORT@; server_name 127.0.0.1; root @ROOT@;
                    location / { tunnel_pass; } }
                server { listen 127.0.0.1:@PORT2@; root @ROOT@; location / { } location /t { tunnel_pass; } }
                server { listen 127.0.0.1:@PORT3@; location / { proxy_pass http://127.0.0.1:9; } location /t { tunnel_pass; } }
                server { listen 127.0.0.1:@PORT4@; location / { } location /t { if ($arg_x) { tunnel_pass; } } }";
    let site = Site::new();
    site.file("index.html", "index");
    let server = Setup::new().root(&site).http(http).freerun();
    // The server without a tunnel refuses it before anything else, as does one that is asked in HTTP/1.0.
    let response = server.send(connect("none:80"));
    assert_eq!((response.status, response.says_close()), (405, true));
    server.logs("client sent CONNECT method while reading client request headers, client: 127.0.0.1");
    let address = upstream.address();
    let old = server.send(format!("CONNECT {address} HTTP/1.0\r\nHost: {address}\r\n\r\n"));
    assert_eq!(old.status, 405);
    // Other methods have no tunnel.
    assert_eq!(server.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").status, 405);
    // Nothing but a tunnel answers CONNECT.
    for number in [2, 3, 4] {
        let mut client = TestClient::connect(server.address_number(number));
        client.send(connect(&address));
        assert_eq!(client.response_to("GET").status, 405, "{number}");
    }
}

#[test]
fn connect_has_no_body() {
    let upstream = TestUpstream::new();
    let server = open_proxy("");
    let address = upstream.address();
    for field in ["Content-Length: 3", "Transfer-Encoding: chunked"] {
        let text = format!("CONNECT {address} HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\nabc");
        let response = server.send(text);
        assert_eq!((response.status, response.says_close()), (400, true), "{field}");
    }
    let mut client = server.connect();
    client
        .send(format!("CONNECT {address} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\nabc"));
    let mut peer = upstream.accept();
    assert_eq!(peer.bytes(3), b"abc");
    assert!(head(&mut client).starts_with("HTTP/1.1 200 OK\r\n"));
}

/// Bytes behind a request that is refused were meant for another server: nobody may take them for the client's next
/// request. A client that waits may go on.
#[test]
fn a_refused_client_that_did_not_wait_is_not_heard_any_more() {
    let server = open_proxy("location /page { return 200 page; } deny all;");
    let mut client = server.connect();
    client.send(connect("127.0.0.1:9"));
    let refused = client.response_to("GET");
    assert_eq!((refused.status, refused.says_close()), (403, false));
    assert_eq!(client.get("/page").text(), "page");

    let mut client = server.connect();
    client.send(connect("127.0.0.1:9") + "GET /page HTTP/1.1\r\nHost: h\r\n\r\n");
    let refused = client.response_to("GET");
    assert_eq!((refused.status, refused.says_close()), (403, true));
    assert_eq!(client.rest().0, b"");
    let lines = server.access_lines(3);
    assert_eq!(lines.iter().filter(|line| line.starts_with("GET /page")).count(), 1, "{lines:?}");
}

/// A client takes any success for a tunnel.
#[test]
fn a_success_without_a_tunnel_ends_the_connection() {
    let server = open_proxy(
        "if ($request_port = 1) { return 200 text; } error_page 403 =200 /ok; location = /ok { return 200 ok; }
         location / { deny all; tunnel_pass; }",
    );
    for port in [1, 2] {
        let mut client = server.connect();
        client.send(connect(&format!("h:{port}")));
        let (all, ending) = client.rest();
        let text = String::from_utf8(all).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("Connection: close\r\n"), "{text}");
        assert!(!text.contains("Content-Length"), "{text}");
        assert_eq!(ending, ConnectionEnd::Closed);
    }
}

#[test]
fn servers_that_cannot_be_reached_are_bad_gateways() {
    let refusing = RefusingAddress::new();
    let silent = Full::new();
    let server = open_proxy(
        "tunnel_connect_timeout 300ms; error_page 502 504 /error; location = /error { return 200 \"<$status $request_method>\"; }
         resolver_timeout 300ms;",
    );
    let mut client = server.connect();
    client.send(connect(&refusing.address()));
    let response = client.response_to("GET");
    assert_eq!((response.status, response.text().as_str(), response.says_close()), (502, "<502 GET>", false));
    server.logs("connect() failed (111: Connection refused) while connecting to upstream, client: 127.0.0.1");
    server.logs(&format!("upstream: \"tunnel://{}\"", refusing.address()));
    client.send(connect(&silent.address()));
    assert_eq!(client.response_to("GET").text(), "<504 GET>");
    // There is no resolver.
    client.send(connect("example.test:80"));
    assert_eq!(client.response_to("GET").text(), "<502 GET>");
    server.logs("no resolver defined to resolve example.test");
    // This is no path, whatever it looks like.
    client.send(connect("unix:80"));
    assert_eq!(client.response_to("GET").text(), "<502 GET>");
    let lines = server.access_lines(4);
    let address = refusing.address();
    assert!(lines[0].starts_with(&format!("CONNECT {address} HTTP/1.1|502|")), "{lines:?}");
    assert!(lines[0].contains(&format!("|{address}|502|0|0|127.0.0.1|")), "{lines:?}");
    assert!(lines[1].contains("|504|0|0|"), "{lines:?}");
}

#[test]
fn names_are_looked_up_and_groups_are_asked() {
    let (dns, upstream, refusing) = (Dns::start(), TestUpstream::new(), RefusingAddress::new());
    dns.set("a.test", DnsReply::address(Ipv4Addr::LOCALHOST, 60));
    dns.set("none.test", DnsReply::Code(3));
    let (address, port) = (upstream.address(), upstream.port());
    let resolver = dns.address();
    let http = format!(
        "{FORMAT} upstream group {{ server {} max_fails=0; server {address}; }}
         resolver {resolver}; resolver_timeout 5s;
         server {{ listen 127.0.0.1:@PORT@; tunnel_pass; }}
         server {{ listen 127.0.0.1:@PORT2@; tunnel_pass group; tunnel_next_upstream_tries 2; }}
         server {{ listen 127.0.0.1:@PORT3@; tunnel_pass group; tunnel_next_upstream off; }}
         server {{ listen 127.0.0.1:@PORT4@; tunnel_pass $host:{port}; }}",
        refusing.address()
    );
    let server = Setup::new().root(&Site::new()).http(&http).freerun();
    let through = |number: usize, target: &str| {
        let mut client = TestClient::connect(server.address_number(number));
        client.send(connect(target));
        let mut peer = upstream.accept();
        let head = head(&mut client);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        client.send("x");
        assert_eq!(peer.bytes(1), b"x");
    };
    through(1, &format!("a.test:{port}"));
    through(1, &format!("A.TEST.:{port}"));
    through(4, "a.test:1");
    through(4, "127.0.0.1:1");
    // The names of groups are for the configuration.
    for target in ["none.test:80", "group:80"] {
        assert_eq!(server.send(connect(target)).status, 502, "{target}");
    }
    server.logs("none.test could not be resolved (3: Host not found)");
    for _ in 0..4 {
        through(2, "whatever.test:80");
    }
    let mut statuses: Vec<u16> = (0..2)
        .map(|_| {
            let mut client = TestClient::connect(server.address_number(3));
            client.send(connect("whatever.test:80"));
            let status = head_status(&mut client);
            drop(client);
            status
        })
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 502]);
    let two = format!("|{}, {address}|502, 200|0, 1|0, 0|", refusing.address());
    eventually("a line with two tries", || server.access_log().contains(&two));
}

fn head_status(client: &mut TestClient) -> u16 {
    let text = client.until(|bytes| bytes.windows(4).any(|four| four == b"\r\n\r\n"));
    String::from_utf8_lossy(&text[9..12]).parse().expect("a status")
}

#[test]
fn addresses_of_every_kind_are_reached() {
    let folder = TempDir::new("tunnel");
    let path = folder.path().join("socket");
    let everybody = || std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everybody()).expect("rights");
    let unix = TestUpstream::unix(&path);
    std::fs::set_permissions(&path, everybody()).expect("rights");
    let server = with_http(
        &format!("server {{ listen 127.0.0.1:@PORT2@; tunnel_pass {}; }}", unix.address()),
        "tunnel_bind 127.0.0.3; tunnel_socket_keepalive on; tunnel_socket_sndbuf 64k; tunnel_socket_rcvbuf 64k;",
    );
    let mut client = TestClient::connect(server.address_number(2));
    client.send(connect("h:1"));
    let mut peer = unix.accept();
    head(&mut client);
    client.send("x");
    assert_eq!(peer.bytes(1), b"x");
    let upstream = TestUpstream::new();
    let (_client, peer) = open(&server, &upstream);
    assert_eq!(peer.remote().unwrap().ip(), Ipv4Addr::new(127, 0, 0, 3));

    if !require::ipv6() {
        return;
    }
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let six = TestUpstream::on(address);
    let server = open_proxy("");
    let (_client, _peer) = open(&server, &six);
}

#[test]
fn a_tunnel_lasts_while_either_side_speaks() {
    let upstream = TestUpstream::new();
    let server = open_proxy("tunnel_read_timeout 3s;");
    on_time(Duration::from_millis(1500), |steps| {
        let (mut client, mut peer) = open(&server, &upstream);
        // Nothing comes from the server for longer than the time that is allowed.
        for _ in 0..80 {
            client.send("x");
            assert_eq!(peer.bytes(1), b"x");
            steps.rest(Duration::from_millis(50));
        }
        peer.send("y");
        got(&mut client, b"y");
        // Now both are silent.
        assert_eq!(peer.rest(), b"");
        assert!(client.is_closed());
    });
    server.logs("upstream timed out (110: Connection timed out) while proxying upgraded connection, client: 127.0.0.1");
}

#[test]
fn tunnels_outlive_a_reload_and_a_worker_that_ends_leaves_them_their_time() {
    let upstream = TestUpstream::new();
    let http = "server { listen 127.0.0.1:@PORT@; location /which { return 200 old; } tunnel_pass; }";
    let mut server = Setup::new().root(&Site::new()).main("worker_shutdown_timeout 500ms;").http(http).freerun();
    let (mut client, mut peer) = open(&server, &upstream);
    server.edit("return 200 old;", "return 200 new;");
    server.reload();
    eventually("the new configuration", || server.get("/which").text() == "new");
    client.send("ping");
    assert_eq!(peer.bytes(4), b"ping");
    server.signal(Signal::QUIT);
    eventually("the end", || !server.runs());
    assert_eq!(peer.rest(), b"");
    assert!(client.is_closed());
}

/// The client leaves while the server is being connected to.
#[test]
fn nobody_connects_for_a_client_that_has_gone() {
    let silent = Full::new();
    let http = format!(
        "{FORMAT} upstream full {{ server {}; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ tunnel_pass full; }} location = /status {{ access_log off; status; }} }}",
        silent.address()
    );
    let server = Setup::new().root(&Site::new()).http(&http).freerun();
    let mut client = server.connect();
    client.send(connect("h:1"));
    eventually("the attempt", || server.status()["upstreams"][0]["servers"][0]["active"] == 1);
    client.reset();
    assert!(server.access_lines(1)[0].contains("|499|"), "{}", server.access_log());
}

#[test]
fn what_is_wrong_in_a_configuration_is_told() {
    for (lines, message) in [
        ("tunnel_pass a:1 b:1;", "invalid number of arguments in \"tunnel_pass\" directive"),
        ("tunnel_pass localhost;", "no port in upstream \"localhost\""),
        ("tunnel_pass http://localhost:80;", "invalid host in upstream \"http://localhost:80\""),
        ("tunnel_pass; tunnel_pass;", "\"tunnel_pass\" directive is duplicate"),
        ("tunnel_next_upstream http_502;", "invalid value \"http_502\""),
        ("tunnel_buffer_size x;", "\"tunnel_buffer_size\" directive invalid value"),
        ("location / { limit_except GET { tunnel_pass; } }", "\"tunnel_pass\" directive is not allowed here"),
    ] {
        let text = format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:1;\n{lines} }} }}\n");
        let checked = check(Kind::Freerun, &text).expect("an answer");
        assert!(checked.stderr.contains(message), "{lines}: {}", checked.stderr);
        assert_eq!(checked.code, Some(1), "{lines}");
    }
    let lines = "tunnel_bind $remote_addr; tunnel_bind_dynamic on; tunnel_next_upstream error timeout denied;
        tunnel_next_upstream_timeout 1s; tunnel_next_upstream_tries 2; tunnel_send_timeout 5s; tunnel_send_lowat 0;
        tunnel_allow_upstream 1; server { listen 127.0.0.1:1; location / { if ($arg_x) { tunnel_pass 127.0.0.1:1; } } }";
    let checked = check(Kind::Freerun, &format!("events {{ }}\nhttp {{ {lines} }}\n")).expect("an answer");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

/// CONNECT asks for a host and a port (RFC 9112 section 3.2.3), whether the server has tunnels or not.
#[test]
fn connect_to_a_path_is_a_bad_request() {
    let http = "server { listen 127.0.0.1:@PORT@; tunnel_pass; } server { listen 127.0.0.1:@PORT2@; }";
    let server = Setup::new().http(http).freerun();
    for number in [1, 2] {
        for target in ["/", "/a", "http://a/", "a", "a:", "*"] {
            let mut client = TestClient::connect(server.address_number(number));
            client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(client.response_to("CONNECT").status, 400, "{target} at address {number}");
        }
    }
}
