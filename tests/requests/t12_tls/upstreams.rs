//! TLS towards upstream servers.

use super::secure;
use crate::worker::InProcess;
use freerun_testkit::{
    PATIENCE, Peer, RefusingAddress, Setup, Site, TestServer, TestUpstream, Tls, TlsServer, TlsVersion, certificates,
    eventually, ok, require,
};
use std::process::{Child, Command, Stdio};

/// Passes everything to `https://upstream`, a group of these servers, with these lines in the location.
fn passing(servers: &[&str], group: &str, lines: &str) -> Setup {
    let servers: String = servers.iter().map(|server| format!("server {server}; ")).collect();
    Setup::new().http(&format!(
        "proxy_cache_path @DIR@/cache keys_zone=z:1m; proxy_ssl_protocols TLSv1.2 TLSv1.3;
         upstream upstream {{ {servers} {group} }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass https://upstream; {lines} }} }}"
    ))
}

const VERIFIED: &str = "proxy_ssl_verify on; proxy_ssl_trusted_certificate @CERTS@/ca.crt;";

/// One request, which the upstream answers.
fn exchange(server: &TestServer, upstream: &TestUpstream) -> Peer {
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut peer = upstream.accept();
    peer.request();
    peer.send(ok("hello"));
    assert_eq!(client.response().text(), "hello");
    peer
}

#[test]
fn responses_and_bodies_pass_through() {
    let site = Site::new();
    let large: Vec<u8> = (0..3_000_000_usize).map(|place| (place * 7 + place / 251) as u8).collect();
    site.file("large", &large).file("a", "one");
    for protocols in ["TLSv1.2", "TLSv1.3"] {
        let backend = secure(&site, "location = /who { return 200 '$ssl_protocol $ssl_server_name|$http_host'; }")
            .run_in_process();
        let address = backend.address().to_string();
        for buffering in ["on", "off"] {
            let lines = format!("proxy_ssl_protocols {protocols}; proxy_buffering {buffering};");
            let server = passing(&[&address], "", &lines).run_in_process();
            let mut client = server.connect();
            assert_eq!(client.get("/who").text(), format!("{protocols} |upstream"));
            assert!(client.get("/large").body == large, "{lines}");
            assert_eq!(client.get("/a").text(), "one");
            assert_eq!(client.get("/none").status, 404);
        }
    }
}

#[test]
fn bodies_go_up_whole_with_and_without_buffering() {
    let upstream = TestUpstream::tls(TlsServer::new("ec")).answer(|request| ok(&request.body));
    let large: Vec<u8> = (0..3_000_000_usize).map(|place| (place * 7 + place / 251) as u8).collect();
    for buffering in ["on", "off"] {
        let lines = format!("client_max_body_size 10m; proxy_request_buffering {buffering}; proxy_http_version 1.1;");
        let server = passing(&[upstream.address()], "", &lines).run_in_process();
        let mut client = server.connect();
        for size in [1, 16_384, 3_000_000] {
            client.send(format!("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"));
            let sending = client.send_meanwhile(large[..size].to_vec());
            assert!(client.response().body == large[..size], "{buffering} {size}");
            sending.join().expect("sent");
        }
    }
}

#[test]
fn the_server_is_told_its_name_if_asked_to() {
    let upstream = TestUpstream::tls(TlsServer::new("ec"));
    let address = upstream.address();
    for (lines, name) in [
        ("", None),
        ("proxy_ssl_server_name on;", Some("upstream")),
        ("proxy_ssl_server_name on; proxy_ssl_name a.example.com;", Some("a.example.com")),
        ("proxy_ssl_server_name on; proxy_ssl_name a.example.com:8443;", Some("a.example.com")),
        ("proxy_ssl_server_name on; proxy_ssl_name $host;", Some("localhost")),
        ("proxy_ssl_server_name on; proxy_ssl_name 127.0.0.1;", None),
        ("proxy_ssl_server_name on; proxy_ssl_name $arg_none;", None),
        ("proxy_ssl_name a.example.com;", None),
    ] {
        let server = passing(&[&address], "", lines).run_in_process();
        let mut peer = exchange(&server, &upstream);
        assert_eq!(peer.visitor().name.as_deref(), name, "{lines}");
    }
}

#[test]
fn certificates_of_servers_are_verified() {
    for (certificate, lines, said) in [
        ("ec", "proxy_ssl_name localhost;", None),
        ("rsa", "proxy_ssl_name b.example.com;", None),
        ("named", "proxy_ssl_name localhost;", None),
        ("ec", "", Some("upstream SSL certificate does not match \"upstream\"")),
        ("ec", "proxy_ssl_name b.c.example.com;", Some("upstream SSL certificate does not match \"b.c.example.com\"")),
        (
            "foreign",
            "proxy_ssl_name localhost;",
            Some("upstream SSL certificate verify error: (20:unable to get local issuer certificate)"),
        ),
        (
            "self",
            "proxy_ssl_name localhost;",
            Some("upstream SSL certificate verify error: (18:self-signed certificate)"),
        ),
        (
            "stale",
            "proxy_ssl_name localhost;",
            Some("upstream SSL certificate verify error: (10:certificate has expired)"),
        ),
        ("withdrawn", "proxy_ssl_name localhost;", None),
        ("ec", "proxy_ssl_name $arg_none;", Some("upstream SSL certificate does not match \"\"")),
        (
            "withdrawn",
            "proxy_ssl_name localhost; proxy_ssl_crl @CERTS@/ca.crl;",
            Some("upstream SSL certificate verify error: (23:certificate revoked)"),
        ),
        ("ec", "proxy_ssl_name localhost; proxy_ssl_crl @CERTS@/ca.crl;", None),
        (
            "below",
            "proxy_ssl_name localhost;",
            Some("upstream SSL certificate verify error: (20:unable to get local issuer certificate)"),
        ),
    ] {
        for version in TlsVersion::ALL {
            let upstream = TestUpstream::tls(TlsServer::with(certificate, &[version], false)).answer(|_| ok("hello"));
            let server = passing(&[upstream.address()], "", &format!("{VERIFIED} {lines}")).run_in_process();
            let response = server.get("/");
            match said {
                None => assert_eq!(response.text(), "hello", "{certificate} {lines}"),
                Some(said) => {
                    assert_eq!(response.status, 502, "{certificate} {lines}");
                    let error = upstream_error(&server);
                    let told = error.contains(said)
                        || error
                            .contains(&said.replace("20:unable to get local issuer", "21:unable to verify the first"));
                    assert!(
                        told && error.contains("while SSL handshaking to upstream"),
                        "{certificate} {lines}: {error}"
                    );
                    assert!(upstream.take_requests().is_empty(), "a request was sent");
                }
            }
        }
    }
}

/// The address of a server that answers whatever it gets with a response of HTTP.
fn plain() -> String {
    let upstream = TestUpstream::new();
    let address = upstream.address();
    std::thread::spawn(move || {
        while let Some(mut peer) = upstream.try_accept(PATIENCE) {
            if peer.try_bytes(1).is_some() {
                // A client that does not like it may have gone.
                let _ = peer.try_send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
                peer.rest();
            }
        }
    });
    address
}

/// The only line of a level of errors.
fn upstream_error(server: &TestServer) -> String {
    let is_error = |line: &&str| line.contains("[error]") || line.contains("[crit]");
    eventually("an error is logged", || server.error_log().lines().any(|line| is_error(&line)));
    let log = server.error_log();
    let lines: Vec<&str> = log.lines().filter(is_error).collect();
    assert_eq!(lines.len(), 1, "{log}");
    lines[0].to_owned()
}

#[test]
fn chains_of_servers_have_a_depth() {
    let site = Site::new();
    let http = "server { listen 127.0.0.1:@PORT@ ssl; return 200 hello;
                ssl_certificate @CERTS@/below-chain.crt; ssl_certificate_key @CERTS@/below.key; }";
    let backend = Setup::new().root(&site).http(http).run_in_process();
    for (lines, status) in [("", 200), ("proxy_ssl_verify_depth 1;", 200), ("proxy_ssl_verify_depth 0;", 502)] {
        let lines = format!("{VERIFIED} proxy_ssl_name localhost; {lines}");
        let server = passing(&[&backend.address().to_string()], "", &lines).run_in_process();
        assert_eq!(server.get("/").status, status, "{lines}");
    }
}

