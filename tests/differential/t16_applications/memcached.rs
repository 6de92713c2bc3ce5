//! memcached.

use crate::runner::observe;
use freerun_testkit::{Setup, eventually};

use super::recorder::{Protocol, Recorder};
use super::{Ask, alike, ask, ask_with};

const GOOD: &str = "VALUE k 0 2\r\nok\r\nEND\r\n";
const LINES: &str = "
    default_type text/plain;
    location / { set $memcached_key $arg_k; memcached_pass @ADDRESS@; memcached_gzip_flag 2; }
    location /uri { set $memcached_key $uri; memcached_pass @ADDRESS@; }
    location /page { set $memcached_key k; memcached_pass @ADDRESS@; error_page 404 = @made; }
    location @made { return 200 made; }";

#[test]
fn values() {
    let asked = |answer: &str| ask("/?k=k").answered(answer);
    let asks: Vec<Ask> = vec![
        asked(GOOD),
        asked("END\r\n"),
        asked("VALUE k 1 2\r\nok\r\nEND\r\n"),
        asked("VALUE k 0 0\r\n\r\nEND\r\n"),
        asked("VALUE j 0 2\r\nok\r\nEND\r\n"),
        asked("VALUE kk 0 2\r\nok\r\nEND\r\n").log_differs("nginx does not see that it is another key"),
        asked("VALUE k 0 x\r\nok\r\nEND\r\n"),
        asked("VALUE k 0 -2\r\nok\r\nEND\r\n"),
        asked("VALUE k 0 2 99\r\nok\r\nEND\r\n"),
        asked("VALUE k x 2\r\nok\r\nEND\r\n"),
        asked("VALUE k  0 2\r\nok\r\nEND\r\n"),
        asked("VALUE k 0\r\nok\r\nEND\r\n"),
        asked("ERROR\r\n"),
        asked("SERVER_ERROR out of memory\r\n"),
        asked("END\n"),
        asked("VALUE k 0 2\nok\r\nEND\r\n"),
        asked("VALUE k 0 2"),
        asked(""),
        asked(&"x".repeat(5000)),
        ask_with("HEAD", "/?k=k", "", b"").answered(GOOD),
        ask_with("POST", "/?k=k", "Content-Length: 2\r\n", b"ab").answered(GOOD),
        ask_with("GET", "/?k=k", "Range: bytes=1-1\r\n", b"").answered(GOOD),
        ask("/?k=").answered(GOOD),
        ask("/?x").answered(GOOD),
        ask("/?k=a%20b").answered("END\r\n"),
        ask("/uri%20%25%01%7f%C3%A9%0a%0d+\"")
            .answered("END\r\n")
            .log_differs("control characters are escaped in our log"),
        ask("/uri.css").answered("VALUE /uri.css 0 2\r\nok\r\nEND\r\n"),
        ask("/page").answered("END\r\n"),
        ask("/page").answered(GOOD),
        ask("/page").answered("ERROR\r\n"),
        ask_with("GET", "/?k=k", "Accept-Encoding: gzip\r\n", b"").answered("VALUE k 2 2\r\nok\r\nEND\r\n"),
    ];
    alike(Protocol::Memcached, LINES, &asks);
}

/// nginx sends the client all of a value, whatever stands behind it, and logs that.
#[test]
fn values_that_do_not_end_as_was_said() {
    const CUT: &str = "a value is whole when its end has come";
    const WRONG: &str = "a value with another length than was said is not sent";
    let asked = |answer: &str| ask("/?k=k").answered(answer);
    let long = "x".repeat(500_000);
    let asks: Vec<Ask> = vec![
        asked("VALUE k 0 2\r\no").cut("fewer bytes than were said"),
        asked("VALUE k 0 2\r\nok").cut(CUT),
        asked("VALUE k 0 2\r\nok\r\nEND").cut(CUT),
        asked("VALUE k 0 0\r\n\r\nEN").differs(CUT, "HTTP/1.1 502 Bad Gateway"),
        asked("VALUE k 0 5\r\nok\r\nEND\r\n").differs(WRONG, "HTTP/1.1 502 Bad Gateway"),
        asked("VALUE k 0 3\r\nhello\r\nEND\r\n").differs(WRONG, "HTTP/1.1 502 Bad Gateway"),
        asked("VALUE k 0 5\r\nhello\r\nEVIL").differs(WRONG, "HTTP/1.1 502 Bad Gateway"),
        asked("VALUE k 0 0\r\nEVIL\r").differs(WRONG, "HTTP/1.1 502 Bad Gateway"),
        asked(&format!("VALUE k 0 500000\r\n{long}\r\nEVIL\r\n")).cut(WRONG),
        asked(&format!("VALUE k 0 500000\r\n{long}\r\nEND\r\nEXTRA"))
            .log_differs("what nginx says it is doing depends on chance"),
    ];
    alike(Protocol::Memcached, LINES, &asks);
}

