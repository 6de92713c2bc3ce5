//! A reload with another number of loops (`worker_processes`).

use std::net::{Ipv4Addr, SocketAddr};

use freerun_testkit::{ConnectionEnd, Datagrams, Setup, TestClient, TestServer, Tls, eventually, require};
use rustix::process::Signal;

/// The ways to share an address: lines of `events`, options of `listen`.
const WAYS: [(&str, &str); 3] = [("", ""), ("accept_mutex on;", ""), ("", "reuseport")];

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// A server with so many loops, whose answers say with which configuration they were made.
fn serving(loops: usize, (events, options): (&str, &str)) -> TestServer {
    let http = format!(
        "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
        server {{ listen 127.0.0.1:@PORT@ {options}; listen 127.0.0.1:@PORT2@ ssl {options};
            location / {{ return 200 one; }}
            location /status {{ status; }} }}"
    );
    Setup::new().main(&format!("worker_processes {loops};")).events(events).http(&http).freerun()
}

/// How many loops the worker runs: those that end are still among them.
fn loops(server: &TestServer) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.worker())).expect("the worker's threads");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().map(name).filter(|name| name.starts_with("loop-")).count()
}

/// Changes the number of loops and the answer, and has the server read it.
fn edit(server: &TestServer, (from, to): (usize, usize), (old, new): (&str, &str)) {
    server.edit(&format!("worker_processes {from};"), &format!("worker_processes {to};"));
    server.edit(&format!("return 200 {old}"), &format!("return 200 {new}"));
}

#[test]
fn connections_stay_however_many_loops_there_are() {
    if !require::freerun() {
        return;
    }
    for way in WAYS {
        let server = serving(2, way);
        let tls = Tls::new();
        let connect = |number: usize| match number % 2 {
            0 => server.connect(),
            _ => TestClient::connect(server.address_number(2)).tls(&tls),
        };
        let mut clients: Vec<TestClient> = (0..40).map(connect).collect();
        let mut all = |answer: &str| {
            for client in &mut clients {
                // The next request waits behind the first one: the connection goes with it, or after it.
                client.send([REQUEST, REQUEST].concat());
                client.response();
                client.response();
                eventually(&format!("{way:?} {answer}"), || client.get("/").text() == answer);
            }
        };
        all("one");
        let mut before = 2;
        for (to, old, new) in [(4, "one", "two"), (1, "two", "three"), (3, "three", "four"), (2, "four", "five")] {
            edit(&server, (before, to), (old, new));
            server.reload();
            // No client is told to go, and none has to connect anew.
            all(new);
            eventually("as many loops as there are to be", || loops(&server) == to);
            assert_eq!(server.get("/").text(), new);
            all(new);
            before = to;
        }
        let status = server.status();
        let open = status["loops"].as_array().expect("loops").iter().map(|one| &one["connections"]["active"]);
        let open: u64 = open.filter_map(|number| number.as_u64()).sum();
        assert_eq!(open, 41, "each is counted by one loop");
    }
}

/// Clients that are connected, with a request sent, while the worker stands still: the kernel has taken them in.
fn clients_that_wait(server: &TestServer, address: SocketAddr) -> Vec<TestClient> {
    server.signal_pid(server.worker(), Signal::STOP);
    let mut clients: Vec<TestClient> = (0..60).map(|_| TestClient::connect(address)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    }
    clients
}

#[test]
fn no_connection_that_waits_is_lost() {
    if !require::freerun() {
        return;
    }
    for way in WAYS {
        let server = serving(4, way);
        let mut before = 4;
        for (to, old, new) in [(1, "one", "two"), (3, "two", "three"), (2, "three", "four")] {
            let worker = server.worker();
            let mut clients = clients_that_wait(&server, server.address());
            edit(&server, (before, to), (old, new));
            let reloads = server.error_log().matches("(SIGHUP) received").count();
            server.signal(Signal::HUP);
            eventually("the signal has come", || server.error_log().matches("(SIGHUP) received").count() > reloads);
            server.signal_pid(worker, Signal::CONT);
            for client in &mut clients {
                // Accepted before or after the change.
                let text = client.response().text();
                assert!([old, new].contains(&&*text), "{way:?} {text}");
                assert_eq!(client.ending(), ConnectionEnd::Closed);
            }
            eventually("the new configuration", || server.get("/").text() == new);
            eventually("as many loops as there are to be", || loops(&server) == to);
            before = to;
        }
    }
}

