//! Many clients at once for what is not stored yet.

use std::sync::{Arc, Condvar, Mutex};

use freerun_testkit::{AnsweringUpstream, Kind, Response, Setup, TestServer, TestUpstream, eventually};

use crate::runner::both;
use crate::t13_proxy::proxied::TODAY;

/// How many clients ask at once.
const CLIENTS: usize = 8;

/// An origin that answers when the test says so.
struct Held {
    origin: AnsweringUpstream,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Held {
    fn start(answer: &str) -> Held {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let (waits, answer) = (gate.clone(), answer.to_owned());
        let origin = TestUpstream::answering(move |_| {
            let (open, changed) = &*waits;
            drop(changed.wait_while(open.lock().expect("the gate"), |open| !*open).expect("the gate"));
            answer.clone().into_bytes()
        });
        Held { origin, gate }
    }

    fn open(&self) {
        *self.gate.0.lock().expect("the gate") = true;
        self.gate.1.notify_all();
    }
}

fn server(kind: Kind, origin: &Held, lines: &str) -> TestServer {
    let lines = lines.replace("@UP@", origin.origin.address());
    Setup::new()
        .http(&format!(
            "{TODAY} proxy_cache_path @DIR@/cache keys_zone=z:1m; add_header X-Cache $upstream_cache_status always;
            server {{ listen 127.0.0.1:@PORT@; server_name localhost; location = /probe {{ return 204; }} {lines} }}"
        ))
        .start(kind)
}

/// The bodies and what the cache says of them, sorted, and how often the origin was asked.
fn all_at_once(kind: Kind, answer: &str, lines: &str, asked_before: usize) -> (Vec<(u16, String)>, usize) {
    let held = Held::start(answer);
    let server = server(kind, &held, lines);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    let mut asked = 0;
    for client in &mut clients {
        client.send("GET /a/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    eventually("the origin is asked", || {
        asked += held.origin.take_requests().len();
        asked >= asked_before
    });
    // All requests are read when another, sent behind them, is answered.
    server.get("/probe");
    held.open();
    let shown = |response: Response| (response.status, String::from_utf8_lossy(&response.body).into_owned());
    let mut answers: Vec<_> = clients.iter_mut().map(|client| shown(client.response())).collect();
    answers.sort();
    asked += held.origin.take_requests().len();
    (answers, asked)
}

#[track_caller]
fn same(answer: &str, lines: &str, asked_before: usize) {
    if let Some(both) = both(|kind| all_at_once(kind, answer, lines, asked_before)) {
        both.assert_same(lines);
    }
}

const STORED: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 6\r\n\r\nanswer";
const NOT_STORED: &str = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 6\r\n\r\nanswer";

#[test]
fn one_of_many_asks() {
    same(STORED, "location /a { proxy_cache z; proxy_cache_lock on; proxy_pass http://@UP@; }", 1);
}

#[test]
fn without_a_lock_all_ask() {
    same(STORED, "location /a { proxy_cache z; proxy_pass http://@UP@; }", CLIENTS);
}

#[test]
fn who_does_not_wait_asks() {
    let lines =
        "location /a { proxy_cache z; proxy_cache_lock on; proxy_cache_lock_timeout 0; proxy_pass http://@UP@; }";
    same(STORED, lines, CLIENTS);
}

#[test]
fn what_cannot_be_stored_is_asked_for_by_all() {
    let lines =
        "location /a { proxy_cache z; proxy_cache_lock on; proxy_cache_lock_timeout 1m; proxy_pass http://@UP@; }";
    // nginx lets them through one after the other, half a second apart; freerun all at once.
    let (answers, asked) = all_at_once(Kind::under_test(), NOT_STORED, lines, 1);
    assert_eq!(answers, vec![(200, "answer".to_owned()); CLIENTS]);
    assert_eq!(asked, CLIENTS);
}
