//! Requests that are passed on: tries, what goes wrong on the way, bodies of responses. Those of requests: `proxy_bodies.rs`.

use crate::worker::InProcess;
use freerun_testkit::{
    ConnectionEnd, RefusingAddress, Response, Setup, Site, TestClient, TestServer, TestUpstream, eventually, ok,
};

/// A server that passes everything to these servers, and logs what it knows of them.
pub fn passing(servers: &[&str], lines: &str) -> Setup {
    let servers: String = servers.iter().map(|server| format!("server {server} max_fails=0; ")).collect();
    let http = format!(
        "log_format way '$status|$upstream_addr|$upstream_status|$upstream_response_length|$upstream_bytes_received';
         access_log @DIR@/access.log way;
         upstream backend {{ {servers} }}
         server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@;
                   proxy_temp_path @DIR@/proxy; {lines} location / {{ proxy_pass http://backend; }} }}"
    );
    Setup::new().root(&Site::new()).http(&http)
}

/// Sends a request while the upstream is played.
pub fn asked(server: &TestServer, request: &str) -> TestClient {
    let mut client = server.connect();
    client.send(request);
    client
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn a_connection_is_used_again_for_the_next_request() {
    let upstream = TestUpstream::answering(|request| ok(request.target()));
    let server = passing(&[upstream.address()], "").in_process();
    let mut client = server.connect();
    for target in ["/one", "/two", "/three"] {
        assert_eq!(client.get(target).text(), target);
    }
    assert_eq!(upstream.connections(), 1);
    assert_eq!(server.access_lines(1)[0], format!("200|{}|200|4|{}", upstream.address(), ok("/one").len()));
}

#[test]
fn a_head_that_comes_byte_by_byte_and_a_body_without_length() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "").in_process();
    let mut client = asked(&server, GET);
    let mut peer = upstream.accept();
    assert_eq!(peer.request().line(), "GET /a HTTP/1.1");
    for byte in "HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n".bytes() {
        peer.send([byte]);
    }
    peer.send("the body");
    drop(peer);
    let response = client.response();
    assert_eq!((response.status, response.header("x-a"), response.text().as_str()), (200, Some("b"), "the body"));
    assert!(response.chunked);
}

#[test]
fn chunks_are_unpacked_and_the_connection_kept() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "").in_process();
    let mut client = asked(&server, GET);
    let mut peer = upstream.accept();
    for round in 0..2 {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        peer.send("2\r\nde\r\n0\r\n\r\n");
        assert_eq!(client.response().text(), "abcde");
        if round == 0 {
            client.send(GET);
        }
    }
}

#[test]
fn interim_responses_are_not_the_answer() {
    let upstream = TestUpstream::new();
    let lines = "early_hints $http_x_hints; proxy_hide_header X-Secret; ";
    let server = passing(&[&upstream.address()], lines).in_process();
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-Secret: s\r\nLink: </a>\r\n\r\n";
    let mut client = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    peer.send(interim);
    peer.send(ok("x"));
    assert_eq!(client.response().text(), "x");
    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\nX-Hints: 1\r\n\r\n");
    peer.request();
    peer.send(interim);
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    assert_eq!(client.at_least(hints.len()), hints.as_bytes());
    client.take();
    peer.send(ok("y"));
    assert_eq!(client.response().text(), "y");
}

/// What its socket would take says nothing of what a client at a limited rate is sent.
#[test]
fn no_more_is_read_for_a_client_at_a_limited_rate_than_the_buffers_hold() {
    let upstream = TestUpstream::new();
    let lines = "limit_rate 40k; proxy_max_temp_file_size 0; ";
    let server = passing(&[&upstream.address()], lines).in_process();
    let mut client = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    let sending = std::thread::spawn(move || peer.try_send(ok(vec![b'x'; 1_000_000])));
    client.at_least(30_000);
    client.reset();
    let line = server.access_lines(1).remove(0);
    let received: usize = line.rsplit('|').next().unwrap().parse().unwrap();
    assert!(received < 200_000, "{line}");
    let _ = sending.join();
}

