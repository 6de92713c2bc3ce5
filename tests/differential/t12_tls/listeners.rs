//! Listeners: versions, suites, names, protocols, and plain HTTP.

use super::{Visit, compare, compare_with, plain, request, visit};
use freerun_testkit::{Setup, Site, Tls, TlsVersion};

const EC: &str = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";
const RSA: &str = "ssl_certificate @CERTS@/rsa.crt; ssl_certificate_key @CERTS@/rsa.key;";

/// The variables of the session.
const TELL: &str = "return 200 '$ssl_protocol|$ssl_cipher|$ssl_server_name|$ssl_session_reused|$ssl_alpn_protocol|$ssl_early_data|$scheme|$https|$server_name';";

fn one(lines: &str) -> Setup {
    Setup::new().http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; location / {{ {TELL} }} {lines} }}"
    ))
}

const SUITES: [&str; 6] = [
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

/// Clients of each version, each suite, and of all.
fn all_kinds() -> Vec<Visit> {
    let mut visits = vec![visit("all", Tls::new()), visit("no name", Tls::new().nameless())];
    for version in TlsVersion::ALL {
        visits.push(visit(version.to_string(), Tls::new().only(version)));
    }
    for suite in SUITES {
        visits.push(visit(suite, Tls::new().only(TlsVersion::V12).suites(&[suite])));
    }
    for suite in ["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"] {
        visits.push(visit(suite, Tls::new().only(TlsVersion::V13).suites(&[suite])));
    }
    let backwards = ["ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256"];
    visits.push(visit("three suites", Tls::new().only(TlsVersion::V12).suites(&backwards)));
    visits
}

#[test]
fn versions_and_suites() {
    for lines in [
        format!("{EC} ssl_protocols TLSv1.2 TLSv1.3;"),
        format!("{RSA} ssl_protocols TLSv1.2;"),
        format!("{EC} {RSA} ssl_protocols TLSv1.3;"),
        format!("{EC} {RSA} ssl_protocols TLSv1.2 TLSv1.3;"),
        format!("{EC} {RSA} ssl_protocols TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers on;"),
        format!("{RSA} {EC} ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers ECDHE+AES128; ssl_prefer_server_ciphers on;"),
        format!("{RSA} {EC} ssl_protocols TLSv1.2; ssl_ciphers CHACHA20:AESGCM; ssl_prefer_server_ciphers on;"),
        format!("{RSA} ssl_protocols TLSv1.2; ssl_ciphers ECDHE-RSA-AES256-GCM-SHA384;"),
        format!("{RSA} {EC} ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;"),
    ] {
        // The words of OpenSSL's errors have their own test below.
        compare_with(&one(&lines), all_kinds(), false);
    }
}

#[test]
fn words_of_failed_handshakes() {
    let setup = one(&format!("{RSA} ssl_protocols TLSv1.2; ssl_ciphers ECDHE-RSA-AES256-GCM-SHA384;"));
    compare(&setup, vec![visit("no version", Tls::new().only(TlsVersion::V13))]);
    compare(&setup, vec![visit("no suite", Tls::new().only(TlsVersion::V12).suites(&["ECDHE-RSA-AES128-GCM-SHA256"]))]);
    compare(&setup, vec![visit("no protocol", Tls::new().alpn(&["ftp"]))]);
    let setup = one(&format!("{RSA} ssl_protocols TLSv1.3;"));
    compare(&setup, vec![visit("no version", Tls::new().only(TlsVersion::V12))]);
    compare(&setup, vec![visit("no protocol", Tls::new().alpn(&["ftp"]))]);
}

/// Why clients that have named no server that there is are told so with 421, not with 400.
const STRICTER: &str =
    "nginx does not compare servers then, and finds that a certificate is missing that it never asked for";

/// Servers of several names on one address.
fn several() -> Setup {
    let server = |listen: &str, name: &str, lines: &str| {
        format!(
            "server {{ listen 127.0.0.1:@PORT@ ssl{listen}; server_name {name}; location / {{ {TELL} }} {lines} }}\n"
        )
    };
    Setup::new().http(
        &("ssl_protocols TLSv1.2 TLSv1.3;\n".to_owned()
            + &server("", "localhost first.example.com", RSA)
            + &server(
                "",
                "other.example.com",
                "ssl_certificate @CERTS@/other.crt; ssl_certificate_key @CERTS@/other.key;",
            )
            + &server("", "*.wild.example.com", EC)
            + &server("", "~^re\\d", EC)
            + &server("", "closed.example.com", "ssl_reject_handshake on;")
            + &server(
                "",
                "asks.example.com",
                &format!("{EC} ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;"),
            )),
    )
}

#[test]
fn servers_by_name_and_host() {
    let mut visits = Vec::new();
    for version in TlsVersion::ALL {
        for name in [
            "first.example.com",
            "other.example.com",
            "OTHER.Example.Com",
            "a.wild.example.com",
            "re1",
            "unknown",
            "wild.example.com",
            "a_b.wild.example.com",
        ] {
            let tls = Tls::new().only(version).name(name);
            visits.push(visit(format!("{version} {name} {name}"), tls.clone()).asks("/", name));
            visits.push(visit(format!("{version} {name} other"), tls.clone()).asks("/", "other.example.com"));
            visits.push(visit(format!("{version} {name} unknown"), tls.clone()).asks("/", "unknown.example.com"));
            visits.push(visit(format!("{version} {name} nobody"), tls.clone()).says("GET / HTTP/1.0\r\n\r\n", 1));
            let asks = visit(format!("{version} {name} asks"), tls).asks("/", "asks.example.com");
            let is_known = !["unknown", "wild.example.com"].contains(&name);
            visits.push(if is_known { asks } else { asks.differs(STRICTER, "421") });
        }
        visits.push(visit(format!("{version} closed"), Tls::new().only(version).name("closed.example.com")));
        visits.push(
            visit(format!("{version} asks"), Tls::new().only(version).name("asks.example.com"))
                .asks("/", "asks.example.com"),
        );
        visits.push(
            visit(
                format!("{version} asks, with a certificate"),
                Tls::new().only(version).name("asks.example.com").certificate("client"),
            )
            .asks("/", "asks.example.com"),
        );
        visits.push(
            visit(format!("{version} nameless"), Tls::new().only(version).nameless().certificate("client"))
                .asks("/", "asks.example.com")
                .differs(STRICTER, "421"),
        );
    }
    compare(&several(), visits);
}

#[test]
fn protocols_above() {
    let mut visits = Vec::new();
    for version in TlsVersion::ALL {
        for alpn in [
            &["http/1.1"][..],
            &["http/1.0"],
            &["http/0.9"],
            &["h2", "http/1.1"],
            &["x", "http/1.0", "http/1.1"],
            &["ftp"],
            &["h2"],
        ] {
            visits.push(visit(format!("{version} {alpn:?}"), Tls::new().only(version).alpn(alpn)));
        }
    }
    compare(&one(&format!("{EC} ssl_protocols TLSv1.2 TLSv1.3;")), visits);
}

#[test]
fn plain_http() {
    let site = Site::new();
    site.file("497.html", "speak TLS").file("400.html", "bad");
    for lines in [
        "",
        "error_page 497 /497.html;",
        "error_page 497 =200 /497.html;",
        "error_page 497 =302 https://$host/;",
        "error_page 400 /400.html;",
        "error_page 497 =301 @named; location @named { return 307 https://elsewhere$request_uri; }",
    ] {
        let http = format!(
            "server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; root @ROOT@; {EC} ssl_protocols TLSv1.2 TLSv1.3; {lines} }}"
        );
        let visits = vec![
            plain("GET"),
            plain("HEAD").says("HEAD /x?y HTTP/1.1\r\nHost: localhost\r\n\r\n", 1),
            plain("HTTP/1.0").says("GET /x HTTP/1.0\r\n\r\n", 1),
            plain("a body").says("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 1),
            plain("no host").says("GET /x HTTP/1.1\r\n\r\n", 1),
            plain("no method").says("x\r\n\r\n", 1),
            plain("TRACE").says("TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 1),
            visit("TLS", Tls::new()),
        ];
        compare(&Setup::new().root(&site).http(&http), visits);
    }
}

#[test]
fn destinations_of_webdav() {
    let site = Site::new();
    site.file("a", "x");
    let http = format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; root @ROOT@; {EC} ssl_protocols TLSv1.2 TLSv1.3;
                   location / {{ dav_methods COPY; }} }}"
    );
    let destinations = [
        "https://localhost/a",
        "https://localhost:8443/a",
        "http://localhost/a",
        "https://other/a",
        "/a",
        "ftp://localhost/a",
    ];
    let visits = destinations.map(|destination| {
        let bytes = format!("COPY /none HTTP/1.1\r\nHost: localhost\r\nDestination: {destination}\r\n\r\n");
        visit(destination, Tls::new()).says(&bytes, 1)
    });
    compare_with(&Setup::new().root(&site).http(&http), visits.into(), false);
}

