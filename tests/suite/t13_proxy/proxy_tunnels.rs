//! Connections that leave HTTP: `101 Switching Protocols`, and what goes both ways after it.

use freerun_testkit::{
    ConnectionEnd, Peer, Setup, Site, TestClient, TestServer, TestUpstream, Tls, TlsServer, eventually,
};
use rustix::process::Signal;

fn tunnelling(upstream: &TestUpstream, lines: &str) -> Setup {
    tunnelling_over("127.0.0.1:@PORT@", "http", upstream, lines)
}

/// The same with what `listen` has, and with the scheme of the upstream.
fn tunnelling_over(listen: &str, scheme: &str, upstream: &TestUpstream, lines: &str) -> Setup {
    let http = format!(
        "log_format way '$status|$upstream_status|$bytes_sent|$upstream_bytes_sent|$upstream_http_x_a|$upstream_bytes_received|$upstream_response_length|$upstream_response_time|$upstream_header_time';
         access_log @DIR@/access.log way;
         server {{ listen {listen}; root @ROOT@;
             location = /which {{ return 200 old; }}
             location / {{ proxy_pass {scheme}://{}; proxy_http_version 1.1; {lines}
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}",
        upstream.address()
    );
    Setup::new().root(&Site::new()).http(&http)
}

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX-A: b\r\n\r\n";

/// Both ends of a tunnel, once it is there, and the length of the head that the client got.
fn open(server: &TestServer, upstream: &TestUpstream, early: &str) -> (TestClient, Peer, usize) {
    open_from(server.connect(), upstream, early)
}

/// As [`open`], for a client that has connected.
fn open_from(mut client: TestClient, upstream: &TestUpstream, early: &str) -> (TestClient, Peer, usize) {
    client.send(UPGRADE);
    let mut peer = upstream.accept();
    let head = peer.head();
    assert!(head.contains("\r\nUpgrade: websocket\r\n") && head.contains("\r\nConnection: upgrade\r\n"), "{head}");
    peer.send(format!("{SWITCHED}{early}"));
    let end = head_len(&mut client);
    let got = client.take();
    let head = String::from_utf8_lossy(&got[..end]).into_owned();
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    for field in ["Connection: upgrade", "Upgrade: websocket", "X-A: b"] {
        assert_eq!(head.matches(&format!("\r\n{field}\r\n")).count(), 1, "{head}");
    }
    if !early.is_empty() {
        let rest = got[end..].to_vec();
        let more = early.len() - rest.len();
        let all = if more > 0 { [&rest[..], client.at_least(more)].concat() } else { rest };
        assert_eq!(all, early.as_bytes());
        client.take();
    }
    (client, peer, end)
}

/// How long the head is that the client gets next; it is left where it is.
fn head_len(client: &mut TestClient) -> usize {
    let end = |bytes: &[u8]| bytes.windows(4).position(|four| four == b"\r\n\r\n");
    end(client.until(|bytes| end(bytes).is_some())).expect("a head") + 4
}

/// The next bytes that the client gets.
fn got(client: &mut TestClient, count: usize) -> Vec<u8> {
    client.at_least(count);
    client.take()
}

#[test]
fn bytes_go_both_ways() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "").run();
    let (mut client, mut peer, head) = open(&server, &upstream, "early");
    for _ in 0..3 {
        client.send("ping");
        assert_eq!(peer.bytes(4), b"ping");
        peer.send("pong!");
        assert_eq!(got(&mut client, 5), b"pong!");
    }
    drop(peer);
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    drop(client);
    let line = server.access_lines(1).remove(0);
    let parts: Vec<&str> = line.split('|').collect();
    assert_eq!((parts[0], parts[1], parts[4]), ("101", "101", "b"), "{line}");
    assert_eq!(parts[2], (head + "early".len() + 15).to_string(), "{line}");
}

#[test]
fn what_the_client_sends_behind_its_request_is_passed_on() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "").run();
    let mut client = server.connect();
    client.send(format!("{UPGRADE}at once"));
    let mut peer = upstream.accept();
    peer.head();
    peer.send(SWITCHED);
    assert_eq!(peer.bytes(7), b"at once");
}

#[test]
fn large_messages_of_slow_readers_are_not_lost() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "").run();
    let (mut client, mut peer, _) = open(&server, &upstream, "");
    let body: Vec<u8> = (0..5_000_000).map(|at| (at % 251) as u8).collect();
    let (there, back) = (body.clone(), body.clone());
    let sending = std::thread::spawn(move || {
        peer.send(&there);
        let got = peer.bytes(back.len());
        assert!(got == back);
        peer
    });
    assert!(got(&mut client, body.len()) == body);
    client.send(&body);
    drop(sending.join().unwrap());
}

