//! Connections: how they begin and end, and what is used where there is no HTTP/3.

use std::time::{Duration, Instant};

use freerun_testkit::{Datagrams, Full, Kind, Setup, Site, TestServer, check, eventually, require};

use super::{PAIR, connections, pair, with_listen};

/// The versions that the upstream server has seen.
fn versions(server: &TestServer, count: usize) -> Vec<String> {
    let lines = server.access_lines(count);
    lines.iter().map(|line| line.split('|').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_server_without_udp_is_asked_by_tcp_at_once() {
    if !require::freerun() {
        return;
    }
    for (http2, version) in [("http2 on;", "HTTP/2.0"), ("http2 off;", "HTTP/1.1")] {
        let upstream = format!("{http2} location / {{ return 200 $request_uri; }}");
        let server = with_listen("listen 127.0.0.1:@PORT2@ ssl;", &Site::new(), &upstream, "").freerun();
        let began = Instant::now();
        for number in 0..5 {
            assert_eq!(server.get(&format!("/{number}")).text(), format!("/{number}"));
        }
        assert!(began.elapsed() < Duration::from_millis(1200), "each request waits for UDP");
        let lines = server.access_lines(5);
        assert!(lines.iter().all(|line| line.starts_with(version)), "{lines:?}");
        assert_eq!(connections(&lines).len(), 1, "{lines:?}");
    }
}

#[test]
fn a_server_that_does_not_answer_by_udp_is_asked_by_tcp_soon_and_then_at_once() {
    if !require::freerun() {
        return;
    }
    let upstream = "http2 on; keepalive_timeout 0; location / { return 200 $request_uri; }";
    let server = with_listen("listen 127.0.0.1:@PORT2@ ssl;", &Site::new(), upstream, "").freerun();
    let silent = Datagrams::at(server.address_number(2));
    let began = Instant::now();
    assert_eq!(server.get("/first").text(), "/first");
    let first = began.elapsed();
    assert!((Duration::from_millis(240)..Duration::from_secs(5)).contains(&first), "{first:?}");
    let (datagram, from) = silent.receive();
    assert_eq!(datagram.len(), 1200, "the first packet of a client");
    while silent.receives_within(Duration::from_millis(300)) {}
    assert_eq!(server.get("/second").text(), "/second");
    assert!(!silent.receives_within(Duration::from_millis(300)), "the server is asked by UDP again");
    assert_eq!(versions(&server, 2), ["HTTP/2.0", "HTTP/2.0"]);
    // Nobody waits for the answer any more.
    silent.send(b"late", from);
    assert_eq!(server.get("/third").text(), "/third");
}

#[test]
fn connecting_has_its_time_and_no_more() {
    if !require::freerun() {
        return;
    }
    let full = Full::new();
    let _silent = Datagrams::at(full.address().parse().expect("an address"));
    let server = Setup::new()
        .http(&format!(
            "server {{ listen 127.0.0.1:@PORT@; proxy_http_version 3; proxy_connect_timeout 600ms;
                       location / {{ proxy_pass https://{}; }} }}",
            full.address()
        ))
        .freerun();
    let began = Instant::now();
    assert_eq!(server.get("/").status, 504);
    assert!(began.elapsed() >= Duration::from_millis(590), "{:?}", began.elapsed());
    server.logs("upstream timed out (110: Connection timed out) while connecting to upstream");
}

#[test]
fn an_unused_connection_is_not_kept_without_a_group() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let upstream = "location / { return 200 $ssl_session_reused; }";
    let lines = "location /direct { proxy_pass https://127.0.0.1:@PORT2@; }";
    let server = pair(&site, upstream, lines).freerun();
    assert_eq!(server.get("/direct").text(), ".");
    eventually("the session is resumed", || server.get("/direct").text() == "r");
    let lines = server.access_lines(2);
    assert_eq!(connections(&lines).len(), lines.len(), "{lines:?}");
}

/// A server announces the end of a connection (GOAWAY): the requests go on over others.
#[test]
fn a_connection_that_ends_in_order_loses_no_request() {
    if !require::freerun() {
        return;
    }
    let upstream = "keepalive_requests 3; location / { return 200 $request_uri; }";
    let server = pair(&Site::new(), upstream, "").freerun();
    for number in 0..20 {
        let answer = server.get(&format!("/{number}"));
        assert_eq!((answer.status, answer.text()), (200, format!("/{number}")));
    }
    let used = connections(&server.access_lines(20)).len();
    assert!((2..=20).contains(&used), "{used}");
}

#[test]
fn a_server_that_stops_is_replaced_by_another_one() {
    if !require::freerun() {
        return;
    }
    let upstream = |text: &str| {
        Setup::new().http(&format!(
            "server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ quic; {PAIR}
                       location / {{ return 200 {text}; }} }}"
        ))
    };
    let (mut first, second) = (upstream("first").freerun(), upstream("second").freerun());
    let server = Setup::new()
        .http(&format!(
            "upstream backend {{ server {}; server {} backup; }}
             server {{ listen 127.0.0.1:@PORT@; proxy_http_version 3;
                       location / {{ proxy_pass https://backend; }} }}",
            first.address_number(2),
            second.address_number(2)
        ))
        .freerun();
    assert_eq!(server.get("/").text(), "first");
    first.stop();
    for _ in 0..3 {
        let answer = server.get("/");
        assert_eq!((answer.status, answer.text().as_str()), (200, "second"));
    }
    drop(second);
}

#[test]
fn a_server_may_ask_for_the_address_to_be_shown() {
    if !require::freerun() {
        return;
    }
    let upstream = "quic_retry on; location / { return 200 hello; }";
    let server = pair(&Site::new(), upstream, "").freerun();
    assert_eq!(server.get("/").text(), "hello");
    assert!(server.status()["quic"]["retries"].as_u64() >= Some(1), "{}", server.status()["quic"]);
}

#[test]
fn sessions_have_the_settings_of_the_location() {
    if !require::freerun() {
        return;
    }
    let upstream = "ssl_verify_client optional; ssl_client_certificate @CERTS@/ca.crt;
                    location / { return 200 \"$ssl_client_verify $ssl_server_name $ssl_cipher $ssl_protocol\"; }";
    let own =
        |name: &str| format!("proxy_ssl_certificate @CERTS@/{name}.crt; proxy_ssl_certificate_key @CERTS@/{name}.key;");
    let lines = format!(
        "location /ec {{ proxy_pass https://backend; {} }}
         location /rsa {{ proxy_pass https://backend; {} }}
         location /named {{ proxy_pass https://backend; proxy_ssl_server_name on; proxy_ssl_name localhost;
                            proxy_ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256; }}
         location /verified {{ proxy_pass https://backend; proxy_ssl_verify on; proxy_ssl_name localhost;
                               proxy_ssl_trusted_certificate @CERTS@/ca.crt; }}
         location /stranger {{ proxy_pass https://backend; proxy_ssl_verify on; proxy_ssl_name localhost;
                               proxy_ssl_trusted_certificate @CERTS@/strangers.crt; }}
         location /misnamed {{ proxy_pass https://backend; proxy_ssl_verify on; proxy_ssl_name elsewhere.test;
                               proxy_ssl_trusted_certificate @CERTS@/ca.crt; }}
         location /bound {{ proxy_pass https://backend; proxy_bind 127.0.0.7; }}",
        own("client"),
        own("client-rsa")
    );
    let server = pair(&Site::new(), upstream, &lines).freerun();
    assert_eq!(server.get("/").text(), "NONE  TLS_AES_256_GCM_SHA384 TLSv1.3");
    for target in ["/ec", "/rsa"] {
        assert!(server.get(target).text().starts_with("SUCCESS "), "{target}");
    }
    assert_eq!(server.get("/named").text(), "NONE localhost TLS_CHACHA20_POLY1305_SHA256 TLSv1.3");
    assert_eq!(server.get("/verified").status, 200);
    assert_eq!(server.get("/stranger").status, 502);
    server.logs("upstream SSL certificate verify error");
    assert_eq!(server.get("/misnamed").status, 502);
    server.logs("upstream SSL certificate does not match \"elsewhere.test\" while SSL handshaking to upstream");
    assert_eq!(server.get("/bound").status, 200);
    let lines = server.access_lines(6);
    assert!(lines.iter().any(|line| line.ends_with("|127.0.0.7")), "{lines:?}");
}

#[test]
fn a_server_of_another_protocol_is_told() {
    if !require::freerun() {
        return;
    }
    let server = pair(&Site::new(), "http3 off; http3_hq on;", "").freerun();
    assert_eq!(server.get("/").status, 502);
    server.logs("while SSL handshaking to upstream");
}

#[test]
fn health_checks_use_it_and_keep_their_connection() {
    if !require::freerun() {
        return;
    }
    let upstream = "location / { return 200 hello; }";
    let lines = "location /status { status; }
                 location /checked { proxy_pass https://backend; health_check interval=20ms keepalive_time=1m uri=/well; }";
    let server = pair(&Site::new(), upstream, lines).freerun();
    eventually("it is checked", || server.access_log().matches("|/well|200|").count() > 5);
    let checks: Vec<String> = server.access_lines(5).into_iter().filter(|line| line.contains("|/well|")).collect();
    assert!(checks.iter().all(|line| line.starts_with("HTTP/3.0|")), "{checks:?}");
    assert!(connections(&checks).len() <= 2, "{checks:?}");
    assert_eq!(server.status()["upstreams"][0]["servers"][0]["state"], "up");
}

#[test]
fn what_http3_needs_is_told_when_the_configuration_is_read() {
    if !require::freerun() {
        return;
    }
    for (lines, message) in [
        ("proxy_pass http://127.0.0.1:1;", "\"proxy_http_version 3\" needs TLS in "),
        ("proxy_pass https://127.0.0.1:1; proxy_ssl_protocols TLSv1.2;", "\"proxy_http_version 3\" needs TLS 1.3 in "),
        (
            "proxy_pass https://127.0.0.1:1; proxy_protocol on;",
            "\"proxy_http_version 3\" carries no header of the PROXY protocol in ",
        ),
    ] {
        let text = format!(
            "events {{}} http {{ server {{ listen 127.0.0.1:1;\nlocation / {{ proxy_http_version 3;\n{lines} }} }} }}"
        );
        let said = check(Kind::Freerun, &text).expect("a program that runs").stderr;
        assert!(said.contains(message) && said.contains(":3"), "{said}");
    }
}
