//! What the status page tells of TLS.

use freerun_testkit::{
    Setup, Site, TestClient, TestServer, TestUpstream, Tls, TlsServer, TlsVersion, certificates, ok, require,
};
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// The status page on `@PORT@`, and servers with these ports, certificates and lines.
fn servers(lines: &[(u32, &str, &str)]) -> TestServer {
    let server = |(port, name, lines): &(u32, &str, &str)| {
        format!(
            "server {{ listen 127.0.0.1:@PORT{port}@ ssl; ssl_protocols TLSv1.2 TLSv1.3; {lines}
                       ssl_certificate @CERTS@/{name}.crt; ssl_certificate_key @CERTS@/{name}.key;
                       location / {{ return 200 yes; }} }}\n"
        )
    };
    let servers: String = lines.iter().map(server).collect();
    Setup::new()
        .http("server { listen 127.0.0.1:@PORT@; location = /status { status; } location / { return 200 yes; } }")
        .http(&servers)
        .freerun()
}

/// A connection with a request on it; whether it has resumed a session.
fn visit(server: &TestServer, port: usize, tls: &Tls) -> bool {
    let mut client = TestClient::connect(server.address_number(port)).tls(tls);
    assert_eq!(client.get("/").text(), "yes");
    client.agreed().resumed
}

/// The client's share is for another group than the server has, so that the server has to ask again.
#[test]
fn the_answer_after_a_retry_is_signed_where_any_other_is() {
    if !require::freerun() {
        return;
    }
    let server = servers(&[(2, "rsa", ""), (3, "rsa", "ssl_ecdh_curve secp384r1;")]);
    let tls = Tls::new().only(TlsVersion::V13);
    let pooled = |port| {
        visit(&server, port, &tls);
        server.status()["tls"]["clients"]["pooled"].as_u64().expect("a number")
    };
    let first = pooled(2);
    let second = pooled(3) - first;
    // Both ClientHellos go to the pool, if signatures take long here.
    assert_eq!(second, first * 2);
}

#[test]
fn full_and_resumed_handshakes_are_told_apart() {
    if !require::freerun() {
        return;
    }
    let server = servers(&[
        (2, "ec", "ssl_session_cache shared:s:1m; ssl_session_tickets off;"),
        (3, "rsa", "ssl_session_ticket_key @CERTS@/tickets-48.key;"),
    ]);
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        for (port, tls) in [(2, tls.clone().resuming_by_id()), (3, tls.resuming())] {
            assert!(!visit(&server, port, &tls) && visit(&server, port, &tls), "{version} {port}");
        }
    }
    let tls = &server.status()["tls"];
    let clients = &tls["clients"];
    assert_eq!(clients["keys"], json!({"rsa": 2, "ecdsa": 2, "ed25519": 0}));
    assert_eq!(clients["resumed_by"], json!({"cache": 2, "ticket": 2}));
    assert_eq!((&clients["resumed"], &clients["handshakes"]), (&json!(4), &json!(8)));
    // OpenSSL gives two tickets after a full handshake of TLS 1.3, and one after a resumed one; with TLS 1.2 one and one.
    assert_eq!(tls["tickets"], json!({"issued": 5, "accepted": 2, "unknown_key": 0, "expired": 0, "damaged": 0}));
    let cache = &tls["session_caches"][0];
    assert_eq!((&cache["name"], &cache["evicted"]), (&json!("shared:s"), &json!(0)));
    // One of TLS 1.2, two of TLS 1.3 and another one after those were used.
    assert_eq!(cache["sessions"], 4);
    assert!(cache["bytes"].as_u64() > Some(4 * 100) && cache["max_bytes"].as_u64() <= Some(1 << 20), "{cache}");
    server.reload();
    assert_eq!(server.status()["tls"]["tickets"]["issued"], 5, "counts go on");
    assert_eq!(server.status()["tls"]["session_caches"][0]["sessions"], 4);
}

#[test]
fn tickets_that_are_refused_are_counted_by_reason() {
    if !require::freerun() {
        return;
    }
    let server = servers(&[
        (2, "ec", "ssl_session_ticket_key @CERTS@/tickets-48.key;"),
        (3, "ec", "ssl_session_ticket_key @CERTS@/tickets-80.key;"),
        (4, "rsa", "ssl_session_ticket_key @CERTS@/tickets-48.key;"),
    ]);
    for version in TlsVersion::ALL {
        for (other, reason) in [(3, "unknown_key"), (4, "damaged")] {
            let tls = Tls::new().only(version).resuming();
            visit(&server, 2, &tls);
            let before = server.status()["tls"]["tickets"].clone();
            assert!(!visit(&server, other, &tls));
            let after = server.status()["tls"]["tickets"].clone();
            assert_eq!(after[reason].as_u64(), before[reason].as_u64().map(|count| count + 1), "{version} {reason}");
            assert_eq!(after["accepted"], before["accepted"]);
        }
    }
}

/// A key of RSA with this many bits takes long on any machine.
#[test]
fn long_signatures_for_upstream_servers_are_made_by_the_pool() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let [key, certificate] = ["own.key", "own.crt"].map(|name| site.at(name).display().to_string());
    certificates().openssl(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:4096",
        "-nodes",
        "-subj",
        "/CN=own",
        "-keyout",
        &key,
        "-out",
        &certificate,
    ]);
    // The worker reads it, without the rights of root.
    fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("another mode");
    let computed = "set $dir @ROOT@; proxy_ssl_certificate $dir/own.crt; proxy_ssl_certificate_key $dir/own.key;";
    for version in TlsVersion::ALL {
        let upstream = TestUpstream::tls(TlsServer::with("ec", &[version], true)).answer(|_| ok("yes"));
        let server = Setup::server(
            &site,
            &format!(
                "location = /status {{ status; }}
                 location /fixed {{ proxy_pass https://{0};
                     proxy_ssl_certificate @ROOT@/own.crt; proxy_ssl_certificate_key @ROOT@/own.key; }}
                 location /computed {{ proxy_pass https://{0}; {computed} }}",
                upstream.address()
            ),
        )
        .freerun();
        let pooled = || server.status()["tls"]["upstreams"]["pooled"].as_u64().expect("a number");
        for target in ["/fixed", "/computed"] {
            let before = pooled();
            assert_eq!(server.get(target).text(), "yes");
            assert!(pooled() > before, "{version} {target}");
        }
    }
}
