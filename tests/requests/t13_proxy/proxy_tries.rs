//! What is done for each server that is asked: `allow_upstream`, `bind_dynamic`, `request_dynamic`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use freerun_testkit::{ReceivedRequest, RefusingAddress, Setup, Site, TestServer, TestUpstream, eventually, ok};

use crate::t13_proxy::proxy_engine::{asked, passing};
use crate::worker::InProcess;

const GET: &str = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The statuses that the servers had, of the last request.
fn statuses(server: &TestServer, requests: usize) -> String {
    server.access_lines(requests)[requests - 1].split('|').nth(2).unwrap_or_default().to_owned()
}

/// Upstream servers at two addresses.
fn two() -> (TestUpstream, TestUpstream) {
    (TestUpstream::new(), TestUpstream::on(([127, 0, 0, 2], 0).into()))
}

#[test]
fn only_servers_that_may_be_asked_are() {
    let geo = "geo $upstream_last_addr $may { volatile; default 0; 127.0.0.2/32 1; }";
    for (lines, statuses_are) in [("", "502"), ("proxy_next_upstream error timeout denied;", "502, 200")] {
        let (first, second) = two();
        let group = [&*first.address(), &*second.address()];
        let server = passing(&group, &format!("proxy_allow_upstream 1 $may; {lines}")).http(geo).in_process();
        let mut client = asked(&server, GET);
        if statuses_are.ends_with("200") {
            let mut peer = second.accept();
            peer.request();
            peer.send(ok("second"));
            assert_eq!(client.response().text(), "second");
        } else {
            assert_eq!(client.response().status, 502);
        }
        assert_eq!(statuses(&server, 1), statuses_are);
        server.logs("access to upstream denied by \"allow_upstream\" while connecting to upstream, client: ");
        assert!(first.try_accept(std::time::Duration::ZERO).is_none(), "{lines}");
    }
}

#[test]
fn all_conditions_have_to_hold() {
    let upstream = TestUpstream::answering(|_| ok("asked"));
    let lines = "location = /status { status; } proxy_allow_upstream $arg_a $arg_b;";
    let server = passing(&[upstream.address()], lines).in_process();
    for (target, status) in
        [("/", 502), ("/?a=1", 502), ("/?a=0&b=1", 502), ("/?a=1&b=0", 502), ("/?a=1&b=x", 200), ("/?a=00&b=1", 200)]
    {
        assert_eq!(server.get(target).status, status, "{target}");
    }
    assert_eq!(upstream.take_requests().len(), 2);
    let failures = &server.status()["upstreams"][0]["servers"][0]["failures"];
    assert_eq!((failures["denied"].as_u64(), failures["connect"].as_u64()), (Some(4), Some(0)), "{failures}");
}

#[test]
fn every_member_of_the_family_asks_for_permission() {
    let upstream = TestUpstream::new();
    let locations: String = ["proxy", "fastcgi", "uwsgi", "scgi", "memcached"]
        .map(|member| {
            let scheme = if member == "proxy" { "http://" } else { "" };
            let address = upstream.address();
            format!(
                "location /{member} {{ set $memcached_key k; {member}_allow_upstream $arg_may; {member}_bind_dynamic on;
                                       {member}_pass {scheme}{address}; }}"
            )
        })
        .concat();
    let server = passing(&["127.0.0.1:1"], &locations).in_process();
    for member in ["proxy", "fastcgi", "uwsgi", "scgi", "memcached"] {
        assert_eq!(server.get(&format!("/{member}")).status, 502, "{member}");
        assert!(upstream.try_accept(std::time::Duration::ZERO).is_none(), "{member}");
        let mut client = asked(&server, &GET.replace("/a", &format!("/{member}?may=1")));
        drop(upstream.accept());
        assert_eq!(client.response().status, 502, "{member}");
    }
}

#[test]
fn each_server_may_have_a_request_of_its_own() {
    let lines = "proxy_set_header Host $upstream_last_server_name; proxy_set_header X-All $upstream_addr;
                 proxy_set_body \"$upstream_last_addr;\";";
    for dynamic in [true, false] {
        let (dead, upstream) = (RefusingAddress::new(), TestUpstream::new());
        // Of the addresses that the name may have, one is listened on.
        let name = format!("localhost:{}", upstream.port());
        let on = if dynamic { "proxy_request_dynamic on;" } else { "" };
        let server = passing(&[&dead.address(), &name], &format!("{lines} {on}")).in_process();
        let mut client = asked(&server, GET);
        let mut peer = upstream.accept();
        let request = peer.request();
        peer.send(ok("ok"));
        assert_eq!(client.response().text(), "ok");
        let body = String::from_utf8_lossy(&request.body).into_owned();
        if dynamic {
            assert_eq!((request.header("host"), body.as_str()), (Some(&*name), "127.0.0.1;"));
            assert!(request.header("x-all").is_some_and(|all| all.ends_with(&upstream.address())), "{}", request.head);
        } else {
            assert_eq!((request.header("host"), request.header("x-all"), body.as_str()), (None, None, ";"));
        }
    }
}