#[test]
fn keep_alive_and_errors() {
    let mut visits = Vec::new();
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        let get = request("/", "localhost");
        visits.push(visit(format!("{version} pipeline"), tls.clone()).says(&get.repeat(3), 3));
        visits.push(
            visit(format!("{version} close"), tls.clone())
                .says("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 1),
        );
        visits.push(
            visit(format!("{version} HTTP/1.0"), tls.clone()).says("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", 1),
        );
        visits.push(
            visit(format!("{version} kept 1.0"), tls.clone())
                .says("GET / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n", 1),
        );
        visits.push(visit(format!("{version} no method"), tls.clone()).says("x y z\r\n\r\n", 1));
        visits.push(visit(format!("{version} no host"), tls.clone()).says("GET / HTTP/1.1\r\n\r\n", 1));
        visits
            .push(visit(format!("{version} a wrong host"), tls.clone()).says("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 1));
        visits.push(
            visit(format!("{version} two lengths"), tls.clone())
                .says("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 1),
        );
        visits.push(visit(format!("{version} HTTP/2"), tls.clone()).says("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 1));
        visits.push(
            visit(format!("{version} too long"), tls.clone())
                .says(&format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000)), 1),
        );
        visits.push(
            visit(format!("{version} a long field"), tls)
                .says(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(9000)), 1),
        );
    }
    // What is logged of wrong requests is compared elsewhere.
    compare_with(&one(&format!("{EC} ssl_protocols TLSv1.2 TLSv1.3;")), visits, false);
}
