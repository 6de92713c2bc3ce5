//! Access and error logs.

use freerun_testkit::{Setup, Site, TestClient, TestServer, eventually};
use rustix::process::Signal;
use std::fs;
use std::io::Read as _;

fn site() -> Site {
    let site = Site::new();
    site.file("a", "0123456789");
    site
}

#[test]
fn the_combined_format() {
    let site = site();
    let server = Setup::server(&site, "").run();
    let fields =
        "Referer: http://r/\r\nUser-Agent: Agent \"q\" \\ \u{1}\u{e9}\r\nAuthorization: Basic dXNlcjpwYXNz\r\n";
    server.get_with("/a?x=1", fields);
    server.send("HEAD /a HTTP/1.0\r\n\r\n");
    let lines = server.access_lines(2);
    let (head, rest) = lines[0].split_once('[').expect("a time");
    assert_eq!(head, "127.0.0.1 - user ");
    let (time, rest) = rest.split_once(']').expect("its end");
    assert_eq!((time.len(), time.as_bytes()[2], time.as_bytes()[11]), (26, b'/', b':'), "{time}");
    assert_eq!(rest, " \"GET /a?x=1 HTTP/1.1\" 200 10 \"http://r/\" \"Agent \\x22q\\x22 \\x5C \\x01\\xC3\\xA9\"");
    assert!(lines[1].ends_with("] \"HEAD /a HTTP/1.0\" 200 0 \"-\" \"-\""), "{}", lines[1]);
}

#[test]
fn formats_and_variables() {
    let site = site();
    let http =
        "log_format one '$remote_addr|$request_method|$uri|$args|$status|$body_bytes_sent|$bytes_sent|$request_length|'
            '$connection_requests|$pipe|$scheme|$server_name|$host|$sent_http_content_type|$request_completion|$http_x';
        log_format json escape=json '{\"uri\":\"$request_uri\",\"x\":\"$http_x\"}';
        log_format raw escape=none '$http_x';
        access_log @DIR@/access.log one; access_log @DIR@/json.log json; access_log @DIR@/raw.log raw;";
    let setup =
        Setup::new().root(&site).http(http).http("server { listen 127.0.0.1:@PORT@; server_name n; root @ROOT@; }");
    let server = setup.run();
    let mut client = server.connect();
    client.send("GET /a?q HTTP/1.1\r\nHost: h\r\nX: \"quote\"\t\\ <\r\n\r\n");
    let response = client.response();
    let request = "GET /none HTTP/1.1\r\nHost: h\r\n\r\n";
    client.send(format!("{request}{request}"));
    client.response();
    client.response();
    let lines = server.access_lines(3);
    let sent = lines[0].split('|').nth(6).and_then(|n| n.parse::<usize>().ok()).expect("bytes_sent");
    assert!(sent > 150 && response.body.len() == 10);
    let expected =
        format!("127.0.0.1|GET|/a|q|200|10|{sent}|46|1|.|http|n|h|text/plain|OK|\\x22quote\\x22\\x09\\x5C <");
    assert_eq!(lines[0], expected);
    assert!(lines[1].contains("|404|") && lines[1].contains("|2|"), "{}", lines[1]);
    assert!(lines[2].contains("|3|p|"), "the third was pipelined: {}", lines[2]);
    let lines_of = |name: &str| fs::read_to_string(server.path(name)).map_or(0, |text| text.lines().count());
    eventually("the other logs", || lines_of("raw.log") >= 3 && lines_of("json.log") >= 3);
    let json = fs::read_to_string(server.path("json.log")).expect("json.log");
    assert_eq!(json.lines().next(), Some("{\"uri\":\"/a?q\",\"x\":\"\\\"quote\\\"\\t\\\\ <\"}"));
    let raw = fs::read_to_string(server.path("raw.log")).expect("raw.log");
    assert_eq!(raw.lines().next(), Some("\"quote\"\t\\ <"));
}

