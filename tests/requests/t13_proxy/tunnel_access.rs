//! Who may have a tunnel (`tunnel_pass`), and to where.

use crate::worker::InProcess;
use freerun_testkit::{Peer, Response, Setup, Site, TestClient, TestServer, TestUpstream, eventually, ok};

/// `plain:secret`
const PLAIN: &str = "Proxy-Authorization: Basic cGxhaW46c2VjcmV0\r\n";
/// `plain:wrong`
const WRONG: &str = "Proxy-Authorization: Basic cGxhaW46d3Jvbmc=\r\n";

/// The files of these servers.
fn site() -> Site {
    let site = Site::new();
    site.file("users", "plain:{PLAIN}secret\n").file("index.html", "index");
    site
}

/// A server with these lines. The log has the status and the name of the user.
fn serving(site: &Site, http: &str, lines: &str) -> TestServer {
    let http = format!(
        "log_format who '$request_method $status $remote_user'; access_log @DIR@/access.log who; {http}
         server {{ listen 127.0.0.1:@PORT@; root @ROOT@; {lines} }}"
    );
    Setup::new().root(site).http(&http).in_process()
}

fn connect(target: &str, fields: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{fields}\r\n")
}

/// Asks for a tunnel that is refused, or that is there.
fn ask(client: &mut TestClient, upstream: &TestUpstream, fields: &str) -> Result<Peer, Response> {
    client.send(connect(&upstream.address(), fields));
    let end = |bytes: &[u8]| bytes.windows(4).position(|four| four == b"\r\n\r\n");
    if client.until(|bytes| end(bytes).is_some()).starts_with(b"HTTP/1.1 200 OK\r\n") {
        client.take();
        let mut peer = upstream.accept();
        client.send("x");
        assert_eq!(peer.bytes(1), b"x");
        return Ok(peer);
    }
    Err(client.response_to("GET"))
}

fn refused(client: &mut TestClient, upstream: &TestUpstream, fields: &str) -> Response {
    ask(client, upstream, fields).expect_err("a refusal")
}

#[test]
fn a_password_is_asked_for_as_a_proxy_does() {
    let site = site();
    let upstream = TestUpstream::new();
    let server = serving(
        &site,
        "",
        "auth_basic \"closed proxy\"; auth_basic_user_file @ROOT@/users; tunnel_pass;
         location /page { try_files /index.html =404; }",
    );
    let mut client = server.connect();
    for fields in ["", WRONG, "Authorization: Basic cGxhaW46c2VjcmV0\r\n"] {
        let response = refused(&mut client, &upstream, fields);
        assert_eq!((response.status, response.says_close()), (407, false), "{fields}");
        assert_eq!(response.header("Proxy-Authenticate"), Some("Basic realm=\"closed proxy\""));
        assert_eq!(response.header("WWW-Authenticate"), None);
        assert!(response.text().contains("<h1>407 Proxy Authentication Required</h1>"), "{}", response.text());
    }
    // Other requests are asked as ever, whatever they have for a proxy.
    let response = server.get_with("/page", PLAIN);
    assert_eq!((response.status, response.header("Proxy-Authenticate")), (401, None));
    assert_eq!(response.header("WWW-Authenticate"), Some("Basic realm=\"closed proxy\""));
    // The client goes on, on the same connection.
    ask(&mut client, &upstream, PLAIN).expect("a tunnel");
    drop(client);
    let lines = server.access_lines(5);
    assert_eq!(lines[..3], ["CONNECT 407 -", "CONNECT 407 plain", "CONNECT 407 -"]);
    assert_eq!(lines[4], "CONNECT 200 plain");
    let log = server.error_log();
    assert!(log.contains("user \"plain\": password mismatch, client: 127.0.0.1"), "{log}");
    assert!(!log.contains("secret") && !log.contains("cGxhaW4"), "{log}");
}

#[test]
fn addresses_and_passwords_are_put_together() {
    let site = site();
    let upstream = TestUpstream::new();
    for (lines, none, right) in [
        ("satisfy any; deny all;", Some(407), None),
        ("satisfy any; allow 127.0.0.1; deny all;", None, None),
        ("satisfy all; deny all;", Some(403), Some(403)),
        ("satisfy all; allow 127.0.0.1; deny all; auth_delay 1ms;", Some(407), None),
    ] {
        let lines = format!("{lines} auth_basic x; auth_basic_user_file @ROOT@/users; location / {{ tunnel_pass; }}");
        let server = serving(&site, "", &lines);
        for (fields, expected) in [("", none), (PLAIN, right)] {
            let answer = ask(&mut server.connect(), &upstream, fields);
            assert_eq!(answer.err().map(|response| response.status), expected, "{lines} {fields}");
        }
    }
}

