//! Requests that could end a worker: heads in every cut, and panics.

use freerun_testkit::{ConnectionEnd, Response, Setup, Site, TestServer, eventually, require};

fn answers(server: &TestServer) -> Response {
    server.get("/a")
}

#[test]
fn heads_cut_at_every_byte() {
    let site = Site::new();
    site.file("a", "file a");
    let server = Setup::server(&site, "").run();
    let whole = "GET /a?x=%20y HTTP/1.1\r\nHost: localhost:80\r\nX-Y: z\r\nContent-Length: 3\r\n\r\nabc";
    for length in 0..whole.len() {
        let mut client = server.connect();
        let (bytes, ending) = client.send(&whole[..length]).half_close().rest();
        assert_ne!(ending, ConnectionEnd::Silent, "cut at {length}");
        // Nothing, or a complete refusal, or (the head being whole) the answer; never half a response.
        if !bytes.is_empty() {
            let parsed = Response::parse(&bytes, "GET");
            assert!(
                matches!(
                    parsed,
                    freerun_testkit::ParsedResponse::Whole(_, _) | freerun_testkit::ParsedResponse::UntilClose(_)
                ),
                "cut at {length}"
            );
        }
    }
    assert_eq!(answers(&server).text(), "file a");
    eventually("no worker was lost", || server.workers().len() == 1);
}

#[test]
fn a_panic_ends_its_connection_alone_and_is_logged_with_its_message() {
    if !require::freerun() || !cfg!(debug_assertions) {
        return;
    }
    let lines = "location /panic { debug_panic 'what went wrong'; } location / { return 200 ok; }";
    let server = Setup::server(&Site::new(), lines).run();
    let mut other = server.connect();
    assert_eq!(other.get("/").text(), "ok");
    let mut client = server.connect();
    assert_eq!(client.get("/panic").status, 500);
    assert!(client.is_closed());
    server.logs("request ended by a panic: what went wrong");
    assert_eq!(other.get("/").text(), "ok");
}

/// Another response behind the one that the client has would be taken for the answer to its next request.
#[test]
fn a_panic_behind_a_response_ends_the_connection_without_another_one() {
    if !require::freerun() || !cfg!(debug_assertions) {
        return;
    }
    let lines = "location / { post_action /after; return 200 ok; } location /after { debug_panic 'behind it'; }";
    let server = Setup::server(&Site::new(), lines).run();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "ok");
    let (rest, _) = client.rest();
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    server.logs("request ended by a panic: behind it");
}
