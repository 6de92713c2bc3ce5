//! Which server is asked after which, what the client gets, what is logged: all pairs of servers that work and that fail in
//! some way, under all conditions for a next try.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use freerun_testkit::{RefusingAddress, Setup, Site, TestClient, TestServer, eventually};

use crate::runner::observe;
use crate::t13_proxy::proxied::TODAY;

/// What the servers behind do.
const KINDS: [&str; 9] = ["ok", "refuse", "close", "half", "garbage", "hang", "500", "503", "404"];

/// Conditions for a next try.
const CONDITIONS: [&str; 5] = [
    "",
    "proxy_next_upstream off;",
    "proxy_next_upstream invalid_header http_500 http_503 http_404;",
    "proxy_next_upstream error timeout http_500 http_503 non_idempotent; proxy_next_upstream_tries 2;",
    "proxy_next_upstream error timeout http_500 http_404; proxy_next_upstream_tries 1;",
];

/// A server that does that with each request; its address.
fn behind(kind: &'static str) -> String {
    let answer: &[u8] = match kind {
        "refuse" => {
            // For as long as the tests run.
            let refusing = Box::leak(Box::new(RefusingAddress::new()));
            return refusing.address();
        }
        "ok" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "close" => b"",
        "half" => b"HTTP/1.1 200 OK\r\nX-Not",
        "garbage" => b"HTTP/1.1 200 OK\r\nno colon \x00 here\r\n\r\n",
        "hang" => b"hang",
        "500" => b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nfive",
        "503" => b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfive",
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut request = [0; 65536];
                if !matches!(stream.read(&mut request), Ok(1..)) {
                    return;
                }
                if answer == b"hang" {
                    // Until the server gives up.
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                    let _ = stream.read(&mut request);
                    return;
                }
                let _ = stream.write_all(answer);
            });
        }
    });
    address
}

/// A request, and whether its servers take their time.
struct Ask {
    bytes: String,
    hangs: bool,
}

/// What a server says of each of the requests, in their order.
fn told(server: &TestServer, requests: &[Ask], names: &[(String, &str)]) -> Vec<String> {
    let renamed = |text: &str| names.iter().fold(text.to_owned(), |text, (address, name)| text.replace(address, name));
    // Those that hang are waited for together, so that a busy machine can be given time enough.
    let begin = |ask: &Ask| {
        let mut client = server.connect();
        client.send(&ask.bytes);
        client
    };
    let begun: Vec<Option<TestClient>> = requests.iter().map(|ask| ask.hangs.then(|| begin(ask))).collect();
    let answer = |(ask, begun): (&Ask, Option<TestClient>)| begun.unwrap_or_else(|| begin(ask)).response().text();
    let bodies: Vec<String> = requests.iter().zip(begun).map(answer).collect();
    eventually("all lines of the log", || server.access_log().lines().count() >= requests.len());
    let (access, errors) = (server.access_log(), server.error_log_of_traffic());
    bodies
        .into_iter()
        .enumerate()
        .map(|(number, body)| {
            // A request may be logged after the next one has been answered.
            let own = format!("/{number} ");
            let line = access.lines().find_map(|line| line.strip_prefix(&own)).expect("a line for each request");
            let of_it = format!(" /{number} HTTP");
            let words = errors.lines().filter(|line| line.contains(&of_it)).filter_map(|line| {
                let message = line.split_once(": *")?.1.split_once(' ')?.1.split_once(", client: ")?.0;
                let level = line.split(['[', ']']).nth(1)?;
                Some(format!("{level}: {message}"))
            });
            let words: Vec<String> = words.collect();
            // The page of an error has the server's name in it.
            let body = if body.contains("<html>") { "page" } else { body.as_str() };
            renamed(&format!("{line} body {body:?} log {words:?}"))
        })
        .collect()
}

#[test]
fn all_pairs() {
    let behind: Vec<(String, &str)> = KINDS.map(|kind| (behind(kind), kind)).to_vec();
    let (mut groups, mut locations, mut requests, mut shown) = (String::new(), String::new(), Vec::new(), Vec::new());
    for (condition, lines) in CONDITIONS.iter().enumerate() {
        for (first, one) in &behind {
            for (second, two) in &behind {
                // All with the first one that fails, some with those that work: and not all of those that take their time.
                let interesting =
                    *two == "ok" || *one == "ok" && condition == 0 || one == two && *one != "hang" || condition == 3;
                if !interesting || *two == "hang" && *one != "503" {
                    continue;
                }
                for method in ["GET", "POST"] {
                    let number = requests.len();
                    groups +=
                        &format!("upstream u{number} {{ server {first} max_fails=0; server {second} max_fails=0; }}\n");
                    let hangs = [one, two].contains(&&"hang");
                    let time = if hangs { "proxy_read_timeout 3s;" } else { "" };
                    locations += &format!("location = /{number} {{ {lines} {time} proxy_pass http://u{number}; }}\n");
                    let body = if method == "POST" { "Content-Length: 4\r\n\r\nbody" } else { "\r\n" };
                    let bytes = format!("{method} /{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{body}");
                    requests.push(Ask { bytes, hangs });
                    shown.push(format!("{method} to {one} and {two}, {lines}"));
                }
            }
        }
    }
    let http = format!(
        "log_format tries '$uri $status upstream $upstream_status at $upstream_addr length $upstream_response_length';
         access_log @DIR@/access.log tries; {TODAY}
         {groups} server {{ listen 127.0.0.1:@PORT@; {locations} }}"
    );
    let setup = Setup::new().root(&Site::new()).http(&http);
    if let Some(told) = observe(&setup, |server| told(server, &requests, &behind)) {
        told.assert_same_cases(|number| shown[number].clone());
    }
}
