//! `pass`: a connection that goes on at another listening socket of the process.

use super::{lines, said, stream};
use freerun_testkit::http2::Http2;
use freerun_testkit::{Setup, TestClient, Tls, require};

/// freerun with these lines in `stream`; nginx has `pass` since 1.25.5.
fn passing(lines: &str) -> Option<Setup> {
    if require::freerun() { stream(lines) } else { None }
}

#[test]
fn a_connection_goes_to_http() {
    let Some(setup) = passing(
        "server { listen 127.0.0.1:@PORT@; pass 127.0.0.1:@PORT3@; }
         server { listen 127.0.0.1:@PORT2@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
             ssl_alpn h2 http/1.1; pass 127.0.0.1:@PORT3@; }
         server { listen 127.0.0.1:@PORT5@; ssl_preread on; pass $target; }
         map $ssl_preread_protocol $target { default 127.0.0.1:@PORT4@; '' 127.0.0.1:@PORT3@; }",
    ) else {
        return;
    };
    let http =
        "server { listen 127.0.0.1:@PORT3@; return 200 \"$scheme $remote_addr $server_port $ssl_protocol $https\"; }
        server { listen 127.0.0.1:@PORT4@ ssl; ssl_certificate @CERTS@/rsa.crt; ssl_certificate_key @CERTS@/rsa.key;
            return 200 \"$scheme $server_port $ssl_server_name\"; }";
    let server = setup.http(http).run();
    let port = |number| server.port_number(number);
    // Several requests go over the connection.
    let mut client = TestClient::connect(server.address());
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), format!("http 127.0.0.1 {}  ", port(3)));
    }
    let mut client = TestClient::connect(server.address_number(2)).tls(&Tls::new().alpn(&["http/1.1"]));
    for _ in 0..2 {
        assert_eq!(client.get("/").text(), format!("https 127.0.0.1 {} TLSv1.3 on", port(3)));
    }
    // What was preread is not lost.
    let mut client = TestClient::connect(server.address_number(5)).tls(&Tls::new().name("x.test"));
    assert_eq!(client.get("/").text(), format!("https {} x.test", port(4)));
    let mut client = TestClient::connect(server.address_number(5));
    assert_eq!(client.get("/").text(), format!("http 127.0.0.1 {}  ", port(3)));
}

#[test]
fn a_connection_goes_to_another_server_of_stream() {
    let Some(setup) = passing(
        "log_format line '$server_port $status $connection'; access_log @DIR@/sessions.log line;
         server { listen 127.0.0.1:@PORT@; access_log off; return x; }
         server { listen 127.0.0.1:@PORT2@; ssl_preread on; pass 127.0.0.1:@PORT3@; }
         server { listen 127.0.0.1:@PORT3@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
             pass unix:@DIR@/inner.sock; }
         server { listen unix:@DIR@/inner.sock; return \"$remote_addr $ssl_protocol $ssl_server_name\"; }
         server { listen *:@PORT4@; return wildcard; }
         server { listen 127.0.0.1:@PORT5@; pass 127.0.0.1:@PORT4@; }",
    ) else {
        return;
    };
    let server = setup.run();
    let mut client = TestClient::connect(server.address_number(2)).tls(&Tls::new());
    assert_eq!(client.rest().0, b"127.0.0.1 TLSv1.3 localhost");
    assert_eq!(said(server.address_number(5), b""), "wildcard");
    let logged = lines(&server, 5);
    let ends: Vec<&str> = logged[..3].iter().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
    assert!(ends.iter().all(|number| *number == ends[0]), "it is one connection: {logged:?}");
    assert!(logged.iter().all(|line| line.contains(" 200 ")), "{logged:?}");
}

#[test]
fn circles_and_wrong_addresses_end() {
    let Some(setup) = passing(
        "log_format line '$server_port $status'; access_log @DIR@/sessions.log line;
         server { listen 127.0.0.1:@PORT@; access_log off; return x; }
         server { listen 127.0.0.1:@PORT2@; pass 127.0.0.1:@PORT2@; }
         server { listen 127.0.0.1:@PORT3@; pass 127.0.0.1:1; }
         server { listen 127.0.0.1:@PORT4@; ssl_preread on; pass $ssl_preread_server_name:@PORT@; }",
    ) else {
        return;
    };
    let server = setup.run();
    assert_eq!(said(server.address_number(2), b""), "");
    server.logs("the connection was passed on 10 times, which is a circle, client: 127.0.0.1, server: 127.0.0.1:");
    assert_eq!(said(server.address_number(3), b""), "");
    server.logs("port not found for \"127.0.0.1:1\", client: 127.0.0.1, server: 127.0.0.1:");
    assert_eq!(said(server.address_number(4), &Tls::new().name("127.0.0.1.test").hello()), "");
    server.logs("host not found in pass \"127.0.0.1.test:");
    let logged = lines(&server, 13);
    assert_eq!(logged.iter().filter(|line| line.ends_with(" 500")).count(), 3, "{logged:?}");
    // No connection is left behind.
    assert_eq!(said(server.address(), b""), "x");
}

#[test]
fn http2_is_spoken_over_a_session_that_was_passed_on() {
    let Some(setup) = passing(
        "server { listen 127.0.0.1:@PORT@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
             ssl_alpn h2 http/1.1; pass 127.0.0.1:@PORT2@; }",
    ) else {
        return;
    };
    let http = "server { listen 127.0.0.1:@PORT2@; http2 on; return 200 \"$http2 $scheme $ssl_protocol\"; }";
    let server = setup.http(http).run();
    let mut http2 = Http2::tls(server.connect(), &Tls::new().alpn(&["h2"]), &[]);
    for _ in 0..2 {
        assert_eq!(http2.get("/").text(), "h2 https TLSv1.3");
    }
    let mut client = server.connect().tls(&Tls::new().alpn(&["http/1.1"]));
    assert_eq!(client.get("/").text(), " https TLSv1.3");
}
