//! Clients that break TLS: each is told so and let go, and nobody else is affected.

use freerun_testkit::{
    ConnectionEnd, Kind, PATIENCE, Setup, Site, TestClient, TestServer, Tls, TlsVersion, certificates, eventually,
    require,
};
use rustix::process::{Resource, getrlimit};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// How many handshakes are half open at a time, where that many files may be open.
const MOST: usize = 10_000;

/// A server, and a client whose connection goes on whatever the others do.
struct Watched {
    server: TestServer,
    kept: TestClient,
    _site: Site,
}

impl Watched {
    fn new(lines: &str) -> Watched {
        let site = Site::new();
        site.file("a", "one");
        let server = Setup::new()
            .root(&site)
            .events(&format!("worker_connections {};", MOST + 2048))
            .http(&format!(
                "server {{ listen 127.0.0.1:@PORT@ ssl; root @ROOT@; ssl_protocols TLSv1.2 TLSv1.3; {lines}
                           ssl_certificate @CERTS@/rsa.crt; ssl_certificate_key @CERTS@/rsa.key; }}"
            ))
            .run();
        let kept = server.connect_tls(&Tls::new());
        Watched { server, kept, _site: site }
    }

    /// Old and new connections are served.
    #[track_caller]
    fn goes_on(&mut self) {
        assert_eq!(self.kept.get("/a").text(), "one");
        for version in TlsVersion::ALL {
            assert_eq!(self.server.connect_tls(&Tls::new().only(version)).get("/a").text(), "one");
        }
    }

    /// So many connections that have sent these bytes.
    fn greeted_by(&self, count: usize, bytes: &[u8]) -> Vec<TestClient> {
        let greet = |_| {
            let mut client = self.server.connect();
            client.send(bytes);
            client
        };
        (0..count).map(greet).collect()
    }

    /// Strangers cannot fill the error log where only errors of the server are logged. (Those of nginx can.)
    #[track_caller]
    fn says_nothing_loud(&self) {
        let log = self.server.error_log();
        let loud = ["[error]", "[crit]", "[alert]", "[emerg]"].iter().any(|level| log.contains(level));
        assert!(!loud || self.server.kind() == Kind::Nginx, "{log}");
    }

    /// The resident memory of the worker, in KiB.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.worker())).expect("the worker");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

/// A ClientHello whose padding (RFC 7685) makes its message this long, in records of `record` bytes.
fn padded_hello(length: usize, record: usize) -> Vec<u8> {
    let hello = Tls::new().hello();
    let mut body = hello[9..].to_vec();
    // The version, the random bytes, the session id, the suites, the compression methods.
    let mut at = 34;
    at += 1 + usize::from(body[at]);
    at += 2 + usize::from(u16::from_be_bytes([body[at], body[at + 1]]));
    at += 1 + usize::from(body[at]);
    let padding = length.saturating_sub(4 + body.len() + 4);
    body.extend([0, 21]);
    body.extend((padding as u16).to_be_bytes());
    body.resize(body.len() + padding, 0);
    let extensions = (body.len() - at - 2) as u16;
    body[at..at + 2].copy_from_slice(&extensions.to_be_bytes());
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    let mut records = Vec::new();
    for part in message.chunks(record) {
        records.extend([22, 3, 1]);
        records.extend((part.len() as u16).to_be_bytes());
        records.extend(part);
    }
    records
}

/// What the server answers to these bytes: the first byte of its first record, and all of an alert.
fn answer(server: &TestServer, bytes: &[u8]) -> Vec<u8> {
    let mut client = server.connect();
    // The server may close before it has all.
    let _ = client.try_send(bytes);
    let mut received = vec![0; 7];
    client.socket().set_read_timeout(Some(PATIENCE)).expect("a timeout");
    match client.socket().read(&mut received) {
        Ok(count) => received.truncate(count),
        Err(_) => received.clear(),
    }
    received
}

#[test]
fn hellos_in_pieces_are_put_together() {
    let mut watched = Watched::new("");
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        let mut client = watched.server.connect().try_tls_trickling(&tls).expect("a session");
        assert_eq!(client.get("/a").text(), "one");
        let mut client = watched.server.connect_tls(&tls.clone().fragments(64));
        assert_eq!(client.get("/a").text(), "one");
        let mut client = watched.server.connect().try_tls_trickling(&tls.fragments(64)).expect("a session");
        assert_eq!(client.get("/a").text(), "one");
    }
    watched.goes_on();
}

