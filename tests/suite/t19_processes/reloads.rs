//! HUP: a new configuration inside the running worker.

use std::net::SocketAddr;

use freerun_testkit::http2::Http2;
use freerun_testkit::{ConnectionEnd, Setup, Site, TestClient, eventually, require};
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn site() -> Site {
    let site = Site::new();
    site.file("a", "file a").file("big", vec![b'x'; 30_000_000]);
    site
}

#[test]
fn a_kept_connection_meets_the_new_configuration() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, "location /v { return 200 one; }").freerun();
    let worker = server.worker();
    let mut client = server.connect();
    assert_eq!(client.get("/v").text(), "one");
    for (from, to) in [("one", "two"), ("two", "three"), ("three", "four")] {
        server.edit(&format!("return 200 {from}"), &format!("return 200 {to}"));
        server.reload();
        eventually("the new answer", || client.get("/v").text() == to);
        assert_eq!(server.get("/v").text(), to);
    }
    assert_eq!(server.workers(), [worker], "one worker throughout");
}

/// Whoever takes a port off the air does not want it to answer on.
#[test]
fn idle_connections_of_an_address_that_is_gone_are_closed_at_once() {
    let lines = "keepalive_timeout 1h; server { listen 127.0.0.1:@PORT@; http2 on; root @ROOT@; }
        server { listen 127.0.0.1:@PORT2@; http2 on; root @ROOT@; }";
    let site = site();
    let server = Setup::new().root(&site).http(lines).run();
    let (mut stays, mut idle) = (server.connect(), TestClient::connect(server.address_number(2)));
    assert_eq!(stays.get("/a").text(), "file a");
    assert_eq!(idle.get("/a").text(), "file a");
    let mut streams = Http2::new(TestClient::connect(server.address_number(2)));
    assert_eq!(streams.get("/a").text(), "file a");
    let mut busy = TestClient::try_connect_narrow(server.address_number(2), 65_536).expect("connecting");
    busy.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    server.edit(
        &format!("server {{ listen 127.0.0.1:{}; http2 on;", server.port_number(2)),
        &format!("server {{ listen unix:{};", server.path("s").display()),
    );
    server.reload();
    assert_eq!(idle.ending(), ConnectionEnd::Closed);
    assert_ne!(streams.end().1, ConnectionEnd::Silent);
    assert_eq!(busy.response().body.len(), 30_000_000, "a request that goes on gets its answer");
    assert_eq!(busy.ending(), ConnectionEnd::Closed);
    assert_eq!(stays.get("/a").text(), "file a");
}

#[test]
fn a_request_ends_with_what_it_began() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, "location /v { return 200 one; }").freerun();
    let mut slow = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
    slow.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    server.edit("return 200 one", "return 200 two");
    server.edit("root ", "root /nowhere");
    server.reload();
    eventually("the new answer", || server.get("/v").text() == "two");
    assert_eq!(slow.response().body.len(), 30_000_000);
    assert_eq!(slow.get("/v").text(), "two", "and its connection goes on with the new one");
}

/// In the words for the workers of nginx, which scripts wait for.
#[test]
fn the_end_of_an_old_configuration_is_told() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let mut server = Setup::server(&site, "location /v { return 200 one; }").freerun();
    let old = format!("configuration 1 of worker process {}", server.worker());
    let mut slow = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
    slow.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    server.edit("return 200 one", "return 200 two");
    server.reload();
    server.logs("signal 1 (SIGHUP) received, reconfiguring");
    server.logs(&format!("{old} is gracefully shutting down"));
    assert!(!server.error_log().contains("exited with code"), "a request uses it");
    slow.response();
    server.logs(&format!("{old} exited with code 0: "));
    let worker = server.worker();
    server.signal(Signal::QUIT);
    server.wait();
    let told = server.error_log();
    // The master may hear of the worker's end by its socket before the signal comes, or after.
    let lines = told.lines().filter_map(|line| Some(line.split_once(": ")?.1)).filter(|line| !line.contains("SIGCHLD"));
    let lines: Vec<&str> = lines.skip_while(|line| !line.contains("SIGQUIT")).collect();
    let end = format!("worker process {worker} exited with code 0");
    let wanted =
        ["signal 3 (SIGQUIT) received, shutting down", "gracefully shutting down", "exiting", "exit", &end, "exit"];
    assert_eq!(lines, wanted);
}

#[test]
fn a_broken_configuration_changes_nothing() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, "location /v { return 200 one; }").freerun();
    let worker = server.worker();
    let mut client = server.connect();
    client.get("/v");
    let good = server.config();
    for (broken, message) in [
        ("nonsense on;", "unknown directive \"nonsense\" in "),
        ("location /v { return 200 two; }", "duplicate location \"/v\" in "),
        ("index $nosuch;", "unknown \"nosuch\" variable"),
        ("sendfile maybe;", "invalid value \"maybe\" in \"sendfile\" directive"),
        ("{", "unexpected \"{\" in "),
    ] {
        server.edit("location /v", &format!("{broken} location /v"));
        server.signal(Signal::HUP);
        server.logs(message);
        assert_eq!(client.get("/v").text(), "one");
        assert_eq!(server.get("/v").text(), "one");
        std::fs::write(server.path("nginx.conf"), &good).expect("writing");
    }
    assert_eq!(server.workers(), [worker]);
    server.edit("return 200 one", "return 200 three");
    server.reload();
    eventually("a good one after the bad ones", || client.get("/v").text() == "three");
}

