//! Logs as objects of JSON, for programs that collect the logs of containers.

use freerun_testkit::{Setup, TestUpstream, eventually, ok, require};
use serde_json::Value;

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn the_format_json_is_there_and_may_be_defined_anew() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|_| ok("hello"));
    let server = Setup::new()
        .http(&format!(
            "server {{ listen 127.0.0.1:@PORT@; access_log @DIR@/json.log json; location / {{ proxy_pass http://{}; }} }}",
            upstream.address()
        ))
        .stream("server { listen 127.0.0.1:@PORT2@; access_log @DIR@/stream.log json; return over; }")
        .freerun();
    server.send("GET /a?\u{1}\"b HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    server.send("GET /a?\"b\\ HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: \"q\" \\ \u{e9}\r\n\r\n");
    let read = |file: &str| std::fs::read_to_string(server.path(file)).unwrap_or_default();
    eventually("two lines are there", || read("json.log").lines().count() == 2);
    let lines = objects(&read("json.log"));
    assert_eq!(lines[0]["status"], "400");
    let line = &lines[1];
    for (field, value) in [
        ("method", "GET"),
        ("host", "shop.example"),
        ("uri", "/a?\"b\\"),
        ("protocol", "HTTP/1.1"),
        ("status", "200"),
        ("user_agent", "\"q\" \\ \u{e9}"),
        ("upstream_addr", upstream.address()),
        ("upstream_status", "200"),
        ("referer", ""),
    ] {
        assert_eq!(line[field], value, "{line}");
    }
    assert_eq!((line["body_bytes_sent"].as_u64(), line["request_time"].is_f64()), (Some(5), true), "{line}");
    let mut client = std::net::TcpStream::connect(server.address_number(2)).expect("a connection");
    std::io::Read::read_to_string(&mut client, &mut String::new()).expect("text");
    eventually("a session is logged", || read("stream.log").lines().count() == 1);
    assert_eq!(objects(&read("stream.log"))[0]["bytes_sent"], 4);
    let own = Setup::new()
        .http(
            "log_format json escape=json '{\"own\":\"$uri\"}';
             server { listen 127.0.0.1:@PORT@; access_log @DIR@/json.log json; return 200; }",
        )
        .freerun();
    own.get("/x");
    let read = || std::fs::read_to_string(own.path("json.log")).unwrap_or_default();
    eventually("a line is there", || read() == "{\"own\":\"/x\"}\n");
}

#[test]
fn the_error_log_may_be_json() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .http(
            "error_log @DIR@/json.log info format=json; error_log @DIR@/text.log info;
             server { listen 127.0.0.1:@PORT@; root @DIR@/none; }",
        )
        .freerun();
    server.send("GET /a\"b\\c HTTP/1.1\r\nHost: h\r\n\r\n");
    let read = |file: &str| std::fs::read_to_string(server.path(file)).unwrap_or_default();
    let of = || objects(&read("json.log")).into_iter().find(|line| line["level"] == "error");
    eventually("the error is there", || of().is_some());
    let line = of().expect("a line");
    let message = line["message"].as_str().expect("a message");
    assert!(message.contains("a\"b\\c\" failed (2: No such file or directory), client: 127.0.0.1"), "{line}");
    assert!(line["connection"].as_u64() > Some(0) && line["pid"].as_u64() > Some(0) && line["time"].is_string());
    eventually("the other log has the same as text", || read("text.log").contains(message));
}