/// As in nginx, the end of one side is the end of the tunnel, when the other side has what came before. The side that is told does
/// not close by itself here: nothing waits for it, and so a worker that is to end does not either.
#[test]
fn the_end_of_one_side_ends_the_tunnel() {
    for client_has_tls in [false, true] {
        for upstream_has_tls in [false, true] {
            let upstream = if upstream_has_tls { TestUpstream::tls(TlsServer::new("ec")) } else { TestUpstream::new() };
            let scheme = if upstream_has_tls { "https" } else { "http" };
            let listen = if client_has_tls {
                "127.0.0.1:@PORT@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key"
            } else {
                "127.0.0.1:@PORT@"
            };
            let mut server = tunnelling_over(listen, scheme, &upstream, "proxy_read_timeout 1h;").freerun();
            let mut lines = 0;
            let connect = || if client_has_tls { server.connect_tls(&Tls::new()) } else { server.connect() };
            let ends = format!("TLS of the client: {client_has_tls}, of the upstream: {upstream_has_tls}");
            // The client ends its sending side, or both.
            for is_half in [true, false] {
                let (mut client, mut peer, _) = open_from(connect(), &upstream, "");
                client.send("last").half_close();
                let client = is_half.then_some(client);
                assert_eq!(peer.rest(), b"last", "{ends}");
                if let Some(mut client) = client {
                    assert_eq!(client.ending(), ConnectionEnd::Closed, "{ends}");
                }
                lines += 1;
                server.access_lines(lines);
            }
            // The upstream ends first.
            let (mut client, mut peer, _) = open_from(connect(), &upstream, "");
            peer.send("last");
            if upstream_has_tls {
                peer.notify();
            }
            peer.half_close();
            assert_eq!(got(&mut client, 4), b"last", "{ends}");
            assert_eq!(client.ending(), ConnectionEnd::Closed, "{ends}");
            assert_eq!(peer.rest(), b"", "{ends}");
            lines += 1;
            server.access_lines(lines);
            server.signal(Signal::QUIT);
            eventually("the worker has ended", || !server.runs());
        }
    }
}

#[test]
fn an_end_of_the_client_ends_the_upstream_connection() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "").run();
    let (client, mut peer, _) = open(&server, &upstream, "");
    drop(client);
    assert_eq!(peer.rest(), b"");
    let (client, mut peer, _) = open(&server, &upstream, "");
    client.reset();
    assert_eq!(peer.rest(), b"");
}

#[test]
fn tunnels_outlive_a_reload_and_requests_use_the_new_configuration() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "").freerun();
    let (mut client, mut peer, _) = open(&server, &upstream, "");
    server.edit("return 200 old;", "return 200 new;");
    server.reload();
    eventually("the new configuration", || server.get("/which").text() == "new");
    client.send("ping");
    assert_eq!(peer.bytes(4), b"ping");
    peer.send("pong");
    assert_eq!(got(&mut client, 4), b"pong");
}

#[test]
fn a_tunnel_without_news_from_the_upstream_is_closed() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "proxy_read_timeout 2s; ").run();
    // Time enough for the switch itself, of which a busy machine needs some.
    let (mut client, mut peer, _) = open(&server, &upstream, "");
    assert_eq!(peer.rest(), b"");
    assert!(client.is_closed());
    server.logs("upstream timed out (110: Connection timed out) while proxying upgraded connection, client: 127.0.0.1");
}

#[test]
fn a_worker_that_ends_leaves_tunnels_their_time() {
    let upstream = TestUpstream::new();
    let mut server = tunnelling(&upstream, "").main("worker_shutdown_timeout 500ms;").freerun();
    let (mut client, mut peer, _) = open(&server, &upstream, "");
    server.signal(Signal::QUIT);
    eventually("the end", || !server.runs());
    assert_eq!(peer.rest(), b"");
    assert!(client.is_closed());
}

/// A tunnel that began before a reload has the time that the configuration of then allows.
#[test]
fn a_reload_leaves_old_tunnels_their_time() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "add_header X-Which old;").main("worker_shutdown_timeout 500ms;").freerun();
    let (mut client, mut peer, _) = open(&server, &upstream, "");
    server.edit("worker_shutdown_timeout 500ms;", "worker_shutdown_timeout 1h;");
    server.edit("X-Which old", "X-Which new");
    server.reload();
    let (mut later, mut its_peer, _) = open(&server, &upstream, "");
    assert_eq!(peer.rest(), b"");
    assert!(client.is_closed());
    later.send("goes on");
    assert_eq!(its_peer.bytes(7), b"goes on");
    server.edit("X-Which new", "X-Which newest");
    server.reload();
    later.send("and on");
    assert_eq!(its_peer.bytes(6), b"and on");
}