#[test]
fn where_a_request_is_logged() {
    let site = site();
    let lines = "
        access_log @DIR@/access.log;
        location /off { access_log off; return 200; }
        location /own { access_log @DIR@/own.log; return 200; }
        location /both { access_log @DIR@/own.log; access_log @DIR@/second.log; return 200; }
        location /if { access_log @DIR@/own.log combined if=$arg_log; return 200; }
    ";
    let server = Setup::server(&site, lines).run();
    for target in ["/off", "/own", "/both", "/if", "/if?log=0", "/if?log=1", "/a"] {
        server.get(target);
    }
    let lines = server.access_lines(1);
    assert!(lines.len() == 1 && lines[0].contains("/a "), "{lines:?}");
    let own = || fs::read_to_string(server.path("own.log")).unwrap_or_default();
    eventually("own.log", || own().lines().count() >= 3);
    let own = own();
    let targets: Vec<&str> = own.lines().filter_map(|line| line.split(' ').nth(6)).collect();
    assert_eq!(targets, ["/own", "/both", "/if?log=1"]);
    eventually("second.log", || fs::read_to_string(server.path("second.log")).is_ok_and(|text| text.contains("/both")));
}

#[test]
fn buffered_lines_are_written_in_the_end() {
    let site = site();
    let http = "access_log @DIR@/access.log combined buffer=64k flush=1s;
        server { listen 127.0.0.1:@PORT@; root @ROOT@; }
        server { listen 127.0.0.1:@PORT2@; root @ROOT@; access_log @DIR@/late.log combined buffer=64k; }";
    let mut server = Setup::new().root(&site).http(http).run();
    for _ in 0..10 {
        server.get("/a");
        freerun_testkit::TestClient::connect(server.address_number(2)).get("/a");
    }
    // By its time, and otherwise at the end of the server.
    assert_eq!(server.access_lines(10).len(), 10);
    server.signal(Signal::QUIT);
    server.wait();
    let late = fs::read_to_string(server.path("late.log")).expect("late.log");
    assert_eq!(late.lines().count(), 10);
}

#[test]
fn gathered_lines_outlive_a_reload() {
    if !freerun_testkit::require::freerun() {
        return;
    }
    let site = site();
    let http = "access_log @DIR@/plain combined buffer=64k; access_log @DIR@/packed.gz combined gzip; access_log @DIR@/by-$arg_n;
        server { listen 127.0.0.1:@PORT@; root @ROOT@; location /v { return 200 one; } }";
    let mut server = Setup::new().root(&site).main("user root;").http(http).run();
    for _ in 0..7 {
        server.get("/a?n=x");
    }
    server.edit("return 200 one", "return 200 two");
    server.reload();
    eventually("the new configuration", || server.get("/v?n=y").text() == "two");
    for _ in 0..3 {
        server.get("/a?n=x");
    }
    server.signal(Signal::QUIT);
    server.wait();
    let text = fs::read_to_string(server.path("plain")).expect("the log");
    assert_eq!(text.matches("/a?n=x").count(), 10);
    let mut packed = String::new();
    let file = fs::File::open(server.path("packed.gz")).expect("the packed log");
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(file), &mut packed).expect("whole members");
    assert_eq!(packed, text);
    assert_eq!(fs::read_to_string(server.path("by-x")).expect("the named log").lines().count(), 10);
}

#[test]
fn named_logs_are_made_anew_when_logs_are_reopened() {
    let site = site();
    let lines = "access_log @DIR@/by-$arg_n; open_log_file_cache max=10 valid=1h inactive=1h;";
    let server = Setup::server(&site, lines).main("user root;").run();
    server.get("/a?n=x");
    eventually("a log", || server.path("by-x").exists());
    fs::rename(server.path("by-x"), server.path("old")).expect("renaming");
    if server.kind() == freerun_testkit::Kind::Nginx {
        return;
    }
    server.signal(Signal::USR1);
    eventually("another log", || {
        server.get("/a?n=x");
        server.path("by-x").exists()
    });
}

