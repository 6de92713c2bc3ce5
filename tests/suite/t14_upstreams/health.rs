//! Servers that are asked whether they are well.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use freerun_testkit::{
    AnsweringUpstream, Dns, DnsReply, ReceivedRequest, RefusingAddress, Setup, TestServer, TestUpstream, eventually,
    require,
};
use serde_json::Value;

/// An upstream that answers with the status that the test sets; `text` is its body.
fn upstream(status: &Arc<AtomicU16>, text: &'static str) -> AnsweringUpstream {
    let status = status.clone();
    TestUpstream::answering(move |_: &ReceivedRequest| {
        let status = status.load(SeqCst);
        format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nX-Mood: fine\r\n\r\n{text}", text.len()).into_bytes()
    })
}

fn status(code: u16) -> Arc<AtomicU16> {
    Arc::new(AtomicU16::new(code))
}

/// What `status` says of the servers of the group `g`.
fn servers(server: &TestServer) -> Vec<Value> {
    servers_of(server, "g")
}

fn servers_of(server: &TestServer, group: &str) -> Vec<Value> {
    let status = server.status();
    let groups = status["upstreams"].as_array().expect("groups");
    let group = groups.iter().find(|one| one["name"] == group).expect("the group");
    group["servers"].as_array().expect("servers").clone()
}

fn states(server: &TestServer) -> Vec<String> {
    servers(server).iter().map(|server| server["state"].as_str().unwrap_or_default().to_owned()).collect()
}