#[test]
fn the_next_server_is_asked_when_one_refuses() {
    let (refusing, alive) = (RefusingAddress::new(), TestUpstream::answering(|_| ok("alive")));
    let dead = refusing.address();
    let server = passing(&[&dead, alive.address()], "").in_process();
    for _ in 0..4 {
        assert_eq!(server.get("/").text(), "alive");
    }
    assert_eq!(server.access_lines(1)[0].split('|').nth(2), Some("502, 200"));
    server.logs(&format!(
        "connect() failed (111: Connection refused) while connecting to upstream, client: 127.0.0.1, server: localhost, \
         request: \"GET / HTTP/1.1\", upstream: \"http://{dead}/\", host: "
    ));
}

#[test]
fn what_breaks_before_there_is_a_head_goes_to_the_next_server() {
    for (sent, words) in [
        ("", "upstream prematurely closed connection while reading response header from upstream"),
        ("HTTP/1.1 200 OK\r\nContent-", "upstream prematurely closed connection while reading response header"),
    ] {
        let (first, second) = (TestUpstream::new(), TestUpstream::answering(|_| ok("second")));
        let server = passing(&[&first.address(), second.address()], "").in_process();
        let mut client = asked(&server, GET);
        let mut peer = first.accept();
        peer.request();
        peer.send(sent);
        drop(peer);
        assert_eq!(client.response().text(), "second");
        server.logs(words);
    }
}

#[test]
fn what_may_not_be_sent_twice_is_not() {
    let post = "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";
    for (lines, status) in
        [("", 502), ("proxy_next_upstream error non_idempotent; ", 200), ("proxy_next_upstream off; ", 502)]
    {
        let (first, second) = (TestUpstream::new(), TestUpstream::answering(|_| ok("second")));
        let server = passing(&[&first.address(), second.address()], lines).in_process();
        let mut client = asked(&server, post);
        let mut peer = first.accept();
        assert_eq!(peer.request().body, b"abc");
        drop(peer);
        assert_eq!(client.response().status, status, "{lines}");
    }
    // Nothing was sent where there is no connection.
    let (dead, second) = (RefusingAddress::new(), TestUpstream::answering(|request| request.body.clone()));
    let second_address = second.address().to_owned();
    let server = passing(&[&dead.address(), &second_address], "").in_process();
    assert_eq!(server.send(post).status, 502);
    assert_eq!(second.take_requests().len(), 1);
}

#[test]
fn statuses_lead_to_the_next_server_and_the_last_one_counts() {
    let bad = || TestUpstream::answering(|_| "HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nbad".into());
    let (one, two) = (bad(), bad());
    let server = passing(&[one.address(), two.address()], "proxy_next_upstream http_503; ").in_process();
    let response = server.get("/");
    assert_eq!((response.status, response.text().as_str()), (503, "bad"));
    assert_eq!(server.access_lines(1)[0].split('|').nth(2), Some("503, 503"));
    let server =
        passing(&[one.address(), two.address()], "proxy_next_upstream http_503; proxy_next_upstream_tries 1; ");
    let server = server.in_process();
    assert_eq!(server.get("/").status, 503);
    assert_eq!(server.access_lines(1)[0].split('|').nth(2), Some("503"));
}

#[test]
fn a_stale_idle_connection_costs_no_request() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "").in_process();
    let mut client = asked(&server, GET);
    let mut first = upstream.accept();
    first.request();
    first.send(ok("one"));
    assert_eq!(client.response().text(), "one");
    client.send(GET);
    // Closed with the second request on its way.
    first.request();
    drop(first);
    let mut second = upstream.accept();
    second.request();
    second.send(ok("two"));
    assert_eq!(client.response().text(), "two");
    assert_eq!(server.access_lines(2)[1].split('|').nth(2), Some("200"));
}

#[test]
fn an_upstream_that_says_nothing_is_given_up() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "proxy_read_timeout 300ms; ").in_process();
    let mut client = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    assert_eq!(client.response().status, 504);
    server.logs("upstream timed out (110: Connection timed out) while reading response header from upstream");
    assert_eq!(peer.rest(), b"");
}