#[test]
fn long_hellos_have_a_limit() {
    let mut watched = Watched::new("");
    for record in [100, 5000, 16_384] {
        for length in [1000, 9000, 16_000, 16_500, 30_000, 60_000] {
            assert_eq!(
                answer(&watched.server, &padded_hello(length, record)).first(),
                Some(&22),
                "{length} in {record}"
            );
        }
    }
    // nginx takes longer ones, and waits for the rest.
    if watched.server.kind() == Kind::Freerun {
        for length in [[1, 0, 0], [1, 255, 255], [255, 255, 255]] {
            let head = [&[22, 3, 1, 0, 6, 1][..], &length, &[3, 3]].concat();
            assert_eq!(answer(&watched.server, &head).first(), Some(&21), "{length:?}");
        }
    }
    watched.goes_on();
}

#[test]
fn hellos_that_never_end_take_little_memory() {
    let mut watched = Watched::new("client_header_timeout 60s;");
    watched.goes_on();
    let before = watched.memory();
    let mut hello = padded_hello(60_000, 1000);
    hello.truncate(15_000);
    let waiting = watched.greeted_by(500, &hello);
    watched.goes_on();
    let grown = watched.memory().saturating_sub(before);
    // Each has sent 15 KB, which is kept.
    assert!(grown < 500 * 40 + 20_000, "{grown} KiB");
    drop(waiting);
    watched.goes_on();
}

#[test]
fn half_open_handshakes_leave_room_for_others() {
    let mut watched = Watched::new("");
    for version in TlsVersion::ALL {
        let hello = Tls::new().only(version).hello();
        let open = watched.greeted_by(500, &hello);
        watched.goes_on();
        // All are answered, and then wait for the client.
        for mut client in open {
            assert_eq!(client.at_least(1)[0], 22);
        }
        watched.goes_on();
    }
}

#[test]
fn thousands_of_half_open_handshakes_take_bounded_memory() {
    let mut watched = Watched::new("client_header_timeout 10m;");
    watched.goes_on();
    let before = watched.memory();
    // This process and the server's worker have the same limit.
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = MOST.min(usize::try_from(files).unwrap_or(MOST).saturating_sub(500));
    let mut open = watched.greeted_by(count, &Tls::new().only(TlsVersion::V13).hello());
    for client in &mut open {
        assert_eq!(client.at_least(1)[0], 22);
    }
    watched.goes_on();
    let each = watched.memory().saturating_sub(before) / count as u64;
    assert!(each < 40, "{each} KiB for each of {count}");
    drop(open);
    watched.goes_on();
}

#[test]
fn what_is_no_hello_is_refused() {
    let mut watched = Watched::new("");
    for bytes in [
        &b"\x16\x03\x01\x00\x05garba"[..],
        b"\x16\x03\x01\xff\xffgarbage",
        b"\x16\x03\x01\x00\x00\x16\x03\x01\x00\x00\x16\x03\x01\x00\x00",
        b"\x16\x09\x09\x00\x05\x01\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
        b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let mut client = watched.server.connect();
        client.send(bytes).half_close();
        let (received, ending) = client.rest();
        assert_ne!(ending, ConnectionEnd::Silent, "{:?}", bytes.escape_ascii().to_string());
        assert!(received.is_empty() || received[0] == 21, "{received:?}");
    }
    watched.goes_on();
    watched.says_nothing_loud();
}