fn setup(http: &str, check: &str) -> Setup {
    Setup::new().main("worker_processes 3;").http(&format!(
        "{http} server {{ listen 127.0.0.1:@PORT@; location = /status {{ status; }}
         location / {{ proxy_pass http://g; {check} }} }}"
    ))
}

#[test]
fn a_server_that_is_not_well_is_left_out_and_comes_back() {
    if !require::freerun() {
        return;
    }
    let (first, second) = (status(200), status(200));
    let (one, two) = (upstream(&first, "one"), upstream(&second, "two"));
    let group = format!("upstream g {{ server {}; server {}; }}", one.address(), two.address());
    let server = setup(
        &group,
        "health_check interval=50ms uri=/well?a=b; proxy_set_header X-From $upstream_addr-check;
             proxy_set_header X-Client [$remote_addr$binary_remote_addr$remote_port$proxy_add_x_forwarded_for];",
    )
    .freerun();
    eventually("it is checked", || servers(&server)[1]["checks"]["done"].as_u64() > Some(0));
    assert_eq!(states(&server), ["up", "up"]);
    let request = &two.take_requests()[0];
    assert_eq!(request.line(), "GET /well?a=b HTTP/1.1");
    assert_eq!((request.header("host"), request.header("x-from")), (Some("g"), Some("-check")));
    assert_eq!(request.header("x-client"), Some("[]"));
    second.store(500, SeqCst);
    eventually("it is unhealthy", || states(&server) == ["up", "unhealthy"]);
    server.logs(&format!(
        "peer is unhealthy while checking status code, health check \"/well?a=b\" of peer {} in upstream \"g\"",
        two.address()
    ));
    second.store(302, SeqCst);
    eventually("it is back", || states(&server) == ["up", "up"]);
    server.logs("peer is healthy, health check \"/well?a=b\" of peer");
    assert!(servers(&server)[1]["checks"]["unhealthy"].as_u64() >= Some(1));
}

#[test]
fn several_in_a_row_decide_and_a_dead_server_is_unhealthy() {
    if !require::freerun() {
        return;
    }
    let count = Arc::new(AtomicUsize::new(0));
    // Every third check fails.
    let turn = count.clone();
    let moody = TestUpstream::answering(move |_: &ReceivedRequest| {
        let status = if turn.fetch_add(1, SeqCst) % 3 == 2 { 500 } else { 200 };
        format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").into_bytes()
    });
    let dead = RefusingAddress::new();
    let group = format!("upstream g {{ server {}; server {}; }}", moody.address(), dead.address());
    let server = setup(&group, "health_check interval=20ms jitter=5ms fails=2 passes=3;").freerun();
    eventually("the dead one is seen", || states(&server) == ["up", "unhealthy"]);
    server.logs("peer is unhealthy while connecting to upstream, health check");
    eventually("it was checked often", || count.load(SeqCst) > 20);
    assert_eq!(servers(&server)[0]["checks"]["unhealthy"], 0);
}

#[test]
fn nobody_is_sent_to_a_server_before_its_first_check() {
    if !require::freerun() {
        return;
    }
    let silent = TestUpstream::new();
    let group = format!("upstream g {{ server {}; }}", silent.address());
    let server = setup(&group, "health_check interval=50ms mandatory persistent;").freerun();
    assert_eq!(states(&server), ["checking"]);
    assert_eq!(server.get("/").status, 502);
    let mut peer = silent.accept();
    peer.request();
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    eventually("it has passed", || states(&server) == ["up"]);
}

#[test]
fn nobody_is_sent_to_a_server_that_a_name_brings_before_its_first_check() {
    if !require::freerun() {
        return;
    }
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let dns = Dns::start();
    let first = TestUpstream::on(([127, 0, 0, 71], 0).into());
    let port = first.port();
    let second = TestUpstream::on(([127, 0, 0, 72], port).into());
    dns.set("a.test", DnsReply::address([127, 0, 0, 71].into(), 1));
    let asked: Vec<Arc<Mutex<Vec<String>>>> = [first, second]
        .into_iter()
        .map(|upstream| {
            let targets: Arc<Mutex<Vec<String>>> = Arc::default();
            let seen = targets.clone();
            std::thread::spawn(move || {
                while let Some(mut peer) = upstream.try_accept(Duration::from_secs(3600)) {
                    let seen = seen.clone();
                    std::thread::spawn(move || {
                        while let Some(request) = peer.try_request() {
                            seen.lock().unwrap().push(request.target().to_owned());
                            if peer.try_send(OK).is_err() {
                                return;
                            }
                        }
                    });
                }
            });
            targets
        })
        .collect();
    let group = format!(
        "upstream g {{ zone g 64k; resolver {} ipv6=off valid=1s; server a.test:{port} resolve; }}",
        dns.address()
    );
    let server = setup(&group, "health_check uri=/check interval=50ms mandatory;").freerun();
    eventually("the first has passed", || server.get("/").status == 200);
    dns.set("a.test", DnsReply::address([127, 0, 0, 72].into(), 1));
    // Somebody comes all the time.
    eventually("the second is asked", || {
        server.get("/");
        !asked[1].lock().unwrap().is_empty()
    });
    assert_eq!(asked[0].lock().unwrap()[0], "/check");
    assert_eq!(asked[1].lock().unwrap()[0], "/check");
    eventually("it has passed", || server.get("/").status == 200);
    // It is known over a reload: not even for a moment it is left out.
    for _ in 0..5 {
        server.reload();
        for _ in 0..100 {
            assert_eq!(server.get("/").status, 200);
        }
    }
}

#[test]
fn responses_have_to_match() {
    if !require::freerun() {
        return;
    }
    let good = status(200);
    let upstream = upstream(&good, "welcome to the test");
    let cases = [
        ("status 200 204;", true),
        ("status ! 200-299;", false),
        ("header X-Mood = fine; header ! Refresh; header Content-Length ~ ^1;", true),
        ("header X-Mood != fine;", false),
        ("body ~ \"wel.*test$\";", true),
        ("body !~ welcome;", false),
        ("status 200; body ~ nothing;", false),
        ("require $good $upstream_http_x_mood;", true),
        ("require $bad;", false),
    ];
    let blocks: String =
        cases.iter().enumerate().map(|(n, (tests, _))| format!("match m{n} {{ {tests} }}\n")).collect();
    let groups: String =
        (0..cases.len()).map(|n| format!("upstream g{n} {{ server {}; }}\n", upstream.address())).collect();
    let locations: String = (0..cases.len())
        .map(|n| format!("location /{n} {{ proxy_pass http://g{n}; health_check match=m{n} interval=50ms; }}\n"))
        .collect();
    let server = Setup::new()
        .http(&format!(
            "map $upstream_status $good {{ 200 1; }} map $upstream_status $bad {{ default 0; 404 1; }}
             {blocks}{groups}
             server {{ listen 127.0.0.1:@PORT@; location = /status {{ status; }} {locations} }}"
        ))
        .freerun();
    for (n, (tests, passes)) in cases.iter().enumerate() {
        let one = || servers_of(&server, &format!("g{n}"))[0].clone();
        eventually(tests, || one()["checks"]["done"].as_u64() > Some(0));
        assert_eq!(one()["state"], if *passes { "up" } else { "unhealthy" }, "{tests}");
    }
}

#[test]
fn each_server_is_checked_once_whatever_the_number_of_loops() {
    if !require::freerun() {
        return;
    }
    let good = status(200);
    let (one, slow) = (upstream(&good, ""), upstream(&good, ""));
    let group = format!("upstream g {{ server {}; server {}; }}", one.address(), slow.address());
    let server = setup(&group, "health_check interval=1h;").freerun();
    eventually("they are checked", || servers(&server).iter().all(|one| one["checks"]["done"] == 1));
    // A reload that changes nothing of the checks goes on with them.
    server.reload();
    assert!(servers(&server).iter().all(|one| one["checks"]["done"] == 1));
    server.edit("interval=1h;", "interval=1h; proxy_read_timeout 50s;");
    server.reload();
    assert!(servers(&server).iter().all(|one| one["checks"]["done"] == 1));
    assert_eq!((one.connections(), slow.connections()), (1, 1));
    // Another one begins anew.
    server.edit("interval=1h;", "interval=30m;");
    server.reload();
    eventually("they are checked again", || servers(&server).iter().all(|one| one["checks"]["done"] == 2));
}

#[test]
fn what_checks_found_goes_on_over_a_reload_and_ends_with_them() {
    if !require::freerun() {
        return;
    }
    let bad = status(503);
    let upstream = upstream(&bad, "");
    let group = format!("upstream g {{ server {}; }}", upstream.address());
    let server = setup(&group, "health_check mandatory interval=50ms;").freerun();
    eventually("it is unhealthy", || states(&server) == ["unhealthy"]);
    server.reload();
    assert_eq!(states(&server), ["unhealthy"]);
    server.edit("health_check mandatory interval=50ms;", "");
    server.reload();
    eventually("nothing is held against it", || states(&server) == ["up"]);
}

#[test]
fn checks_may_share_a_connection() {
    if !require::freerun() {
        return;
    }
    let good = status(200);
    let upstream = upstream(&good, "some text");
    let group = format!("upstream g {{ server {}; }}", upstream.address());
    let server = setup(&group, "health_check interval=10ms keepalive_time=1h;").freerun();
    eventually("it was checked often", || servers(&server)[0]["checks"]["done"].as_u64() > Some(10));
    assert_eq!(upstream.connections(), 1);
    assert_eq!(states(&server), ["up"]);
}

#[test]
fn a_connection_that_ends_between_two_checks_is_no_failed_check() {
    if !require::freerun() {
        return;
    }
    // Each connection is closed when a second request has come on it.
    let upstream = TestUpstream::new();
    let group = format!("upstream g {{ server {}; }}", upstream.address());
    std::thread::spawn(move || {
        while let Some(mut peer) = upstream.try_accept(Duration::from_secs(3600)) {
            std::thread::spawn(move || {
                peer.try_request()?;
                peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").ok()?;
                peer.try_request()
            });
        }
    });
    let server = setup(&group, "health_check interval=10ms keepalive_time=1h;").freerun();
    eventually("it was checked often", || servers(&server)[0]["checks"]["done"].as_u64() > Some(10));
    assert_eq!(servers(&server)[0]["checks"]["failed"], 0);
    assert_eq!(states(&server), ["up"]);
}

#[test]
fn checks_speak_the_location_s_protocol() {
    if !require::freerun() {
        return;
    }
    let code = status(200);
    let answered = code.clone();
    let upstream = TestUpstream::new();
    let address = upstream.address();
    std::thread::spawn(move || {
        while let Some(mut peer) = upstream.try_accept(std::time::Duration::from_secs(3600)) {
            // A netstring with the variables, of which the first is always this one (SCGI).
            let mut start = String::new();
            while !start.ends_with("CONTENT_LENGTH\0") {
                start.push(char::from(peer.bytes(1)[0]));
            }
            peer.send(format!("Status: {} X\r\nContent-Length: 2\r\n\r\nok", answered.load(SeqCst)));
        }
    });
    let server = Setup::new()
        .http(&format!(
            "upstream g {{ server {address}; }}
             server {{ listen 127.0.0.1:@PORT@; location = /status {{ status; }}
                       location / {{ scgi_pass g; health_check interval=50ms; }} }}"
        ))
        .freerun();
    eventually("it is checked", || servers(&server)[0]["checks"]["done"].as_u64() > Some(1));
    assert_eq!(states(&server), ["up"]);
    code.store(500, SeqCst);
    eventually("it is unhealthy", || states(&server) == ["unhealthy"]);
}

#[test]
fn checks_follow_the_servers_of_the_group() {
    if !require::freerun() {
        return;
    }
    let good = status(200);
    let (one, two) = (upstream(&good, ""), upstream(&good, ""));
    let group = format!("upstream g {{ server {}; }}", one.address());
    let server = setup(&group, "health_check interval=20ms;").freerun();
    eventually("the first is checked", || one.connections() > 0);
    server.edit(&format!("server {};", one.address()), &format!("server {};", two.address()));
    server.reload();
    eventually("the second is checked", || two.connections() > 0);
    // What was under way has ended by the second check of the other one.
    let checked = two.connections();
    eventually("it goes on", || two.connections() > checked + 2);
    let before = one.connections();
    eventually("it goes on for a while", || two.connections() > checked + 10);
    assert_eq!(one.connections(), before);
}
