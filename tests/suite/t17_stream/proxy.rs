//! Sessions of TCP that are passed on: `proxy_pass` in `stream`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use freerun_testkit::{
    ConnectionEnd, Dns, DnsReply, Kind, Peer, RefusingAddress, Setup, TestClient, TestServer, TestUpstream, Tls,
    TlsServer, eventually, require,
};
use rustix::process::Signal;

/// A server for sessions on `@PORT2@` with these lines, and with others beside it; `@PORT@` is there to see that it runs.
pub fn streaming(around: &str, lines: &str) -> Setup {
    streaming_on("127.0.0.1:@PORT2@", around, lines)
}

/// The same with what `listen` has.
fn streaming_on(listen: &str, around: &str, lines: &str) -> Setup {
    Setup::new().http("server { listen 127.0.0.1:@PORT@; return 204; }").stream(&format!(
        "log_format way '$status|$upstream_addr|$bytes_received|$bytes_sent|$upstream_bytes_received|$upstream_bytes_sent|$upstream_connect_time|$upstream_first_byte_time|$upstream_session_time';
         access_log @DIR@/access.log way;
         {around}
         server {{ listen {listen}; {lines} }}"
    ))
}

/// Connects to the server for sessions.
pub fn session(server: &TestServer) -> TestClient {
    TestClient::connect(server.address_number(2))
}

/// A session whose upstream has its first message.
fn open(server: &TestServer, upstream: &TestUpstream) -> (TestClient, Peer) {
    let mut client = session(server);
    client.send("hello");
    let mut peer = upstream.accept();
    assert_eq!(peer.bytes(5), b"hello");
    (client, peer)
}

/// The next bytes that a client gets.
fn got(client: &mut TestClient, count: usize) -> Vec<u8> {
    client.at_least(count);
    client.take()
}

/// The parts of the log's only line.
fn logged(server: &TestServer) -> Vec<String> {
    server.access_lines(1).remove(0).split('|').map(str::to_owned).collect()
}

fn is_time(text: &str) -> bool {
    text.split_once('.').is_some_and(|(seconds, millis)| seconds.parse::<u64>().is_ok() && millis.len() == 3)
}

/// The number of a port at the end of an address.
fn port_of(client: &TestClient) -> u16 {
    client.socket().local_addr().ok().and_then(|address| address.as_socket()).expect("an address").port()
}

#[test]
fn bytes_go_both_ways_and_are_counted() {
    let upstream = TestUpstream::new();
    let server = streaming("", &format!("proxy_pass {};", upstream.address())).run();
    let (mut client, mut peer) = open(&server, &upstream);
    for _ in 0..3 {
        client.send("ping");
        assert_eq!(peer.bytes(4), b"ping");
        peer.send("pong!");
        assert_eq!(got(&mut client, 5), b"pong!");
    }
    drop(peer);
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    let parts = logged(&server);
    assert_eq!(parts[..6], ["200", &upstream.address(), "17", "15", "15", "17"], "{parts:?}");
    assert!(parts[6..].iter().all(|time| is_time(time)), "{parts:?}");
    let log = server.error_log();
    let line = log.lines().find(|line| line.contains("upstream disconnected")).expect("a line");
    assert!(
        line.ends_with("upstream disconnected, bytes from/to client:17/15, bytes from/to upstream:15/17"),
        "{line}"
    );
    let line = log.lines().find(|line| line.contains("proxy 127.0.0.1:")).expect("a line");
    assert!(line.ends_with(&format!(" connected to {}", upstream.address())), "{line}");
}

#[test]
fn a_server_that_speaks_first_is_heard() {
    let upstream = TestUpstream::new();
    let server = streaming("", &format!("proxy_pass {};", upstream.address())).run();
    let mut client = session(&server);
    let mut peer = upstream.accept();
    peer.send("220 welcome\r\n");
    assert_eq!(got(&mut client, 13), b"220 welcome\r\n");
}

#[test]
fn large_messages_of_slow_readers_are_not_lost() {
    let upstream = TestUpstream::new();
    let server = streaming("", &format!("proxy_pass {};", upstream.address())).run();
    let (mut client, mut peer) = open(&server, &upstream);
    let body: Vec<u8> = (0..5_000_000).map(|at| (at % 251) as u8).collect();
    let (there, back) = (body.clone(), body.clone());
    let sending = std::thread::spawn(move || {
        peer.send(&there);
        let got = peer.bytes(back.len());
        assert!(got == back);
        peer
    });
    assert!(got(&mut client, body.len()) == body);
    client.send(&body);
    drop(sending.join().unwrap());
}

