//! Requests whose heads are made of fields, as in HTTP/2.

use super::{Client, Ended, Server, WIDE, origin, read_until};
use std::io::{Read, Write};

/// A GET request for a host and a path.
fn get<'a>(authority: &'a str, path: &'a str) -> [&'a str; 4] {
    [":method=GET", ":scheme=https", path, authority]
}

#[test]
fn variables_are_those_of_http_2() {
    let (server, mut logs) = Server::start(
        "log_format f '$request|$server_protocol|$http2|$scheme|$http_host|$host|$uri|$http_cookie|$request_method|$http_x_a';
         access_log all f; http2 on; server { listen 8080; location / { return 200 $content_length; } }",
    );
    let mut client = Client::connect(&server, WIDE);
    let fields = ["cookie=a=1", "cookie=b=2", "x-a=v"];
    client.ask_by_fields(1, &[&get(":authority=H:81", ":path=/a%20b?c")[..], &fields].concat(), false);
    assert_eq!(client.answer(1).status, 200);
    assert_eq!(logs[0].line(), "GET /a%20b?c HTTP/2.0|HTTP/2.0|h2c|http|H:81|h|/a b|a=1; b=2|GET|v");
    client.ask(2, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.answer(2).status, 200);
    assert_eq!(logs[0].line(), "GET / HTTP/1.1|HTTP/1.1|-|http|h|h|/|-|GET|-");
    server.stop();
}

#[test]
fn malformed_requests_are_answered_and_logged() {
    let (server, mut logs) = Server::start(
        "log_format f '$status|$request|$host'; access_log all f; error_log errors info; http2 on;
         server { listen 8080; server_name d; location / { return 200; } }
         server { listen 8080; server_name u; error_page 400 = /bad; location / { return 200; } location /bad { return 200 bad; } }",
    );
    let mut client = Client::connect(&server, WIDE);
    let wanted = [
        (&["connection=close"][..], "client sent \"Connection\" header", "400|-|d"),
        (&["X-A=1"], "client sent invalid header name: \"X-A\"", "400|-|d"),
        (&[":foo=1"], "client sent unknown pseudo-header \":foo\"", "400|-|d"),
        (&["content-length=5"], "client prematurely closed stream", "400|GET / HTTP/2.0|d"),
    ];
    for (number, (fields, words, line)) in (1..).zip(wanted) {
        client.ask_by_fields(number, &[&get(":authority=d", ":path=/")[..], fields].concat(), false);
        let answer = client.answer(number);
        assert_eq!((answer.status, answer.ended), (400, Ended::Whole));
        assert!(answer.body.starts_with(b"<html>"));
        let logged = logs[1].line();
        assert!(
            logged.contains(&format!("{words} while reading client request headers, client: 192.0.2.7")),
            "{logged}"
        );
        assert_eq!(logs[0].line(), line);
    }
    // The server that the part before the fault names has its own page.
    client.ask_by_fields(9, &[&get(":authority=u", ":path=/")[..], &["te=x"]].concat(), false);
    assert_eq!((client.answer(9).status, &client.have(9).body[..]), (200, &b"bad"[..]));
    server.stop();
}

#[test]
fn methods_and_servers_are_refused() {
    let (server, mut logs) = Server::start(
        "error_log errors info; server { listen 8080; server_name d; http2 on; location / { return 200 $server_name; } }
         server { listen 8080; server_name off; location / { return 200; } }",
    );
    let mut client = Client::connect(&server, WIDE);
    client.ask_by_fields(1, &[&[":method=TRACE"], &get(":authority=d", ":path=/")[1..]].concat(), false);
    assert_eq!(client.answer(1).status, 405);
    assert!(logs[0].line().contains("client sent TRACE method"));
    client.ask_by_fields(2, &[":method=CONNECT", ":authority=d:80"], true);
    assert_eq!(client.answer(2).status, 405);
    assert!(logs[0].line().contains("client sent CONNECT method"));
    client.ask_by_fields(3, &get(":authority=off", ":path=/"), false);
    assert_eq!(client.answer(3).status, 421);
    let logged = logs[0].line();
    assert!(logged.contains("server name for which the negotiated protocol is disabled while reading"), "{logged}");
    client.ask_by_fields(4, &get(":authority=d", ":path=/../x"), false);
    assert_eq!(client.answer(4).status, 400);
    assert!(logs[0].line().contains("client sent invalid request while reading client request headers"));
    client.ask_by_fields(5, &get(":authority=other", ":path=/"), false);
    assert_eq!(&client.answer(5).body[..], b"d");
    server.stop();
}

#[test]
fn an_address_may_have_http_2_for_all_of_its_servers() {
    let (server, _logs) = Server::start(
        "server { listen 8080 http2; server_name d; } server { listen 8080; server_name off; location / { return 200 off; } }",
    );
    let mut client = Client::connect(&server, WIDE);
    client.ask_by_fields(1, &get(":authority=off", ":path=/"), false);
    assert_eq!(&client.answer(1).body[..], b"off");
    server.stop();
}

#[test]
fn the_chosen_server_says_which_names_are_valid() {
    let (server, _logs) = Server::start(
        "http2 on; server { listen 8080; server_name d; location / { return 200 '$http_x_y|$http_z'; } }
         server { listen 8080; server_name u; underscores_in_headers on; location / { return 200 '$http_x_y|$http_z'; } }",
    );
    let mut client = Client::connect(&server, WIDE);
    for (number, (authority, expected)) in (1..).zip([(":authority=d", "|2"), (":authority=u", "1|2")]) {
        client.ask_by_fields(number, &[&get(authority, ":path=/")[..], &["x_y=1", "z=2"]].concat(), false);
        assert_eq!(client.answer(number).body, expected.as_bytes());
    }
    server.stop();
}

#[test]
fn a_websocket_is_opened_by_an_extended_connect() {
    let (port, origin) = origin();
    let (server, _logs) = Server::start(&format!(
        "http2 on; http2_extended_connect on;
         server {{ listen 8080; location / {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1;
                   proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}"
    ));
    let mut client = Client::connect(&server, WIDE);
    let fields = [":method=CONNECT", ":protocol=websocket", ":scheme=http", ":path=/chat", ":authority=h", "x=1"];
    client.ask_by_fields(1, &fields, true);
    let mut upstream = origin.recv().unwrap();
    let asked = String::from_utf8(read_until(&mut upstream, b"\r\n\r\n")).unwrap();
    assert!(asked.starts_with("GET /chat HTTP/1.1\r\n") && asked.contains("Upgrade: websocket\r\n"), "{asked}");
    assert!(asked.contains("x: 1\r\n") && !asked.contains("Transfer-Encoding"), "{asked}");
    upstream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nhello").unwrap();
    client.wait_for(1, b"hello");
    client.send(1, b"there");
    read_until(&mut upstream, b"there");
    client.end(1);
    assert_eq!(upstream.read(&mut [0; 16]).unwrap(), 0);
    drop(upstream);
    assert_eq!((client.answer(1).status, client.have(1).ended), (101, Ended::Whole));
    server.stop();
}
