//! Loops that have more than their share: connections move to others between two requests.

use freerun_testkit::{Setup, TestClient, TestServer, Tls, eventually, require};

/// What the status says of a loop.
fn of_loop(server: &TestServer, index: usize, what: &str) -> u64 {
    server.status()["loops"][index]["connections"][what].as_u64().unwrap_or_default()
}

/// How clients speak.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Speaking {
    Plainly,
    /// A header of the PROXY protocol comes first.
    BehindAProxy,
    ByTls,
}

const WAYS: [Speaking; 3] = [Speaking::Plainly, Speaking::BehindAProxy, Speaking::ByTls];

impl Speaking {
    fn connect(self, server: &TestServer) -> TestClient {
        match self {
            Speaking::Plainly => server.connect(),
            Speaking::BehindAProxy => {
                let mut client = TestClient::connect(server.address_number(2));
                client.send("PROXY TCP4 192.0.2.7 192.0.2.8 1000 2000\r\n");
                client
            }
            Speaking::ByTls => TestClient::connect(server.address_number(3)).tls(&Tls::new()),
        }
    }
}

/// A server with a second loop that comes when these connections are there, each with a request behind it.
fn with_a_second_loop(connections: usize, way: Speaking) -> (TestServer, Vec<TestClient>) {
    // A request that takes its time is one that holds up the loop, which only builds for tests have.
    let work = if cfg!(debug_assertions) { "debug_block_loop 2ms;" } else { "" };
    let http = format!(
        "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
        server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ proxy_protocol; listen 127.0.0.1:@PORT3@ ssl;
            location / {{
                return 200 \"$connection $connection_requests $proxy_protocol_addr$ssl_server_name $ssl_session_reused\";
            }}
            location /work {{ {work} empty_gif; }}
            location /status {{ status; }} }}"
    );
    let server = Setup::new().main("worker_processes 1;").http(&http).freerun();
    let mut clients: Vec<TestClient> = (0..connections).map(|_| way.connect(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    server.edit("worker_processes 1;", "worker_processes 2;");
    server.reload();
    (server, clients)
}

#[test]
fn idle_connections_go_where_there_are_fewer_and_stay_what_they_are() {
    for way in WAYS {
        if require::freerun() {
            idle_connections_go(way);
        }
    }
}

fn idle_connections_go(way: Speaking) {
    const CONNECTIONS: usize = 300;
    let (server, mut clients) = with_a_second_loop(CONNECTIONS, way);
    eventually("the second loop has its share", || of_loop(&server, 1, "active") > CONNECTIONS as u64 / 3);
    assert!(of_loop(&server, 0, "moved") > CONNECTIONS as u64 / 3);
    let mut numbers: Vec<u64> = Vec::new();
    for client in &mut clients {
        let text = client.get("/").text();
        let words: Vec<&str> = text.split(' ').collect();
        let [number, requests, known, session] = words[..] else { panic!("{text}") };
        assert_eq!(requests, "2", "the count goes on");
        let expected = match way {
            Speaking::Plainly => ("", ""),
            Speaking::BehindAProxy => ("192.0.2.7", ""),
            Speaking::ByTls => ("localhost", "."),
        };
        assert_eq!((known, session), expected);
        numbers.push(number.parse().expect("a number"));
    }
    // In the order in which they were made.
    assert!(numbers.is_sorted(), "{numbers:?}");
    drop(clients);
    eventually("all have ended", || (0..2).map(|index| of_loop(&server, index, "active")).sum::<u64>() == 1);
    eventually("none counts as idle", || (0..2).map(|index| of_loop(&server, index, "idle")).sum::<u64>() == 0);
}

#[test]
fn connections_that_cause_work_go_where_there_is_less_of_it() {
    // So few that their number alone is no reason.
    const CONNECTIONS: usize = 20;
    for way in WAYS {
        if require::freerun() && cfg!(debug_assertions) {
            connections_with_work_go(CONNECTIONS, way);
        }
    }
}

fn connections_with_work_go(connections: usize, way: Speaking) {
    let (server, mut clients) = with_a_second_loop(connections, way);
    assert_eq!(of_loop(&server, 0, "moved"), 0);
    eventually("the second loop does a part of the work", || {
        for client in &mut clients {
            client.send("GET /work HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        // One of them may ask for the status.
        of_loop(&server, 1, "active") > connections as u64 / 4
    });
    assert!(of_loop(&server, 0, "active") > connections as u64 / 4, "not all of them have gone");
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
}
