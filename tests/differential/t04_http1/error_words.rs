//! What the error log says of heads that are wrong, or have fields that are ignored.

use crate::exchange::text_without_ports;
use crate::runner::observe;
use freerun_testkit::{Setup, TestServer};

/// The fields of the requests, each sent in a request of its own.
const FIELDS: &[&str] = &[
    "Bad Header: x",
    "Bad_Header: x",
    "Bad_Header:   x  ",
    "foo_bar",
    "a=b: c\r\nok: yes\r\nd@e: f",
    "a=b: c\r\n: x",
    ": x",
    " X: y",
    "X\ty: z",
    "X\u{1}y: z",
    "X\u{7f}y: z",
    "X: a\u{0}b",
    "X: a\rb",
    "X\u{0}",
    "Host: b",
    "host:  b ",
    "Content-Length: 1\r\ncontent-length:  2",
    "If-Range: x\r\nIF-RANGE: y",
    "User-Agent: x\r\nUser-Agent: y",
    "Transfer-Encoding: chunked\r\ntransfer-encoding: y",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: ",
    "Content-Length: x",
    "Content-Length: 1\r\nTransfer-Encoding: chunked",
];

/// Request lines that are sent without anything else that is wrong.
const LINES: &[&str] = &[
    "GET / HTTP/2.1",
    "GET / HTTP/0.9",
    "GET / HTTP/1.x",
    "GET / HTTX/1.1",
    "get / HTTP/1.1",
    "GET a HTTP/1.1",
    "GET /../ HTTP/1.1",
    "TRACE / HTTP/1.1",
    "GET http://a b/ HTTP/1.1",
];

fn words(server: &mut TestServer) -> Vec<String> {
    let fields = FIELDS.iter().map(|field| format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
    let lines = LINES.iter().map(|line| format!("{line}\r\nHost: a\r\n\r\n"));
    for request in fields.chain(lines) {
        let mut client = freerun_testkit::TestClient::connect(server.address_number(2));
        client.send(request).half_close();
        client.rest();
    }
    server.stop();
    let log = server.error_log_of_traffic();
    let lines = log.lines().filter(|line| line.contains("server: s") && !line.contains("closed keepalive connection"));
    let message =
        |line: &str| line.split_once(" *").and_then(|(_, rest)| rest.split_once(' ')).map(|(_, told)| told.to_owned());
    lines.filter_map(message).map(|line| text_without_ports(&line, &[server.port_number(2)])).collect()
}

#[test]
fn the_words_about_wrong_heads() {
    for more in ["", "ignore_invalid_headers off;", "underscores_in_headers on;"] {
        let http = format!("server {{ listen 127.0.0.1:@PORT2@; server_name s; {more} return 204; }}");
        let setup = Setup::new().http("server { listen 127.0.0.1:@PORT@; }").http(&http);
        let Some(words) = observe(&setup, words) else { return };
        assert!(
            words.nginx.iter().any(|line| line.starts_with("client sent invalid header line: \"X\\x01...\" while"))
        );
        words.assert_same_lines(more);
    }
}