#[test]
fn a_certificate_is_shown_to_servers_that_ask() {
    for version in TlsVersion::ALL {
        let upstream = TestUpstream::tls(TlsServer::with("ec", &[version], true));
        let address = upstream.address();
        for (lines, shown) in [
            ("", vec![]),
            (
                "proxy_ssl_certificate @CERTS@/client.crt; proxy_ssl_certificate_key @CERTS@/client.key;",
                vec!["client.crt"],
            ),
            (
                "proxy_ssl_certificate @CERTS@/client-rsa.crt; proxy_ssl_certificate_key @CERTS@/client-rsa.key;",
                vec!["client-rsa.crt"],
            ),
            (
                "proxy_ssl_certificate @CERTS@/rsa.crt; proxy_ssl_certificate_key @CERTS@/old-locked.key; proxy_ssl_password_file @CERTS@/secret.txt;",
                vec!["rsa.crt"],
            ),
        ] {
            let server = passing(&[&address], "", lines).run_in_process();
            let mut peer = exchange(&server, &upstream);
            let shown: Vec<Vec<u8>> = shown.into_iter().map(|file| certificates().der(file)).collect();
            assert_eq!(peer.visitor().certificates, shown, "{version} {lines}");
        }
    }
}

#[test]
fn connections_are_kept_and_sessions_resumed() {
    for version in TlsVersion::ALL {
        let upstream = TestUpstream::tls(TlsServer::with("ec", &[version], false));
        let address = upstream.address();
        for (lines, resumed) in [("", true), ("proxy_ssl_session_reuse off;", false)] {
            let server = passing(&[&address], "", lines).run_in_process();
            assert!(!exchange(&server, &upstream).visitor().resumed);
            assert_eq!(exchange(&server, &upstream).visitor().resumed, resumed, "{version} {lines}");
            assert_eq!(exchange(&server, &upstream).visitor().resumed, resumed, "{version} {lines}");
        }
        let kept = "proxy_http_version 1.1; proxy_set_header Connection '';";
        let server = passing(&[&address], "keepalive 4;", kept).run_in_process();
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(5));
        let mut peer = upstream.accept();
        for _ in 0..5 {
            peer.request();
            peer.send(ok("hello"));
            assert_eq!(client.response().text(), "hello");
        }
        // After the server has ended the connection, another one is made.
        peer.notify();
        peer.close();
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut peer = upstream.accept();
        assert!(peer.visitor().resumed, "{version}");
        peer.request();
        peer.send(ok("again"));
        assert_eq!(client.response().text(), "again");
    }
}

