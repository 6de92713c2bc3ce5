//! Which server answers, with which certificate and protocol, and what is said when none does.

use super::{secure, secure_with};
use freerun_testkit::{ConnectionEnd, Kind, Setup, Site, TestClient, TestServer, Tls, TlsVersion, certificates, check};

/// Several servers on one address; each says its name.
fn several() -> TestServer {
    let pair = |name: &str| format!("ssl_certificate @CERTS@/{name}.crt; ssl_certificate_key @CERTS@/{name}.key;");
    let server = |listen: &str, name: &str, lines: &str| {
        format!(
            "server {{ listen 127.0.0.1:@PORT@ ssl{listen}; server_name {name}; {lines}
                       location / {{ return 200 '$server_name $ssl_server_name'; }} }}\n"
        )
    };
    let http = "ssl_protocols TLSv1.2 TLSv1.3;\n".to_owned()
        + &server(" default_server", "first.example.com", &pair("rsa"))
        + &server("", "other.example.com", &pair("other"))
        + &server("", "bare.example.com", "")
        + &server("", "'*.wild.example.com'", &pair("ec"))
        + &server("", "'~^re(?<n>\\d)\\.example\\.com$'", &pair("ec"))
        + &server("", "closed.example.com", "ssl_reject_handshake on;")
        + &server("", "guarded.example.com", "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;")
        + &server(
            "",
            "asks.example.com",
            &(pair("ec") + "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;"),
        );
    Setup::new().http(&http).run()
}

fn ask(client: &mut TestClient, host: &str) -> (u16, String) {
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let response = client.response();
    (response.status, response.text())
}

#[test]
fn the_name_chooses_server_and_certificate() {
    let server = several();
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        for (name, certificate, shown) in [
            ("first.example.com", "rsa", "first.example.com"),
            ("other.example.com", "other", "other.example.com"),
            ("OTHER.example.com", "other", "other.example.com"),
            ("bare.example.com", "rsa", "bare.example.com"),
            ("a.b.wild.example.com", "ec", "*.wild.example.com"),
            ("re7.example.com", "ec", "~^re(?<n>\\d)\\.example\\.com$"),
            ("unknown.example.com", "rsa", "first.example.com"),
        ] {
            let mut client = server.connect_tls(&tls.clone().name(name));
            assert_eq!(client.agreed().certificates, [certificates().der(&format!("{certificate}.crt"))], "{name}");
            let (status, text) = ask(&mut client, name);
            assert_eq!((status, text.split(' ').next()), (200, Some(shown)), "{version} {name}: {text}");
        }
        let mut client = server.connect_tls(&tls.nameless());
        assert_eq!(client.agreed().certificates, [certificates().der("rsa.crt")]);
        assert_eq!(ask(&mut client, "x"), (200, "first.example.com ".to_owned()));
        // Host chooses among the servers of the connection, request by request.
        assert_eq!(ask(&mut client, "other.example.com").1, "other.example.com ");
        assert_eq!(ask(&mut client, "bare.example.com").1, "bare.example.com ");
    }
}

#[test]
fn a_host_that_no_server_has_is_the_default_server_s_whatever_was_named_before() {
    let server = several();
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version).name("other.example.com"));
        assert_eq!(ask(&mut client, "unknown.example.com").1, "first.example.com other.example.com");
        assert_eq!(ask(&mut client, "other.example.com").1, "other.example.com other.example.com");
        client.send("GET / HTTP/1.0\r\n\r\n");
        assert_eq!(client.response().text(), "first.example.com other.example.com");
    }
}