#[test]
fn an_address_in_use_changes_nothing() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, "location /v { return 200 one; }").freerun();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binding");
    let port = taken.local_addr().expect("its address").port();
    server.edit("return 200 one", "return 200 two");
    server.edit("server {", &format!("server {{ listen 127.0.0.1:{port};"));
    server.signal(Signal::HUP);
    server.logs(&format!("bind() to 127.0.0.1:{port} failed (98: Address already in use)"));
    assert_eq!(server.get("/v").text(), "one");
}

#[test]
fn reloads_under_load_fail_nothing() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, "location /v { return 200 one; }").main("worker_processes 2;").freerun();
    let worker = server.worker();
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failures: Vec<String> = std::thread::scope(|scope| {
        let client = |kept: bool| {
            let (stop, served, server) = (&stop, &served, &server);
            scope.spawn(move || {
                let mut client = server.connect();
                for own in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // A kept connection has an end as well: `keepalive_requests`, 1000 of its own.
                    if !kept || own % 500 == 0 {
                        client = server.connect();
                    }
                    let target = if served.load(Ordering::Relaxed) % 2 == 0 { "/a" } else { "/v" };
                    let sent = client.try_send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
                    match (sent, client.try_response("GET")) {
                        (Ok(()), Ok(response)) if response.status == 200 && !response.says_close() => {}
                        (sent, got) => return Some(format!("{kept}, request {own}: {sent:?} {got:?}")),
                    }
                    served.fetch_add(1, Ordering::Relaxed);
                }
                None
            })
        };
        let threads: Vec<_> = (0..6).map(|n| client(n % 2 == 0)).collect();
        for round in 0..20 {
            let before = served.load(Ordering::Relaxed);
            let (from, to) = if round % 2 == 0 { ("one", "two") } else { ("two", "one") };
            server.edit(&format!("return 200 {from}"), &format!("return 200 {to}"));
            server.reload();
            eventually("requests go on with the new one", || {
                served.load(Ordering::Relaxed) > before + 20 && server.get("/v").text() == to
            });
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().filter_map(|thread| thread.join().expect("a client")).collect()
    });
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(server.workers(), [worker]);
}

#[test]
fn logs_and_pid_follow_the_configuration() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let lines = "access_log @DIR@/access.log; location /v { return 200 one; }";
    let server = Setup::server(&site, lines).freerun();
    server.get("/v");
    server.access_lines(1);
    server.edit(
        "access_log @DIR@/access.log"
            .replace("@DIR@", server.path("").display().to_string().trim_end_matches('/'))
            .as_str(),
        "access_log @DIR@/second.log",
    );
    server.reload();
    eventually("lines in the new log", || {
        server.get("/v");
        std::fs::read_to_string(server.path("second.log")).is_ok_and(|text| text.contains("/v"))
    });
}

#[test]
fn a_connection_of_an_address_that_is_gone_logs_where_it_belongs() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let http = "log_format place \"$uri $server_name\";
        server { listen 127.0.0.1:@PORT@; access_log @DIR@/one.log place; server_name one; return 200 one; }
        server { listen 127.0.0.1:@PORT2@; access_log @DIR@/two.log place; server_name two; return 200 two; } # two
        server { listen 127.0.0.1:@PORT3@; access_log @DIR@/three.log place; server_name three; return 200 three; }";
    let server = Setup::new().root(&site).http(http).freerun();
    let mut client = TestClient::connect(server.address_number(2));
    assert_eq!(client.get("/before").text(), "two");
    let mut fresh = TestClient::connect(server.address_number(2));
    let config = server.config();
    let start = config.find("server { listen").expect("servers");
    let lines: Vec<&str> = config[start..].lines().filter(|line| line.ends_with("# two")).collect();
    server.edit(lines[0], "");
    server.reload();
    eventually("the address is gone", || TestClient::try_connect(server.address_number(2)).is_err());
    assert_eq!(client.ending(), ConnectionEnd::Closed, "who waits for another request is not served as it began");
    let log = |name: &str| std::fs::read_to_string(server.path(name)).unwrap_or_default();
    assert_eq!(fresh.get("/first").text(), "two", "so is who had no request yet");
    assert_eq!(fresh.ending(), ConnectionEnd::Closed);
    eventually("the log of its server", || log("two.log") == "/before two\n/first two\n");
    assert_eq!(log("one.log") + &log("three.log"), "");
}

