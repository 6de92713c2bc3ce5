//! What becomes of sessions, and what is logged of them.

use super::{lines, said, stream};
use freerun_testkit::{ConnectionEnd, Site, TestClient, TestUpstream, require};
use std::net::{Ipv4Addr, SocketAddr};

#[test]
fn a_text_with_variables_is_returned() {
    let Some(setup) = stream(
        "map $server_port $name { default other; @PORT@ first; }
         geo $place { default far; 127.0.0.0/8 near; }
         split_clients $remote_addr $share { 100% all; * none; }
         server { listen 127.0.0.1:@PORT@; set $own \"$name-$place\";
             return \"$own $share $protocol $status $remote_addr $server_addr:$server_port $bytes_received $nginx_version\"; }
         server { listen 127.0.0.1:@PORT2@; return \"\"; }
         server { listen unix:@DIR@/stream.sock; return \"$remote_addr $server_addr $server_port.\"; }",
    ) else {
        return;
    };
    let server = setup.run();
    let text = said(server.address(), b"");
    let wanted = format!("first-near all TCP 000 127.0.0.1 127.0.0.1:{} 0 ", server.port());
    assert!(text.starts_with(&wanted), "{text}");
    assert_eq!(said(server.address_number(2), b""), "");
    let path = server.path("stream.sock");
    let (text, ending) = TestClient::try_connect_unix(&path).expect("connecting").rest();
    assert_eq!(
        (String::from_utf8_lossy(&text).as_ref(), ending),
        (&*format!("unix: unix:{} .", path.display()), ConnectionEnd::Closed)
    );
}

#[test]
fn a_large_text_reaches_a_slow_client() {
    // The text is larger than an argument of a directive may be, so it is made of many.
    let text = "0123456789abcdef".repeat(64 * 1024);
    let set = |part: usize| format!("set $t{part} {};\n", &text[part * 2048..(part + 1) * 2048]);
    let parts: String = (0..512).map(set).collect();
    let groups: String = (0..8)
        .map(|group| {
            let all: String = (0..64).map(|part| format!("$t{}", group * 64 + part)).collect();
            format!("set $g{group} {all};\n")
        })
        .collect();
    let Some(setup) =
        stream(&format!("server {{ listen 127.0.0.1:@PORT@; {parts} {groups} return $g0$g1$g2$g3$g4$g5$g6$g7; }}"))
    else {
        return;
    };
    let server = setup.run();
    let mut client = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
    let (got, ending) = client.rest();
    assert_eq!(ending, ConnectionEnd::Closed);
    assert!(got == text.as_bytes(), "{} of {} bytes", got.len(), text.len());
}

#[test]
fn sessions_end_with_nginxs_statuses_and_lines() {
    let Some(setup) = stream(
        "log_format line '$server_port $protocol $status $bytes_sent [$remote_addr] $limit_conn_status';
         limit_conn_zone $binary_remote_addr zone=one:32k;
         server { listen 127.0.0.1:@PORT@; return x; }
         server { listen 127.0.0.1:@PORT2@; access_log @DIR@/sessions.log line; return four; }
         server { listen 127.0.0.1:@PORT3@; access_log @DIR@/sessions.log line; deny all; return no; }
         server { listen 127.0.0.1:@PORT4@; access_log @DIR@/sessions.log line; allow 127.0.0.1; deny all; return yes; }
         server { listen 127.0.0.1:@PORT5@; access_log @DIR@/sessions.log line; limit_conn one 1;
             ssl_preread on; preread_timeout 60s; return over; }",
    ) else {
        return;
    };
    let server = setup.run();
    let port = |number| server.port_number(number);
    assert_eq!(said(server.address_number(2), b""), "four");
    assert_eq!(said(server.address_number(3), b""), "");
    assert_eq!(said(server.address_number(4), b""), "yes");
    assert_eq!(
        lines(&server, 3),
        [
            format!("{} TCP 200 4 [127.0.0.1] -", port(2)),
            format!("{} TCP 403 0 [127.0.0.1] -", port(3)),
            format!("{} TCP 200 3 [127.0.0.1] -", port(4)),
        ]
    );
    server.logs(&format!(
        "access forbidden by rule while initializing session, client: 127.0.0.1, server: 127.0.0.1:{}",
        port(3)
    ));
    server.logs(&format!("connected to 127.0.0.1:{}", port(3)));
    let mut first = TestClient::connect(server.address_number(5));
    first.send("\x16");
    // The second one comes when the first is counted.
    server.logs(&format!("connected to 127.0.0.1:{}", port(5)));
    assert_eq!(said(server.address_number(5), b""), "");
    server.logs(&format!(
        "limiting connections by zone \"one\" while initializing session, client: 127.0.0.1, server: 127.0.0.1:{}",
        port(5)
    ));
    assert_eq!(lines(&server, 4)[3], format!("{} TCP 503 0 [127.0.0.1] REJECTED", port(5)));
    first.half_close();
    assert_eq!(first.rest(), (Vec::new(), ConnectionEnd::Closed));
    assert_eq!(lines(&server, 5)[4], format!("{} TCP 200 0 [127.0.0.1] PASSED", port(5)));
    // Its place is free again.
    assert_eq!(said(server.address_number(5), b"no TLS"), "over");
}

#[test]
fn a_limit_may_be_tried_out() {
    let Some(setup) = stream(
        "log_format line '$status $limit_conn_status'; access_log @DIR@/sessions.log line;
         limit_conn_zone $remote_addr zone=one:32k; limit_conn_dry_run on; limit_conn_log_level warn;
         server { listen 127.0.0.1:@PORT@; access_log off; return x; }
         server { listen 127.0.0.1:@PORT2@; limit_conn one 1; ssl_preread on; return over; }",
    ) else {
        return;
    };
    let server = setup.run();
    let mut first = TestClient::connect(server.address_number(2));
    first.send("\x16");
    server.logs(&format!("connected to 127.0.0.1:{}", server.port_number(2)));
    assert_eq!(said(server.address_number(2), b"x"), "over");
    server.logs("[warn]");
    server.logs("limiting connections, dry run, by zone \"one\" while initializing session");
    assert_eq!(lines(&server, 1), ["200 REJECTED_DRY_RUN"]);
}

#[test]
fn a_proxy_tells_the_clients_address() {
    let Some(setup) = stream(
        "log_format line '$status $remote_addr:$remote_port $proxy_protocol_addr $realip_remote_addr';
         access_log @DIR@/sessions.log line; proxy_protocol_timeout 200ms;
         server { listen 127.0.0.1:@PORT@; access_log off; return x; }
         server { listen 127.0.0.1:@PORT2@ proxy_protocol; set_real_ip_from 127.0.0.1; deny 192.0.2.9;
             return \"$remote_addr $proxy_protocol_server_port\"; }
         server { listen 127.0.0.1:@PORT3@ proxy_protocol; return \"$remote_addr $proxy_protocol_addr\"; }",
    ) else {
        return;
    };
    let server = setup.run();
    let second = |bytes: &[u8]| said(server.address_number(2), bytes);
    assert_eq!(second(b"PROXY TCP4 192.0.2.1 192.0.2.2 11 22\r\n"), "192.0.2.1 22");
    assert_eq!(second(b"PROXY UNKNOWN\r\n"), "127.0.0.1 ");
    assert_eq!(second(b"PROXY TCP4 192.0.2.9 192.0.2.2 11 22\r\n"), "");
    assert_eq!(second(b"GET / HTTP/1.0\r\n\r\n"), "");
    // What does not come ends the session as well, but nothing was wrong.
    assert_eq!(second(b""), "");
    assert_eq!(said(server.address_number(3), b"PROXY TCP4 192.0.2.1 192.0.2.2 11 22\r\n"), "127.0.0.1 192.0.2.1");
    let logged = lines(&server, 6);
    let begins = [
        "200 192.0.2.1:11 192.0.2.1 127.0.0.1",
        "200 127.0.0.1:",
        "403 192.0.2.9:11 192.0.2.9 127.0.0.1",
        "400 127.0.0.1:",
        "200 127.0.0.1:",
        "200 127.0.0.1:",
    ];
    assert!(logged.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{logged:?}");
    server.logs("broken header: \"GET / HTTP/1.0");
    server
        .logs("client timed out (110: Connection timed out) while reading PROXY protocol, client: 127.0.0.1, server: ");
    server.logs("access forbidden by rule while initializing session, client: 192.0.2.9, server: ");
}

#[test]
fn a_database_is_asked_for_the_address() {
    if !require::freerun() {
        return;
    }
    use freerun_testkit::mmdb::{MmdbValue, database};
    let site = Site::new();
    let record = MmdbValue::Map(vec![("iso_code", MmdbValue::Text("AA"))]);
    site.file("a.mmdb", database(&[("127.0.0.0/8", record)], 1));
    let lines = format!(
        "geoip2 {} {{ $country iso_code; }} server {{ listen 127.0.0.1:@PORT@; return $country; }}",
        site.at("a.mmdb").display()
    );
    let Some(setup) = stream(&lines) else { return };
    assert_eq!(said(setup.run().address(), b""), "AA");
}

#[test]
fn a_wildcard_and_an_address_share_a_port() {
    let Some(setup) = stream(
        "server { listen *:@PORT@; return \"wildcard $server_addr\"; }
         server { listen 127.0.0.2:@PORT@; return \"address $server_addr\"; }
         server { listen @PORT2@; listen 127.0.0.1:@PORT3@-@PORT3@; return port; }",
    ) else {
        return;
    };
    let server = setup.run();
    assert_eq!(said(server.address(), b""), "wildcard 127.0.0.1");
    let second = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), server.port()));
    assert_eq!(said(second, b""), "address 127.0.0.2");
    assert_eq!(said(server.address_number(2), b""), "port");
    assert_eq!(said(server.address_number(3), b""), "port");
}

#[test]
fn logs_have_conditions_and_paths_with_variables() {
    let Some(setup) = stream(
        "log_format line escape=json '\"$server_port\" $upstream'; map $server_port $upstream { default a; @PORT2@ 0; }
         server { listen 127.0.0.1:@PORT@; return x; }
         server { listen 127.0.0.1:@PORT2@; access_log @DIR@/sessions.log line if=$upstream; return x; }
         server { listen 127.0.0.1:@PORT3@; access_log @DIR@/sessions.log line if=$upstream; return x; }
         server { listen 127.0.0.1:@PORT4@; access_log @DIR@/of-$server_port.log line; return x; }",
    ) else {
        return;
    };
    // The worker opens the named log, in a folder that is not its user's.
    let setup = if rustix::process::geteuid().is_root() { setup.main("user root;") } else { setup };
    let server = setup.run();
    for number in [2, 3, 4] {
        said(server.address_number(number), b"");
    }
    assert_eq!(lines(&server, 1), [format!("\"{}\" a", server.port_number(3))]);
    let named = server.path(&format!("of-{}.log", server.port_number(4)));
    freerun_testkit::eventually("the named log", || named.exists());
}

#[test]
fn sessions_are_counted() {
    if !require::freerun() {
        return;
    }
    let Some(setup) = stream(
        "server { listen 127.0.0.1:@PORT2@; return four; }
         server { listen 127.0.0.1:@PORT3@; deny all; return no; }
         server { listen 127.0.0.1:@PORT4@; ssl_preread on; return x; }
         server { listen 127.0.0.1:@PORT5@ ssl; return x;
             ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; }",
    ) else {
        return;
    };
    let http = "server { listen 127.0.0.1:@PORT@; location = /status { status; } }";
    let server = setup.http(http).run();
    said(server.address_number(2), b"");
    said(server.address_number(2), b"");
    said(server.address_number(3), b"");
    let mut open = TestClient::connect(server.address_number(4));
    open.send("\x16");
    server.logs(&format!("connected to 127.0.0.1:{}", server.port_number(4)));
    let stream = server.status()["stream"].clone();
    assert_eq!((&stream["sessions"], &stream["open"], &stream["sent"]), (&4.into(), &1.into(), &8.into()), "{stream}");
    assert_eq!((&stream["ended"]["200"], &stream["ended"]["403"]), (&2.into(), &1.into()), "{stream}");
    let certificates = server.status()["tls"]["certificates"].clone();
    assert!(certificates[0]["file"].as_str().is_some_and(|file| file.ends_with("ec.crt")), "{certificates}");
    let text = server.get("/status?format=prometheus").text();
    assert!(text.contains("freerun_stream_ended_total{status=\"403\"} 1\n"), "{text}");
}

#[test]
fn a_server_without_a_handler_ends_its_sessions() {
    // nginx refused such a server before 1.25.5.
    if !require::freerun() {
        return;
    }
    let Some(setup) = stream(
        "log_format line '$status'; server { listen 127.0.0.1:@PORT@; return x; }
         server { listen 127.0.0.1:@PORT2@; access_log @DIR@/sessions.log line; }",
    ) else {
        return;
    };
    let server = setup.run();
    assert_eq!(said(server.address_number(2), b""), "");
    assert_eq!(lines(&server, 1), ["500"]);
    server.logs("no handler for server, client: 127.0.0.1, server: 127.0.0.1:");
}

/// Who connects again while a session of theirs ends is let in: a place is free as soon as its client has gone.
#[test]
fn the_place_of_a_client_that_has_just_gone_is_free() {
    let upstream = TestUpstream::new();
    let Some(setup) = stream(&format!(
        "limit_conn_zone $binary_remote_addr zone=z:1m;
         server {{ listen 127.0.0.1:@PORT@; return \"\"; }}
         server {{ listen 127.0.0.1:@PORT2@; limit_conn z 1; proxy_pass {}; }}",
        upstream.address()
    )) else {
        return;
    };
    let server = setup.run();
    let address = server.address_number(2);
    for round in 0..100 {
        let client = TestClient::connect(address);
        let _peer = upstream.accept();
        if round % 10 == 0 {
            // The place is taken as long as the client is there.
            assert_eq!(said(address, b""), "", "{round}");
        }
        drop(client);
        let mut next = TestClient::connect(address);
        let mut peer = upstream.accept();
        peer.send("in");
        drop(peer);
        assert_eq!(next.rest().0, b"in", "{round}");
    }
}
