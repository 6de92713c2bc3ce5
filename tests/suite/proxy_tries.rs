//! What is done for each server that is asked: `allow_upstream`, `bind_dynamic`, `request_dynamic`.

use freerun_testkit::{Refusing, Server, Upstream, ok};

use crate::proxy_engine::{asked, passing};

const GET: &str = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The statuses that the servers had, of the last request.
fn statuses(server: &Server, requests: usize) -> String {
    server.access_lines(requests)[requests - 1].split('|').nth(2).unwrap_or_default().to_owned()
}

/// Upstream servers at two addresses.
fn two() -> (Upstream, Upstream) {
    (Upstream::new(), Upstream::on(([127, 0, 0, 2], 0).into()))
}

#[test]
fn only_servers_that_may_be_asked_are() {
    let geo = "geo $upstream_last_addr $may { volatile; default 0; 127.0.0.2/32 1; }";
    for (lines, statuses_are) in [("", "502"), ("proxy_next_upstream error timeout denied;", "502, 200")] {
        let (first, second) = two();
        let group = [&*first.address(), &*second.address()];
        let server = passing(&group, &format!("proxy_allow_upstream 1 $may; {lines}")).http(geo).freerun();
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
    let upstream = Upstream::answering(|_| ok("asked"));
    let lines = "location = /status { status; } proxy_allow_upstream $arg_a $arg_b;";
    let server = passing(&[upstream.address()], lines).freerun();
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
    let upstream = Upstream::new();
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
    let server = passing(&["127.0.0.1:1"], &locations).freerun();
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
        let (dead, upstream) = (Refusing::new(), Upstream::new());
        // Of the addresses that the name may have, one is listened on.
        let name = format!("localhost:{}", upstream.port());
        let on = if dynamic { "proxy_request_dynamic on;" } else { "" };
        let server = passing(&[&dead.address(), &name], &format!("{lines} {on}")).freerun();
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
        let (dead, upstream) = (Refusing::new(), two().1);
        let group = [&*dead.address(), &*upstream.address()];
        let server = passing(&group, &format!("proxy_bind $from; {dynamic}")).http(map).freerun();
        let mut client = asked(&server, GET);
        let mut peer = upstream.accept();
        assert_eq!(peer.remote().map(|address| address.ip().to_string()).as_deref(), Some(from));
        peer.request();
        peer.send(ok("ok"));
        assert_eq!(client.response().text(), "ok");
        assert_eq!(statuses(&server, 1), "502, 200");
    }
}