#[test]
fn an_upstream_is_given_up_for_each_connection_whichever_waited_before() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "proxy_read_timeout 1s; proxy_buffering off; ").in_process();
    let mut first = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    let (head, body) = ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "one");
    peer.send(head);
    // freerun waits for the body: with a timer that the next one is given afterwards.
    first.at_least(1);
    peer.send(body);
    assert_eq!(first.response().text(), "one");
    let mut second = asked(&server, GET);
    peer.request();
    assert_eq!(second.response().status, 504);
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let upstream = TestUpstream::answering(|request| {
        let size = request.target()[1..].parse().unwrap();
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: {}\r\n\r\n", "x".repeat(size)).into()
    });
    let server = passing(&[upstream.address()], "proxy_buffer_size 8k; ").in_process();
    assert_eq!(server.get("/8000").status, 200);
    assert_eq!(server.get("/8192").status, 502);
    assert_eq!(server.get("/100000").status, 502);
    server.logs("upstream sent too big header while reading response header from upstream");
}

#[test]
fn ambiguous_framing_is_refused() {
    for fields in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Content-Length: 3\r\nContent-Length: 4",
        "Transfer-Encoding: gzip",
        "Content-Length: 3x",
    ] {
        let upstream = TestUpstream::answering(move |_| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nabc").into());
        let server = passing(&[upstream.address()], "").in_process();
        assert_eq!(server.get("/").status, 502, "{fields}");
    }
}

/// The response to a request whose upstream ends the connection after these bytes.
fn cut(sent: &str) -> Result<Response, String> {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "").in_process();
    let mut client = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    peer.send(sent);
    // The client has the beginning before the end is known.
    client.at_least(sent.find("half").map_or(0, |_| 20));
    drop(peer);
    let response = client.try_response("GET");
    server.logs("upstream prematurely closed connection while reading upstream");
    response
}

#[test]
fn a_response_that_was_cut_is_not_delivered_as_complete() {
    for head in ["Content-Length: 8", "Transfer-Encoding: chunked"] {
        let body = if head.starts_with('C') { "half" } else { "4\r\nhalf\r\n" };
        let response = cut(&format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
        assert!(response.is_err(), "{head}: {response:?}");
    }
}

#[test]
fn a_small_body_behind_its_head_may_come_in_pieces_or_break() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "").in_process();
    let mut client = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    for piece in ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "ab", "cde", "fghi"] {
        peer.send(piece);
    }
    assert_eq!(client.response().text(), "abcdefghi");
    client.send(GET);
    // On the same connection: nothing of the first response was left.
    peer.request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab");
    peer.reset();
    assert!(client.try_response("GET").is_err());
    server.logs("recv() failed (104: Connection reset by peer) while reading upstream");
}

#[test]
fn more_than_was_announced_is_left_out() {
    let upstream = TestUpstream::answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef".into());
    let server = passing(&[upstream.address()], "").in_process();
    assert_eq!(server.get("/").text(), "abc");
    assert_eq!(server.get("/").text(), "abc");
    assert_eq!(upstream.connections(), 2);
}

#[test]
fn bodiless_responses_keep_what_they_announce() {
    let upstream = TestUpstream::answering(|request| match request.target() {
        "/204" => "HTTP/1.1 204 No Content\r\n\r\n".into(),
        "/304" => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n".into(),
        _ => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".into(),
    });
    let server = passing(&[upstream.address()], "").in_process();
    let mut client = server.connect();
    client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to("HEAD").header("content-length"), Some("1000"));
    for (target, status) in [("/204", 204), ("/304", 304)] {
        let response = client.get(target);
        assert_eq!((response.status, response.header("content-length")), (status, None));
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_client_that_goes_ends_the_request() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "").in_process();
    let client = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    client.reset();
    assert_eq!(peer.rest(), b"");
    // No status is that of a server that has said nothing.
    assert_eq!(server.access_lines(1)[0], format!("499|{}|-|0|0", upstream.address()));
    server.logs(
        "client prematurely closed connection, so upstream connection is closed too while reading response header",
    );
}

