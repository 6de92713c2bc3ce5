//! Tests of lines, and of the time when they reach the file.

use std::io::{Read, Write};

use freerun_http::request::Address;

use crate::in_process::{Log, Server};

/// A server with these directives, which answers every request with `OK`.
fn server(http: &str) -> String {
    format!("{http} server {{ listen 127.0.0.1:1; location / {{ return 200 OK; }} }}")
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n")
}

fn one(logs: Vec<Log>) -> Log {
    assert_eq!(logs.len(), 1);
    logs.into_iter().next().unwrap()
}

/// The line without its time, which is in square brackets.
fn timeless(line: &str) -> String {
    let (before, rest) = line.split_once('[').unwrap();
    let (time, after) = rest.split_once(']').unwrap();
    assert_eq!(time.len(), "21/Nov/2026:07:05:00 +0000".len());
    format!("{before}[]{after}")
}

#[test]
fn combined() {
    let (server, logs) = Server::start(&server("access_log log;"));
    let mut log = one(logs);
    server.ask(get("/a\"\u{e9}?b=\\", "Referer: http://r/\r\nUser-Agent: me (\"x\")\r\n").as_bytes());
    let wanted = r#"192.0.2.7 - - [] "GET /a\x22\xC3\xA9?b=\x5C HTTP/1.1" 200 2 "http://r/" "me (\x22x\x22)""#;
    assert_eq!(timeless(&log.line()), wanted);
    server.ask(get("/", "Referer:\r\nAuthorization: Basic dTpw\r\n").as_bytes());
    assert_eq!(timeless(&log.line()), r#"192.0.2.7 - u [] "GET / HTTP/1.1" 200 2 "" "-""#);
    server.stop();
}

#[test]
fn addresses() {
    let (server, logs) = Server::start(&server("log_format a '$remote_addr'; access_log log a;"));
    let mut log = one(logs);
    for (peer, shown) in [
        (Address::Ip(([10, 0, 255, 1], 1).into()), "10.0.255.1"),
        (Address::Ip("[2001:db8::1]:5".parse().unwrap()), "2001:db8::1"),
        (Address::Unix("unix:".into()), "unix:"),
    ] {
        let mut client = server.connect(peer);
        client.write_all(get("/", "").as_bytes()).unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(log.line(), shown);
    }
    server.stop();
}

#[test]
fn numbers_and_times() {
    let format = "'$status|$bytes_sent|$body_bytes_sent|$request_length|$connection|$connection_requests|\
                  $request_time|$msec|$time_iso8601|$pipe|$request_method|$uri|$sent_http_content_type'";
    let (server, logs) = Server::start(&server(&format!("log_format f {format}; access_log log f;")));
    let mut log = one(logs);
    let request = get("/x", "");
    let answer = server.ask(request.as_bytes());
    let line = log.line();
    let parts: Vec<&str> = line.split('|').collect();
    assert_eq!(parts[0], "200");
    assert_eq!(parts[1], answer.len().to_string());
    assert_eq!(parts[2], "2");
    assert_eq!(parts[3], request.len().to_string());
    assert_eq!(parts[4..6], ["1", "1"]);
    let (seconds, millis) = parts[6].split_once('.').unwrap();
    assert!(seconds.parse::<u32>().is_ok() && millis.len() == 3 && millis.parse::<u32>().is_ok());
    let (seconds, millis) = parts[7].split_once('.').unwrap();
    assert!(seconds.len() == 10 && millis.len() == 3);
    assert_eq!(parts[8].len(), "2026-11-21T07:05:00+00:00".len());
    assert_eq!(parts[9..], [".", "GET", "/x", "text/plain"]);
    server.stop();
}

#[test]
fn escapes_and_missing_values() {
    let formats = "log_format d '$http_x|$http_nope|$http_accept';
                   log_format j escape=json '$http_x|$http_nope|$http_accept';
                   log_format n escape=none '$http_x|$http_nope|$http_accept';
                   log_format e escape=json;
                   access_log d d; access_log j j; access_log n n; access_log e e;";
    let (server, logs) = Server::start(&server(formats));
    server.ask(get("/", "X: a\"b\\\t\x7f\r\nAccept: 1\r\nAccept: 2\r\n").as_bytes());
    let lines: Vec<String> = logs.into_iter().map(|mut log| log.line()).collect();
    assert_eq!(lines, ["a\\x22b\\x5C\\x09\\x7F|-|1, 2", "a\\\"b\\\\\\t\x7f||1, 2", "a\"b\\\t\x7f||1, 2", ""]);
    server.stop();
}

#[test]
fn conditions_and_levels() {
    let http = "log_format p '$request_uri'; access_log all p; access_log some p if=$arg_log;
                server { listen 127.0.0.1:1;
                         location / { return 200; }
                         location /off { access_log off; return 200; }
                         location /own { access_log own p; return 200; } }";
    let (server, logs) = Server::start(http);
    for uri in ["/?log=0", "/?log=", "/?log=00", "/off", "/own", "/?log=yes"] {
        server.ask(get(uri, "").as_bytes());
    }
    server.stop();
    let all: Vec<String> = logs.into_iter().map(Log::rest).collect();
    assert_eq!(all, ["/?log=0\n/?log=\n/?log=00\n/?log=yes\n", "/?log=00\n/?log=yes\n", "/own\n"]);
}

#[test]
fn a_full_buffer_is_handed_over_in_whole_lines() {
    let (server, logs) = Server::start(&server("log_format p '$request_uri'; access_log log p buffer=10;"));
    let mut log = one(logs);
    server.ask(get("/1234", "").as_bytes());
    server.ask(get("/12345", "").as_bytes()); // 6 and 7 bytes: the first goes
    assert_eq!(log.line(), "/1234");
    server.ask(get("/longer/than/the/buffer", "").as_bytes());
    assert_eq!(log.line(), "/12345");
    assert_eq!(log.line(), "/longer/than/the/buffer");
    server.stop();
}

#[test]
fn a_buffer_is_handed_over_in_time() {
    let format = "log_format p '$request_uri'; access_log log p buffer=64k flush=1ms;";
    let (server, logs) = Server::start(&server(format));
    let mut log = one(logs);
    for uri in ["/1", "/2", "/3"] {
        server.ask(get(uri, "").as_bytes());
        assert_eq!(log.line(), uri);
    }
    server.stop();
}

/// A connection that has had one answer and stays open.
fn kept_alive(server: &Server) -> std::os::unix::net::UnixStream {
    let mut client = server.connect(Address::Ip(([192, 0, 2, 7], 4711).into()));
    client.write_all(b"GET /kept HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 512];
    while !answer.ends_with(b"OK") {
        let n = client.read(&mut part).unwrap();
        assert!(n > 0);
        answer.extend_from_slice(&part[..n]);
    }
    client
}

const BUFFERED: &str = "log_format p '$request_uri'; access_log log p buffer=64k;";

#[test]
fn a_worker_that_ends_writes_what_it_has_though_clients_are_connected() {
    let (server, logs) = Server::start(&server(BUFFERED));
    let client = kept_alive(&server);
    server.stop();
    assert_eq!(one(logs).rest(), "/kept\n");
    drop(client);
}

#[test]
fn another_configuration_and_reopening_have_buffers_written() {
    let (mut worker, logs) = Server::start(&server(BUFFERED));
    let mut log = one(logs);
    let client = kept_alive(&worker);
    let mut next = one(worker.reload(&server(BUFFERED)));
    assert_eq!(log.line(), "/kept");
    drop(client);
    // No request logs to the old file any more: it is closed.
    worker.ask(get("/new", "").as_bytes());
    assert_eq!(log.rest(), "");
    worker.hand_over();
    assert_eq!(next.line(), "/new");
    worker.stop();
}

#[test]
fn what_a_log_does_not_take_is_counted() {
    let (server, logs) = Server::start(&server("log_format p '$request_uri'; access_log log p;"));
    let log = one(logs);
    let file = server.log();
    let long = "x".repeat(6000);
    let ask = |number: u64| server.ask(get(&format!("/{number}{long}"), "").as_bytes());
    // The pipe is not read. It and the queue accept less than half of the lines.
    let mut sent = 1000;
    (0..sent).for_each(|number| drop(ask(number)));
    let kept = sent - file.lost_in_all();
    assert!(kept < 500, "{kept}");
    let reader = std::thread::spawn(move || log.rest());
    // At some time there is room again.
    while sent - file.lost_in_all() < kept + 20 {
        ask(sent);
        sent += 1;
    }
    server.stop();
    let lost = file.lost_in_all();
    drop(file);
    let text = reader.join().unwrap();
    let numbers: Vec<u64> = text.lines().map(|line| line[1..].trim_end_matches('x').parse().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next));
    assert_eq!(numbers.len() as u64 + lost, sent);
}