#[test]
fn broken_records_end_the_session_with_an_alert() {
    let mut watched = Watched::new("");
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        let request = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
        type Break = fn(Vec<u8>) -> Vec<u8>;
        let broken: [(&str, Break, &[u8]); 6] = [
            (
                "a wrong code",
                |mut record| {
                    let last = record.len() - 1;
                    record[last] ^= 1;
                    record
                },
                &[20],
            ),
            (
                "a wrong length",
                |mut record| {
                    record[3..5].copy_from_slice(&[0x50, 0]);
                    record
                },
                &[22, 50],
            ),
            (
                "a wrong version",
                |mut record| {
                    record[1..3].copy_from_slice(&[9, 9]);
                    record
                },
                &[50, 70, 20],
            ),
            (
                "an unknown kind",
                |mut record| {
                    record[0] = 99;
                    record
                },
                &[10, 50, 20],
            ),
            ("plain HTTP", |_| b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[10, 22, 50, 70]),
            ("a record twice", |record| [&record[..], &record].concat(), &[20]),
        ];
        for (what, damage, alerts) in broken {
            let mut client = watched.server.connect_tls(&tls);
            let record = client.wired(request).expect("a record");
            client.try_send_bare(damage(record)).expect("sending");
            let (received, ending) = client.rest();
            assert!(what == "a record twice" || received.is_empty(), "{version} {what}: {received:?}");
            assert_ne!(ending, ConnectionEnd::Silent, "{version} {what}");
            assert!(
                client.alert().is_some_and(|alert| alerts.contains(&alert)),
                "{version} {what}: {:?}",
                client.alert()
            );
        }
        // A record that is cut by the end of the connection.
        let mut client = watched.server.connect_tls(&tls);
        let record = client.wired(request).expect("a record");
        client.try_send_bare(&record[..record.len() - 1]).expect("sending");
        let _ = client.socket().shutdown(std::net::Shutdown::Write);
        let (received, ending) = client.rest();
        assert!(received.is_empty() && ending != ConnectionEnd::Silent, "{version}: {received:?}");
        watched.goes_on();
    }
    watched.says_nothing_loud();
}

#[test]
fn records_one_byte_at_a_time_are_put_together() {
    let mut watched = Watched::new("");
    for version in TlsVersion::ALL {
        let mut client = watched.server.connect_tls(&Tls::new().only(version));
        let records = client.wired(&b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(3)).expect("records");
        for byte in records {
            client.try_send_bare([byte]).expect("sending");
        }
        for _ in 0..3 {
            assert_eq!(client.response().text(), "one");
        }
    }
    watched.goes_on();
}

#[test]
fn garbage_in_the_middle_of_the_handshake_ends_it() {
    let mut watched = Watched::new("");
    for version in TlsVersion::ALL {
        let hello = Tls::new().only(version).hello();
        for garbage in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &hello, &[22, 3, 3, 0, 4, 20, 0, 0, 0], &[23, 3, 3, 0, 20], &[0; 500]]
        {
            let mut client = watched.server.connect();
            client.send(&hello);
            client.at_least(5);
            client.send(garbage).half_close();
            assert_ne!(client.ending(), ConnectionEnd::Silent, "{version} {garbage:?}");
        }
    }
    watched.goes_on();
    watched.says_nothing_loud();
}

#[test]
fn sessions_are_not_negotiated_again() {
    let mut watched = Watched::new("");
    let mut child = Command::new("openssl")
        .args(["s_client", "-tls1_2", "-connect", &watched.server.address().to_string()])
        .current_dir(certificates().folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl");
    let mut input = child.stdin.take().expect("its input");
    let mut output = child.stdout.take().expect("its output");
    // The command has its session when it has shown the certificate.
    let mut shown = Vec::new();
    while !shown.windows(13).any(|word| word == b"Verify return") {
        let mut piece = [0; 4096];
        let count = output.read(&mut piece).expect("what it shows");
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend(&piece[..count]);
    }
    input.write_all(b"R\n").expect("a command");
    let ended = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("no renegotiation"), "{said}");
    watched.goes_on();
}

#[test]
fn a_flood_of_broken_handshakes_leaves_nothing_behind() {
    if !require::freerun() {
        return;
    }
    let mut watched = Watched::new("");
    let hello = Tls::new().hello();
    let round = |watched: &Watched| {
        for number in 0..300 {
            let mut client = watched.server.connect();
            let mut bytes = hello.clone();
            let at = number % bytes.len();
            bytes[at] ^= 0xff;
            let _ = client.try_send(&bytes[..bytes.len() - number % 3]);
            if number % 2 == 0 {
                client.reset();
            }
        }
    };
    round(&watched);
    watched.goes_on();
    let before = watched.memory();
    let sockets = crate::descriptors(watched.server.worker());
    for _ in 0..5 {
        round(&watched);
    }
    watched.goes_on();
    eventually("the connections are closed", || crate::descriptors(watched.server.worker()) <= sockets + 10);
    let grown = watched.memory().saturating_sub(before);
    assert!(grown < 10_000, "{grown} KiB");
}