#[test]
fn a_server_that_asks_for_certificates_is_not_reached_by_another_name() {
    let server = several();
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version).name("first.example.com").certificate("client"));
        assert_eq!(ask(&mut client, "first.example.com").0, 200);
        assert_eq!(ask(&mut client, "asks.example.com").0, 421);
        let mut client = server.connect_tls(&Tls::new().only(version).nameless().certificate("client"));
        // nginx 1.22 finds that no certificate was sent.
        let status = if Kind::under_test() == Kind::Freerun { 421 } else { 400 };
        assert_eq!(ask(&mut client, "asks.example.com").0, status);
        let mut client = server.connect_tls(&Tls::new().only(version).name("asks.example.com").certificate("client"));
        assert_eq!(ask(&mut client, "asks.example.com").0, 200);
        assert_eq!(ask(&mut client, "first.example.com").0, 200, "the other way round it is allowed");
    }
    server.logs("client attempted to request the server name different from the one that was negotiated");
}

#[test]
fn a_server_that_asks_for_certificates_needs_none_of_its_own_to_refuse_those_who_show_none() {
    let server = several();
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version).name("guarded.example.com"));
        let (status, text) = ask(&mut client, "guarded.example.com");
        assert_eq!(status, 400);
        assert!(text.contains("No required SSL certificate was sent"), "{text}");
    }
}

#[test]
fn a_server_can_refuse_all_handshakes() {
    let server = several();
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version).name("closed.example.com");
        let failure = server.connect().try_tls(&tls).expect_err("a refusal");
        assert_eq!(failure.alert, Some(112));
        assert_eq!(ask(&mut server.connect_tls(&tls.name("first.example.com")), "closed.example.com").0, 200);
    }
}

#[test]
fn the_client_s_suites_choose_between_rsa_and_ec() {
    let site = Site::new();
    site.file("a", "one");
    let server = secure_with(&site, "rsa", "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;").run();
    let tls = Tls::new().only(TlsVersion::V12);
    for (suite, certificate) in [
        ("ECDHE-RSA-AES128-GCM-SHA256", "rsa.crt"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "ec.crt"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "rsa.crt"),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", "ec.crt"),
    ] {
        let mut client = server.connect_tls(&tls.clone().suites(&[suite]));
        let agreed = client.agreed();
        assert_eq!((agreed.cipher, agreed.certificates), (suite.to_owned(), vec![certificates().der(certificate)]));
        assert_eq!(client.get("/a").text(), "one");
    }
    let only_rsa = secure_with(&site, "rsa", "").run();
    let failure = only_rsa.connect().try_tls(&tls.suites(&["ECDHE-ECDSA-AES256-GCM-SHA384"])).expect_err("no suite");
    assert_eq!(failure.alert, Some(40));
}

#[test]
fn versions_and_suites_are_those_of_the_configuration() {
    let site = Site::new();
    site.file("a", "one");
    let server = |lines: &str| {
        let pair = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";
        Setup::new()
            .root(&site)
            .http(&format!("server {{ listen 127.0.0.1:@PORT@ ssl; root @ROOT@; {pair} {lines} }}"))
            .run()
    };
    for (lines, not) in [("ssl_protocols TLSv1.2;", TlsVersion::V13), ("ssl_protocols TLSv1.3;", TlsVersion::V12)] {
        let server = server(lines);
        let failure = server.connect().try_tls(&Tls::new().only(not)).expect_err("no common version");
        assert_eq!(failure.alert, Some(70), "{lines}");
        assert_eq!(server.connect_tls(&Tls::new()).get("/a").text(), "one");
    }
    let offered = ["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"];
    let ciphers = "ssl_protocols TLSv1.2; ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256;";
    let tls = Tls::new().only(TlsVersion::V12).suites(&offered);
    let agreed = server(&format!("{ciphers} ssl_prefer_server_ciphers on;")).connect_tls(&tls).agreed();
    assert_eq!(agreed.cipher, "ECDHE-ECDSA-AES256-GCM-SHA384");
    let failure = server(ciphers).connect().try_tls(&tls.suites(&offered[..1])).expect_err("no common suite");
    assert_eq!(failure.alert, Some(40));
    let agreed = server("ssl_protocols TLSv1.3; ssl_ecdh_curve secp384r1;").connect_tls(&Tls::new()).agreed();
    assert_eq!(agreed.group, "secp384r1");
}