#[test]
fn a_request_ends_on_the_loop_that_it_began_on() {
    if !require::freerun() {
        return;
    }
    let server = serving(4, ("", "reuseport"));
    let secured = |_| TestClient::connect(server.address_number(2)).tls(&Tls::new());
    let mut clients: Vec<TestClient> = (0..20).map(|_| server.connect()).chain((0..20).map(secured)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\n");
    }
    edit(&server, (4, 1), ("one", "two"));
    server.reload();
    assert!(loops(&server) > 1, "loops with requests go on");
    for client in &mut clients {
        client.send("Host: h\r\n\r\n");
        assert_eq!(client.response().text(), "one", "by the configuration that it began with");
    }
    eventually("they have ended", || loops(&server) == 1);
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "two", "the connection has gone to a loop that stays");
    }
}

#[test]
fn checks_of_loops_that_go_are_handed_over_with_what_they_have_found() {
    const GROUPS: usize = 12;
    if !require::freerun() {
        return;
    }
    let groups: String = (0..GROUPS)
        .map(|number| format!("upstream g{number} {{ zone g{number} 64k; server 127.0.0.1:@PORT2@; }}\n"))
        .collect();
    let check = "health_check uri=/check interval=100ms fails=1000 mandatory persistent;";
    let locations: String =
        (0..GROUPS).map(|number| format!("location /{number}/ {{ proxy_pass http://g{number}; {check} }}\n")).collect();
    let http = format!(
        "{groups}
        server {{ listen 127.0.0.1:@PORT2@; location / {{ return 200 one; }} location /check {{ return 200 fine; }} }}
        server {{ listen 127.0.0.1:@PORT@; {locations} location /status {{ status; }} }}"
    );
    let server = Setup::new().main("worker_processes 4;").http(&http).freerun();
    let serve_all = || (0..GROUPS).all(|number| server.get(&format!("/{number}/")).status == 200);
    eventually("all have passed", serve_all);
    // A check that began anew now would find the server unhealthy at once; one that goes on has passed before.
    server.edit("return 200 fine", "return 500 bad");
    for (from, to) in [(4, 2), (2, 3), (3, 1), (1, 4)] {
        server.edit(&format!("worker_processes {from};"), &format!("worker_processes {to};"));
        server.reload();
        assert!(serve_all(), "{from} to {to}");
        let done = || -> Vec<u64> {
            let status = server.status();
            let groups = status["upstreams"].as_array().expect("groups").iter();
            groups.filter_map(|group| group["servers"][0]["checks"]["failed"].as_u64()).collect()
        };
        let before = done();
        assert_eq!(before.len(), GROUPS);
        eventually("each goes on", || before.iter().zip(done()).all(|(before, now)| now > before + 1));
        assert!(serve_all(), "{from} to {to}");
    }
}

#[test]
fn clients_of_udp_are_served_however_many_loops_there_are() {
    // Of a range of ports each has one loop. They are below those that other tests use, at an address of this process.
    const PORTS: std::ops::RangeInclusive<u16> = 9401..=9406;
    if !require::freerun() {
        return;
    }
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 78, high, low);
    let stream = format!(
        "proxy_timeout 1s;
        server {{ listen 127.0.0.1:@PORT2@ udp; listen {address}:{}-{} udp; proxy_pass {}; }}",
        PORTS.start(),
        PORTS.end(),
        Datagrams::echo()
    );
    let http = "server { listen 127.0.0.1:@PORT@; return 200 one; }";
    let server = Setup::new().main("worker_processes 3;").http(http).stream(&stream).freerun();
    let fronts: Vec<SocketAddr> = PORTS.map(|port| (address, port).into()).chain([server.address_number(2)]).collect();
    let clients: Vec<_> = (0..70).map(|_| Datagrams::new()).collect();
    let ask = || clients.iter().zip(fronts.iter().cycle()).for_each(|(client, front)| drop(client.ask("x", *front)));
    ask();
    let mut before = 3;
    for (to, old, new) in [(1, "one", "two"), (4, "two", "three"), (2, "three", "four")] {
        edit(&server, (before, to), (old, new));
        server.reload();
        ask();
        eventually("as many loops as there are to be", || loops(&server) == to);
        ask();
        before = to;
    }
}