/// What was logged before stays in the files that were renamed, and what is logged then comes into new ones.
fn logs_are_opened_anew(by: impl FnOnce(&TestServer)) {
    let site = site();
    let server = Setup::server(&site, "").run();
    server.get("/a");
    server.access_lines(1);
    fs::rename(server.path("access.log"), server.path("access.old")).expect("renaming");
    fs::rename(server.path("error.log"), server.path("error.old")).expect("renaming");
    by(&server);
    eventually("new files", || server.path("access.log").exists() && server.path("error.log").exists());
    // A request may still meet the old file while the workers are told.
    eventually("lines in the new files", || {
        server.get("/none");
        server.access_log().contains("/none") && server.error_log().contains("/none")
    });
    assert!(fs::read_to_string(server.path("access.old")).expect("the old file").contains("\"GET /a HTTP/1.1\" 200"));
}

#[test]
fn reopening() {
    logs_are_opened_anew(|server| {
        server.signal(Signal::USR1);
    });
}

#[test]
fn a_reload_opens_logs_anew() {
    logs_are_opened_anew(|server| {
        server.reload();
    });
}

/// Rotates a log of two servers again and again: the lines of the requests before belong into the file that was renamed, all of
/// them and no others.
fn rotations(main: &str, log: &str, read: impl Fn(&[u8]) -> String, by: impl Fn(&TestServer)) {
    const ROTATIONS: usize = 40;
    const REQUESTS: usize = 6;
    // One of them has the log from the block around it, the other one names it.
    let http = format!(
        "log_format plain '$request_uri'; access_log @DIR@/a.log plain {log};
        server {{ listen 127.0.0.1:@PORT@; return 204; }}
        server {{ listen 127.0.0.1:@PORT2@; access_log @DIR@/a.log plain {log}; return 204; }}"
    );
    let server = Setup::new().main(main).http(&http).run();
    for rotation in 0..ROTATIONS {
        for request in 0..REQUESTS {
            TestClient::connect(server.address_number(1 + request % 2)).get(&format!("/{rotation}/{request}"));
        }
        let old = server.path(&format!("a.{rotation}"));
        fs::rename(server.path("a.log"), &old).expect("renaming");
        by(&server);
        eventually("a new file", || server.path("a.log").exists());
        let lines = || read(&fs::read(&old).expect("the old file")).lines().map(str::to_owned).collect::<Vec<_>>();
        eventually("the lines are in the old file", || lines().len() >= REQUESTS);
        let mut lines = lines();
        lines.sort();
        let wanted: Vec<_> = (0..REQUESTS).map(|request| format!("/{rotation}/{request}")).collect();
        assert_eq!(lines, wanted, "rotation {rotation}");
    }
}

fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn buffered_lines_of_sessions_are_in_the_file_that_was_renamed() {
    let stream = "log_format plain '$bytes_sent'; access_log @DIR@/s.log plain buffer=32k;
        server { listen 127.0.0.1:@PORT2@; return text; }";
    let server = Setup::server(&site(), "").main("worker_processes 2;").stream(stream).run();
    for rotation in 0..20 {
        for _ in 0..5 {
            assert_eq!(TestClient::connect(server.address_number(2)).rest().0, b"text");
        }
        let old = server.path(&format!("s.{rotation}"));
        fs::rename(server.path("s.log"), &old).expect("renaming");
        if rotation % 2 == 0 {
            server.signal(Signal::USR1);
        } else {
            // A session that comes before it is done may still have its line in the file before.
            server.reload();
        }
        let lines = || fs::read_to_string(&old).expect("the old file").lines().count();
        eventually("the lines are in the old file", || lines() >= 5);
        assert_eq!(lines(), 5, "rotation {rotation}");
        eventually("a new file", || server.path("s.log").exists());
    }
}

/// The text of the members of gzip that are complete.
fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    let _ = flate2::read::MultiGzDecoder::new(bytes).read_to_string(&mut text);
    text
}