#[test]
fn large_messages_go_through_sessions_of_tls_on_both_sides() {
    let upstream = TestUpstream::tls(TlsServer::new("ec"));
    let listen = "127.0.0.1:@PORT2@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key";
    let lines = format!("proxy_pass {}; proxy_ssl on; proxy_half_close on;", upstream.address());
    let server = streaming_on(listen, "", &lines).run();
    let mut client = session(&server).tls(&Tls::new());
    client.send("hello");
    let mut peer = upstream.accept();
    assert_eq!(peer.bytes(5), b"hello");
    let body: Vec<u8> = (0..3_000_000).map(|at| (at % 251) as u8).collect();
    let (there, back) = (body.clone(), body.clone());
    let sending = std::thread::spawn(move || {
        peer.send(&there);
        let got = peer.bytes(back.len());
        assert!(got == back);
        peer
    });
    assert!(got(&mut client, body.len()) == body);
    client.send(&body);
    let mut peer = sending.join().unwrap();
    client.half_close();
    assert_eq!(peer.rest(), b"");
    peer.send("bye");
    peer.notify();
    peer.half_close();
    assert_eq!(got(&mut client, 3), b"bye");
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    let parts = logged(&server);
    assert_eq!(parts[2..6], ["3000005", "3000003", "3000003", "3000005"], "{parts:?}");
}

#[test]
fn an_end_of_one_side_is_the_end_unless_there_is_half_close() {
    let upstream = TestUpstream::new();
    let server = streaming("", &format!("proxy_pass {};", upstream.address())).run();
    let (mut client, mut peer) = open(&server, &upstream);
    client.send("last").half_close();
    assert_eq!(peer.rest(), b"last");
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    let server = streaming("", &format!("proxy_pass {}; proxy_half_close on;", upstream.address())).run();
    let (mut client, mut peer) = open(&server, &upstream);
    client.send("last").half_close();
    assert_eq!(peer.rest(), b"last");
    peer.send("answer");
    assert_eq!(got(&mut client, 6), b"answer");
    drop(peer);
    assert_eq!(client.ending(), ConnectionEnd::Closed);
}

#[test]
fn the_next_server_is_asked_if_one_refuses() {
    let (refusing, upstream) = (RefusingAddress::new(), TestUpstream::new());
    let group = format!("upstream g {{ server {}; server {} backup; }}", refusing.address(), upstream.address());
    let server = streaming(&group, "proxy_pass g;").run();
    let (client, peer) = open(&server, &upstream);
    drop(client);
    drop(peer);
    let parts = logged(&server);
    assert_eq!(parts[0..2], ["200".to_owned(), format!("{}, {}", refusing.address(), upstream.address())]);
    assert_eq!(parts[5], "0, 5");
    assert!(parts[6].starts_with("-, 0.") && parts[7] == "-, -", "{parts:?}");
    let log = server.error_log();
    let line = log.lines().find(|line| line.contains("connect() failed")).expect("a line");
    let end = format!(
        "connect() failed (111: Connection refused) while connecting to upstream, client: 127.0.0.1, server: {}, upstream: \
         \"{}\", bytes from/to client:0/0, bytes from/to upstream:0/0",
        server.address_number(2),
        refusing.address()
    );
    assert!(line.ends_with(&end), "{line}\n{end}");
}

#[test]
fn a_session_whose_servers_all_fail_ends_with_502() {
    let (one, two) = (RefusingAddress::new(), RefusingAddress::new());
    let group = format!("upstream g {{ server {} max_fails=1; server {}; }}", one.address(), two.address());
    let server = streaming(&group, "proxy_pass g;").run();
    assert_eq!(session(&server).ending(), ConnectionEnd::Closed);
    let parts = logged(&server);
    assert_eq!((parts[0].as_str(), parts[1].split(", ").count()), ("502", 2), "{parts:?}");
    // Both have failed, so that none is left.
    assert_eq!(session(&server).ending(), ConnectionEnd::Closed);
    let line = server.access_lines(2).remove(1);
    assert!(line.starts_with("502|g|0|0|0|0|-|-|0.000"), "{line}");
    assert!(server.error_log().contains("no live upstreams while connecting to upstream, client: 127.0.0.1, server: "));
    let only_one = streaming(&group, "proxy_pass g; proxy_next_upstream off;").run();
    assert_eq!(session(&only_one).ending(), ConnectionEnd::Closed);
    assert_eq!(logged(&only_one)[1].split(", ").count(), 1);
    let only_one = streaming(&group, "proxy_pass g; proxy_next_upstream_tries 1;").run();
    assert_eq!(session(&only_one).ending(), ConnectionEnd::Closed);
    assert_eq!(logged(&only_one)[1].split(", ").count(), 1);
}