#[test]
fn nobody_switches_protocols_unasked() {
    let upstream = TestUpstream::answering(|_| SWITCHED.into());
    let http =
        format!("server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://{}; }} }}", upstream.address());
    let server = Setup::new().http(&http).freerun();
    assert_eq!(server.get("/").status, 502);
    assert_eq!(server.send(UPGRADE).status, 502);
}

/// As in nginx: a proxy in front may speak HTTP/1.0, and pass the fields on.
#[test]
fn a_client_of_http10_may_switch_protocols() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "").run();
    let mut client = server.connect();
    client.send(UPGRADE.replace("HTTP/1.1", "HTTP/1.0"));
    let mut peer = upstream.accept();
    peer.head();
    peer.send(SWITCHED);
    head_len(&mut client);
    let head = String::from_utf8(client.take()).expect("text");
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("\r\nUpgrade: websocket\r\n"), "{head}");
    client.send("ping");
    assert_eq!(peer.bytes(4), b"ping");
    peer.send("pong");
    assert_eq!(got(&mut client, 4), b"pong");
}

/// What is left of the request's body is not the beginning of what comes after HTTP.
#[test]
fn a_switch_before_the_request_was_sent_is_refused() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "proxy_request_buffering off;").freerun();
    let mut client = server.connect();
    let head = UPGRADE.replace("GET", "POST").replace("\r\n\r\n", "\r\nContent-Length: 4\r\n\r\n");
    client.send(head);
    let mut peer = upstream.accept();
    peer.head();
    peer.send(SWITCHED);
    assert_eq!(client.response().status, 502);
}

