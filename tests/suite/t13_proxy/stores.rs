//! `proxy_store`: a response is stored to its end, whatever the client does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use freerun_testkit::http2::{Frame, Http2, code};
use freerun_testkit::{Setup, Site, TempDir, TestClient, TestServer, TestUpstream, eventually};

use crate::t15_cache::cache_flow::gone_clients::left_waiting;

/// More than is kept in memory and fits into sockets.
const LARGE: usize = 20_000_000;

fn body() -> Vec<u8> {
    (0..LARGE).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// A server that stores what it passes on.
struct Storing {
    server: TestServer,
    folder: TempDir,
}

impl Storing {
    fn new(upstream: &TestUpstream) -> Storing {
        let folder = TempDir::new("stored");
        // The worker's user is another one.
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).expect("rights");
        let lines = format!(
            "http2 on; location = /probe {{ access_log off; return 204; }} location / {{ proxy_store {}$uri; proxy_pass http://{}; }}",
            folder.path().display(),
            upstream.address()
        );
        let server = Setup::server(&Site::new(), &lines)
            .http(
                "log_format gone '$request_uri $status $body_bytes_sent rc=$request_completion';
                 access_log @DIR@/access.log gone;",
            )
            .freerun();
        Storing { server, folder }
    }

    fn file(&self, target: &str) -> PathBuf {
        self.folder.path().join(target.trim_start_matches('/'))
    }

    #[track_caller]
    fn holds(&self, target: &str, content: &[u8]) {
        eventually("the response is stored", || fs::read(self.file(target)).is_ok_and(|bytes| bytes == content));
    }
}

#[test]
fn a_client_that_goes_before_the_response_does_not_keep_it_from_being_stored() {
    let upstream = TestUpstream::new();
    let storing = Storing::new(&upstream);
    let server = &storing.server;
    for (number, (target, is_reset)) in [("/ended", false), ("/reset", true)].into_iter().enumerate() {
        let mut peer = left_waiting(server, &upstream, target, is_reset);
        // Once this is answered, the server knows of a reset before it.
        assert_eq!(server.get("/probe").status, 204);
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        storing.holds(target, b"hello");
        // Whether the first bytes find out that nobody reads them is chance.
        let line = server.access_lines(number + 1).remove(number);
        assert!(line.starts_with(&format!("{target} 200 ")), "{line}");
    }
}

#[test]
fn a_client_that_goes_amid_the_response_does_not_keep_it_from_being_stored() {
    let body = body();
    for framing in [format!("Content-Length: {LARGE}\r\n\r\n"), "Connection: close\r\n\r\n".to_owned()] {
        for is_http2 in [false, true] {
            let upstream = TestUpstream::new();
            let storing = Storing::new(&upstream);
            let server = &storing.server;
            let answer = [b"HTTP/1.1 200 OK\r\n", framing.as_bytes(), &body].concat();
            if is_http2 {
                let mut http2 = Http2::new(server.connect());
                let stream = http2.ask_for("/large");
                let mut peer = upstream.accept();
                peer.head();
                let sending = std::thread::spawn(move || peer.try_send(&answer));
                http2.body_of(stream, 1000);
                http2.send(Frame::reset(stream, code::CANCEL));
                storing.holds("/large", &body);
                sending.join().expect("the upstream").expect("it has sent all");
            } else {
                let mut client = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
                client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
                let mut peer = upstream.accept();
                peer.head();
                let sending = std::thread::spawn(move || peer.try_send(&answer));
                client.at_least(1000);
                client.reset();
                storing.holds("/large", &body);
                sending.join().expect("the upstream").expect("it has sent all");
            }
        }
    }
}

#[test]
fn a_response_that_is_cut_leaves_no_file() {
    let upstream = TestUpstream::new();
    let storing = Storing::new(&upstream);
    let server = &storing.server;
    let mut client = server.connect();
    client.send("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept();
    peer.head();
    client.reset();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
    drop(peer);
    server.logs("upstream prematurely closed connection");
    let mut client = server.connect();
    client.send("GET /whole HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept();
    peer.head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().text(), "hello");
    storing.holds("/whole", b"hello");
    assert!(!storing.file("/cut").exists());
}