/// What stands for the refusal is for the client of a proxy, too.
#[test]
fn the_page_of_a_refusal_has_the_challenge() {
    let site = site();
    let upstream = TestUpstream::new();
    let server = serving(
        &site,
        "",
        "auth_basic x; auth_basic_user_file @ROOT@/users; error_page 407 /why; tunnel_pass;
         location = /why { auth_basic off; return 200 \"ask $request_method\"; }",
    );
    let response = refused(&mut server.connect(), &upstream, "");
    assert_eq!((response.status, response.text().as_str()), (407, "ask GET"));
    assert_eq!(response.header("Proxy-Authenticate"), Some("Basic realm=\"x\""));
}

#[test]
fn another_server_may_decide() {
    let site = site();
    let upstream = TestUpstream::new();
    let judge = TestUpstream::answering(|request| match request.header("Proxy-Authorization") {
        Some("Bearer right") => ok("yes"),
        Some(_) => b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        None => b"HTTP/1.1 401 Who\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let lines = format!(
        "location / {{ auth_request /judge; tunnel_pass; }} location = /judge {{ proxy_pass http://{}; }}",
        judge.address()
    );
    let server = serving(&site, "", &lines);
    let mut client = server.connect();
    let response = refused(&mut client, &upstream, "");
    assert_eq!((response.status, response.header("Proxy-Authenticate")), (407, Some("Bearer")));
    assert_eq!(refused(&mut client, &upstream, "Proxy-Authorization: Bearer wrong\r\n").status, 403);
    ask(&mut client, &upstream, "Proxy-Authorization: Bearer right\r\n").expect("a tunnel");
    let asked = judge.take_requests();
    assert!(asked.iter().all(|request| request.line() == "GET /judge HTTP/1.1"), "{asked:?}");
}

#[test]
fn ports_hosts_and_addresses_are_restricted() {
    let site = site();
    let upstream = TestUpstream::new();
    let port = upstream.port();
    let server = serving(
        &site,
        &format!(
            "map $request_port $port_ok {{ {port} 1; }}
             map $host $host_ok {{ hostnames; 127.0.0.1 1; *.example.test 1; 127.0.0.2 1; [::ffff:127.0.0.2] 1; }}
             geo $upstream_last_addr $outside {{ volatile; default 1; 127.0.0.2/31 0; }}"
        ),
        "if ($port_ok = \"\") { return 403; } if ($host_ok = \"\") { return 403; }
         location / { tunnel_pass; tunnel_allow_upstream $outside; }",
    );
    ask(&mut server.connect(), &upstream, "").expect("a tunnel");
    for (target, status) in [
        ("127.0.0.1:1".to_owned(), 403),
        (format!("127.0.0.3:{port}"), 403),
        (format!("example.com:{port}"), 403),
        (format!("127.0.0.2:{port}"), 502),
        // The same address in other clothes.
        (format!("[::ffff:127.0.0.2]:{port}"), 502),
    ] {
        assert_eq!(server.send(connect(&target, "")).status, status, "{target}");
    }
    server.logs("access to upstream denied by \"allow_upstream\" while connecting to upstream");
}

/// The example of the reference.
#[test]
fn nothing_inside_is_reached_where_that_is_shut_out() {
    let site = site();
    let server = serving(
        &site,
        "geo $upstream_last_addr $outside { volatile; default 1; 0.0.0.0/8 0; 10.0.0.0/8 0; 100.64.0.0/10 0; 127.0.0.0/8 0;
             169.254.0.0/16 0; 172.16.0.0/12 0; 192.168.0.0/16 0; ::/127 0; 64:ff9b::/96 0; fc00::/7 0; fe80::/10 0; }
         map $request_port $is_https { 443 1; }",
        "allow 127.0.0.0/8; deny all; if ($is_https = \"\") { return 403; } tunnel_pass; tunnel_allow_upstream $outside;",
    );
    assert_eq!(server.send(connect("127.0.0.1:80", "")).status, 403);
    let inside = [
        "127.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "169.254.169.254",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[fd00::1]",
        "[fe80::1]",
        "[64:ff9b::7f00:1]",
    ];
    for host in inside {
        assert_eq!(server.send(connect(&format!("{host}:443"), "")).status, 502, "{host}");
    }
    let denied = "access to upstream denied by \"allow_upstream\"";
    // Another thread writes the lines.
    eventually("a line for each", || server.error_log().matches(denied).count() >= inside.len());
    assert_eq!(server.error_log().matches(denied).count(), inside.len(), "{}", server.error_log());
}

#[test]
fn tunnels_count_as_requests_that_last() {
    let site = site();
    let upstream = TestUpstream::new();
    let server =
        serving(&site, "limit_conn_zone $binary_remote_addr zone=c:1m;", "location / { limit_conn c 1; tunnel_pass; }");
    let mut first = server.connect();
    let _peer = ask(&mut first, &upstream, "").expect("a tunnel");
    assert_eq!(refused(&mut server.connect(), &upstream, "").status, 503);
    drop(first);
    server.access_lines(2);
    ask(&mut server.connect(), &upstream, "").expect("a tunnel");
}

/// Copies of a request are no requests for a tunnel, and other servers are not asked for one.
#[test]
fn a_copy_of_the_request_opens_no_tunnel() {
    let site = site();
    let (upstream, other) = (TestUpstream::new(), TestUpstream::answering(|_| ok("copy")));
    let lines = format!(
        "location / {{ mirror /t; mirror /p; tunnel_pass; }} location /t {{ log_subrequest on; tunnel_pass {}; }}
         location /p {{ log_subrequest on; proxy_pass http://{}; }}",
        other.address(),
        other.address()
    );
    let server = serving(&site, "", &lines);
    let mut client = server.connect();
    ask(&mut client, &upstream, "").expect("a tunnel");
    drop(client);
    let mut lines = server.access_lines(3);
    lines.sort_unstable();
    assert_eq!(lines, ["CONNECT 200 -", "CONNECT 405 -", "CONNECT 405 -"]);
    assert_eq!(other.take_requests().len(), 0);
}
