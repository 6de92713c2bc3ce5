//! Several machines that share state through an engine: real servers of Redis with their sentinels, on the loopback, and
//! a relay between them and freerun that cuts, holds and delays.

mod engine;
mod engine_away;
mod failover;
mod history;
mod limits;
mod pairs;
mod purges;
mod secrets;
mod settings;
mod streams;
mod tickets;
mod upgrades;
mod valkey;

use freerun_testkit::daemon::Daemon;
use freerun_testkit::{Kind, Response, Setup, TestClient, TestServer, within};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// The time in which a node has to be well again after anything.
pub(crate) const RECOVERED: Duration = Duration::from_secs(5);

/// A machine of the cluster, however it was started.
pub(crate) trait Machine {
    /// Its address.
    fn place(&self) -> SocketAddr;

    /// Sends a request on a new connection.
    #[track_caller]
    fn ask(&self, method: &str, target: &str, body: &str) -> Response {
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        TestClient::connect(self.place()).send(request).response_to(method)
    }
}

impl Machine for TestServer {
    fn place(&self) -> SocketAddr {
        self.address()
    }
}

impl Machine for Daemon {
    fn place(&self) -> SocketAddr {
        self.address()
    }
}

impl Machine for SocketAddr {
    fn place(&self) -> SocketAddr {
        *self
    }
}

/// A machine with a zone `flags` of pairs that it shares through the engine at this address; `sync` is its parameters.
pub(crate) fn node(engine: &str, sync: &str) -> TestServer {
    node_with(engine, sync, "")
}

/// The same, with more lines of the main level.
pub(crate) fn node_with(engine: &str, sync: &str, main: &str) -> TestServer {
    let node = setup(engine, sync).main(main).start(Kind::Freerun);
    becomes(&node, "connected");
    node
}

/// The configuration of such a machine.
pub(crate) fn setup(engine: &str, sync: &str) -> Setup {
    Setup::new().main(&format!("zone_sync_engine {engine};")).http(&lines(sync))
}

/// The lines in `http` of such a machine.
pub(crate) fn lines(sync: &str) -> String {
    format!(
        "keyval_zone zone=flags:1m {sync};
         keyval $arg_key $flag zone=flags;
         server {{
             listen 127.0.0.1:@PORT@;
             location / {{ return 200 \"$flag\"; }}
             location /api {{ api write=on; }}
         }}"
    )
}

/// Waits until a machine says that its connection to the engine is in this state.
#[track_caller]
pub(crate) fn becomes(node: &impl Machine, state: &str) {
    let is = || cluster(node)["state"] == state;
    assert!(within(2 * RECOVERED, is), "{state} is expected: {}", cluster(node));
}

/// The state of the cluster, as a machine tells it.
pub(crate) fn cluster(node: &impl Machine) -> Value {
    json(&node.ask("GET", "/api/freerun/1/cluster", ""))
}

/// The JSON of a response.
#[track_caller]
pub(crate) fn json(response: &Response) -> Value {
    serde_json::from_str(&response.text()).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
}

/// Changes pairs by the API; the status of the answer.
pub(crate) fn change(node: &impl Machine, method: &str, body: &str) -> u16 {
    node.ask(method, "/api/9/http/keyvals/flags", body).status
}

/// The value of a key, as requests see it.
pub(crate) fn flag(node: &impl Machine, key: &str) -> String {
    node.ask("GET", &format!("/?key={key}"), "").text()
}

/// Waits until a machine has this value for a key.
#[track_caller]
pub(crate) fn gets(node: &impl Machine, key: &str, value: &str) {
    assert!(within(RECOVERED, || flag(node, key) == value), "{key} is {:?}, {value:?} is expected", flag(node, key));
}
