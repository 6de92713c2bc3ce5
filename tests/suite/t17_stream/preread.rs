//! The first bytes of a session: `ssl_preread`, and the server that they choose.

use super::{lines, said, stream};
use freerun_testkit::{ConnectionEnd, TestClient, Tls, require};

const SHOW: &str = "$ssl_preread_server_name|$ssl_preread_protocol|$ssl_preread_alpn_protocols";

#[test]
fn a_client_hello_says_what_it_wants() {
    let Some(setup) = stream(&format!("server {{ listen 127.0.0.1:@PORT@; ssl_preread on; return \"{SHOW}\"; }}"))
    else {
        return;
    };
    let server = setup.run();
    let hello = |tls: &Tls| said(server.address(), &tls.hello());
    assert_eq!(hello(&Tls::new().name("Www.Example.com").alpn(&["h2", "x/1"])), "Www.Example.com|TLSv1.3|h2,x/1");
    assert_eq!(hello(&Tls::new().nameless()), "|TLSv1.3|");
    // What is no TLS is passed on all the same, and so is a hello of SSLv2.
    assert_eq!(said(server.address(), b"GET / HTTP/1.0\r\n\r\n"), "||");
    assert_eq!(said(server.address(), &[0x80, 0x2e, 1, 3, 1, 0]), "|TLSv1|");
    // The pieces of a hello may be small.
    let bytes = Tls::new().hello();
    let mut client = TestClient::connect(server.address());
    for byte in &bytes[..bytes.len() - 1] {
        client.send([*byte]);
    }
    assert_eq!(client.send(&bytes[bytes.len() - 1..]).rest().0, b"localhost|TLSv1.3|");
}

#[test]
fn what_does_not_come_or_does_not_fit_ends_the_session() {
    let Some(setup) = stream(
        "log_format line '$status $ssl_preread_protocol $bytes_sent'; access_log @DIR@/sessions.log line;
         server { listen 127.0.0.1:@PORT@; access_log off; return x; }
         server { listen 127.0.0.1:@PORT2@; ssl_preread on; preread_timeout 100ms; preread_buffer_size 64; return none; }",
    ) else {
        return;
    };
    let server = setup.run();
    let second = server.address_number(2);
    assert_eq!(said(second, b"\x16"), "");
    let hello = Tls::new().hello();
    assert!(hello.len() > 64);
    let (text, ending) = TestClient::connect(second).send(&hello).rest();
    assert!(text.is_empty() && ending != ConnectionEnd::Silent);
    assert_eq!(
        TestClient::connect(second).send(b"\x16\x03\x01").half_close().rest(),
        (Vec::new(), ConnectionEnd::Closed)
    );
    assert_eq!(lines(&server, 3), ["200  0", "400  0", "200  0"]);
    server.logs("preread buffer full while prereading client data, client: 127.0.0.1, server: 127.0.0.1:");
    assert!(!server.error_log().contains("timed out"), "{}", server.error_log());
}

#[test]
fn the_name_in_a_hello_chooses_the_server() {
    // Servers with names came with nginx 1.25.5.
    if !require::freerun() {
        return;
    }
    let Some(setup) = stream(
        "log_format line escape=none '$server_name'; access_log @DIR@/sessions.log line; ssl_preread on;
         server { listen 127.0.0.1:@PORT@; server_name a.test; return \"a $ssl_preread_server_name\"; }
         server { listen 127.0.0.1:@PORT@; server_name *.b.test; return \"b $server_name\"; }
         server { listen 127.0.0.1:@PORT@; server_name ~^(?<who>.+)\\.c\\.test$; return \"c $who $1\"; }
         server { listen 127.0.0.1:@PORT@ default_server; server_name d.test; return d; }",
    ) else {
        return;
    };
    let server = setup.run();
    let named = |name: &str| said(server.address(), &Tls::new().name(name).hello());
    assert_eq!(named("a.test"), "a a.test");
    assert_eq!(named("x.b.test"), "b *.b.test");
    assert_eq!(named("me.c.test"), "c me me");
    assert_eq!(named("other.test"), "d");
    assert_eq!(said(server.address(), &Tls::new().nameless().hello()), "d");
    assert_eq!(said(server.address(), b"no TLS"), "d");
    // One of the sessions is the harness's own.
    let logged = lines(&server, 7);
    let wanted = ["a.test", "*.b.test", "~^(?<who>.+)\\.c\\.test$", "d.test", "d.test", "d.test"];
    assert!(logged.windows(6).any(|lines| lines == wanted), "{logged:?}");
}

#[test]
fn set_comes_before_the_first_bytes_are_looked_at() {
    let Some(setup) = stream(
        "server { listen 127.0.0.1:@PORT@; ssl_preread on; set $early \"[$ssl_preread_protocol]\";
             return \"$early $ssl_preread_protocol\"; }",
    ) else {
        return;
    };
    // As in nginx, the variable keeps the value of its first use.
    assert_eq!(said(setup.run().address(), &Tls::new().hello()), "[] ");
}
