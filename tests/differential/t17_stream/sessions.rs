//! Sessions of `stream {}` beside nginx's: what clients get, and what is logged of it.

use crate::runner::start;
use freerun_testkit::{ConnectionEnd, Setup, TestClient, TestServer, Tls, TlsVersion, eventually};
use std::fmt::Write as _;

/// What a client does, at the port with this number.
struct Case {
    port: usize,
    /// What it sends, a piece at a time.
    pieces: Vec<Vec<u8>>,
    /// Whether it ends its side then.
    ends: bool,
    /// Its TLS, which comes before.
    tls: Option<Tls>,
}

fn sends(port: usize, bytes: &[u8]) -> Case {
    Case { port, pieces: vec![bytes.to_vec()], ends: false, tls: None }
}

fn silent(port: usize) -> Case {
    Case { port, pieces: Vec::new(), ends: false, tls: None }
}

fn secret(port: usize, tls: Tls) -> Case {
    Case { port, pieces: Vec::new(), ends: false, tls: Some(tls) }
}

impl Case {
    fn ends(self) -> Case {
        Case { ends: true, ..self }
    }

    fn run(&self, server: &TestServer) -> String {
        let mut client = TestClient::connect(server.address_number(self.port));
        if let Some(tls) = &self.tls {
            client = match client.try_tls(tls) {
                Ok(client) => client,
                Err(_) => return "no session".to_owned(),
            };
        }
        for piece in &self.pieces {
            // The server may have gone already.
            if client.try_send(piece).is_err() {
                break;
            }
        }
        if self.ends {
            let _ = client.socket().shutdown(std::net::Shutdown::Write);
        }
        let (text, ending) = client.rest();
        assert_ne!(ending, ConnectionEnd::Silent, "port {}", self.port);
        // Whether bytes that nobody reads make a close a reset is a matter of time.
        text.escape_ascii().to_string()
    }

    fn shown(&self) -> String {
        let pieces: Vec<String> = self.pieces.iter().map(|piece| piece.escape_ascii().to_string()).collect();
        let start: String = pieces.join("|").chars().take(80).collect();
        format!("{} {start:?}{}", self.port, if self.ends { " and the end" } else { "" })
    }
}

/// The message of an error log's line: what stands behind the connection's number.
fn message(line: &str) -> Option<String> {
    let level = ["[info]", "[warn]", "[error]", "[crit]", "[alert]"].into_iter().find(|level| line.contains(level))?;
    let (_, message) = line.split_once(": *")?;
    let (_, message) = message.split_once(' ')?;
    // nginx shows a broken header with its line breaks, and so do lines of the log.
    let message = message.split_once("broken header").map_or(message, |_| "broken header");
    Some(format!("{level} {message}"))
}

/// Replaces what differs by the server: its ports, its folder, ports of clients.
fn comparable(text: &str, server: &TestServer) -> String {
    let mut text = text.replace(&server.path("").display().to_string(), "DIR/");
    for (index, port) in server.ports().iter().enumerate() {
        text = text.replace(&format!(":{port}"), &format!(":PORT{}", index + 1));
        text = text.replace(&format!(" {port} "), &format!(" PORT{} ", index + 1));
    }
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        // `client 127.0.0.1:40000 connected`
        let is_client = words.last().is_some_and(|last| last.ends_with("client")) && word.starts_with("127.0.0.1:");
        words.push(if is_client { "CLIENT".to_owned() } else { word.to_owned() });
    }
    words.join(" ")
}

/// Everything that comes of the cases: a line for each, its line in the access log, and its lines in the error log.
fn outcomes(server: &TestServer, cases: &[Case]) -> Vec<String> {
    let log = || std::fs::read_to_string(server.path("sessions.log")).unwrap_or_default();
    let errors = || {
        server
            .error_log_of_traffic()
            .lines()
            .filter_map(message)
            .map(|line| comparable(&line, server))
            .collect::<Vec<_>>()
    };
    let mut outcomes = Vec::new();
    for case in cases {
        let (logged, told) = (log().lines().count(), errors().len());
        let mut out = format!("{}: {}\n", case.shown(), case.run(server));
        eventually("the session's line", || log().lines().count() > logged);
        let line = comparable(log().lines().last().unwrap_or_default(), server);
        // Where there is no session of TLS, nginx names the version that OpenSSL would have had, and freerun none.
        let line =
            if line.contains(" TCP 500 ") { line.rsplit_once('<').map_or(&*line, |(line, _)| line) } else { &line };
        let _ = writeln!(out, "    {line}");
        for line in errors().iter().skip(told) {
            let _ = writeln!(out, "    {line}");
        }
        outcomes.push(out);
    }
    outcomes
}

