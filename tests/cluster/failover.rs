//! Sentinels move the primary while machines write.

use freerun_testkit::{Application, Kind, PATIENCE, TempDir, TestServer, ports, require, within};
use std::net::TcpListener;
use std::process::Command;

use crate::engine::{Engine, answers, ask};
use crate::{becomes, change, cluster, flag, gets, setup};

/// A primary with a replica, and a sentinel that watches both.
pub(crate) struct WatchedEngines {
    pub(crate) primary: Engine,
    pub(crate) replica: Engine,
    pub(crate) sentinel_port: u16,
    _sentinel: Application,
}

impl WatchedEngines {
    /// Starts them. `None`: something is not there, which the test has said.
    pub(crate) fn start() -> Option<WatchedEngines> {
        let primary = Engine::redis()?;
        let replica = Engine::redis_with(&["--replicaof", "127.0.0.1", &primary.port().to_string()])?;
        answers(primary.port(), &["info", "replication"], "state=online");
        let (sentinel, sentinel_port) = sentinel(primary.port())?;
        answers(sentinel_port, &["sentinel", "replicas", "main"], &replica.port().to_string());
        Some(WatchedEngines { primary, replica, sentinel_port, _sentinel: sentinel })
    }

    /// The value of `zone_sync_engine`.
    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{} topology=sentinel:main", self.sentinel_port)
    }

    /// Waits until a machine is connected to what was the replica.
    #[track_caller]
    pub(crate) fn is_followed_by(&self, machine: &TestServer) {
        let peer = format!("127.0.0.1:{}", self.replica.port());
        let is_moved = || cluster(machine)["state"] == "connected" && cluster(machine)["peer"] == peer;
        assert!(within(2 * PATIENCE, is_moved), "{}", cluster(machine));
    }
}

/// Starts a sentinel that watches the primary at this port.
fn sentinel(primary: u16) -> Option<(Application, u16)> {
    let program = require::program("redis-sentinel")?;
    let (folder, port) = (TempDir::new("sentinel"), ports::free());
    let file = folder.path().join("sentinel.conf");
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {primary} 1\n\
         sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n",
        folder.path().display()
    );
    std::fs::write(&file, text).expect("a file for the sentinel");
    let mut command = Command::new(program);
    command.arg(&file);
    Some((Application::start(command, &format!("127.0.0.1:{port}"), folder), port))
}

#[test]
fn what_was_answered_survives_a_change_of_the_primary() {
    let Some(mut engines) = WatchedEngines::start() else { return };
    let sentinel_port = engines.sentinel_port;
    // A sentinel that never answers is passed over.
    let silent =
        TcpListener::bind("127.0.0.1:0").and_then(|silent| silent.local_addr().map(|address| (silent, address)));
    let (_silent, silent) = silent.expect("a listener");
    let engine = format!("redis://{silent},127.0.0.1:{sentinel_port} topology=sentinel:main");
    let [a, b] = [0; 2].map(|_| {
        let node = setup(&engine, "sync").start(Kind::Freerun);
        becomes(&node, "connected");
        node
    });
    let mut answered = Vec::new();
    for number in 0..20 {
        assert_eq!(change(&a, "POST", &format!(r#"{{"before{number}":"1"}}"#)), 201);
        answered.push(format!("before{number}"));
    }
    engines.primary.kill();
    // Writes go on meanwhile: those that are refused were made nowhere, or in time.
    let mut number = 0;
    let moved = || {
        let (node, key) = (if number % 2 == 0 { &a } else { &b }, format!("meanwhile{number}"));
        number += 1;
        let is_done = change(node, "POST", &format!(r#"{{"{key}":"1"}}"#)) == 201;
        if is_done {
            answered.push(key);
        }
        is_done
    };
    assert!(within(2 * PATIENCE, moved), "{}", ask(sentinel_port, &["sentinel", "masters"]));
    becomes(&a, "connected");
    becomes(&b, "connected");
    for key in &answered {
        gets(&a, key, "1");
        gets(&b, key, "1");
    }
    assert_eq!(change(&b, "DELETE", ""), 204);
    assert!(answered.iter().all(|key| flag(&b, key).is_empty()));
}
