//! Groups of servers: failing and coming back, sessions, queues, limits, and what `status` says of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use freerun_testkit::{
    AnsweringUpstream, Kind, ReceivedRequest, Setup, TestServer, TestUpstream, eventually, ok, require,
};
use serde_json::Value;

/// A server that answers with its name.
fn named(name: &'static str) -> AnsweringUpstream {
    TestUpstream::answering(move |_: &ReceivedRequest| ok(name))
}

fn passing(group: &str) -> Setup {
    passing_on(2, group)
}

fn passing_on(loops: usize, group: &str) -> Setup {
    Setup::new().main(&format!("worker_processes {loops};")).http(&format!(
        "upstream g {{ {group} }}
         server {{ listen 127.0.0.1:@PORT@; location = /status {{ status; }}
                   location / {{ proxy_pass http://g; }} }}"
    ))
}

/// What `status` says of a server of the group.
fn of(server: &TestServer, number: usize) -> Value {
    let status = server.status();
    let groups = status["upstreams"].as_array().cloned().unwrap_or_default();
    groups.iter().find(|group| group["name"] == "g").expect("the group")["servers"][number].clone()
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn a_server_that_dies_leaves_and_comes_back() {
    if !require::freerun() || !require::nginx() {
        return;
    }
    // Real servers: two nginx, of which one is stopped and started again at the same port.
    let backend = |text: &str| {
        Setup::new().http(&format!("server {{ listen 127.0.0.1:@PORT@; return 200 {text}; }}")).start(Kind::Nginx)
    };
    let (one, mut two) = (backend("one"), backend("two"));
    let group =
        format!("server 127.0.0.1:{}; server 127.0.0.1:{} fail_timeout=1s max_fails=2;", one.port(), two.port());
    let server = passing(&group).freerun();
    let texts = || -> Vec<String> { (0..6).map(|_| server.get("/").text()).collect() };
    assert_eq!(texts(), ["one", "two", "one", "two", "one", "two"]);
    assert_eq!((of(&server, 0)["state"].clone(), of(&server, 1)["state"].clone()), ("up".into(), "up".into()));
    let address: SocketAddr = two.address();
    two.stop();
    // No client notices.
    assert_eq!(texts(), ["one"; 6]);
    eventually("it is left out", || {
        assert_eq!(server.get("/").status, 200);
        of(&server, 1)["state"] == "unavail"
    });
    let dead = of(&server, 1);
    assert!(count(&dead["failures"]["connect"]) >= 2 && count(&dead["unavailable"]) >= 1, "{dead}");
    server.logs("connect() failed (111: Connection refused) while connecting to upstream");
    server.logs("upstream server temporarily disabled while connecting to upstream");
    // The same port again: whoever plays it, it is back after its time.
    let revived = TestUpstream::on(address);
    std::thread::spawn(move || {
        while let Some(mut peer) = revived.try_accept(std::time::Duration::from_secs(3600)) {
            std::thread::spawn(move || {
                while peer.try_request().is_some() {
                    peer.send(ok("back"));
                }
            });
        }
    });
    eventually("it is back", || server.get("/").text() == "back");
    eventually("it is up", || {
        server.get("/");
        of(&server, 1)["state"] == "up"
    });
}

#[test]
fn figures_say_what_was_done() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|request: &ReceivedRequest| match request.target() {
        "/404" => b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        "/cut" => Vec::new(),
        target => ok(target),
    });
    let server = passing_on(1, &format!("server {};", upstream.address())).freerun();
    for _ in 0..8 {
        assert_eq!(server.get("/a").text(), "/a");
    }
    assert_eq!(server.get("/404").status, 404);
    assert_eq!(server.get("/cut").status, 502);
    let figures = of(&server, 0);
    let requests = upstream.take_requests();
    assert_eq!((count(&figures["responses"]["2xx"]), count(&figures["responses"]["4xx"])), (8, 1), "{figures}");
    assert_eq!(count(&figures["failures"]["closed"]), 1, "{figures}");
    assert!(figures["reuse_ratio"].as_f64() >= Some(0.7), "{figures}");
    assert_eq!(figures["header"]["count"], 9, "{figures}");
    // Of the one that failed, too; that it was tried on an idle connection before does not count.
    let heads = |target: &str| -> Vec<usize> {
        let of_it = requests.iter().filter(|request| request.target() == target);
        of_it.map(|request| request.head.len()).collect()
    };
    let sent: usize = heads("/a").iter().sum::<usize>() + heads("/404")[0] + heads("/cut")[0];
    assert_eq!(count(&figures["sent"]), sent as u64, "{figures} {requests:?}");
    assert!(count(&figures["received"]) > 9 * 30, "{figures}");
    assert_eq!(count(&figures["active"]), 0);
    let text = server.get("/status?format=prometheus").text();
    let line =
        format!("freerun_upstream_responses_total{{upstream=\"g\",server=\"{}\",class=\"2xx\"}} 8", upstream.address());
    assert!(text.contains(&line), "{text}");
    // They go on over a reload.
    server.reload();
    assert_eq!(count(&of(&server, 0)["responses"]["2xx"]), 8);
}

#[test]
fn a_cookie_keeps_clients_with_their_server() {
    if !require::freerun() {
        return;
    }
    let (one, two) = (named("one"), named("two"));
    let group = format!(
        "server {} route=first; server {}; sticky cookie who expires=1h domain=.example.com path=/ httponly secure samesite=lax;",
        one.address(),
        two.address()
    );
    let server = passing(&group).freerun();
    let mut cookies = Vec::new();
    for _ in 0..2 {
        let response = server.get("/");
        let cookie = response.header("set-cookie").expect("a cookie").to_owned();
        let (pair, rest) = cookie.split_once("; ").expect("attributes");
        assert!(rest.starts_with("expires="), "{rest}");
        let end = "GMT; max-age=3600; domain=.example.com; httponly; samesite=lax; secure; path=/";
        assert!(rest.ends_with(end), "{rest}");
        cookies.push((pair.to_owned(), response.text()));
    }
    let first = cookies.iter().find(|(_, text)| text == "one").expect("both servers were asked");
    assert_eq!(first.0, "who=first");
    let second = cookies.iter().find(|(_, text)| text == "two").expect("both servers were asked");
    assert_eq!(second.0.len(), "who=".len() + 32);
    for (cookie, text) in &cookies {
        for _ in 0..5 {
            let response = server.get_with("/", &format!("Cookie: a=b; {cookie}\r\n"));
            // It comes again, so that its time counts from this request.
            let again = response.header("set-cookie").and_then(|cookie| cookie.split_once("; "));
            assert_eq!((&response.text(), again.map(|(pair, _)| pair)), (text, Some(cookie.as_str())));
        }
    }
    // Nobody has this one.
    assert!(server.get_with("/", "Cookie: who=x\r\n").header("set-cookie").is_some());
}

#[test]
fn a_cookie_for_ever() {
    if !require::freerun() {
        return;
    }
    let one = named("one");
    let server = passing(&format!("server {} route=a; sticky cookie who expires=max;", one.address())).freerun();
    let cookie = "who=a; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000";
    assert_eq!(server.get("/").header("set-cookie"), Some(cookie));
}

#[test]
fn a_route_leads_to_a_backup_server_once_the_others_are_dead() {
    if !require::freerun() {
        return;
    }
    let (one, two, three) = (named("one"), named("two"), named("three"));
    let servers = |first: &str| {
        format!(
            "server {first} route=a; server {} route=b backup; server {} route=c backup; sticky route $arg_r;",
            two.address(),
            three.address()
        )
    };
    let server = passing(&servers(one.address())).freerun();
    for _ in 0..3 {
        assert_eq!(server.get("/?r=c").text(), "one");
    }
    let nobody = freerun_testkit::RefusingAddress::new();
    let server = passing(&servers(&nobody.address())).freerun();
    for _ in 0..3 {
        assert_eq!(server.get("/?r=c").text(), "three");
    }
}

#[test]
fn a_route_and_draining() {
    if !require::freerun() {
        return;
    }
    let (one, two) = (named("one"), named("two"));
    let group = format!(
        "server {} route=a; server {} route=b drain; sticky route $cookie_r $arg_r;",
        one.address(),
        two.address()
    );
    let server = passing(&group).freerun();
    for _ in 0..4 {
        assert_eq!(server.get("/").text(), "one");
        assert_eq!(server.get("/?r=b").text(), "two");
        assert_eq!(server.get_with("/?r=b", "Cookie: r=a\r\n").text(), "one");
        assert_eq!(server.get("/?r=c").text(), "one");
    }
    assert_eq!(of(&server, 1)["state"], "draining");
}

#[test]
fn sessions_are_learned() {
    if !require::freerun() {
        return;
    }
    let with_session = |name: &'static str| {
        TestUpstream::answering(move |request: &ReceivedRequest| {
            let cookie = match request.header("cookie") {
                None => format!("Set-Cookie: session=of-{name}; path=/\r\n"),
                Some(_) => String::new(),
            };
            format!("HTTP/1.1 200 OK\r\n{cookie}Content-Length: 3\r\n\r\n{name}").into_bytes()
        })
    };
    let (one, two) = (with_session("one"), with_session("two"));
    let group = format!(
        "server {}; server {};
         sticky learn create=$upstream_cookie_session lookup=$cookie_session zone=sessions:1m timeout=1h;",
        one.address(),
        two.address()
    );
    let server = passing(&group).freerun();
    for name in [server.get("/").text(), server.get("/").text()] {
        for _ in 0..5 {
            assert_eq!(server.get_with("/", &format!("Cookie: session=of-{name}\r\n")).text(), name);
        }
        // Sessions go on over a reload.
        server.reload();
        for _ in 0..3 {
            assert_eq!(server.get_with("/", &format!("Cookie: session=of-{name}\r\n")).text(), name);
        }
    }
}

#[test]
fn no_more_connections_than_a_server_may_have_and_others_wait() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let group = format!("server {} max_conns=1; queue 1 timeout=30s;", upstream.address());
    let server = passing(&group).freerun();
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut first = server.connect();
    first.send(request);
    let mut peer = upstream.accept();
    peer.request();
    let mut second = server.connect();
    second.send(request);
    let waiting = || server.status()["upstreams"][0]["waiting"].clone();
    eventually("one waits", || waiting() == 1);
    assert_eq!(count(&of(&server, 0)["active"]), 1);
    // The queue is full.
    assert_eq!(server.get("/").status, 502);
    peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nfirst");
    assert_eq!(first.response().text(), "first");
    let mut next = upstream.accept();
    next.request();
    next.send(ok("second"));
    assert_eq!(second.response().text(), "second");
    eventually("nobody waits", || waiting() == 0);
}

#[test]
fn those_who_wait_are_served_in_the_order_in_which_they_came() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let group = format!("server {} max_conns=1; queue 30 timeout=60s; keepalive 0;", upstream.address());
    let server = passing_on(3, &group).freerun();
    let waiting = || count(&server.status()["upstreams"][0]["waiting"]);
    let mut clients = Vec::new();
    let mut peer = None;
    for number in 0..20u64 {
        let mut client = server.connect();
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        clients.push(Some(client));
        match number {
            0 => peer = Some(upstream.accept()),
            _ => eventually("it waits", || waiting() == number),
        }
    }
    // Some do not want to wait any longer, the oldest among them.
    for gone in [1, 2, 9, 19] {
        clients[gone] = None;
    }
    eventually("they are gone", || waiting() == 15);
    let mut peer = peer.expect("the first request");
    let mut seen = Vec::new();
    for left in (0..16).rev() {
        seen.push(peer.request().target().to_owned());
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        if left > 0 {
            peer = upstream.accept();
        }
    }
    let order: Vec<String> =
        (0..20).filter(|number| ![1, 2, 9, 19].contains(number)).map(|number| format!("/{number}")).collect();
    assert_eq!(seen, order);
    for mut client in clients.into_iter().flatten() {
        assert_eq!(client.response().text(), "ok");
    }
}

