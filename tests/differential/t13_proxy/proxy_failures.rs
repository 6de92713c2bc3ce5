//! What counts against a server, and so decides who is asked for the next requests: `max_fails` at its default, requests one
//! after the other, which say themselves what the servers do with them.

use freerun_testkit::{ReceivedRequest, Setup, Site, TestClient, TestServer, TestUpstream, eventually, ok};

use crate::runner::observe;
use crate::t13_proxy::proxied::TODAY;

/// What a server does with a request.
fn answer(request: &ReceivedRequest) -> Vec<u8> {
    let status = |line: &str| format!("HTTP/1.1 {line}\r\nContent-Length: 4\r\n\r\nfive").into_bytes();
    match request.target().rsplit('/').next().unwrap_or_default() {
        "500" => status("500 Internal Server Error"),
        "503" => status("503 Service Unavailable"),
        "429" => status("429 Too Many Requests"),
        "404" => status("404 Not Found"),
        // Neither is all of what the head announces.
        "cut" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n1".to_vec(),
        "chunk" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n".to_vec(),
        "garbage" => b"HTTP/1.1 200 OK\r\nno colon \x00 here\r\n\r\n".to_vec(),
        "nothing" => Vec::new(),
        _ => ok("ok"),
    }
}

/// Not among them is what freerun does otherwise (tests/requests/t13_proxy/proxy_tries.rs): where no other server can be asked, the response that is there
/// is passed on, and not replaced by a page for 502.
///
/// A group's servers, where `1` and `2` stand for their addresses; the location's lines; the requests.
const STORIES: &[(&str, &str, &str)] = &[
    ("server 1; server 2;", "proxy_next_upstream error timeout http_500;", "500 - - - -"),
    ("server 1; server 2;", "proxy_next_upstream error timeout http_500;", "POST:500 POST:500 POST:500 - - -"),
    ("server 1; server 2;", "proxy_next_upstream error timeout http_500 non_idempotent;", "POST:500 - - -"),
    ("server 1; server 2;", "proxy_next_upstream error http_503; proxy_next_upstream_tries 1;", "503 503 503 - - -"),
    ("server 1; server 2;", "proxy_next_upstream http_429;", "429 - -"),
    ("server 1; server 2;", "proxy_next_upstream http_404;", "404 404 - - -"),
    ("server 1 max_fails=2; server 2 max_fails=2;", "proxy_next_upstream http_500;", "500 500 - - - 500 - -"),
    ("server 1; server 2 backup;", "proxy_next_upstream http_500;", "500 - -"),
    ("server 1 down; server 2 backup;", "proxy_next_upstream http_503;", "503 - - -"),
    ("server 1;", "proxy_next_upstream http_503;", "503 - - -"),
    ("server 1; server 2;", "", "cut - - - -"),
    ("server 1; server 2;", "proxy_buffering off;", "cut cut - - - -"),
    ("server 1; server 2;", "", "chunk - - - -"),
    ("server 1; server 2;", "", "nothing - - - -"),
    ("server 1; server 2;", "proxy_next_upstream off;", "nothing - - - -"),
    ("server 1; server 2;", "proxy_next_upstream_tries 1;", "nothing nothing - - -"),
    ("server 1; server 2;", "", "POST:nothing - - -"),
    ("server 1; server 2;", "proxy_next_upstream invalid_header;", "garbage - - -"),
    ("server 1; server 2;", "proxy_next_upstream error;", "garbage - - - -"),
];

/// What came of each request of each story.
fn told(server: &TestServer, addresses: &[String; 2]) -> Vec<String> {
    let mut count = 0;
    for (number, (_, _, requests)) in STORIES.iter().enumerate() {
        for request in requests.split(' ') {
            let (method, what) = request.split_once(':').unwrap_or(("GET", request));
            let body = if method == "POST" { "Content-Length: 4\r\n\r\nbody" } else { "\r\n" };
            let mut client = TestClient::connect(server.address());
            client.send(format!("{method} /{number}/{what} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{body}"));
            let _ = client.rest();
            count += 1;
            eventually("a line of the log", || server.access_log().lines().count() == count);
        }
    }
    let seen = |text: &str| {
        let text = text.replace(&addresses[0], "1").replace(&addresses[1], "2");
        // Times say whether there was a head.
        let (line, head) = text.split_once(" head ").expect("a line of ours");
        let head: Vec<&str> = head.split(", ").map(|time| if time == "-" { "none" } else { "came" }).collect();
        format!("{line} head {}", head.join(", "))
    };
    server.access_log().lines().map(seen).collect()
}

/// A server with a group and a location for each story.
fn setup(addresses: &[String; 2]) -> Setup {
    let (mut groups, mut locations) = (String::new(), String::new());
    for (number, (servers, lines, _)) in STORIES.iter().enumerate() {
        let servers = servers.replace("server 1", &format!("server {}", addresses[0]));
        let servers = servers.replace("server 2", &format!("server {}", addresses[1]));
        groups += &format!("upstream u{number} {{ {servers} }}\n");
        locations += &format!("location /{number}/ {{ {lines} proxy_pass http://u{number}; }}\n");
    }
    let http = format!(
        "log_format tries '$uri $status upstream $upstream_status at $upstream_addr head $upstream_header_time';
         access_log @DIR@/access.log tries; {TODAY}
         {groups} server {{ listen 127.0.0.1:@PORT@; {locations} }}"
    );
    Setup::new().root(&Site::new()).http(&http)
}

#[test]
fn what_counts_against_a_server() {
    let servers = [TestUpstream::answering(answer), TestUpstream::answering(answer)];
    let addresses = servers.each_ref().map(|server| server.address().to_owned());
    if let Some(told) = observe(&setup(&addresses), |server| told(server, &addresses)) {
        told.assert_same_cases(|number| format!("request {}", number + 1));
    }
}
