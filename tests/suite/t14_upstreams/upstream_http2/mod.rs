//! HTTP/2 to upstream servers (`proxy_http_version 2`, `grpc_pass`), played frame by frame. nginx 1.22 has only `grpc_pass`,
//! and one exchange at a time on a connection, so these tests are about freerun alone.

mod connections;
mod grpc;
mod responses;
mod tries;

use freerun_testkit::http2::{Http2, Http2Peer};
use freerun_testkit::{Setup, Site, TestServer, TestUpstream};

/// What the log has of a request.
const LOG: &str = "log_format way '$request_uri|$status|$upstream_addr|$upstream_status';
                   access_log @DIR@/access.log way;";

/// A server on `@PORT@`, for HTTP/1 and HTTP/2, with a group of these servers and these lines.
fn setup(group: &str, lines: &str) -> Setup {
    Setup::new().events("worker_connections 4096;").root(&Site::new()).http(&format!(
        "{LOG} upstream backend {{ {group} }}
         server {{ listen 127.0.0.1:@PORT@; http2 on; server_name localhost; root @ROOT@;
                   {lines} }}"
    ))
}

/// The group of these servers.
fn group(upstreams: &[&TestUpstream]) -> String {
    upstreams.iter().map(|upstream| format!("server {}; ", upstream.address())).collect()
}

/// A server that passes everything to these servers over HTTP/2, by `proxy_pass`.
fn proxied(upstreams: &[&TestUpstream], lines: &str) -> Setup {
    setup(&group(upstreams), &format!("{lines} proxy_http_version 2; location / {{ proxy_pass http://backend; }}"))
}

/// A server that passes everything to these servers by `grpc_pass`.
fn called(upstreams: &[&TestUpstream], lines: &str) -> Setup {
    setup(&group(upstreams), &format!("{lines} location / {{ grpc_pass grpc://backend; }}"))
}

/// Upstream servers at two addresses.
fn two() -> (TestUpstream, TestUpstream) {
    (TestUpstream::new(), TestUpstream::on(([127, 0, 0, 2], 0).into()))
}

/// A connection of a client.
#[track_caller]
fn connect(server: &TestServer) -> Http2 {
    let mut http2 = Http2::new(server.connect());
    http2.greeted();
    http2
}

/// The next connection to an upstream server.
#[track_caller]
fn accept(upstream: &TestUpstream) -> Http2Peer {
    Http2Peer::new(upstream.accept())
}

/// Begins a call with this message; the client may send more.
#[track_caller]
fn call(http2: &mut Http2, path: &str, message: &[u8], ends: bool) -> u32 {
    let block = http2.block("POST", path).field("content-type", "application/grpc").field("te", "trailers");
    let stream = http2.begin(block);
    http2.upload(stream, message, ends);
    stream
}

/// How many failures of a server were counted, by what they were.
fn failures(server: &TestServer, number: usize) -> Vec<(String, u64)> {
    let status = server.status();
    let counted = status["upstreams"][0]["servers"][number]["failures"].as_object().cloned().unwrap_or_default();
    counted
        .into_iter()
        .filter_map(|(name, count)| Some((name, count.as_u64()?)))
        .filter(|(_, count)| *count > 0)
        .collect()
}