#[test]
fn an_upstream_may_be_left_to_finish_without_the_client() {
    let upstream = TestUpstream::new();
    let lines = "proxy_ignore_client_abort on; location = /status { status; } ";
    let server = passing(&[&upstream.address()], lines).in_process();
    let client = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    client.reset();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n");
    let piece = vec![b'x'; 1_000_000];
    for _ in 0..10 {
        peer.send(&piece);
    }
    eventually("all of it is taken", || server.status()["upstreams"][0]["servers"][0]["idle"] == 1);
    // Nothing was lost on the way: the connection is used again.
    let mut client = asked(&server, GET);
    peer.request();
    peer.send(ok("again"));
    assert_eq!(client.response().text(), "again");
}

#[test]
fn a_slow_client_does_not_hold_the_upstream_up() {
    const SIZE: usize = 20_000_000;
    let body: Vec<u8> = (0..SIZE).map(|at| (at % 253) as u8).collect();
    let length = format!("Content-Length: {SIZE}");
    for (framing, lines) in [
        (&*length, ""),
        (&*length, "proxy_buffers 4 8k; proxy_busy_buffers_size 16k; proxy_temp_file_write_size 16k; "),
        (&*length, "limit_rate 30m; "),
        (&*length, "aio threads always; "),
        ("Transfer-Encoding: chunked", ""),
    ] {
        let upstream = TestUpstream::new();
        let server = passing(&[&upstream.address()], lines).in_process();
        let mut client = TestClient::try_connect_narrow(server.address(), 16 * 1024).unwrap();
        client.send(GET);
        let mut peer = upstream.accept();
        peer.request();
        peer.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\nConnection: close\r\n\r\n"));
        // The client reads nothing yet, but all of it is taken and the connection over.
        if framing == length {
            peer.send(&body)
        } else {
            for chunk in body.chunks(300_000) {
                peer.send(format!("{:x}\r\n", chunk.len()));
                peer.send(chunk);
                peer.send("\r\n");
            }
            peer.send("0\r\n\r\n");
        }
        assert_eq!(peer.rest(), b"");
        let place = server.path("proxy").display().to_string();
        server.logs(&format!("an upstream response is buffered to a temporary file {place}/#"));
        let response = client.response();
        assert!(response.body == body, "{framing} {lines} {} bytes", response.body.len());
        // The connection is in order after it.
        client.send(GET);
        let mut peer = upstream.accept();
        peer.request();
        peer.send(ok("again"));
        assert_eq!(client.response().text(), "again");
    }
}

#[test]
fn without_room_for_a_file_the_upstream_waits_for_the_client() {
    const SIZE: usize = 20_000_000;
    let body: Vec<u8> = (0..SIZE).map(|at| (at % 253) as u8).collect();
    for lines in ["proxy_max_temp_file_size 0; ", "proxy_max_temp_file_size 1m; ", "proxy_buffering off; "] {
        let upstream = TestUpstream::new();
        let server = passing(&[&upstream.address()], lines).in_process();
        let mut client = TestClient::try_connect_narrow(server.address(), 16 * 1024).unwrap();
        client.send(GET);
        let mut peer = upstream.accept();
        peer.request();
        let sent = body.clone();
        let sending = std::thread::spawn(move || {
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
            peer.send(&sent);
        });
        let response = client.response();
        assert!(response.body == body, "{lines} {} bytes", response.body.len());
        sending.join().unwrap();
    }
}

#[test]
fn a_folder_that_takes_no_file_loses_nothing() {
    const SIZE: usize = 20_000_000;
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "").in_process();
    std::fs::remove_dir_all(server.path("proxy")).unwrap();
    let mut client = TestClient::try_connect_narrow(server.address(), 16 * 1024).unwrap();
    client.send(GET);
    let mut peer = upstream.accept();
    peer.request();
    let sending = std::thread::spawn(move || {
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
        peer.send(vec![b'x'; SIZE]);
    });
    let place = server.path("proxy").display().to_string();
    server.logs(&format!("open() \"{place}\" failed (2: No such file or directory) while reading upstream"));
    let response = client.response();
    assert_eq!(response.body.len(), SIZE);
    sending.join().unwrap();
}

