//! Fields that are about one connection alone: they are not passed on to where they mean something else, or nothing.

use crate::worker::InProcess;
use freerun_testkit::http2::Http2;
use freerun_testkit::{Setup, Site, TestUpstream, fastcgi_record};

/// The fields of a server of HTTP/1 that would make a response of HTTP/2 malformed (RFC 9113 section 8.2.2).
const FIELDS: &str =
    "Upgrade: h2,h2c\r\nConnection: Upgrade\r\nProxy-Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nX-A: b\r\n";

/// Apache offers `Upgrade` to everybody; a client of HTTP/1 may take it up, one of HTTP/2 refuses the response.
#[test]
fn what_a_server_says_of_its_connection_is_not_told_over_http2() {
    let cgi = format!("Status: 200\r\n{FIELDS}\r\nok");
    let fastcgi = [fastcgi_record(6, cgi.as_bytes()), fastcgi_record(6, b""), fastcgi_record(3, &[0; 8])].concat();
    for status in ["200 OK", "426 Upgrade Required", "404 Not Found"] {
        let http = format!("HTTP/1.1 {status}\r\n{FIELDS}Content-Length: 2\r\n\r\nok").into_bytes();
        let plain = |text: &str| text.replace("200", status.split(' ').next().unwrap_or_default()).into_bytes();
        for (pass, end, answer) in [
            ("proxy_pass http://@SERVER@;", &b"\r\n\r\n"[..], http.clone()),
            ("proxy_cache zone; proxy_cache_valid any 1h; proxy_pass http://@SERVER@;", b"\r\n\r\n", http),
            ("fastcgi_param A b; fastcgi_pass @SERVER@;", b"\x01\x05\x00\x01\x00\x00\x00\x00", fastcgi.clone()),
            ("scgi_param A b; scgi_pass @SERVER@;", b",", plain(&cgi)),
            ("uwsgi_param A b; uwsgi_pass @SERVER@;", b"HTTP_Z\x01\x00z", plain(&cgi)),
        ] {
            let upstream = TestUpstream::new();
            let http = format!(
                "proxy_cache_path @DIR@/cache keys_zone=zone:1m;
                 server {{ listen 127.0.0.1:@PORT@; http2 on; add_header Upgrade own always; location / {{ {} }} }}",
                pass.replace("@SERVER@", &upstream.address())
            );
            let server = Setup::new().root(&Site::new()).http(&http).in_process();
            let play = || {
                let mut peer = upstream.accept();
                let mut request = Vec::new();
                while !request.ends_with(end) {
                    request.extend(peer.bytes(1));
                }
                peer.send(&answer);
            };
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost: a\r\nZ: z\r\n\r\n");
            play();
            let response = client.response();
            assert_eq!((response.header("x-a"), response.text().as_str()), (Some("b"), "ok"), "{pass}");
            assert!(response.all("upgrade").contains(&"h2,h2c"), "{pass}: {:?}", response.all("upgrade"));
            // This one is in memory, as the client of HTTP/1 had it, if there is a cache. The client checks what comes.
            let mut http2 = Http2::new(server.connect());
            let stream = http2.ask(http2.block("GET", "/").field("z", "z"));
            if !pass.contains("proxy_cache") {
                play();
            }
            let answer = http2.answer(stream);
            assert_eq!((answer.header("x-a"), answer.text().as_str()), (Some("b"), "ok"), "{pass}");
            for name in ["upgrade", "proxy-connection", "keep-alive", "connection"] {
                assert_eq!(answer.header(name), None, "{pass}");
            }
        }
    }
}