#[test]
fn protocols_above_tls_are_agreed_on() {
    let site = Site::new();
    site.file("a", "one");
    let server = secure(&site, "location = /alpn { return 200 '$ssl_alpn_protocol|$server_protocol'; }").run();
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        for (offered, agreed) in [(&["http/1.1"][..], "http/1.1"), (&["h9", "http/1.0"], "http/1.0")] {
            let mut client = server.connect_tls(&tls.clone().alpn(offered));
            assert_eq!(client.agreed().alpn.as_deref(), Some(agreed));
            assert_eq!(client.get("/alpn").text(), format!("{agreed}|HTTP/1.1"));
        }
        assert_eq!(server.connect_tls(&tls).get("/alpn").text(), "|HTTP/1.1");
        let failure = server.connect().try_tls(&tls.alpn(&["ftp", "h9"])).expect_err("no common protocol");
        assert_eq!(failure.alert, Some(120));
    }
}

#[test]
fn http_2_is_offered_by_the_servers_that_have_it() {
    let pair = |name: &str| format!("ssl_certificate @CERTS@/{name}.crt; ssl_certificate_key @CERTS@/{name}.key;");
    let own = |name: &str, lines: &str| {
        format!("server {{ listen 127.0.0.1:@PORT@ ssl; server_name {name}.example.com; {lines} }}\n")
    };
    let servers = own("first", &pair("rsa"))
        + &own("on", &(pair("other") + "http2 on;"))
        + &own("computed", &(pair("$pair") + "http2 on;"))
        + &own("bare", "http2 on;");
    let of_names = [("first", false), ("on", true), ("computed", true), ("bare", true), ("unknown", false)];
    let (turned, listens) = (servers.replace("http2 on;", ""), servers.replacen(" ssl;", " ssl http2;", 1));
    let of = |http2: bool| if http2 { ("h2", "h2") } else { ("http/1.1", "http/1.1") };
    for (http, expected) in [
        (servers.clone(), of_names),
        (servers.replace("/rsa.", "/$pair."), of_names),
        // It may be turned off for one of them, or is on at the address for all.
        (format!("http2 on;\n{servers}").replacen("ssl_certificate", "http2 off; ssl_certificate", 1), of_names),
        (listens, of_names.map(|(name, _)| (name, true))),
        (turned, of_names.map(|(name, _)| (name, false))),
    ] {
        let map = "map $ssl_server_name $pair { default ec; }";
        let server = Setup::new().http(&format!("ssl_protocols TLSv1.2 TLSv1.3;\n{map}\n{http}")).run();
        for version in TlsVersion::ALL {
            for (name, http2) in expected {
                let tls = Tls::new().only(version).name(&format!("{name}.example.com"));
                let both = server.connect_tls(&tls.clone().alpn(&["http/1.1", "h2"])).agreed().alpn;
                assert_eq!(both.as_deref(), Some(of(http2).0), "{version} {name}");
                let alone = server.connect().try_tls(&tls.alpn(&["h2"]));
                assert_eq!(
                    alone.map_err(|failure| failure.alert).err(),
                    (!http2).then_some(Some(120)),
                    "{version} {name}"
                );
            }
        }
    }
}

