//! What variables and logs say of a request over HTTP/2.

use super::{connect, plain, secure};
use crate::worker::InProcess;
use freerun_testkit::http2::{FieldBlock, Frame, Http2};
use freerun_testkit::{Setup, Site, TestClient, Tls, require};

#[test]
fn variables_of_a_request() {
    let variables = "$http2|$server_protocol|$request|$request_method|$scheme|$uri|$args|$host|$http_host";
    let lines = &format!("location / {{ return 200 '{variables}'; }}");
    let server = plain(&Site::new(), lines).run_in_process();
    let mut http2 = connect(&server);
    let answer = http2.get("/a/../b%20c?d=e");
    assert_eq!(answer.text(), "h2c|HTTP/2.0|GET /a/../b%20c?d=e HTTP/2.0|GET|http|/b c|d=e|localhost|localhost");
    // The scheme is that of the connection.
    let block = FieldBlock::request_to("https", "LocalHost:81", "POST", "/");
    assert_eq!(http2.exchange(block).text(), "h2c|HTTP/2.0|POST / HTTP/2.0|POST|http|/||localhost|LocalHost:81");
}

#[test]
fn variables_of_a_field_that_is_both_host_and_authority() {
    let server = plain(&Site::new(), "location / { return 200 '$host|$http_host'; }").run_in_process();
    let mut http2 = connect(&server);
    let block = FieldBlock::new().fields(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "A:1")]);
    assert_eq!(http2.exchange(block).text(), "a|A:1");
}

#[test]
fn all_streams_have_one_connection() {
    let lines = "location / { return 200 '$connection $connection_requests'; }";
    let server = plain(&Site::new(), lines).run_in_process();
    let mut http2 = connect(&server);
    let said: Vec<String> = (0..5).map(|_| http2.get("/").text()).collect();
    let number = said[0].split(' ').next().expect("a number").to_owned();
    let expected: Vec<String> = (1..=5).map(|count| format!("{number} {count}")).collect();
    assert_eq!(said, expected);
    assert_ne!(connect(&server).get("/").text(), format!("{number} 1"));
}

#[test]
fn a_line_of_the_access_log() {
    let site = Site::new();
    site.file("a", "0123456789");
    let setup = plain(&site, "").http(
        "log_format f '$remote_addr \"$request\" $status $body_bytes_sent \"$http_user_agent\" $request_completion';
         access_log @DIR@/access.log f;",
    );
    let server = setup.run_in_process();
    let mut http2 = connect(&server);
    http2.get_with("/a", &[("user-agent", "tester")]);
    http2.request("HEAD", "/a", &[]);
    http2.get("/missing");
    let lines = server.access_lines(3);
    assert_eq!(lines[0], "127.0.0.1 \"GET /a HTTP/2.0\" 200 10 \"tester\" OK");
    assert_eq!(lines[1], "127.0.0.1 \"HEAD /a HTTP/2.0\" 200 0 \"-\" OK");
    assert!(lines[2].starts_with("127.0.0.1 \"GET /missing HTTP/2.0\" 404 "), "{}", lines[2]);
}

#[test]
fn bytes_are_counted_with_their_frames() {
    let site = Site::new();
    site.file("a", vec![b'x'; 100_000]);
    let setup = plain(&site, "").http("log_format f '$bytes_sent $body_bytes_sent'; access_log @DIR@/access.log f;");
    let server = setup.run_in_process();
    let mut http2 = connect(&server);
    http2.get("/a");
    let framed: usize = http2.seen().iter().filter(|seen| seen.stream == 1).map(|seen| seen.length + 9).sum();
    let line = server.access_lines(1).remove(0);
    let (all, body) = line.split_once(' ').expect("two numbers");
    assert_eq!(body, "100000");
    assert_eq!(all.parse::<usize>().expect("a number"), framed);
}

#[test]
fn the_length_of_a_request_is_that_of_its_block_and_its_body() {
    let setup = plain(&Site::new(), "location / { proxy_pass http://127.0.0.1:@PORT2@; }").http(
        "log_format f '$request_length'; access_log @DIR@/access.log f;
         server { listen 127.0.0.1:@PORT2@; access_log off; return 200 ok; }",
    );
    let server = setup.run_in_process();
    let mut http2 = connect(&server);
    let first = http2.block("POST", "/").field("content-length", "4").fields(&[("x", "y")]);
    let second = http2.block("GET", "/").fields(&[("x", &"y".repeat(200))]);
    let lengths = [first.as_ref().len() + 4, second.as_ref().len()];
    let stream = http2.begin(first);
    http2.send(Frame::data(stream, "body").end());
    assert_eq!(http2.answer(stream).text(), "ok");
    assert_eq!(http2.exchange(second).text(), "ok");
    assert_eq!(server.access_lines(2), lengths.map(|length| length.to_string()));
}

#[test]
fn http1_has_no_such_variable() {
    if !require::freerun() {
        return;
    }
    let setup = Setup::new().root(&Site::new()).http(
        "server { listen 127.0.0.1:@PORT@ http2; return 200 '$http2|$server_protocol'; }
         server { listen 127.0.0.1:@PORT2@; return 200 '$http2|$server_protocol'; }",
    );
    let server = setup.run_in_process();
    assert_eq!(TestClient::connect(server.address_number(2)).get("/").text(), "|HTTP/1.1");
    // The port speaks both.
    assert_eq!(server.get("/").text(), "|HTTP/1.1");
    assert_eq!(connect(&server).get("/").text(), "h2c|HTTP/2.0");
}

#[test]
fn variables_of_the_session() {
    let lines = "location / { return 200 '$http2|$ssl_protocol|$ssl_alpn_protocol|$ssl_server_name|$https'; }";
    let server = secure(&Site::new(), lines).run_in_process();
    let mut http2 = Http2::tls(server.connect(), &Tls::new().name("localhost"), &[]);
    assert_eq!(http2.get("/").text(), "h2|TLSv1.3|h2|localhost|on");
}
