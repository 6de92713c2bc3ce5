//! Loops that have more than their share: connections move to others between two requests.

use freerun_testkit::{Client, Server, Setup, eventually, require};

/// What the status says of a loop.
fn of_loop(server: &Server, index: usize, what: &str) -> u64 {
    server.status()["loops"][index]["connections"][what].as_u64().unwrap_or_default()
}

/// A server with a second loop that comes when these connections are there, each with a request behind it.
fn with_a_second_loop(connections: usize) -> (Server, Vec<Client>) {
    // A request that takes its time is one that holds up the loop, which only builds for tests have.
    let work = if cfg!(debug_assertions) { "debug_block_loop 2ms;" } else { "" };
    let http = format!(
        "server {{ listen 127.0.0.1:@PORT@;
            location / {{ return 200 \"$connection $connection_requests\"; }}
            location /work {{ {work} empty_gif; }}
            location /status {{ status; }} }}"
    );
    let server = Setup::new().main("worker_processes 1;").http(&http).freerun();
    let mut clients: Vec<Client> = (0..connections).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    server.edit("worker_processes 1;", "worker_processes 2;");
    server.reload();
    (server, clients)
}

#[test]
fn idle_connections_go_where_there_are_fewer_and_stay_what_they_are() {
    const CONNECTIONS: usize = 300;
    if !require::freerun() {
        return;
    }
    let (server, mut clients) = with_a_second_loop(CONNECTIONS);
    eventually("the second loop has its share", || of_loop(&server, 1, "active") > CONNECTIONS as u64 / 3);
    assert!(of_loop(&server, 0, "moved") > CONNECTIONS as u64 / 3);
    let mut numbers: Vec<u64> = Vec::new();
    for client in &mut clients {
        let text = client.get("/").text();
        let (number, requests) = text.split_once(' ').expect("two numbers");
        assert_eq!(requests, "2", "the count goes on");
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
    if !require::freerun() || !cfg!(debug_assertions) {
        return;
    }
    let (server, mut clients) = with_a_second_loop(CONNECTIONS);
    assert_eq!(of_loop(&server, 0, "moved"), 0);
    eventually("the second loop does a part of the work", || {
        for client in &mut clients {
            client.send("GET /work HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        // One of them may ask for the status.
        of_loop(&server, 1, "active") > CONNECTIONS as u64 / 4
    });
    assert!(of_loop(&server, 0, "active") > CONNECTIONS as u64 / 4, "not all of them have gone");
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
}
