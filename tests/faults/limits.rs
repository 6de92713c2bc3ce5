//! More connections than there is room for.

use crate::descriptors;
use freerun_testkit::{Kind, Setup, Site, TestClient, eventually, within};
use std::time::Duration;

fn site() -> Site {
    let site = Site::new();
    site.file("a", "file a");
    site
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Answered,
    /// Its connection was closed to make room for others.
    Closed,
}

/// A client that has asked for `/a`.
struct Asked {
    client: TestClient,
    outcome: Option<Outcome>,
}

impl Asked {
    fn new(mut client: TestClient) -> Asked {
        client.set_timeout(Duration::from_millis(1));
        let sent = client.try_send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        Asked { client, outcome: sent.is_err().then_some(Outcome::Closed) }
    }

    /// As far as it has come.
    fn outcome(&mut self) -> Option<Outcome> {
        if self.outcome.is_none() {
            self.outcome = match self.client.try_response("GET") {
                Ok(response) => {
                    assert!(matches!(response.status, 200 | 500 | 503), "{}", response.line);
                    Some(Outcome::Answered)
                }
                Err(why) if why.starts_with("Silent") => None,
                Err(_) => Some(Outcome::Closed),
            };
        }
        self.outcome
    }
}

#[test]
fn no_descriptors_left() {
    let site = site();
    let server = Setup::server(&site, "").main("worker_rlimit_nofile 64;").events("worker_connections 1000;").freerun();
    assert_eq!(server.get("/a").text(), "file a");
    let worker = server.worker();
    let mut clients: Vec<TestClient> = (0..100).map(|_| server.connect()).collect();
    eventually("descriptors run out", || {
        descriptors(worker) >= 60 || server.error_log().contains("(24: Too many open files)")
    });
    let mut asked: Vec<Asked> = clients.drain(..).map(Asked::new).collect();
    // Those that were accepted may find no descriptor for the file; what they get is an answer all the same.
    let count = |asked: &mut [Asked], outcome| {
        asked.iter_mut().filter_map(Asked::outcome).filter(|one| *one == outcome).count()
    };
    eventually("those that were let in are answered", || count(&mut asked, Outcome::Answered) > 0);
    // When some leave, the ones that wait are let in.
    asked.drain(..80);
    eventually("none is left waiting", || asked.iter_mut().all(|one| one.outcome().is_some()));
    assert!(count(&mut asked, Outcome::Answered) > 0, "not all of them had to make room");
    drop(asked);
    for _ in 0..50 {
        assert_eq!(server.get("/a").text(), "file a");
    }
    assert_eq!(server.worker(), worker, "the worker lives");
}

#[test]
fn more_than_worker_connections() {
    let site = site();
    let server = Setup::server(&site, "").events("worker_connections 20;").run();
    let mut early: Vec<TestClient> = (0..10).map(|_| server.connect()).collect();
    for client in &mut early {
        assert_eq!(client.get("/a").text(), "file a");
    }
    let late: Vec<TestClient> = (0..30).map(|_| server.connect()).collect();
    server.logs("20 worker_connections are not enough");
    drop(late);
    // Being over the limit leaves no mark: the early ones are served or were asked to make room, and new ones are let in.
    let up = within(Duration::from_secs(15), || {
        let client = TestClient::try_connect(server.address());
        client.is_ok_and(|mut client| {
            client.try_send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n").is_ok()
                && client.try_response("GET").is_ok_and(|r| r.status == 200)
        })
    });
    assert!(up, "connections are taken again");
}

#[test]
fn clients_that_vanish_leave_no_descriptors() {
    let site = Site::new();
    site.file("big", vec![b'x'; 10_000_000]).file("a", "file a");
    for way in ["sendfile on;", "sendfile off;", "sendfile on; aio threads;"] {
        let server = Setup::server(&site, way).main("worker_processes 1;").run();
        // The loop has its descriptors for watching files once it has kept one, which is from the second request on.
        for _ in 0..3 {
            server.get("/a");
        }
        let worker = server.worker();
        let before = descriptors(worker);
        for number in 0..60 {
            let mut client = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
            match number % 4 {
                0 => client.send("GET /bi"),
                1 => client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n"),
                2 => client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nabc"),
                _ => {
                    client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
                    &mut client
                }
            };
            client.reset();
        }
        // An open file may be kept for a moment.
        eventually("descriptors are closed", || descriptors(worker) <= before + 2);
        assert_eq!(server.get("/a").text(), "file a");
    }
}

#[test]
fn hot_files_leave_descriptors_to_others() {
    let site = site();
    for number in 0..300 {
        // Too large to be kept in memory, so that what is kept is the open file.
        site.file(&format!("large{number}"), vec![b'x'; 40_000]).file(&format!("small{number}"), "x");
    }
    let server = Setup::server(&site, "").main("worker_rlimit_nofile 128;").events("worker_connections 64;").run();
    let mut client = server.connect();
    for number in 0..300 {
        assert_eq!(client.get(&format!("/small{number}")).text(), "x");
        assert_eq!(client.get(&format!("/large{number}")).body.len(), 40_000);
    }
    assert!(!server.error_log().contains("(24: Too many open files)"), "{}", server.error_log());
}

/// What a server says that does not start under a limit.
fn refusal(setup: &Setup) -> String {
    match setup.try_start(Kind::Freerun) {
        Ok(_) => panic!("it starts"),
        Err(error) => error.to_string(),
    }
}

/// Memory that runs out ends a process in the middle of something, so what it needs is said before.
#[test]
fn a_limit_of_addresses_is_named_with_what_is_needed() {
    // The program of the tests alone, without optimisation, has 61 MB.
    for kilobytes in [90_000, 120_000] {
        let limit = format!("--as={}", kilobytes * 1024);
        let said = refusal(&Setup::server(&Site::new(), "").under(&["prlimit", &limit]));
        let line = format!(
            "nginx: [warn] the limit of {kilobytes} KB for addresses (ulimit -v) may be too low: at least 500000 KB are needed"
        );
        assert!(said.contains(&line), "{said}");
    }
}

/// The call that has failed is the one that is named, with the limit that keeps it from succeeding.
#[test]
fn too_few_descriptors_for_the_loops_are_told_with_the_directive() {
    let setup = Setup::server(&Site::new(), "").main("worker_processes 16;").under(&["prlimit", "--nofile=40:40"]);
    let said = refusal(&setup);
    let why = "(24: Too many open files): an event loop needs more descriptors than \"worker_rlimit_nofile\" or \
               \"ulimit -n\" allows";
    assert!(said.contains(why), "{said}");
}

/// As many as are enough for nginx are enough.
#[test]
fn a_small_limit_of_descriptors_keeps_nobody_from_starting() {
    let site = site();
    let server = Setup::server(&site, "").main("worker_rlimit_nofile 12;").run();
    assert_eq!(server.get("/a").text(), "file a");
}
