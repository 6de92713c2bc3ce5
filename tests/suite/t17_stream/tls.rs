//! TLS of sessions: `listen … ssl`.

use super::{lines, said, stream};
use freerun_testkit::{ConnectionEnd, TestClient, TestServer, Tls, TlsVersion, require};
use std::net::SocketAddr;

const CERTIFICATE: &str = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";

/// What the server says to a client of TLS.
fn secret(address: SocketAddr, tls: &Tls) -> String {
    let (text, ending) = TestClient::connect(address).tls(tls).rest();
    assert_eq!(ending, ConnectionEnd::Closed);
    String::from_utf8_lossy(&text).into_owned()
}

/// Whether a client of TLS has no session, or one that says nothing.
fn is_refused(address: SocketAddr, tls: &Tls) -> bool {
    match TestClient::connect(address).try_tls(tls) {
        Ok(mut client) => client.rest().0.is_empty(),
        Err(_) => true,
    }
}

#[test]
fn sessions_are_encrypted() {
    let Some(setup) = stream(&format!(
        "log_format line '$status $ssl_protocol $ssl_server_name $bytes_sent'; access_log @DIR@/sessions.log line;
         server {{ listen 127.0.0.1:@PORT@ ssl; access_log off; {CERTIFICATE} return x; }}
         server {{ listen 127.0.0.1:@PORT2@ ssl; ssl_handshake_timeout 200ms; {CERTIFICATE} return \"$ssl_protocol $ssl_server_name $ssl_client_verify\"; }}"
    )) else {
        return;
    };
    let server = setup.run();
    let second = server.address_number(2);
    for version in TlsVersion::ALL {
        assert_eq!(secret(second, &Tls::new().only(version)), format!("{version} localhost NONE"));
    }
    assert_eq!(lines(&server, 2), ["200 TLSv1.2 localhost 22", "200 TLSv1.3 localhost 22"]);
    // What is no TLS, or none in time, ends the session.
    for bytes in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"SSH-2.0-x\r\n", b"", b"\x16\x03\x01"] {
        assert_eq!(said(second, bytes), "", "{}", bytes.escape_ascii());
    }
    assert_eq!(TestClient::connect(second).half_close().rest(), (Vec::new(), ConnectionEnd::Closed));
    assert_eq!(lines(&server, 7)[2..], ["500 - - 0"; 5]);
    let context = format!("while SSL handshaking, client: 127.0.0.1, server: 127.0.0.1:{}", server.port_number(2));
    for why in [
        "SSL_do_handshake() failed (SSL: error:0A00009C:SSL routines::http request)",
        "SSL_do_handshake() failed (SSL: error:0A00010B:SSL routines::wrong version number)",
        "peer closed connection in SSL handshake",
    ] {
        server.logs(&format!("{why} {context}"));
    }
}

#[test]
fn application_protocols_are_negotiated() {
    let Some(setup) = stream(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; {CERTIFICATE} ssl_alpn one two; return \"[$ssl_alpn_protocol]\"; }}"
    )) else {
        return;
    };
    let server = setup.run();
    assert_eq!(secret(server.address(), &Tls::new().alpn(&["two"])), "[two]");
    assert_eq!(secret(server.address(), &Tls::new().alpn(&["three", "two", "one"])), "[one]");
    assert_eq!(secret(server.address(), &Tls::new()), "[]");
    assert!(is_refused(server.address(), &Tls::new().alpn(&["three"])));
    server.logs(
        "SSL_do_handshake() failed (SSL: error:0A0000EB:SSL routines::no application protocol) while SSL handshaking",
    );
}

