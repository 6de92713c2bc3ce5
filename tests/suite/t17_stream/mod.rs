//! Sessions of `stream {}`.

mod datagrams;
mod ends;
mod errors;
mod pass;
mod preread;
mod proxy;
mod sessions;
mod tls;
mod upstreams;

use freerun_testkit::{ConnectionEnd, Kind, Setup, TestClient, TestServer, require};
use std::net::SocketAddr;

/// A configuration with these lines in `stream`. `None`: nginx is under test, and has no stream module here.
fn stream(lines: &str) -> Option<Setup> {
    if Kind::under_test() == Kind::Nginx && require::nginx_module("ngx_stream_module").is_none() {
        return None;
    }
    Some(Setup::new().stream(lines))
}

/// What the server says to a client that sends these bytes.
fn said(address: SocketAddr, bytes: &[u8]) -> String {
    let (text, ending) = TestClient::connect(address).send(bytes).rest();
    assert_ne!(ending, ConnectionEnd::Silent);
    String::from_utf8_lossy(&text).into_owned()
}

/// The lines of the log `sessions.log`, when there are so many. The harness's own sessions are not among them: they have no
/// marks.
fn lines(server: &TestServer, count: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(server.path("sessions.log")).unwrap_or_default();
    freerun_testkit::eventually(&format!("{count} lines"), || read().lines().count() >= count);
    read().lines().map(str::to_owned).collect()
}