#[test]
fn a_silent_session_ends_after_its_time() {
    let upstream = TestUpstream::new();
    let server = streaming("", &format!("proxy_pass {}; proxy_timeout 1s;", upstream.address())).run();
    // A moment before the server's own time can have begun.
    let began = Instant::now();
    let (mut client, mut peer) = open(&server, &upstream);
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    assert_eq!(peer.rest(), b"");
    assert!(began.elapsed() >= Duration::from_millis(800));
    assert_eq!(logged(&server)[0], "200");
    server.logs("timed out");
}

#[test]
fn rates_are_kept() {
    let upstream = TestUpstream::new();
    let lines = format!("proxy_pass {}; proxy_download_rate 1000; proxy_upload_rate $rate;", upstream.address());
    let server = streaming("map $remote_addr $rate { default 2k; }", &lines).run();
    // Before the session begins, from which on its bytes are counted.
    let began = Instant::now();
    let (mut client, mut peer) = open(&server, &upstream);
    peer.send([b'x'; 2500]);
    assert_eq!(got(&mut client, 2500), [b'x'; 2500]);
    // Whole seconds count, so that the last bytes may come after little more than one.
    assert!(began.elapsed() >= Duration::from_millis(1000), "{:?}", began.elapsed());
}

#[test]
fn unix_sockets_and_names_of_variables_are_upstreams() {
    let folder = freerun_testkit::TempDir::new("stream-upstream");
    let path = folder.path().join("s");
    let upstream = TestUpstream::unix(&path);
    std::fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("rights");
    let server = streaming("", &format!("proxy_pass {};", upstream.address())).run();
    let (client, peer) = open(&server, &upstream);
    drop((client, peer));
    assert_eq!(logged(&server)[1], upstream.address());

    let dns = Dns::start();
    dns.set("back.test", DnsReply::address([127, 0, 0, 1].into(), 300));
    let upstream = TestUpstream::new();
    let lines = format!("resolver {} ipv6=off; proxy_pass $name:{};", dns.address(), upstream.port());
    let server = streaming("map $remote_addr $name { default back.test; }", &lines).run();
    let (client, peer) = open(&server, &upstream);
    drop((client, peer));
    assert_eq!(logged(&server)[1], upstream.address());
    let lines = format!("resolver {} ipv6=off; proxy_pass $name:1;", dns.address());
    let server = streaming("map $remote_addr $name { default none.test; }", &lines).run();
    assert_eq!(session(&server).ending(), ConnectionEnd::Closed);
    let parts = logged(&server);
    assert_eq!(parts[..2], ["500", "-"], "{parts:?}");
    assert!(server.error_log().contains("none.test could not be resolved (3: Host not found)"));
}

#[test]
fn a_header_of_version_1_names_the_client() {
    let upstream = TestUpstream::new();
    let server = streaming("", &format!("proxy_pass {}; proxy_protocol on;", upstream.address())).run();
    let mut client = session(&server);
    client.send("hello");
    let port = port_of(&client);
    let mut peer = upstream.accept();
    let line = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {port} {}\r\nhello", server.port_number(2));
    assert_eq!(String::from_utf8_lossy(&peer.bytes(line.len())), line);
    peer.send("answer");
    assert_eq!(got(&mut client, 6), b"answer");
    drop(peer);
    let parts = logged(&server);
    assert_eq!((parts[2].as_str(), parts[5].as_str()), ("5", line.len().to_string().as_str()), "{parts:?}");
}

/// Fields of a header of version 2: types and values.
type Fields = Vec<(u8, Vec<u8>)>;

