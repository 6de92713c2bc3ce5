//! Clients whose address changes: who a request comes from, as far as variables, logs, rules and limits are concerned.

use super::{connect, quic, quic_with};
use freerun_testkit::http3::{Http3, Http3Options};
use freerun_testkit::{Site, TestServer, TestUpstream, ok, require};
use std::net::{IpAddr, Ipv4Addr};

/// Another address of this machine.
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Waits until the client has shown that it has its address.
#[track_caller]
fn shows_address(http3: &mut Http3, moves: impl FnOnce(&mut Http3)) {
    let before = http3.stats().frame_tx.path_response;
    moves(http3);
    http3.ping();
    http3.wait("the question for the address", |http3| http3.stats().frame_tx.path_response > before);
}

/// Goes on from an address of this machine.
#[track_caller]
fn moves_to(http3: &mut Http3, address: IpAddr) {
    shows_address(http3, |http3| http3.link().rebind_to(address));
}

#[test]
fn the_next_requests_come_from_the_new_address() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!(
        "access_log @DIR@/access.log t; set_real_ip_from 127.0.0.3; real_ip_header X-Real-IP;
         location / {{ return 200 \"$remote_addr $remote_port $place $realip_remote_addr\"; }}
         location /slow {{ proxy_set_header X-From \"$remote_addr $remote_port\"; proxy_pass http://{};
                           add_header x-from \"$remote_addr $remote_port\"; }}
         location /closed {{ deny 127.0.0.2; }}",
        upstream.address()
    );
    let before = "geo $place { default elsewhere; 127.0.0.2 there; } log_format t '$uri $remote_addr $remote_port';";
    let site = Site::new();
    site.file("closed", "open");
    let server = quic_with(&site, before, &lines).main("worker_processes 2;").freerun();
    let mut http3 = connect(&server);
    let mut log = Vec::new();
    let mut says = |http3: &mut Http3, place: &str| {
        let from = http3.link().local();
        let (address, port) = (from.ip(), from.port());
        assert_eq!(http3.get("/").text(), format!("{address} {port} {place} {address}"));
        log.push(format!("/ {address} {port}"));
    };
    says(&mut http3, "elsewhere");
    assert_eq!(http3.get("/closed").text(), "open");
    let first = http3.link().local();
    let slow = http3.ask_for("/slow");
    let mut peer = upstream.accept();
    peer.head();
    for change in 0..3 {
        match change {
            0 => shows_address(&mut http3, |http3| http3.link().rebind()),
            1 => moves_to(&mut http3, OTHER),
            _ => shows_address(&mut http3, |http3| http3.link().migrate()),
        }
        assert_ne!(http3.link().local(), first);
        says(&mut http3, if change == 0 { "elsewhere" } else { "there" });
        assert_eq!(http3.get("/closed").status, if change == 0 { 200 } else { 403 });
    }
    // A request that has begun before keeps the address that it has begun with.
    peer.send(ok("slow"));
    let answer = http3.answer(slow);
    assert_eq!(answer.header("x-from"), Some(format!("{} {}", first.ip(), first.port()).as_str()));
    // The address that a trusted proxy names is another one than the proxy's, which may move as well.
    moves_to(&mut http3, Ipv4Addr::new(127, 0, 0, 3).into());
    let answer = http3.request("GET", "/", &[("x-real-ip", "10.1.2.3")]);
    assert_eq!(answer.text(), "10.1.2.3  elsewhere 127.0.0.3");
    let lines: Vec<String> = server.access_lines(10).into_iter().filter(|line| line.starts_with("/ 127")).collect();
    assert_eq!(lines, log);
}

#[test]
fn limits_count_by_the_new_address() {
    if !require::freerun() {
        return;
    }
    let zones =
        "limit_conn_zone $binary_remote_addr zone=c:1m; limit_req_zone $binary_remote_addr zone=r:1m rate=1r/m;";
    let upstream = TestUpstream::new();
    let lines = format!(
        "location /slow {{ limit_conn c 1; proxy_pass http://{}; }} location /rare {{ limit_req zone=r; }}",
        upstream.address()
    );
    let site = Site::new();
    site.file("rare", "rare");
    let server = quic_with(&site, zones, &lines).freerun();
    let mut http3 = connect(&server);
    let slow = http3.ask_for("/slow");
    let mut peer = upstream.accept();
    peer.head();
    assert_eq!((http3.get("/slow").status, http3.get("/rare").status, http3.get("/rare").status), (503, 200, 503));
    moves_to(&mut http3, OTHER);
    assert_eq!((http3.get("/rare").status, http3.get("/rare").status), (200, 503));
    let another = http3.ask_for("/slow");
    let mut other = upstream.accept();
    other.head();
    assert_eq!(http3.get("/slow").status, 503);
    // Each gives the place back that it has taken.
    peer.send(ok("first"));
    other.send(ok("second"));
    assert_eq!((http3.answer(slow).text(), http3.answer(another).text()), ("first".into(), "second".into()));
    moves_to(&mut http3, Ipv4Addr::LOCALHOST.into());
    let slow = http3.ask_for("/slow");
    upstream.accept().send(ok("third"));
    assert_eq!(http3.answer(slow).text(), "third");
}

/// Number of clients that have moved, as the status page says.
fn migrated(server: &TestServer) -> u64 {
    let status: serde_json::Value = serde_json::from_slice(&server.get("/status").body).expect("JSON");
    status.pointer("/quic/migrated").and_then(serde_json::Value::as_u64).expect("a figure")
}

/// Somebody between the client and the server may send on a client's datagrams with a wrong sender's address.
#[test]
fn an_address_that_nobody_has_shown_to_have_is_not_believed() {
    if !require::freerun() {
        return;
    }
    let lines = "location / { return 200 \"$remote_addr $remote_port\"; } location = /status { status; }";
    let server = quic(&Site::new(), lines).freerun();
    let mut http3 = connect(&server);
    let from = http3.link().local();
    let expected = format!("{} {}", from.ip(), from.port());
    assert_eq!(http3.get("/").text(), expected);
    // Nobody hears the question there. The client answers the one that goes to its former address, and that comes from the
    // wrong one too.
    for _ in 0..3 {
        let mut streams = Vec::new();
        shows_address(&mut http3, |http3| {
            http3.link().forge(Some(OTHER));
            streams.push(http3.ask_for("/"));
        });
        streams.push(http3.ask_for("/"));
        http3.link().forge(None);
        streams.push(http3.ask_for("/"));
        for stream in streams {
            assert_eq!(http3.answer(stream).text(), expected);
        }
    }
    assert_eq!(migrated(&server), 0);
    moves_to(&mut http3, OTHER);
    assert_eq!(http3.get("/").text(), format!("{OTHER} {}", http3.link().local().port()));
    assert_eq!(migrated(&server), 1);
}

#[test]
fn the_server_has_the_address_that_the_client_has_connected_to() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "listen @PORT3@ quic; return 200 \"$server_addr $server_port\";").freerun();
    let port = server.port_number(3);
    for last in 1..4 {
        let address = IpAddr::from([127, 0, 0, last]);
        let mut http3 = Http3::with((address, port).into(), &Http3Options::new());
        assert_eq!(http3.get("/").text(), format!("{address} {port}"));
    }
    assert_eq!(connect(&server).get("/").text(), format!("127.0.0.1 {}", server.port_number(2)));
}