#[test]
fn max_conns_holds_for_all_loops_together() {
    if !require::freerun() {
        return;
    }
    let slow = TestUpstream::new();
    let fast = named("fast");
    let group = format!("server {} max_conns=2; server {} backup;", slow.address(), fast.address());
    let server = passing_on(4, &group).freerun();
    let address = server.address();
    let barrier = Arc::new(Barrier::new(12));
    let clients: Vec<_> = (0..12)
        .map(|_| {
            let barrier = barrier.clone();
            std::thread::spawn(move || {
                let mut client = freerun_testkit::TestClient::connect(address);
                barrier.wait();
                client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
                client.response().text()
            })
        })
        .collect();
    let mut peers = [slow.accept(), slow.accept()];
    eventually("all others are answered", || clients.iter().filter(|client| client.is_finished()).count() == 10);
    assert!(slow.try_accept(std::time::Duration::ZERO).is_none());
    for peer in &mut peers {
        peer.request();
        peer.send(ok("slow"));
    }
    let mut texts: Vec<String> = clients.into_iter().map(|client| client.join().expect("an answer")).collect();
    texts.sort();
    assert_eq!(texts[..], [&["fast"; 10][..], &["slow"; 2]].concat());
}

#[test]
fn outliers_are_left_out() {
    if !require::freerun() {
        return;
    }
    let bad = Arc::new(AtomicBool::new(true));
    let is_bad = bad.clone();
    let moody = TestUpstream::answering(move |_: &ReceivedRequest| {
        if is_bad.load(SeqCst) { b"HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n".to_vec() } else { ok("moody") }
    });
    let good = named("good");
    let group = format!(
        "server {}; server {}; outlier_detection consecutive=3 ejection=3s max_ejected=50%;",
        moody.address(),
        good.address()
    );
    let server = passing(&group).freerun();
    let statuses: Vec<u16> = (0..12).map(|_| server.get("/").status).collect();
    assert!(statuses.iter().filter(|status| **status == 503).count() >= 3, "{statuses:?}");
    assert_eq!(count(&of(&server, 0)["ejected"]), 1);
    assert_eq!((count(&of(&server, 1)["ejected"]), of(&server, 1)["state"].as_str()), (0, Some("up")));
    bad.store(false, SeqCst);
    eventually("it is asked again", || server.get("/").text() == "moody");
    assert_eq!(of(&server, 0)["state"], "up");
}