/// The fields in these bytes.
fn fields(mut bytes: &[u8]) -> Fields {
    let mut all = Vec::new();
    while let [number, high, low, rest @ ..] = bytes {
        let (value, more) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        all.push((*number, value.to_vec()));
        bytes = more;
    }
    all
}

/// Reads a header of version 2: family, addresses, fields.
fn header(peer: &mut Peer) -> (u8, Vec<u8>, Fields) {
    let start = peer.bytes(16);
    assert_eq!(start[..13], *b"\r\n\r\n\0\r\nQUIT\n\x21");
    let body = peer.bytes(usize::from(u16::from_be_bytes([start[14], start[15]])));
    let (addresses, rest) = body.split_at(if start[13] == 0x11 { 12 } else { 0 });
    (start[13], addresses.to_vec(), fields(rest))
}

#[test]
fn a_header_of_version_2_has_fields() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!(
        "proxy_pass {}; proxy_protocol 2; proxy_protocol_tlv 0xe0 $server_port; proxy_protocol_tlv unique_id a$remote_port;
         proxy_protocol_tlv 0xe1 $nothing;",
        upstream.address()
    );
    let server = streaming("map $remote_addr $nothing { default ''; }", &lines).freerun();
    let mut client = session(&server);
    client.send("hello");
    let port = port_of(&client);
    let mut peer = upstream.accept();
    let (family, addresses, fields) = header(&mut peer);
    let ports = [port.to_be_bytes(), server.port_number(2).to_be_bytes()].concat();
    assert_eq!((family, addresses), (0x11, [&[127, 0, 0, 1, 127, 0, 0, 1], &ports[..]].concat()));
    let values: Vec<(u8, String)> =
        fields[..2].iter().map(|(number, value)| (*number, String::from_utf8_lossy(value).into_owned())).collect();
    assert_eq!(values, [(0xe0, server.port_number(2).to_string()), (0x05, format!("a{port}"))]);
    assert_eq!((fields.len(), fields[2].0, fields[2].1.len()), (3, 3, 4), "the checksum");
    assert_eq!(peer.bytes(5), b"hello");
}

#[test]
fn a_header_tells_of_the_clients_tls() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let listen =
        "127.0.0.1:@PORT2@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_alpn one two";
    let lines = format!("proxy_pass {}; proxy_protocol 2;", upstream.address());
    let server = streaming_on(listen, "", &lines).freerun();
    let tls = Tls::new().name("www.test").alpn(&["two"]);
    let mut client = session(&server).tls(&tls);
    client.send("hello");
    let mut peer = upstream.accept();
    let (_, _, all) = header(&mut peer);
    assert_eq!(all[..2], [(1, b"two".to_vec()), (2, b"www.test".to_vec())]);
    let (number, value) = &all[2];
    // TLS, no certificate, and so none that was found good.
    assert_eq!((*number, &value[..5]), (0x20, &[1, 0, 0, 0, 1][..]));
    let inner = fields(&value[5..]);
    assert_eq!(inner[0], (0x21, b"TLSv1.3".to_vec()));
    assert!(inner[1].0 == 0x23 && inner[1].1.starts_with(b"TLS_"), "{inner:?}");
    // How the certificate that the client was shown is signed, and its key.
    assert_eq!(inner[2..], [(0x24, b"ecdsa-with-SHA256".to_vec()), (0x25, b"EC256".to_vec())]);
    assert_eq!(peer.bytes(5), b"hello");
}

#[test]
fn servers_are_spoken_to_with_tls() {
    let upstream = TestUpstream::tls(TlsServer::new("ec").alpn(&["one", "two"]));
    let trusted = "proxy_ssl_verify on; proxy_ssl_trusted_certificate @CERTS@/ca.crt;";
    let lines = format!(
        "proxy_pass {}; proxy_ssl on; proxy_ssl_server_name on; proxy_ssl_name localhost; {trusted}",
        upstream.address()
    );
    let server = streaming("", &lines).run();
    let mut client = session(&server);
    client.send("hello");
    let mut peer = upstream.accept();
    assert_eq!(peer.bytes(5), b"hello");
    assert_eq!(peer.visitor().name.as_deref(), Some("localhost"));
    peer.send("answer");
    assert_eq!(got(&mut client, 6), b"answer");
    peer.notify();
    drop(peer);
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    let parts = logged(&server);
    assert_eq!((parts[0].as_str(), parts[2..6].join("|").as_str()), ("200", "5|6|6|5"), "{parts:?}");
    // A certificate for another name is none.
    let lines = format!("proxy_pass {}; proxy_ssl on; proxy_ssl_name other.test; {trusted}", upstream.address());
    let server = streaming("", &lines).run();
    let mut client = session(&server);
    let peer = std::thread::spawn(move || {
        let mut peer = upstream.accept();
        let _ = peer.try_visitor();
        drop(peer);
    });
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    peer.join().expect("an upstream");
    assert_eq!(logged(&server)[0], "502");
    let wanted = "upstream SSL certificate does not match \"other.test\" while SSL handshaking to upstream, client: ";
    assert!(server.error_log().contains(wanted), "{}", server.error_log());
}

