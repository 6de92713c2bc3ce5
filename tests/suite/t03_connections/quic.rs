//! `listen … quic`: the sockets, and `Alt-Svc`.

use freerun_testkit::http2::Http2;
use freerun_testkit::{Setup, TestClient, TestServer, Tls, eventually, require};

const PAIR: &str = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";

/// The sockets of UDP at `127.0.0.1` and this port, by the numbers of their inodes, in their order.
pub fn sockets(port: u16) -> Vec<u64> {
    let address = format!("0100007F:{port:04X}");
    let all = std::fs::read_to_string("/proc/net/udp").expect("the list of sockets");
    let inode = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        (words.get(1) == Some(&address.as_str())).then(|| words.get(9)?.parse().ok())?
    };
    let mut found: Vec<u64> = all.lines().filter_map(inode).collect();
    found.sort_unstable();
    found
}

fn serving(loops: usize, lines: &str) -> TestServer {
    let http = format!("{PAIR} server {{ listen 127.0.0.1:@PORT@; {lines} return 200 \"served [$http3]\"; }}");
    Setup::new().main(&format!("worker_processes {loops};")).http(&http).freerun()
}

#[test]
fn a_reload_adds_and_removes_sockets_and_leaves_the_others_alone() {
    if !require::freerun() {
        return;
    }
    let server = serving(2, "listen 127.0.0.1:@PORT2@ ssl; listen 127.0.0.1:@PORT2@ quic reuseport;");
    let port = server.port_number(2);
    let first = sockets(port);
    assert_eq!(first.len(), 2, "one for each loop");
    let over_tls = || TestClient::connect(server.address_number(2)).tls(&Tls::new()).get("/").text();
    assert_eq!(over_tls(), "served []", "the same port of TCP is another socket");

    server.edit("worker_processes 2;", "worker_processes 3;");
    server.reload();
    let more = sockets(port);
    assert!(more.len() == 3 && first.iter().all(|socket| more.contains(socket)), "{first:?} {more:?}");
    // Packets may wait in each of them.
    server.edit("worker_processes 3;", "worker_processes 1;");
    server.reload();
    assert_eq!(sockets(port), more);

    server.edit(&format!("listen 127.0.0.1:{port} quic reuseport;"), "");
    server.reload();
    eventually("they are closed", || sockets(port).is_empty());
    assert_eq!(over_tls(), "served []");
    server.edit(" ssl;", " ssl; listen 127.0.0.1:@PORT2@ quic;");
    server.reload();
    assert_eq!(sockets(port).len(), 1);
}

#[test]
fn servers_by_name_and_a_wildcard_share_the_sockets_of_an_address() {
    if !require::freerun() {
        return;
    }
    let http = format!(
        "{PAIR} server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ quic; server_name a; return 204; }}
         server {{ listen 127.0.0.1:@PORT2@ quic default_server; server_name b; http3 off; }}
         server {{ listen *:@PORT3@ quic; }}
         server {{ listen 127.0.0.1:@PORT3@ quic; server_name c; }}"
    );
    let server = Setup::new().main("worker_processes 2;").http(&http).freerun();
    assert_eq!(sockets(server.port_number(2)).len(), 2);
    assert_eq!(sockets(server.port_number(3)).len(), 0, "the wildcard's receive for it");
    // Nobody falls over what is no packet of QUIC.
    let client = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for (length, byte) in [(0, 0), (1, 0x40), (5, 0xc0), (1200, 0xc0), (1200, 0x40), (9000, 0xff)] {
        client.send_to(&vec![byte; length], server.address_number(2)).expect("sending");
    }
    assert_eq!(server.get("/").status, 204);
    server.reload();
    assert_eq!(server.get("/").status, 204);
}

#[test]
fn clients_on_tcp_hear_of_http3_where_the_configuration_says_so() {
    if !require::freerun() {
        return;
    }
    let http = format!(
        "{PAIR} http2 on;
         server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ ssl; server_name localhost;
             listen 127.0.0.1:@PORT2@ quic alt_svc; listen 127.0.0.2:@PORT2@ quic alt_svc=1h;
             listen 127.0.0.1:@PORT3@ quic alt_svc=1h; listen 127.0.0.1:@PORT4@ quic;
             location / {{ return 200; }}
             location /own {{ add_header Alt-Svc clear; return 200; }}
             location /none {{ error_page 404 = /in; return 404; }}
             location /in {{ internal; add_header X y; return 200; }} }}
         server {{ listen 127.0.0.1:@PORT2@ ssl; server_name other; http3 off;
             listen 127.0.0.1:@PORT2@ quic alt_svc; return 200; }}
         server {{ listen 127.0.0.1:@PORT2@ ssl; server_name third; listen 127.0.0.1:@PORT2@ quic; return 200; }}"
    );
    let server = Setup::new().http(&http).freerun();
    let told = format!("h3=\":{}\"; ma=86400, h3=\":{}\"; ma=3600", server.port_number(2), server.port_number(3));
    let tls = Tls::new();
    let mut client = TestClient::connect(server.address_number(2)).tls(&tls);
    for (path, host, wanted) in [
        ("/", "localhost", Some(told.as_str())),
        ("/own", "localhost", Some("clear")),
        ("/none", "localhost", Some(&told)),
        ("/", "other", None),
        ("/", "third", None),
    ] {
        let answer = client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).response();
        assert_eq!(answer.header("Alt-Svc"), wanted, "{path} {host}");
    }
    let mut client = Http2::new(TestClient::connect(server.address_number(2)).tls(&Tls::new().alpn(&["h2"])));
    assert_eq!(client.get("/").header("alt-svc"), Some(told.as_str()));
    assert_eq!(server.get("/").header("Alt-Svc"), None, "it is for clients over TLS");
}
