//! Event loops that take no new connections.

use freerun_testkit::{TestClient, TestServer, eventually, require};
use serde_json::{Value, json};

use super::{TWO, get, origin, own, setup};

/// How many connections each loop has accepted.
fn accepted(server: &TestServer) -> Vec<u64> {
    let loops = get(server, "/loops");
    let loops = loops.as_array().expect("a list");
    loops.iter().map(|each| each["connections"]["accepted"].as_u64().expect("a number")).collect()
}

fn drain(server: &TestServer, index: usize, drain: bool) -> (u16, Value) {
    own(server, "PATCH", &format!("/loops/{index}"), Some(json!({ "drain": drain })))
}

/// Makes connections until each of these loops has accepted some.
fn both_accept(server: &TestServer) {
    let before = accepted(server);
    eventually("both loops accept", || {
        // All of them at a time, so that one loop does not take them one after the other.
        let mut clients: Vec<TestClient> = (0..64).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/api/freerun/1/").status, 200));
        accepted(server).iter().zip(&before).all(|(now, before)| now > before)
    });
}

/// Drains one loop after the other, for sockets as `main` and `listen` have them.
fn drained(listen: &str, events: &str) {
    let origin = origin();
    let server = setup(&origin, TWO, listen).events(events).freerun();
    both_accept(&server);
    let mut kept = server.connect();
    assert_eq!(kept.get("/api/freerun/1/").status, 200);
    for index in [1, 0] {
        let (status, told) = drain(&server, index, true);
        assert_eq!((status, &told["index"], &told["drain"]), (200, &json!(index), &json!(true)), "{told}");
        // It is the same once more.
        assert_eq!(drain(&server, index, true).0, 200);
        let before = accepted(&server);
        for _ in 0..50 {
            assert_eq!(server.get("/api/freerun/1/").status, 200);
        }
        let after = accepted(&server);
        assert_eq!(after[index], before[index], "{listen} {events}: {before:?} {after:?}");
        assert!(after[1 - index] >= before[1 - index] + 50, "{before:?} {after:?}");
        // Connections that were there stay.
        assert_eq!(kept.get("/api/freerun/1/").status, 200);
        let (status, refused) = drain(&server, 1 - index, true);
        assert_eq!((status, &refused["error"]["code"]), (409, &json!("LastLoop")), "{refused}");
        assert_eq!(get(&server, &format!("/loops/{}", 1 - index))["drain"], false);
        let (status, told) = drain(&server, index, false);
        assert_eq!((status, &told["drain"]), (200, &json!(false)), "{told}");
        both_accept(&server);
    }
    // A reload ends it.
    assert_eq!(drain(&server, 0, true).0, 200);
    server.reload();
    assert_eq!(get(&server, "/loops/0")["drain"], false);
    both_accept(&server);
}

#[test]
fn a_drained_loop_takes_no_connections_from_a_shared_socket() {
    if require::freerun() {
        drained("", "");
    }
}

#[test]
fn a_drained_loop_takes_no_turns() {
    if require::freerun() {
        drained("", "accept_mutex on;");
    }
}

#[test]
fn a_drained_loop_accepts_from_its_own_socket_for_others() {
    if require::freerun() {
        drained("reuseport", "");
    }
}

#[test]
fn the_only_loop_is_not_drained() {
    if !require::freerun() {
        return;
    }
    let origin = origin();
    let server = setup(&origin, "worker_processes 1;", "").freerun();
    let (status, refused) = drain(&server, 0, true);
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("LastLoop")), "{refused}");
    assert_eq!(server.get("/api/freerun/1/").status, 200);
}