#[test]
fn pieces_are_passed_on_as_they_come() {
    for lines in ["", "proxy_buffering off; "] {
        let upstream = TestUpstream::new();
        let server = passing(&[&upstream.address()], lines).in_process();
        let mut client = asked(&server, GET);
        let mut peer = upstream.accept();
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        for number in 0..5 {
            let event = format!("data: {number}\n\n");
            peer.send(&event);
            client.until(|bytes| String::from_utf8_lossy(bytes).contains(&event));
        }
        drop(peer);
    }
}

#[test]
fn a_file_of_the_site_may_be_sent_instead() {
    let site = Site::new();
    site.file("protected/file", "the file");
    let upstream = TestUpstream::answering(|request| match request.target() {
        "/loop" => "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /again\r\nContent-Length: 0\r\n\r\n".into(),
        "/again" => ok("never"),
        _ => "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /protected/file\r\nContent-Length: 5\r\n\r\nnever".into(),
    });
    let server = passing(&[upstream.address()], "location /protected/ { internal; } ").root(&site).in_process();
    assert_eq!(server.get("/x").text(), "the file");
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn errors_of_an_upstream_get_pages_of_this_server_where_that_is_asked_for() {
    let site = Site::new();
    site.file("error.html", "our page");
    let upstream = TestUpstream::answering(|_| "HTTP/1.1 500 Oh\r\nContent-Length: 5\r\n\r\ntheir".into());
    let page = "error_page 500 /error.html; location = /error.html { } ";
    let server = passing(&[upstream.address()], page).root(&site).in_process();
    assert_eq!(server.get("/x").text(), "their");
    let server = passing(&[upstream.address()], &format!("proxy_intercept_errors on; {page}")).root(&site).in_process();
    let response = server.get("/x");
    assert_eq!((response.status, response.text().as_str()), (500, "our page"));
}

#[test]
fn a_request_fails_alone_when_its_upstream_is_dead() {
    let refusing = RefusingAddress::new();
    let dead = refusing.address();
    let server = passing(&[&dead], "").in_process();
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 502);
    assert_eq!(client.get("/").status, 502);
    assert_eq!(server.access_lines(1)[0], format!("502|{dead}|502|0|0"));
    let mut client = asked(&server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().status, 502);
    assert_eq!(client.response().status, 502);
    assert!(matches!(client.ending(), ConnectionEnd::Closed));
}

#[test]
fn what_is_more_than_it_should_be_is_logged() {
    let upstream = TestUpstream::answering(|request| match request.target() {
        "/length" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore".into(),
        "/304" => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\nmore".into(),
        _ => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nmore".into(),
    });
    let server = passing(&[upstream.address()], "").in_process();
    for (target, body, words) in [
        (
            "/length",
            "ok",
            "[warn] upstream sent more data than specified in \"Content-Length\" header while reading upstream",
        ),
        (
            "/304",
            "",
            "[warn] upstream sent more data than specified in \"Content-Length\" header while reading upstream",
        ),
        ("/chunk", "ok", "[warn] upstream sent data after final chunk while reading upstream"),
    ] {
        assert_eq!(server.get(target).text(), body);
        let (level, words) = words.split_once(' ').expect("a level");
        let line =
            |line: &str| line.contains(level) && line.contains(words) && line.contains(&format!(" {target} HTTP"));
        eventually("a line of the log", || server.error_log().lines().any(line));
    }
    // None of the connections is used again.
    assert_eq!(upstream.connections(), 3);
}

#[test]
fn only_what_is_buffered_is_read_at_a_limited_rate() {
    // At this rate the rest would take half an hour.
    let body = "0123456789".repeat(3000);
    let answer = format!("HTTP/1.1 200 OK\r\nX-Accel-Buffering: no\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let upstream = TestUpstream::answering(move |_| answer.clone().into_bytes());
    let server = passing(&[upstream.address()], "proxy_limit_rate 10;").in_process();
    let address = server.address();
    let asking = std::thread::spawn(move || TestClient::connect(address).get("/").text());
    eventually("the whole response", || asking.is_finished());
    assert_eq!(asking.join().expect("a response"), "0123456789".repeat(3000));
}
