//! `client_body_early_read`: bodies that are there before anything else is done with a request.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site, TestServer, TestUpstream, ok};

fn serving(http: &str, lines: &str) -> TestServer {
    let http = format!("{http} server {{ listen 127.0.0.1:@PORT@; root @ROOT@; {lines} }}");
    Setup::new().root(&Site::new()).http(&http).in_process()
}

fn post(target: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn chunked(target: &str, body: &str) -> String {
    let len = body.len();
    format!("POST {target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{len:x}\r\n{body}\r\n0\r\n\r\n")
}

#[test]
fn the_body_decides_about_its_request() {
    let server = serving(
        "map $request_body $kind { ~order order; ~query query; }
         log_format body '$uri $request_body $request_length'; access_log @DIR@/access.log body;",
        "client_body_early_read 1; if ($kind = order) { rewrite ^ /orders; } if ($request_body = bad) { return 403; }
         location / { return 200 \"<$request_body>\"; } location /orders { return 200 \"ordered <$request_body>\"; }",
    );
    let mut client = server.connect();
    for (request, answer) in [
        (post("/a", "query"), "<query>"),
        (post("/a", "order"), "ordered <order>"),
        (chunked("/a", "an order"), "ordered <an order>"),
        (post("/a", ""), "<>"),
        ("GET /a HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "<>"),
    ] {
        assert_eq!(client.send(&request).response().text(), answer, "{request}");
    }
    // The next request stands right behind the body.
    client.send(post("/a", "query") + &chunked("/b", "query") + &post("/c", "bad"));
    assert_eq!(client.response().text(), "<query>");
    assert_eq!(client.response().text(), "<query>");
    assert_eq!(client.response().status, 403);
    let length = post("/a", "query").len();
    assert_eq!(server.access_lines(1)[0], format!("/a query {length}"));
}

#[test]
fn only_requests_that_meet_a_condition_are_read_early() {
    let server = serving(
        "map $http_content_type $json { application/json 1; }",
        "client_body_early_read $json $arg_early; return 200 \"<$request_body>\";",
    );
    let with = |field: &str| post("/", "text").replacen("\r\n\r\n", &format!("\r\n{field}\r\n\r\n"), 1);
    for (request, answer) in [
        (post("/", "text"), "<>"),
        (post("/?early=0", "text"), "<>"),
        (post("/?early=1", "text"), "<text>"),
        (with("Content-Type: application/json"), "<text>"),
        (with("Content-Type: text/plain"), "<>"),
    ] {
        assert_eq!(server.send(&request).text(), answer, "{request}");
    }
}

#[test]
fn the_limits_are_those_of_the_server() {
    let server = serving(
        "client_body_early_read 1;",
        "client_max_body_size 10; client_body_buffer_size 5; client_body_in_file_only on; error_page 413 /large;
         location = /large { return 200 \"too large\"; }
         location /small { client_max_body_size 7; return 200 \"small <$request_body>\"; }
         location / { client_max_body_size 1m; client_body_buffer_size 1m; return 200 \"<$request_body><$request_body_file>\"; }",
    );
    for (request, status, answer) in [
        (post("/", "12345"), 200, "<12345><>"),
        // A file without a name has it.
        (post("/", "1234567890"), 200, "<><>"),
        (post("/", "12345678901"), 413, "too large"),
        (chunked("/", "12345678901"), 413, "too large"),
        (post("/small", "1234567"), 200, "small <>"),
        (post("/small", "12345678"), 413, "too large"),
    ] {
        let response = server.send(&request);
        assert_eq!((response.status, response.text().as_str()), (status, answer), "{request}");
    }
    server.logs("client intended to send too large body: 11 bytes, client: 127.0.0.1");
    server.logs("client intended to send too large chunked body: 11 bytes, client: 127.0.0.1");
}

#[test]
fn what_was_read_early_is_passed_on_whole() {
    let upstream = TestUpstream::answering(|request| ok(format!("{} got {}", request.target(), request.body.len())));
    let server = serving(
        "",
        &format!(
            "client_body_early_read 1; client_body_buffer_size 1k; if ($request_body = refuse) {{ return 403; }}
             location / {{ proxy_pass http://{0}; }} location /through {{ proxy_request_buffering off; proxy_pass http://{0}; }}",
            upstream.address()
        ),
    );
    let large = "0123456789".repeat(20_000);
    for target in ["/a", "/through"] {
        for body in ["small", &large] {
            for request in [post(target, body), chunked(target, body)] {
                assert_eq!(server.send(request).text(), format!("{target} got {}", body.len()));
            }
        }
    }
    assert_eq!(server.send(post("/through", "refuse")).status, 403);
    assert_eq!(upstream.take_requests().len(), 8, "a refused request was not passed on");
}

#[test]
fn a_client_that_waits_is_told_to_go_on_and_one_that_does_not_go_on_is_given_up() {
    let server = serving(
        "log_format s '$status'; access_log @DIR@/access.log s;",
        "client_body_early_read 1; client_body_timeout 300ms; return 200 \"<$request_body>\";",
    );
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
    assert_eq!(client.at_least(go_on.len()), go_on);
    client.take();
    assert_eq!(client.send("text").response().text(), "<text>");

    let mut late = server.connect();
    late.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nte");
    assert!(late.is_closed());
    let mut gone = server.connect();
    gone.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nte");
    gone.reset();
    let mut bad = server.connect();
    bad.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    assert_eq!(bad.response().status, 400);
    let mut statuses = server.access_lines(4);
    statuses.sort_unstable();
    assert_eq!(statuses, ["200", "400", "400", "408"]);
}