#[test]
fn clients_show_certificates() {
    let Some(setup) = stream(&format!(
        "log_format line '$status $ssl_client_verify'; access_log @DIR@/sessions.log line; {CERTIFICATE}
         server {{ listen 127.0.0.1:@PORT@; access_log off; return x; }}
         server {{ listen 127.0.0.1:@PORT2@ ssl; ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;
             return \"$ssl_client_verify $ssl_client_s_dn\"; }}
         server {{ listen 127.0.0.1:@PORT3@ ssl; ssl_verify_client optional; ssl_client_certificate @CERTS@/ca.crt;
             return $ssl_client_verify; }}"
    )) else {
        return;
    };
    let server = setup.run();
    let (on, optional) = (server.address_number(2), server.address_number(3));
    assert!(secret(on, &Tls::new().certificate("client")).starts_with("SUCCESS "));
    assert!(is_refused(on, &Tls::new()));
    assert!(is_refused(on, &Tls::new().certificate("self")));
    assert_eq!(secret(optional, &Tls::new()), "NONE");
    assert_eq!(secret(optional, &Tls::new().certificate("client")), "SUCCESS");
    assert!(is_refused(optional, &Tls::new().certificate("self")));
    let logged = lines(&server, 6);
    assert_eq!(logged[..2], ["200 SUCCESS", "500 NONE"]);
    assert!(logged[2].starts_with("500 FAILED:"), "{logged:?}");
    server.logs("client sent no required SSL certificate while SSL handshaking, client: 127.0.0.1");
    server.logs("client SSL certificate verify error: (18:self-signed certificate) while SSL handshaking");
}

/// Servers with names, as nginx has them since 1.25.5.
fn named() -> Option<TestServer> {
    if !require::freerun() {
        return None;
    }
    let setup = stream(
        "server { listen 127.0.0.1:@PORT@ ssl; server_name a.test; ssl_reject_handshake on; return x; }
         server { listen 127.0.0.1:@PORT@ ssl; server_name b.test; return \"b $ssl_server_name $server_name\";
             ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; deny all; }
         server { listen 127.0.0.1:@PORT@ ssl; server_name c.test; return c;
             ssl_certificate @CERTS@/$ssl_server_name.crt; ssl_certificate_key @CERTS@/$ssl_server_name.key; }
         server { listen 127.0.0.1:@PORT@ ssl; server_name ec rsa; return computed;
             ssl_certificate @CERTS@/$ssl_server_name.crt; ssl_certificate_key @CERTS@/$ssl_server_name.key; }",
    )?;
    Some(setup.run())
}

#[test]
fn the_name_in_the_handshake_chooses_the_server() {
    let Some(server) = named() else { return };
    let name = |name: &str| Tls::new().name(name);
    // Access was judged before, by the rules of the default server.
    assert_eq!(secret(server.address(), &name("b.test")), "b b.test b.test");
    assert!(is_refused(server.address(), &name("a.test")));
    assert!(is_refused(server.address(), &name("other.test")));
    assert!(is_refused(server.address(), &name("c.test")));
    server.logs("cannot load certificate \"");
    assert_eq!(secret(server.address(), &name("ec")), "computed");
    assert_eq!(secret(server.address(), &name("rsa")), "computed");
}

#[test]
fn sessions_are_resumed() {
    let Some(setup) = stream(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; {CERTIFICATE} ssl_session_cache shared:s:1m; return $ssl_session_reused; }}"
    )) else {
        return;
    };
    let server = setup.run();
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version).resuming();
        assert_eq!(secret(server.address(), &tls), ".");
        assert_eq!(secret(server.address(), &tls), "r");
        server.reload();
        assert_eq!(secret(server.address(), &tls), "r");
    }
}

#[test]
fn a_proxy_tells_the_address_before_the_handshake() {
    let Some(setup) = stream(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl proxy_protocol; {CERTIFICATE} set_real_ip_from 127.0.0.1; return $remote_addr; }}"
    )) else {
        return;
    };
    let server = setup.run();
    let mut client = TestClient::connect(server.address());
    client.send(b"PROXY TCP4 192.0.2.1 192.0.2.2 11 22\r\n");
    assert_eq!(client.tls(&Tls::new()).rest().0, b"192.0.2.1");
}