/// Compares the outcomes of both servers.
fn same(lines: &str, cases: &[Case]) {
    let setup = Setup::new().stream(&format!(
        "log_format line 'port $server_port $protocol $status $bytes_received $bytes_sent [$remote_addr] <$ssl_preread_server_name \
         $ssl_preread_protocol $ssl_preread_alpn_protocols> $proxy_protocol_addr $proxy_protocol_port $limit_conn_status \
         $realip_remote_addr <$ssl_protocol $ssl_server_name $ssl_client_verify $ssl_session_reused> ';
         access_log @DIR@/sessions.log line;
         {lines}"
    ));
    // Side by side, so that what the logs say of the servers' start is there before the first case.
    if let Some(servers) = start(&setup) {
        servers.each(|server| outcomes(server, cases)).assert_same_cases(|number| cases[number].shown());
    }
}

#[test]
fn texts_and_variables() {
    same(
        "map $server_port $by_port { default none; '~*^(?<first>\\d)' $first; volatile; }
         map $remote_addr $hosts { hostnames; default no; 127.0.0.1 yes; *.x star; }
         geo $near { default far; 127.0.0.0/8 near; 127.0.0.1 here; }
         geo $by_range { ranges; default x; 127.0.0.0-127.0.0.255 range; }
         split_clients \"$remote_addr$hosts\" $part { 10% a; 30% b; * c; }
         map $session_time $short { ~^0\\.\\d\\d\\d$ yes; default no; }
         server { listen 127.0.0.1:@PORT@; return \"$hosts $near $by_range $part $protocol $status\"; }
         server { listen 127.0.0.1:@PORT2@; set $a $near; set $b \"$a-$hosts\"; set $a $b; return \"$a $b\"; }
         server { listen 127.0.0.1:@PORT3@; return \"${hosts}$1$2 $remote_addr $server_addr $binary_remote_addr.\"; }
         server { listen 127.0.0.1:@PORT4@; return ''; }
         server { listen 127.0.0.1:@PORT5@; return \"$bytes_sent $bytes_received $short\"; }
         server { listen 127.0.0.1:@PORT6@; return \"[$proxy_protocol_addr$realip_remote_addr]\"; }
         server { listen 127.0.0.1:@PORT7@ reuseport backlog=7 so_keepalive=on rcvbuf=32k sndbuf=32k; return options; }",
        &[silent(1), silent(2), silent(3), silent(4), silent(5), silent(6), silent(7), sends(1, b"hello"), silent(1).ends()],
    );
}

#[test]
fn access() {
    same(
        "deny 127.0.0.2; allow 127.0.0.0/8;
         server { listen 127.0.0.1:@PORT@; return all; }
         server { listen 127.0.0.1:@PORT2@; deny all; return none; }
         server { listen 127.0.0.1:@PORT3@; allow 127.0.0.1; deny all; return one; }
         server { listen 127.0.0.1:@PORT4@; deny 127.0.0.1; allow all; return not_one; }
         server { listen 127.0.0.1:@PORT5@; allow ::1; allow unix:; deny all; return six; }
         server { listen 127.0.0.1:@PORT6@; deny unix:; return rest; }
         limit_conn_zone $server_port zone=z:32k;
         server { listen 127.0.0.1:@PORT7@; limit_conn z 1; deny 127.0.0.1; return counted; }
         server { listen 127.0.0.1:@PORT8@; limit_conn z 1; limit_conn_dry_run on; return dry; }",
        &[silent(1), silent(2), silent(3), silent(4), silent(5), silent(6), silent(7), silent(8), silent(8), silent(7)],
    );
}

#[test]
fn proxy_headers() {
    let v2 = |command: u8, family: u8, body: &[u8]| {
        let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        header.extend([command, family]);
        header.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        header.extend(body);
        header
    };
    let addresses = [192, 0, 2, 1, 192, 0, 2, 2, 0, 11, 0, 22];
    let mut six = [0_u8; 36];
    (six[0], six[15], six[33]) = (0x20, 1, 9);
    let mut cases = vec![
        sends(1, b"PROXY TCP4 192.0.2.1 192.0.2.2 11 22\r\n"),
        sends(1, b"PROXY TCP4 192.0.2.1 192.0.2.2 11 22\r\nmore"),
        sends(1, b"PROXY TCP6 2001:db8::1 2001:db8::2 11 22\r\n"),
        sends(1, b"PROXY UNKNOWN\r\n"),
        sends(1, b"PROXY UNKNOWN 1 2 3 4\r\n"),
        sends(1, b"PROXY TCP4 x y 11 22\r\n"),
        sends(1, b"PROXY TCP4 192.0.2.1 192.0.2.2 11 99999\r\n"),
        sends(1, &v2(0x21, 0x11, &addresses)),
        sends(1, &v2(0x20, 0x11, &addresses)),
        sends(1, &v2(0x21, 0x21, &six)),
        sends(1, &v2(0x21, 0x00, b"")),
        sends(1, b"").ends(),
        sends(1, b"PROXY T").ends(),
        silent(1),
        sends(2, b"PROXY TCP4 192.0.2.1 192.0.2.2 11 22\r\n"),
        sends(3, b"PROXY TCP4 192.0.2.1 192.0.2.2 11 22\r\n"),
        sends(3, b"PROXY TCP4 192.0.2.9 192.0.2.2 11 22\r\n"),
        sends(4, b"PROXY TCP4 192.0.2.1 192.0.2.2 11 22\r\n"),
    ];
    cases.push(sends(5, b"\x80\x2e\x01\x03\x01\x00"));
    same(
        "proxy_protocol_timeout 300ms;
         server { listen 127.0.0.1:@PORT@ proxy_protocol; set_real_ip_from 127.0.0.1; return \"$remote_addr $proxy_protocol_port $proxy_protocol_server_addr\"; }
         server { listen 127.0.0.1:@PORT2@ proxy_protocol; set_real_ip_from 10.0.0.0/8; return \"$remote_addr $proxy_protocol_server_port\"; }
         server { listen 127.0.0.1:@PORT3@ proxy_protocol; set_real_ip_from 127.0.0.0/8; deny 192.0.2.9; return allowed; }
         server { listen 127.0.0.1:@PORT4@; set_real_ip_from 127.0.0.1; return \"no header\"; }
         server { listen 127.0.0.1:@PORT5@; ssl_preread on; return ssl; }",
        &cases,
    );
}

/// A hello for TLS 1.2 and 1.3 with the name `localhost` and an application protocol.
fn fixed_hello() -> Vec<u8> {
    let sized = |body: &[u8]| [&(body.len() as u16).to_be_bytes()[..], body].concat();
    let extension = |kind: u8, body: &[u8]| [&[0, kind][..], &sized(body)].concat();
    let extensions = [
        extension(0, &sized(&[&[0][..], &sized(b"localhost")].concat())),
        extension(10, b"\0\x04\0\x1d\0\x17"),
        extension(16, &sized(b"\x02h2")),
        extension(13, b"\0\x04\x04\x03\x08\x04"),
        extension(43, b"\x04\x03\x04\x03\x03"),
    ]
    .concat();
    let hello = [
        &b"\x03\x03"[..],
        &[0x11; 32],
        &[32],
        &[0x22; 32],
        &sized(b"\x13\x01\x13\x02\xc0\x2f"),
        b"\x01\0",
        &sized(&extensions),
    ]
    .concat();
    let message = [&[1, 0][..], &sized(&hello)].concat();
    [&b"\x16\x03\x01"[..], &sized(&message)].concat()
}

#[test]
fn first_bytes() {
    let hello = |tls: Tls| tls.hello();
    let usual = hello(Tls::new());
    let mut cases = vec![
        sends(1, &usual),
        sends(1, &hello(Tls::new().name("www.example.com").alpn(&["h2", "http/1.1"]))),
        sends(1, &hello(Tls::new().nameless())),
        sends(1, &hello(Tls::new().only(TlsVersion::V12))),
        sends(1, &hello(Tls::new().only(TlsVersion::V12).nameless().alpn(&["x"]))),
        sends(1, b"GET / HTTP/1.0\r\n\r\n"),
        sends(1, b"SSH-2.0-OpenSSH\r\n"),
        sends(1, b"\x80\x2e\x01\x00\x02\x00"),
        sends(1, b"\x80\x2e\x01\x03\x01\x00"),
        sends(1, b"\x80\x2e\x01\x03\x03\x00"),
        sends(1, b"\x16"),
        sends(1, b"\x16\x03\x01").ends(),
        sends(1, b"").ends(),
        silent(1),
        sends(1, b"\x17\x03\x01\x00\x05hello"),
        sends(1, b"\x16\x03\x01\x00\x05hello"),
        sends(1, b"\x16\x02\x01\x00\x05hello"),
        sends(1, b"\x16\x03\x01\x00\x04\x01\x00\x00\x00"),
        sends(2, &usual),
        sends(3, &usual),
        sends(4, &usual),
        sends(5, &usual),
    ];
    for cut in [1, 4, 5, 9, 43, usual.len() - 1] {
        cases.push(Case { pieces: vec![usual[..cut].to_vec(), usual[cut..].to_vec()], ..silent(1) });
    }
    // Every byte of a hello may be damaged. It is always the same one: a client of today mixes its extensions, and some damages of
    // lengths have other results in nginx, which waits for the bytes that are not there.
    let fixed = fixed_hello();
    // The length of the whole message is left out: nginx does not look at it, and freerun waits for what it announces.
    let length = 6..9;
    for place in (0..fixed.len()).step_by(7).filter(|place| !length.contains(place)) {
        let mut damaged = fixed.clone();
        damaged[place] ^= 0x55;
        cases.push(sends(1, &damaged).ends());
    }
    same(
        "preread_timeout 300ms;
         server { listen 127.0.0.1:@PORT@; ssl_preread on; return \"[$ssl_preread_server_name $ssl_preread_protocol $ssl_preread_alpn_protocols]\"; }
         server { listen 127.0.0.1:@PORT2@; ssl_preread on; preread_buffer_size 64; return small; }
         server { listen 127.0.0.1:@PORT3@; ssl_preread off; return \"[$ssl_preread_protocol]\"; }
         server { listen 127.0.0.1:@PORT4@; ssl_preread on; set $x \"$ssl_preread_protocol\"; return \"[$x]\"; }
         map $ssl_preread_server_name $which { localhost here; default there; }
         server { listen 127.0.0.1:@PORT5@; ssl_preread on; return $which; }",
        &cases,
    );
}

#[test]
fn handshakes() {
    let by = |version| Tls::new().only(version);
    let mut cases = vec![
        sends(1, b"GET / HTTP/1.0\r\n\r\n"),
        sends(1, b"HEAD / HTTP/1.0\r\n\r\n"),
        sends(1, b"SSH-2.0-OpenSSH\r\n"),
        sends(1, b"\x16\x03\x01").ends(),
        sends(1, b"").ends(),
        silent(1),
        secret(2, Tls::new()),
        secret(2, Tls::new().certificate("client")),
        secret(3, Tls::new()),
        secret(3, Tls::new().certificate("client")),
        secret(4, by(TlsVersion::V12).alpn(&["two"])),
        secret(4, by(TlsVersion::V12).alpn(&["one", "two"])),
        secret(4, by(TlsVersion::V12).alpn(&["three"])),
        secret(4, by(TlsVersion::V12)),
        secret(5, by(TlsVersion::V12)),
    ];
    for version in TlsVersion::ALL {
        cases.push(secret(1, by(version)));
        cases.push(secret(1, by(version).name("other.test")));
        cases.push(secret(1, by(version).nameless()));
        let resuming = by(version).resuming();
        cases.push(secret(6, resuming.clone()));
        cases.push(secret(6, resuming));
    }
    same(
        "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_handshake_timeout 300ms;
         ssl_protocols TLSv1.2 TLSv1.3;
         server { listen 127.0.0.1:@PORT@ ssl; return \"$ssl_protocol $ssl_server_name $ssl_client_verify\"; }
         server { listen 127.0.0.1:@PORT2@ ssl; ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; return \"$ssl_client_verify $ssl_client_s_dn\"; }
         server { listen 127.0.0.1:@PORT3@ ssl; ssl_verify_client optional; ssl_client_certificate @CERTS@/ca.crt; return \"$ssl_client_verify\"; }
         server { listen 127.0.0.1:@PORT4@ ssl; ssl_alpn one two; return \"[$ssl_alpn_protocol]\"; }
         server { listen 127.0.0.1:@PORT5@ ssl; ssl_certificate @CERTS@/$ssl_server_name.crt; ssl_certificate_key @CERTS@/$ssl_server_name.key; return x; }
         server { listen 127.0.0.1:@PORT6@ ssl; ssl_session_cache shared:one:1m; return again; }",
        &cases,
    );
}