/// Clients that take the server for a proxy send `Proxy-Connection`. A directive may set it all the same.
#[test]
fn what_a_client_says_of_its_connection_is_not_passed_on() {
    for (lines, expected) in [("", None), ("proxy_set_header Proxy-Connection own;", Some("own"))] {
        let upstream = TestUpstream::answering(|request| freerun_testkit::ok(&request.head));
        let http = format!(
            "server {{ listen 127.0.0.1:@PORT@; location / {{ {lines} proxy_pass http://{}; }} }}",
            upstream.address()
        );
        let server = Setup::new().http(&http).in_process();
        let fields = "Proxy-Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: h2c\r\n";
        server.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\nConnection: close\r\n{fields}\r\n"));
        let asked = upstream.take_requests().remove(0);
        assert_eq!((asked.header("x-a"), asked.header("proxy-connection")), (Some("b"), expected), "{}", asked.head);
        for name in ["keep-alive", "te", "upgrade"] {
            assert_eq!(asked.header(name), None, "{}", asked.head);
        }
    }
}

/// The application acts for the host whose server was chosen, and whose rules were applied (RFC 9112 section 3.2.2).
#[test]
fn applications_are_told_the_host_that_has_chosen_the_server() {
    for (pass, end) in [
        ("fastcgi_param A b; fastcgi_pass @SERVER@;", &b"\x01\x05\x00\x01\x00\x00\x00\x00"[..]),
        ("scgi_param A b; scgi_pass @SERVER@;", b","),
        ("uwsgi_param A b; uwsgi_pass @SERVER@;", b"HTTP_Z\x01\x00z"),
    ] {
        let upstream = TestUpstream::new();
        let location = |lines: &str| format!("location {lines} {} }}", pass.replace("@SERVER@", &upstream.address()));
        let name = if pass.starts_with("fastcgi") { "fastcgi" } else { pass.split('_').next().unwrap_or_default() };
        let http = format!(
            "server {{ listen 127.0.0.1:@PORT@; server_name first; {} {} {} }}
             server {{ listen 127.0.0.1:@PORT@; server_name \"\"; {} }}",
            location("/ {"),
            location(&format!("/own {{ {name}_param HTTP_HOST $http_host;")),
            location(&format!("/none {{ {name}_param HTTP_HOST '';")),
            location("/ {"),
        );
        let server = Setup::new().http(&http).in_process();
        for (request, expected) in [
            ("GET http://other/ HTTP/1.1\r\nHost: victim\r\n", Some("other")),
            ("GET http://OTHER.:81/ HTTP/1.1\r\nHost: victim\r\n", Some("other:81")),
            ("GET / HTTP/1.1\r\nHost: VICTIM.\r\n", Some("victim")),
            ("GET / HTTP/1.1\r\nHost: Victim.:82\r\n", Some("victim:82")),
            ("GET / HTTP/1.1\r\nHost: [::1]:82\r\n", Some("[::1]:82")),
            ("GET /own HTTP/1.1\r\nHost: First.:1\r\n", Some("First.:1")),
            ("GET /none HTTP/1.1\r\nHost: first\r\n", None),
            ("GET http://other/ HTTP/1.0\r\n", Some("other")),
            // The server without a name.
            ("GET / HTTP/1.0\r\n", None),
        ] {
            let mut client = server.connect();
            client.send(format!("{request}Z: z\r\n\r\n"));
            let mut peer = upstream.accept();
            let mut asked = Vec::new();
            while !asked.ends_with(end) {
                asked.extend(peer.bytes(1));
            }
            peer.send("");
            drop(peer);
            let host = asked.windows(9).position(|nine| nine == b"HTTP_HOST").map(|at| {
                let rest = &asked[at + 9..];
                // SCGI has NUL around it, uwsgi the length before it, and FastCGI nothing.
                let rest = match name {
                    "scgi" => &rest[1..],
                    "uwsgi" => &rest[2..],
                    _ => rest,
                };
                let expected = expected.unwrap_or_default().len().max(1);
                String::from_utf8_lossy(&rest[..expected]).into_owned()
            });
            assert_eq!(host.as_deref(), expected, "{name} {request:?}");
        }
    }
}