/// What the log has at the end of a tunnel is what it would have had without one; `$request_id` is the one that the server
/// behind was told. All of it outlives a reload.
#[test]
fn the_log_line_at_the_end_speaks_of_the_request() {
    let upstream = TestUpstream::new();
    let http = format!(
        "map $arg_q $mapped {{ two found; default lost; }}
         map $http_x_b $noted {{ default \"<$http_x_b>\"; }}
         map $room $late {{ default \"<$2>\"; }}
         log_format way '$request|$request_method|$request_uri|$uri|$args|$host|$http_x_b|$arg_q|$set|$mapped|$noted|$room|$late'
                        '|$connection_requests|$request_length|$request_body|$status|$sent_http_x_a|$upstream_addr|$proxy_host'
                        '|$remote_user|$cookie_c|$content_length|$server_name|$document_root|$request_id';
         access_log @DIR@/access.log way;
         server {{ listen 127.0.0.1:@PORT@; server_name other; return 404; }}
         server {{ listen 127.0.0.1:@PORT@; server_name this; root @ROOT@;
             location = /which {{ access_log off; return 200 old; }}
             location ~ ^/chat/(?<room>[a-z]+)/([0-9]+)$ {{
                 set $set \"$1-$arg_q\";
                 proxy_pass http://{}; proxy_http_version 1.1;
                 proxy_set_header X-Noted $noted; proxy_set_header X-Id $request_id;
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}",
        upstream.address()
    );
    let site = Site::new();
    let server = Setup::new().root(&site).http(&http).run();
    let request = "POST /chat/%72oom/7?q=two&r HTTP/1.1\r\nHost: This:80\r\nX-B: 1\r\nX_C: bad\r\n\
                   Authorization: Basic YW5uOmE=\r\nCookie: b=1; c=2\r\nContent-Length: 4\r\n\
                   Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nbody";
    for reloads in [false, true] {
        let mut client = server.connect();
        assert_eq!(client.send("GET /which HTTP/1.1\r\nHost: this\r\n\r\n").response().text(), "old");
        client.send(request);
        let mut peer = upstream.accept();
        let head = peer.head();
        assert!(head.contains("\r\nX-Noted: <1>\r\n"), "{head}");
        let id = head.split("\r\nX-Id: ").nth(1).and_then(|rest| rest.get(..32)).expect("an id").to_owned();
        assert_eq!(peer.bytes(4), b"body");
        peer.send(SWITCHED);
        head_len(&mut client);
        if reloads {
            server.edit("return 200 old;", "return 200 new;");
            server.edit("two found;", "two again;");
            server.reload();
            eventually("the new configuration", || {
                server.send("GET /which HTTP/1.1\r\nHost: this\r\n\r\n").text() == "new"
            });
        }
        client.send("ping");
        assert_eq!(peer.bytes(4), b"ping");
        drop(client);
        assert_eq!(peer.rest(), b"");
        drop(peer);
        let mut line = String::new();
        eventually("the line of the tunnel", || {
            line = server.access_log().lines().find(|line| line.ends_with(&id)).unwrap_or_default().to_owned();
            !line.is_empty()
        });
        let address = upstream.address();
        let expected = format!(
            "POST /chat/%72oom/7?q=two&r HTTP/1.1|POST|/chat/%72oom/7?q=two&r|/chat/room/7|q=two&r|this|1|two|room-two|found\
             |<1>|room|<7>|2|{}|body|101|b|{address}|{address}|ann|2|4|this|{}|{id}",
            request.len(),
            site.path().display()
        );
        assert_eq!(line, expected);
    }
}

/// A head is read by the rules of the address's default server, whichever server answers, but for the names of fields.
#[test]
fn the_log_line_at_the_end_has_the_head_as_it_was_read() {
    let upstream = TestUpstream::new();
    let http = format!(
        "log_format way '$http_x_y|$http_x_z|$request_method|$uri';
         access_log @DIR@/access.log way;
         server {{ listen 127.0.0.1:@PORT@; server_name other; return 404; }}
         server {{ listen 127.0.0.1:@PORT@; server_name this; underscores_in_headers on; large_client_header_buffers 1 1k;
             location / {{ proxy_pass http://{}; proxy_http_version 1.1;
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}",
        upstream.address()
    );
    let server = Setup::new().http(&http).freerun();
    let long = "z".repeat(2000);
    let heads = [
        ("Host: this\r\nX_Y: 1\r\n".to_owned(), "1|-|GET|/chat".to_owned()),
        (format!("X-Z: {long}\r\nHost: this\r\n"), format!("-|{long}|GET|/chat")),
    ];
    for (count, (fields, expected)) in heads.into_iter().enumerate() {
        let mut client = server.connect();
        client.send(UPGRADE.replace("Host: localhost\r\n", &fields));
        let mut peer = upstream.accept();
        peer.head();
        peer.send(SWITCHED);
        head_len(&mut client);
        drop(client);
        assert_eq!(peer.rest(), b"");
        drop(peer);
        assert_eq!(server.access_lines(count + 1)[count], expected);
    }
}

/// What `$upstream_…` says at the end is of all that went through; there was no response with a length.
#[test]
fn the_log_line_at_the_end_counts_what_went_through() {
    let upstream = TestUpstream::new();
    let server = tunnelling(&upstream, "").run();
    let mut client = server.connect();
    client.send(UPGRADE);
    let mut peer = upstream.accept();
    let asked = peer.head().len();
    peer.send(SWITCHED);
    let head = head_len(&mut client);
    client.send("ping");
    assert_eq!(peer.bytes(4), b"ping");
    peer.send("pong!");
    client.at_least(head + 5);
    drop(client);
    assert_eq!(peer.rest(), b"");
    drop(peer);
    let line = server.access_lines(1).remove(0);
    let (counts, times) = line.split_at(line.match_indices('|').nth(6).expect("seven values").0);
    assert_eq!(counts, format!("101|101|{}|{}|b|{}|0", head + 5, asked + 4, SWITCHED.len() + 5));
    let times: Vec<f64> = times.split('|').skip(1).map(|time| time.parse().expect(time)).collect();
    assert!(times.len() == 2 && times[0] >= times[1], "{line}");
}

/// Who takes nothing for too long is given up, whatever the other end does.
#[test]
fn a_receiver_that_takes_nothing_ends_the_tunnel() {
    for (lines, log) in [
        ("send_timeout 300ms;", "client timed out (110: Connection timed out) while proxying upgraded connection"),
        (
            "proxy_send_timeout 300ms;",
            "upstream timed out (110: Connection timed out) while proxying upgraded connection",
        ),
    ] {
        let upstream = TestUpstream::new();
        let server = tunnelling(&upstream, lines).run();
        let (mut client, mut peer, _) = open(&server, &upstream, "");
        // More than all buffers between them hold; the sender sees the end sooner or later.
        let piece = vec![b'x'; 1 << 20];
        if lines.starts_with("send_timeout") {
            while peer.try_send(&piece).is_ok() {}
        } else {
            while client.try_send(&piece).is_ok() {}
        }
        server.logs(log);
    }
}