#[test]
fn plain_http_on_a_port_of_tls_is_answered() {
    let site = Site::new();
    site.file("a", "one").file("497.html", "speak TLS");
    let server = secure(&site, "").run();
    let mut client = server.connect();
    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.says_close()), (400, true));
    assert!(response.text().contains("The plain HTTP request was sent to HTTPS port"), "{}", response.text());
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    server.logs("client sent plain HTTP request to HTTPS port while reading client request headers");
    for (lines, status, text) in [
        ("error_page 497 /497.html;", 400, "speak TLS"),
        ("error_page 497 =200 /497.html;", 200, "speak TLS"),
        ("error_page 497 =404 /none.html;", 404, "404 Not Found"),
        ("error_page 400 /497.html;", 400, "The plain HTTP request"),
    ] {
        let response = secure(&site, lines).run().get("/a");
        assert_eq!(response.status, status, "{lines}");
        assert!(response.text().contains(text), "{lines}: {}", response.text());
    }
    let server = secure(&site, "error_page 497 =301 https://$host:$server_port$request_uri;").run();
    let response = server.get("/b?c");
    let location = format!("https://localhost:{}/b?c", server.port());
    assert_eq!((response.status, response.header("location")), (301, Some(&location[..])));
    // TLS is served all the same.
    assert_eq!(server.connect_tls(&Tls::new()).get("/a").text(), "one");
}

#[test]
fn tls_on_a_plain_port_is_a_bad_request() {
    let site = Site::new();
    let server = Setup::server(&site, "").run();
    let failure = server.connect().try_tls(&Tls::new()).expect_err("HTTP");
    assert!(failure.error.is_some(), "{failure:?}");
    server.logs("client sent invalid method while reading client request line");
}

#[test]
fn the_proxy_protocol_comes_before_tls() {
    let site = Site::new();
    let http = "server { listen 127.0.0.1:@PORT@ ssl proxy_protocol; set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;
                ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_protocols TLSv1.2 TLSv1.3;
                location / { return 200 '$proxy_protocol_addr $remote_addr $ssl_protocol'; } }";
    let server = Setup::new().root(&site).http(http).run();
    let v1 = b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 443\r\n".to_vec();
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    v2.extend([192, 0, 2, 1, 192, 0, 2, 2, 3, 232, 1, 187]);
    for header in [v1, v2] {
        for version in TlsVersion::ALL {
            let mut client = server.connect();
            client.send(&header);
            let mut client = client.tls(&Tls::new().only(version));
            assert_eq!(client.get("/").text(), format!("192.0.2.1 192.0.2.1 {version}"));
        }
    }
    // Plain HTTP behind the header is told so.
    let mut client = server.connect();
    client.send("PROXY TCP4 192.0.2.1 192.0.2.2 1000 443\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.says_close()), (400, true));
    assert!(response.text().contains("The plain HTTP request was sent to HTTPS port"), "{}", response.text());
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    let failure = server.connect().try_tls(&Tls::new()).expect_err("no header");
    assert!(failure.ending.is_some(), "{failure:?}");
    server.logs("broken header");
}

#[test]
fn addresses_without_a_certificate_are_refused_by_t() {
    let text = "events { }\nhttp { server { listen 127.0.0.1:@PORT@ ssl; } }\n";
    let checked = check(Kind::under_test(), text).expect("it starts");
    assert!(
        checked.stderr.contains("no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive in"),
        "{}",
        checked.stderr
    );
    assert_eq!(checked.code, Some(1));
}

#[test]
fn a_default_server_without_a_certificate_ends_handshakes_of_unknown_names() {
    // With a server that refuses, no certificate is needed.
    let http = "ssl_protocols TLSv1.2 TLSv1.3;
        server { listen 127.0.0.1:@PORT@ ssl default_server; ssl_reject_handshake on; }
        server { listen 127.0.0.1:@PORT@ ssl; server_name other.example.com; return 200 other;
                 ssl_certificate @CERTS@/other.crt; ssl_certificate_key @CERTS@/other.key; }";
    let server = Setup::new().http(http).run();
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        for unknown in [tls.clone().name("unknown.example.com"), tls.clone().nameless()] {
            assert_eq!(server.connect().try_tls(&unknown).expect_err("a refusal").alert, Some(112));
        }
        assert_eq!(ask(&mut server.connect_tls(&tls.name("other.example.com")), "other.example.com").1, "other");
    }
}