#[test]
fn a_session_is_not_resumed_with_other_settings() {
    let upstream = TestUpstream::tls(TlsServer::with("ec", &[TlsVersion::V13], true));
    let http = format!(
        "server {{ listen 127.0.0.1:@PORT@; proxy_ssl_server_name on;
           location / {{ proxy_pass https://{0}; proxy_ssl_name a.example.com; }}
           location /name {{ proxy_pass https://{0}; proxy_ssl_name b.example.com; }}
           location /certificate {{ proxy_pass https://{0}; proxy_ssl_name a.example.com;
             proxy_ssl_certificate @CERTS@/client.crt; proxy_ssl_certificate_key @CERTS@/client.key; }}
           location /verified {{ proxy_pass https://{0}; proxy_ssl_name a.example.com; {VERIFIED} }} }}",
        upstream.address()
    );
    let server = Setup::new().http(&http).in_process();
    for (place, resumed) in [
        ("/", false),
        ("/", true),
        ("/name", false),
        ("/certificate", false),
        ("/verified", false),
        ("/verified", true),
    ] {
        let mut client = server.connect();
        client.send(format!("GET {place} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let mut peer = upstream.accept();
        assert_eq!(peer.visitor().resumed, resumed, "{place}");
        peer.request();
        peer.send(ok("hello"));
        assert_eq!(client.response().text(), "hello");
    }
}

#[test]
fn sessions_with_a_certificate_whose_name_has_variables_are_resumed() {
    // nginx has the cache since 1.27.4.
    if !require::freerun() {
        return;
    }
    for version in TlsVersion::ALL {
        let upstream = TestUpstream::tls(TlsServer::with("ec", &[version], true));
        let lines = "set $name client; proxy_ssl_certificate @CERTS@/$name.crt;
                     proxy_ssl_certificate_key @CERTS@/$name.key; proxy_ssl_certificate_cache max=10;";
        let server = passing(&[&upstream.address()], "", lines).in_process();
        for resumed in [false, true] {
            assert_eq!(exchange(&server, &upstream).visitor().resumed, resumed, "{version}");
        }
    }
}

#[test]
fn the_next_server_is_tried_after_a_handshake_that_failed() {
    let good = TestUpstream::tls(TlsServer::new("ec")).answer(|_| ok("good"));
    let foreign = TestUpstream::tls(TlsServer::new("foreign")).answer(|_| ok("foreign"));
    let refusing = RefusingAddress::new();
    let lines = format!("{VERIFIED} proxy_ssl_name localhost;");
    for bad in [foreign.address().to_owned(), plain(), refusing.address()] {
        let server = passing(&[&bad, &format!("{} backup", good.address())], "", &lines).run_in_process();
        assert_eq!(server.get("/").text(), "good", "{bad}");
        let server =
            passing(&[&bad, &format!("{} backup", good.address())], "", &format!("{lines} proxy_next_upstream off;"))
                .run_in_process();
        assert_eq!(server.get("/").status, 502, "{bad}");
    }
}

#[test]
fn a_server_that_does_not_speak_tls_is_told_of_once() {
    let plain = plain();
    let server = passing(&[&plain], "", "").run_in_process();
    assert_eq!(server.get("/").status, 502);
    let error = upstream_error(&server);
    assert!(error.contains("SSL_do_handshake() failed (SSL: error:"), "{error}");
    assert!(error.contains("while SSL handshaking to upstream, client: 127.0.0.1"), "{error}");
    assert!(error.contains(&format!("upstream: \"https://{}/\"", plain)), "{error}");
}

/// `openssl s_server` with these arguments, on a free port.
struct Old(Child, u16);

impl Old {
    fn new(arguments: &[&str]) -> Old {
        let port = freerun_testkit::ports::free();
        let made = certificates();
        let child = Command::new("openssl")
            .args([
                "s_server",
                "-www",
                "-quiet",
                "-accept",
                &format!("127.0.0.1:{port}"),
                "-cert",
                "rsa.crt",
                "-key",
                "rsa.key",
            ])
            .args(arguments)
            .current_dir(made.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        eventually("openssl listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Old(child, port)
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_with_old_versions_or_suites_alone_is_told_of_clearly() {
    if !require::freerun() {
        return;
    }
    for (arguments, said) in [
        (&["-tls1", "-cipher", "ALL:@SECLEVEL=0"][..], "version"),
        (&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "version"),
        (&["-tls1_2", "-cipher", "AES128-SHA"], "handshake failure"),
    ] {
        let old = Old::new(arguments);
        let server = passing(&[&format!("127.0.0.1:{}", old.1)], "", "").run_in_process();
        assert_eq!(server.get("/").status, 502);
        let error = upstream_error(&server);
        assert!(error.contains("SSL_do_handshake() failed") && error.contains(said), "{arguments:?}: {error}");
    }
    let old = Old::new(&["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"]);
    let server = passing(&[&format!("127.0.0.1:{}", old.1)], "", "").run_in_process();
    assert_eq!(server.get("/").status, 200, "{}", server.error_log());
}

#[test]
fn a_handshake_with_a_server_has_to_be_done_in_time() {
    let silent = TestUpstream::new();
    let server = passing(&[&silent.address()], "", "proxy_connect_timeout 1s;").run_in_process();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let _peer = silent.accept();
    assert_eq!(client.response().status, 504);
    let error = upstream_error(&server);
    assert!(
        error.contains("upstream timed out (110: Connection timed out) while SSL handshaking to upstream"),
        "{error}"
    );
}

#[test]
fn a_server_that_goes_while_hands_are_shaken_is_told_of() {
    let going = TestUpstream::new();
    let server = passing(&[&going.address()], "", "").run_in_process();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut peer = going.accept();
    peer.bytes(100);
    peer.close();
    assert_eq!(client.response().status, 502);
    let error = upstream_error(&server);
    assert!(error.contains("peer closed connection in SSL handshake") || error.contains("reset by peer"), "{error}");
    assert!(error.contains("while SSL handshaking to upstream"), "{error}");
}

#[test]
fn the_end_of_a_response_is_that_of_its_framing() {
    // An end without close_notify is an end where the connection is all that tells it, as nginx has it.
    for version in TlsVersion::ALL {
        let upstream = TestUpstream::tls(TlsServer::with("ec", &[version], false));
        let server = passing(&[&upstream.address()], "", "").run_in_process();
        for (response, notify, status) in [
            ("HTTP/1.1 200 OK\r\n\r\nhello", true, 200),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false, 200),
            ("", true, 502),
            ("", false, 502),
        ] {
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let mut peer = upstream.accept();
            peer.request();
            peer.send(response);
            if notify {
                peer.notify();
            }
            peer.close();
            let got = client.response();
            assert_eq!(got.status, status, "{version} {response:?} {notify}");
            assert!(status != 200 || got.text() == "hello");
        }
    }
}

#[test]
fn tunnels_go_through_tls_on_both_sides() {
    let site = Site::new();
    for version in TlsVersion::ALL {
        let upstream = TestUpstream::tls(TlsServer::with("ec", &[version], false));
        let lines = format!(
            "location / {{ proxy_pass https://{}; proxy_http_version 1.1; proxy_ssl_protocols {version}; proxy_set_header Upgrade $http_upgrade;
                           proxy_set_header Connection upgrade; }}",
            upstream.address()
        );
        let server = secure(&site, &lines).run_in_process();
        let mut client = server.connect_tls(&Tls::new().only(version));
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n");
        let mut peer = upstream.accept();
        peer.request();
        peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nhello");
        client.until(|bytes| bytes.ends_with(b"hello"));
        client.take();
        for size in [1, 100, 20_000, 300_000] {
            let bytes: Vec<u8> = (0..size).map(|place: usize| (place * 3 + place / 250) as u8).collect();
            let sending = client.send_meanwhile(bytes.clone());
            let got = peer.bytes(size);
            sending.join().expect("sent");
            assert!(got == bytes, "{version} up {size}");
            peer.send(&bytes);
            assert!(client.at_least(size) == bytes, "{version} down {size}");
            client.take();
        }
        peer.notify();
        peer.close();
        assert_eq!((client.rest().0, client.is_notified()), (Vec::new(), true), "{version}");
    }
}

#[test]
fn responses_from_https_are_cached() {
    let upstream = TestUpstream::tls(TlsServer::new("ec")).answer(|_| ok("hello"));
    let lines = "proxy_cache z; proxy_cache_valid 200 1m; add_header X-Cache $upstream_cache_status always;";
    let server = passing(&[upstream.address()], "", lines).run_in_process();
    assert_eq!(server.get("/").header("x-cache"), Some("MISS"));
    let second = server.get("/");
    assert_eq!((second.header("x-cache"), &second.text()[..]), (Some("HIT"), "hello"));
    assert_eq!(upstream.take_requests().len(), 1);
}

#[test]
fn redirects_and_variables_know_the_scheme() {
    let upstream = TestUpstream::tls(TlsServer::new("ec")).answer(|_| {
        b"HTTP/1.1 302 Found\r\nLocation: https://upstream/elsewhere\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let lines = "add_header X-Port $proxy_port always; add_header X-Host $proxy_host always;";
    let server = passing(&[upstream.address()], "", lines).run_in_process();
    let response = server.get("/");
    let location = format!("http://localhost:{}/elsewhere", server.port());
    assert_eq!(response.header("location"), Some(&location[..]));
    assert_eq!((response.header("x-port"), response.header("x-host")), (Some("443"), Some("upstream")));
}

#[test]
fn servers_are_checked_over_tls() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::tls(TlsServer::new("ec")).answer(|_| ok("hello"));
    let foreign = TestUpstream::tls(TlsServer::new("foreign")).answer(|_| ok("hello"));
    let lines = format!("{VERIFIED} proxy_ssl_name localhost; health_check interval=50ms;");
    let server = Setup::new()
        .http(&format!(
            "upstream upstream {{ zone u 1m; server {}; server {}; }}
             server {{ listen 127.0.0.1:@PORT@; location = /status {{ status; }}
                       location / {{ proxy_pass https://upstream; {lines} }} }}",
            upstream.address(),
            foreign.address(),
        ))
        .in_process();
    let states = || {
        let status = server.status();
        let servers = status["upstreams"][0]["servers"].as_array().expect("servers").clone();
        servers.iter().map(|server| server["state"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    eventually("one server is well and the other is not", || states() == ["up", "unhealthy"]);
    for _ in 0..4 {
        assert_eq!(server.get("/").text(), "hello");
    }
}

#[test]
fn servers_of_uwsgi_are_spoken_to_over_tls() {
    let verified = "uwsgi_ssl_verify on; uwsgi_ssl_trusted_certificate @CERTS@/ca.crt; uwsgi_ssl_name localhost;";
    for version in TlsVersion::ALL {
        let upstream = TestUpstream::tls(TlsServer::with("ec", &[version], true));
        let foreign = TestUpstream::tls(TlsServer::with("foreign", &[version], false)).answer(|_| ok("foreign"));
        let server = Setup::new()
            .http(&format!(
                "server {{ listen 127.0.0.1:@PORT@; uwsgi_ssl_protocols TLSv1.2 TLSv1.3; uwsgi_ssl_server_name on;
                   uwsgi_param ASKED $request_method;
                   uwsgi_ssl_certificate @CERTS@/client.crt; uwsgi_ssl_certificate_key @CERTS@/client.key; {verified}
                   location / {{ uwsgi_pass suwsgi://{}; }}
                   location /foreign {{ uwsgi_pass suwsgi://{}; }} }}",
                upstream.address(),
                foreign.address()
            ))
            .run_in_process();
        let mut client = server.connect();
        client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody");
        let mut peer = upstream.accept();
        let visitor = peer.visitor();
        assert_eq!(visitor.name.as_deref(), Some("localhost"), "{version}");
        assert_eq!(visitor.certificates, [certificates().der("client.crt")], "{version}");
        // A kind, the length of the variables, another kind; then names and values with their lengths.
        let head = peer.bytes(4);
        let variables = peer.bytes(usize::from(u16::from_le_bytes([head[1], head[2]])));
        assert_eq!((head[0], head[3]), (0, 0));
        assert!(variables.starts_with(b"\x05\0ASKED\x03\0PUT"), "{variables:?}");
        assert_eq!(peer.bytes(4), b"body");
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(client.response().text(), "hello", "{version}");
        assert_eq!(server.get("/foreign").status, 502, "{version}");
        assert!(upstream_error(&server).contains("upstream: \"suwsgi://127.0.0.1:"), "{version}");
    }
}