#[test]
fn buffered_lines_are_in_the_file_that_was_renamed_before_reopening() {
    for (main, log) in [("", "buffer=32k"), ("worker_processes 2;", "buffer=32k flush=1h")] {
        rotations(main, log, plain, |server| server.signal(Signal::USR1));
    }
    rotations("worker_processes 2;", "gzip flush=1h", unpacked, |server| server.signal(Signal::USR1));
}

#[test]
fn buffered_lines_are_in_the_file_that_was_renamed_before_a_reload() {
    rotations("", "buffer=32k", plain, |server| server.signal(Signal::HUP));
    rotations("worker_processes 2;", "gzip=3", unpacked, |server| server.signal(Signal::HUP));
}

#[test]
fn error_lines_have_nginx_s_form() {
    let site = site();
    let server = Setup::server(&site, "").run();
    server.get_with("/none?x", "Referer: http://r/\r\n");
    server.logs("No such file or directory");
    let log = server.error_log();
    let line = log.lines().find(|line| line.contains("/none")).expect("the line");
    let (stamp, rest) = line.split_once(" [error] ").expect("the level");
    assert_eq!((stamp.len(), &stamp[4..5], &stamp[10..11]), (19, "/", " "), "{line}");
    let (who, what) = rest.split_once(": *").expect("pid#tid");
    let (pid, thread) = who.split_once('#').expect("two numbers");
    assert!(server.workers().contains(&pid.parse().expect("a pid")) && thread.parse::<u32>().is_ok(), "{line}");
    let (_, what) = what.split_once(' ').expect("the connection's number");
    let expected = format!(
        "open() \"{}/none\" failed (2: No such file or directory), client: 127.0.0.1, server: localhost, request: \
         \"GET /none?x HTTP/1.1\", host: \"localhost\", referrer: \"http://r/\"",
        site.path().display()
    );
    assert_eq!(what, expected);
}

#[test]
fn levels_are_kept() {
    let site = site();
    let http = "server { listen 127.0.0.1:@PORT@; root @ROOT@; error_log @DIR@/quiet.log crit; }
        server { listen 127.0.0.1:@PORT2@; root @ROOT@; error_log @DIR@/own.log error; }";
    let server = Setup::new().root(&site).http(http).run();
    server.get("/none");
    freerun_testkit::TestClient::connect(server.address_number(2)).get("/none");
    eventually("own.log", || fs::read_to_string(server.path("own.log")).is_ok_and(|text| text.contains("/none")));
    assert_eq!(fs::read_to_string(server.path("quiet.log")).expect("quiet.log"), "");
}

/// A log line of a request that is refused for its host shows what the client has sent.
#[test]
fn a_refused_host_is_in_the_log() {
    let format = "log_format l '$http_host $status'; access_log @DIR@/access.log l;";
    let server = Setup::server(&Site::new(), "").http(format).freerun();
    let hosts = ["[::1", "::1", "[]", "[fe80::1%lo]", "a/b"];
    for host in hosts {
        assert_eq!(server.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).status, 400, "{host}");
    }
    let mut lines = server.access_lines(hosts.len());
    lines.sort_unstable();
    let mut want = hosts.map(|host| format!("{host} 400"));
    want.sort_unstable();
    assert_eq!(lines, want);
}

/// A log whose path has variables and cannot be opened: the error log says whose line is lost.
#[test]
fn a_log_that_cannot_be_opened_names_the_request() {
    let site = Site::new();
    let lines = "access_log @DIR@/no/$arg_name.log combined; location / { return 200 ok; }";
    let server = Setup::server(&site, lines).freerun();
    assert_eq!(server.get("/a?name=x").status, 200);
    // As root the worker may not even look into the harness's folder, so the reason depends on who runs this.
    server.logs("while logging request, client: 127.0.0.1");
    let log = server.error_log();
    let line = log.lines().find(|line| line.contains("while logging request")).unwrap_or_default();
    assert!(line.contains("/no/x.log\" failed ("), "{line}");
    assert!(line.contains("request: \"GET /a?name=x HTTP/1.1\", host: "), "{line}");
}
