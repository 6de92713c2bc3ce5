//! The binary of a machine is changed while it takes part.

use freerun_testkit::daemon::{Daemon, ends, signal};
use freerun_testkit::{Kind, TestClient, eventually, within};
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::engine::Engine;
use crate::purges::{Origin, lines_for, serves};
use crate::{RECOVERED, becomes, change, cluster, flag, gets, json, lines, node, purges};

/// Starts a machine whose binary can be changed.
fn daemon(engine: &str, http: &str) -> Daemon {
    let program = Kind::Freerun.program().expect("a binary");
    let daemon = Daemon::start(&program, &format!("zone_sync_engine {engine};"), http);
    becomes(&daemon, "connected");
    daemon
}

#[test]
fn a_new_binary_follows_and_the_old_one_leaves() {
    let Some(engine) = Engine::redis() else { return };
    let a = daemon(&engine.address(), &lines("sync"));
    let b = node(&engine.address(), "sync");
    assert_eq!(change(&a, "POST", r#"{"x":"0"}"#), 201);
    // Changes that go on all the time, to whichever process takes them.
    let (stop, address) = (AtomicBool::new(false), a.address());
    let old = std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            let mut refused = Vec::new();
            for number in 1.. {
                let status = change(&address, "PATCH", &format!(r#"{{"x":"{number}"}}"#));
                if status != 204 {
                    refused.push((number, status));
                }
                if stop.load(SeqCst) {
                    return (number, refused);
                }
            }
            unreachable!("it is stopped before")
        });
        let (old, _) = a.change();
        signal(old, Signal::QUIT);
        ends(old);
        // From here on there is only the new one.
        let added = change(&a, "POST", r#"{"y":"1"}"#);
        stop.store(true, SeqCst);
        let (last, refused) = changes.join().expect("no request fails");
        assert_eq!((added, refused), (201, Vec::new()));
        gets(&b, "x", &last.to_string());
        old
    });
    assert_ne!(a.master(), old);
    gets(&b, "y", "1");
    let nodes = || json(&b.get("/api/freerun/1/cluster/nodes"));
    assert!(within(RECOVERED, || nodes().as_array().map(Vec::len) == Some(2)), "{}", nodes());
    assert_eq!(change(&b, "PATCH", r#"{"y":null}"#), 204);
    gets(&a, "y", "");
    assert_eq!(flag(&b, "y"), "");
}

/// The status of a purge on this connection.
fn purge(client: &mut TestClient, path: &str) -> u16 {
    client.send(format!("PURGE {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).response_to("PURGE").status
}

#[test]
fn purges_that_wait_are_told_by_the_new_binary() {
    let Some(engine) = Engine::redis() else { return };
    let origin = Origin::new();
    let relay = engine.relay();
    let (address, http) = (format!("redis://{}", relay.address()), lines_for(&origin));
    let a = daemon(&address, &http);
    let b = purges::node(&engine.address(), &origin);
    let paths = ["/before", "/new", "/old", "/late", "/after"];
    for path in paths.iter().chain(&["/kept"]) {
        serves(&b, path, 1);
    }
    relay.cut();
    becomes(&a, "away");
    origin.change();
    let mut of_old = TestClient::connect(a.address());
    assert_eq!(purge(&mut of_old, "/before"), 202);
    // A socket that the new binary alone listens on.
    let listen = "listen 127.0.0.1:@PORT@;";
    let with_own = http.replace(listen, &format!("{listen} listen unix:@DIR@/new;"));
    a.configure(&format!("zone_sync_engine {address};"), &with_own);
    let (old, new) = a.change();
    let worker = a.workers(new)[0];
    let connect = || TestClient::try_connect_unix(&a.path("new")).expect("connecting");
    // Both store what waits, in one place.
    assert_eq!((purge(&mut connect(), "/new"), purge(&mut of_old, "/old")), (202, 202));
    // What was answered outlives the process that has answered it.
    signal(worker, Signal::KILL);
    eventually("another worker", || a.workers(new).first().is_some_and(|other| *other != worker));
    // The new process knows what the old one stores from now on, and does not write over it.
    assert_eq!(connect().get("/any").status, 200);
    assert_eq!(purge(&mut of_old, "/late"), 202);
    signal(old, Signal::QUIT);
    ends(old);
    assert_eq!(purge(&mut connect(), "/after"), 202);
    relay.heal();
    becomes(&a, "connected");
    for path in paths {
        serves(&b, path, 2);
    }
    assert_eq!(b.get("/kept").text(), "1");
    assert!(within(RECOVERED, || cluster(&a)["caches"][0]["pending"] == 0), "{}", cluster(&a));
}