#[test]
fn each_server_may_be_asked_from_another_address() {
    let map = "map $upstream_last_addr $from { volatile; 127.0.0.2 127.0.0.8; default 127.0.0.7; }";
    for (dynamic, from) in [("proxy_bind_dynamic on;", "127.0.0.8"), ("", "127.0.0.7")] {
        let (dead, upstream) = (RefusingAddress::new(), two().1);
        let group = [&*dead.address(), &*upstream.address()];
        let server = passing(&group, &format!("proxy_bind $from; {dynamic}")).http(map).in_process();
        let mut client = asked(&server, GET);
        let mut peer = upstream.accept();
        assert_eq!(peer.remote().map(|address| address.ip().to_string()).as_deref(), Some(from));
        peer.request();
        peer.send(ok("ok"));
        assert_eq!(client.response().text(), "ok");
        assert_eq!(statuses(&server, 1), "502, 200");
    }
}

/// Servers with one connection each, and a queue for those who find none free.
fn queued(servers: &[&str], lines: &str) -> TestServer {
    let servers: String = servers.iter().map(|server| format!("server {server} max_conns=1 max_fails=0; ")).collect();
    let http = format!(
        "log_format way '$request_uri|$status|$upstream_addr|$upstream_status|$upstream_queue_time';
         access_log @DIR@/access.log way;
         upstream backend {{ {servers} queue 10 timeout=60s; }}
         server {{ listen 127.0.0.1:@PORT@; server_name localhost; {lines}
                   location = /status {{ access_log off; status; }} location / {{ proxy_pass http://backend; }} }}"
    );
    Setup::new().root(&Site::new()).http(&http).in_process()
}

const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nfive";

#[test]
fn who_has_an_answer_does_not_keep_its_server_while_it_waits_for_another() {
    // Both have a request before one answers: each request has the server that the other one would be sent to.
    let (both, count) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
    let servers = [(); 2].map(|()| {
        let (both, count) = (both.clone(), count.clone());
        TestUpstream::answering(move |_| {
            if count.fetch_add(1, Ordering::SeqCst) < 2 {
                both.wait();
            }
            FAILED.into()
        })
    });
    let addresses = servers.each_ref().map(|server| server.address());
    let server = queued(&addresses, "proxy_next_upstream error timeout http_500;");
    for client in &mut [asked(&server, GET), asked(&server, GET)] {
        let response = client.response();
        assert_eq!((response.status, response.text()), (500, "five".to_owned()));
    }
}

#[test]
fn an_answer_is_passed_on_where_no_other_server_can_be_asked() {
    let answer = |request: &ReceivedRequest| if request.target() == "/bad" { FAILED.into() } else { ok("ok") };
    let (first, second) = (TestUpstream::answering(answer), TestUpstream::answering(answer));
    let group = format!("upstream pair {{ server {}; server {}; }}", first.address(), second.address());
    let lines = "location /pair/ { proxy_next_upstream http_500; proxy_pass http://pair/; }";
    let server = passing(&[first.address()], lines).http(&group).in_process();
    let bad = server.get("/pair/bad");
    assert_eq!((bad.status, statuses(&server, 1)), (500, "500, 500".to_owned()));
    // The first one is left out for a while now; nothing speaks against the second one, whose answer the client got.
    let bad = server.get("/pair/bad");
    assert_eq!((bad.status, bad.text(), statuses(&server, 2)), (500, "five".to_owned(), "500".to_owned()));
    assert_eq!((server.get("/pair/good").text(), statuses(&server, 3)), ("ok".to_owned(), "200".to_owned()));
}

#[test]
fn time_in_the_queue_is_logged() {
    let upstream = TestUpstream::new();
    let server = queued(&[&upstream.address()], "");
    let mut first = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    let mut second = asked(&server, "GET /b HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("one waits", || server.status()["upstreams"][0]["waiting"] == 1);
    peer.send(ok("first"));
    assert_eq!(first.response().text(), "first");
    peer.request();
    peer.send(ok("second"));
    assert_eq!(second.response().text(), "second");
    let lines = server.access_lines(2);
    let time = |target: &str| {
        let line = lines.iter().find(|line| line.starts_with(target)).expect("a line of it");
        line.rsplit('|').next().unwrap_or_default().to_owned()
    };
    assert_eq!(time("/a|"), "-");
    assert!(time("/b|").parse::<f64>().is_ok(), "{lines:?}");
}