#[test]
fn a_server_with_tls_is_offered_protocols_and_told_of_the_client_before() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines =
        format!("proxy_pass {}; proxy_ssl on; proxy_ssl_alpn $first two; proxy_protocol on;", upstream.address());
    let server = streaming("map $remote_addr $first { default ''; }", &lines).freerun();
    let client = session(&server);
    let line = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n", port_of(&client), server.port_number(2));
    let mut peer = upstream.accept();
    assert_eq!(String::from_utf8_lossy(&peer.bytes(line.len())), line);
    let record = peer.bytes(5);
    let hello = peer.bytes(usize::from(u16::from_be_bytes([record[3], record[4]])));
    // The extension with one protocol.
    assert!(hello.windows(10).any(|part| part == b"\0\x10\0\x06\0\x04\x03two"), "{hello:?}");
}

#[test]
fn sessions_outlive_a_reload() {
    let upstream = TestUpstream::new();
    let server = streaming("", &format!("proxy_pass {};", upstream.address())).freerun();
    let (mut client, mut peer) = open(&server, &upstream);
    server.edit("return 204;", "return 200 new;");
    server.reload();
    eventually("the new configuration", || server.get("/").text() == "new");
    client.send("ping");
    assert_eq!(peer.bytes(4), b"ping");
    peer.send("pong");
    assert_eq!(got(&mut client, 4), b"pong");
    let (client, _) = open(&server, &upstream);
    drop(client);
}

#[test]
fn a_server_that_is_shutting_down_waits_for_its_sessions() {
    let upstream = TestUpstream::new();
    let mut server = streaming("", &format!("proxy_pass {};", upstream.address())).run();
    let (mut client, mut peer) = open(&server, &upstream);
    server.signal(Signal::QUIT);
    peer.send("still here");
    assert_eq!(got(&mut client, 10), b"still here");
    drop(peer);
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    assert!(server.wait().success());
}

#[test]
fn local_addresses_are_bound() {
    let upstream = TestUpstream::new();
    let server = streaming("", &format!("proxy_pass {}; proxy_bind 127.0.0.9;", upstream.address())).run();
    let (_client, peer) = open(&server, &upstream);
    assert_eq!(peer.remote().expect("an address").ip().to_string(), "127.0.0.9");
    let server = streaming("", &format!("proxy_pass {}; proxy_bind $remote_addr;", upstream.address())).run();
    let mut client =
        TestClient::try_connect_from([127, 0, 0, 7].into(), server.address_number(2)).expect("a connection");
    client.send("hello");
    assert_eq!(upstream.accept().remote().expect("an address").ip().to_string(), "127.0.0.7");
}

#[test]
fn what_is_wrong_is_told_in_nginx_words() {
    for (lines, message) in [
        ("proxy_pass 127.0.0.1;", "no port in upstream \"127.0.0.1\""),
        ("proxy_pass 127.0.0.1:1; proxy_bind here;", "invalid address \"here\""),
        ("proxy_pass 127.0.0.1:1; proxy_timeout x;", "\"proxy_timeout\" directive invalid value"),
        (
            "proxy_pass 127.0.0.1:1; proxy_ssl on; proxy_ssl_verify on;",
            "no proxy_ssl_trusted_certificate for proxy_ssl_verify",
        ),
    ] {
        let text = format!("events {{ }}\npid /dev/null;\nstream {{ server {{ listen 127.0.0.1:1234; {lines} }} }}\n");
        let checked = freerun_testkit::check(Kind::Freerun, &text).expect("a check");
        assert!(checked.code == Some(1) && checked.stderr.contains(message), "{lines}: {}", checked.stderr);
    }
}