#[test]
fn parts_of_a_value() {
    let mut asks: Vec<Ask> = Vec::new();
    for range in ["0-1", "0-1,4-5", "20-30", "20-30,40-", "0-1,20-30", "-3", "0-9,0-1", "0-1,1-2,2-3,3-4,4-5,5-6", "x"]
    {
        for (method, more) in [("GET", ""), ("HEAD", ""), ("GET", "If-Range: \"x\"\r\n")] {
            let asked = ask_with(method, "/?k=k", &format!("Range: bytes={range}\r\n{more}"), b"");
            asks.push(asked.answered("VALUE k 0 10\r\n0123456789\r\nEND\r\n"));
        }
    }
    alike(Protocol::Memcached, LINES, &asks);
    alike(Protocol::Memcached, &format!("max_ranges 0; {LINES}"), &asks);
    alike(Protocol::Memcached, &format!("max_ranges 1; {LINES}"), &asks);
}

#[test]
fn the_line_before_a_value() {
    let lines = "
        location / { set $memcached_key k; memcached_pass @ADDRESS@; memcached_gzip_flag 2; }
        location /plain { set $memcached_key k; memcached_pass @ADDRESS@; }
        location /large { set $memcached_key k; memcached_pass @ADDRESS@; memcached_buffer_size 16k; }
        location /small { set $memcached_key k; memcached_pass @ADDRESS@; memcached_buffer_size 1k; }";
    let long = format!("VALUE k 0 {}2\r\nok\r\nEND\r\n", "0".repeat(5000));
    let mut asks = Vec::new();
    for flags in ["-1", "x", "", "99999999999999999999", "2"] {
        let answer = format!("VALUE k {flags} 2\r\nok\r\nEND\r\n");
        asks.extend(["/", "/plain"].map(|target| ask(target).answered(&answer)));
    }
    asks.extend(["/large", "/small"].map(|target| ask(target).answered(&long)));
    asks.push(ask("/large").answered("x".repeat(20_000)));
    alike(Protocol::Memcached, lines, &asks);
}

/// Of two servers the second one has the value, or none has it: what each location answers, and which servers it has asked.
#[test]
fn the_next_server_for_a_value_that_is_not_found() {
    let [lacks, has, lacks_too] = [b"END\r\n".as_slice(), b"VALUE k 0 2\r\nok\r\nEND\r\n", b"END\r\n"].map(|answer| {
        let recorder = Recorder::start(Protocol::Memcached);
        recorder.answer_with(answer);
        recorder
    });
    // Each location has groups of its own, so that it begins with the first server.
    let conditions = ["not_found", "error not_found", "NOT_FOUND", "error timeout", "invalid_response", "off"];
    let (mut groups, mut locations) = (String::new(), String::new());
    for (number, condition) in conditions.iter().enumerate() {
        for (name, second) in [("has", &has), ("lacks", &lacks_too)] {
            let (first, second) = (lacks.address(), second.address());
            groups += &format!("upstream {name}{number} {{ server {first}; server {second} backup; }}\n");
            locations += &format!(
                "location = /{name}/{number} {{ set $memcached_key k; memcached_pass {name}{number};
                    memcached_next_upstream {condition}; }}\n"
            );
        }
    }
    let http = format!(
        "log_format tries '$uri $status upstream $upstream_status'; access_log @DIR@/access.log tries;
         {groups} server {{ listen 127.0.0.1:@PORT@; {locations} }}"
    );
    let told = observe(&Setup::new().http(&http), |server| {
        for number in 0..conditions.len() {
            for name in ["has", "lacks"] {
                let request = format!("GET /{name}/{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                let mut client = server.connect();
                client.send(&request);
                client.response();
            }
        }
        eventually("all lines of the log", || server.access_log().lines().count() >= 2 * conditions.len());
        let mut lines: Vec<String> = server.access_log().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    });
    let Some(told) = told else { return };
    assert!(told.nginx[0].ends_with("200 upstream 404, 200"), "{told:?}");
    told.assert_same_lines("the servers that were asked");
}