/// Whether the process has a thread of that name.
fn has_thread(process: u32, name: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("its threads").flatten();
    let names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
    names.into_iter().any(|thread| thread.trim_end() == name)
}

#[test]
fn a_connection_without_a_request_keeps_no_old_configuration() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let lines = "keepalive_timeout 1h; aio threads=old; location /v { return 200 one; }";
    let server = Setup::server(&site, lines).main("thread_pool old threads=2;").freerun();
    let worker = server.worker();
    let mut idle: Vec<TestClient> = (0..40).map(|_| server.connect()).collect();
    for client in &mut idle {
        assert_eq!(client.get("/v").text(), "one");
    }
    let mut late = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
    late.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    assert!(has_thread(worker, "old/0"));
    server.edit("thread_pool old threads=2;", "");
    server.edit("aio threads=old;", "");
    server.edit("return 200 one", "return 200 two");
    server.reload();
    eventually("the new answer", || server.get("/v").text() == "two");
    assert!(has_thread(worker, "old/0"), "a request goes on with the old one");
    assert_eq!(late.response().body.len(), 30_000_000);
    // The pool goes with the configuration that names it.
    eventually("the old one goes", || !has_thread(worker, "old/0"));
    for client in idle.iter_mut().chain([&mut late]) {
        assert_eq!(client.get("/v").text(), "two");
    }
}

/// Whether there is no listener: one that nobody accepts from takes connections as well.
fn refuses(server: &freerun_testkit::TestServer) -> bool {
    TestClient::try_connect(server.address()).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

#[test]
fn an_end_that_was_ordered_is_not_followed_by_a_reload() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let mut server = Setup::server(&site, "").freerun();
    let mut busy = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
    busy.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    // Both are there when it looks.
    for signal in [Signal::STOP, Signal::HUP, Signal::QUIT, Signal::CONT] {
        server.signal(signal);
    }
    server.logs("gracefully shutting down");
    eventually("the listener is closed", || refuses(&server));
    assert_eq!(busy.response().body.len(), 30_000_000);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!server.error_log().contains("configuration 2 is in use"));
}

#[test]
fn a_reload_under_way_does_not_keep_the_listener_of_a_server_that_ends() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let mut server = Setup::server(&site, "").freerun();
    let worker = server.worker();
    let mut busy = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
    busy.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    server.signal_pid(worker, Signal::STOP);
    // Without waiting for an outcome, of which there is none yet.
    server.signal(Signal::HUP);
    server.logs("(SIGHUP) received");
    server.signal(Signal::QUIT);
    server.logs("(SIGQUIT) received");
    server.signal_pid(worker, Signal::CONT);
    eventually("the listener is closed", || refuses(&server));
    assert_eq!(busy.response().body.len(), 30_000_000);
    assert_eq!(server.wait().code(), Some(0));
}

/// Clients that are connected, with a request sent, while the worker stands still: the kernel has taken them in.
fn clients_that_wait(server: &freerun_testkit::TestServer, address: SocketAddr) -> Vec<TestClient> {
    server.signal_pid(server.worker(), Signal::STOP);
    let mut clients: Vec<TestClient> = (0..60).map(|_| TestClient::connect(address)).collect();
    for client in &mut clients {
        client.send("GET /v HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    clients
}

#[test]
fn who_waits_at_an_address_that_goes_is_answered() {
    if !require::freerun() {
        return;
    }
    let site = site();
    for (events, options) in [("", ""), ("accept_mutex on;", ""), ("", " reuseport")] {
        let http = &format!(
            "server {{ listen 127.0.0.1:@PORT@; return 200 one; }}
            server {{ listen 127.0.0.1:@PORT2@{options}; return 200 two; }} # two"
        );
        let setup = Setup::new().root(&site).main("worker_processes 2;").events(events);
        let server = setup.http(http).freerun();
        let worker = server.worker();
        let mut clients = clients_that_wait(&server, server.address_number(2));
        let config = server.config();
        let line = config.lines().find(|line| line.ends_with("# two")).expect("the second server");
        server.edit(line.trim_start(), "");
        server.signal(Signal::HUP);
        server.logs("(SIGHUP) received");
        server.signal_pid(worker, Signal::CONT);
        for client in &mut clients {
            assert_eq!(client.response().text(), "two", "{events} {options}");
        }
        eventually("the address is gone", || TestClient::try_connect(server.address_number(2)).is_err());
    }
}

#[test]
fn who_waits_when_the_server_is_to_end_is_answered() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let mut server = Setup::server(&site, "location /v { return 200 one; }").freerun();
    let worker = server.worker();
    let mut clients = clients_that_wait(&server, server.address());
    server.signal(Signal::QUIT);
    server.logs("(SIGQUIT) received");
    server.signal_pid(worker, Signal::CONT);
    for client in &mut clients {
        assert_eq!(client.response().text(), "one");
        assert_eq!(client.ending(), ConnectionEnd::Closed);
    }
    assert_eq!(server.wait().code(), Some(0));
}
