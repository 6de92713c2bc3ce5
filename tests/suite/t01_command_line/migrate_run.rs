//! `freerun migrate --run`: the trial of a configuration beside a running nginx. It says what differs, and touches nothing.

use freerun_testkit::{Kind, ProgramOutput, Setup, Site, TempDir, TestServer, require, run, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const TIME: Duration = Duration::from_secs(90);

/// Tries the configuration of a running nginx, with further arguments.
fn migrate(nginx: &TestServer, further: &[&str]) -> ProgramOutput {
    let (conf, prefix) = (nginx.path("nginx.conf"), nginx.path(""));
    let (conf, prefix) = (conf.display().to_string(), prefix.display().to_string());
    let mut arguments = vec!["migrate", "--run", "-c", &conf, "-p", &prefix];
    arguments.extend(further);
    run(Kind::Freerun, &arguments, TIME).expect("the program starts")
}

fn json(done: &ProgramOutput) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{}{}", done.stdout, done.stderr))
}

/// Tries the configuration with a list of requests.
fn migrate_requests(nginx: &TestServer, requests: &str, further: &[&str]) -> ProgramOutput {
    fs::write(nginx.path("requests"), requests).expect("writing");
    let path = nginx.path("requests").display().to_string();
    migrate(nginx, &[&["--requests", &path], further].concat())
}

/// Whether nginx and freerun are there.
fn is_runnable() -> bool {
    require::nginx() && require::freerun()
}

/// Each group of differences as `kind location: nginx, freerun`.
fn groups(summary: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let group = |group: &Value| {
        let [kind, location, nginx, freerun] = ["kind", "location", "nginx", "freerun"].map(|key| text(&group[key]));
        format!("{} × {kind} at {location}: {nginx}, {freerun}", group["count"])
    };
    summary["differences"].as_array().expect("a list").iter().map(group).collect()
}

/// The files of a folder and of the folders in it, with their texts.
fn files(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.insert(path.display().to_string(), fs::read(&path).unwrap_or_default());
        }
    }
}

const REQUESTS: &str = "/\n/a.txt\nHEAD /a.txt\n/folder\n/none\n/old?a=b\n/port\n/secret\nOPTIONS /a.txt\n/%41?x\nHEAD /none\n/gone\n/named\n";

#[test]
fn the_same_answers_are_no_differences() {
    if !is_runnable() {
        return;
    }
    let site = Site::new();
    site.file("index.html", "index").file("a.txt", "text").file("folder/index.html", "folder");
    let lines = "location /old { return 301 /new; } location /port { return 200 $server_port; } location /secret { deny all; }\n\
                 location /gone { return 444; } location /named { proxy_pass http://localhost:@PORT2@; }";
    let nginx = Setup::server(&site, lines)
        .http("server { listen localhost:@PORT2@; server_name localhost; return 200 named; }")
        .start(Kind::Nginx);
    let done = migrate_requests(&nginx, REQUESTS, &["--quiet"]);
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.as_str()), (Some(0), "", ""));
    let done = migrate_requests(&nginx, REQUESTS, &[]);
    assert!(done.stdout.contains("upstream servers got them from both\n"), "{}", done.stdout);
    assert!(done.stdout.ends_with("\n26 of 26 requests have the same answer of both\n"), "{}", done.stdout);
}

#[test]
fn differences_come_in_groups_with_their_places() {
    if !is_runnable() {
        return;
    }
    let site = Site::new();
    site.file("a.txt", "text").file("b.txt", "text");
    let lines =
        "location / { add_header X-A one; }\nlocation /text { return 200 one; }\nlocation /moved { return 301 /a; }";
    let nginx = Setup::server(&site, lines).start(Kind::Nginx);
    // nginx goes on with what it has read.
    nginx.edit("X-A one", "X-A two");
    nginx.edit("200 one", "200 two");
    nginx.edit("301", "302");
    let requests = "/a.txt\n/b.txt\n/text\n/moved/1\n/moved/2\n/moved/3\n";
    let done = migrate_requests(&nginx, requests, &["--json"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(1), ""), "{}", done.stdout);
    let summary = json(&done);
    let found = groups(&summary);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("3 × status at location /moved: 301 to http://"), "{found:?}");
    assert_eq!(found[1], "2 × {\"field\":\"X-A\"} at location /: one, two");
    assert!(found[2].starts_with("1 × body at location /text: 3 bytes"), "{found:?}");
    assert_eq!((&summary["sent"], &summary["same"]), (&6.into(), &0.into()));
    let line = 1 + nginx.config().lines().position(|line| line.contains("location /moved")).expect("the line");
    let conf = nginx.path("nginx.conf").display().to_string();
    let places = [format!("location /moved ({conf}:{line})"), format!("return 302 /a ({conf}:{line})")];
    assert_eq!(summary["differences"][0]["places"], Value::from(places.to_vec()));
    let example = summary["differences"][0]["example"].as_str().expect("a command");
    assert!(example.starts_with("curl -si --path-as-is ") && example.ends_with("/moved/1'"), "{example}");
    let done = migrate_requests(&nginx, requests, &["--quiet"]);
    assert!(
        done.stdout.starts_with("\nDifferences (3):\n     3  status at location /moved of localhost\n        nginx answers with status 301, freerun with 302\n"),
        "{}",
        done.stdout
    );
}

#[test]
fn what_changes_in_nginx_s_own_answers_is_no_difference() {
    if !is_runnable() {
        return;
    }
    let site = Site::new();
    let lines =
        "location / { add_header Set-Cookie id=$request_id; return 200 $request_id; } location /same { return 200 a; }";
    let nginx = Setup::server(&site, lines).start(Kind::Nginx);
    // It is no difference, but nobody knows whether it is the same.
    let done = migrate_requests(&nginx, "/\n/same\n", &["--json"]);
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    let summary = json(&done);
    let parts = &summary["unstable"]["parts"];
    assert_eq!((&parts["body"], &parts["field Set-Cookie"]), (&1.into(), &1.into()));
    let counts = ["same", "different", "unstable_requests"].map(|name| summary[name].clone());
    assert_eq!(counts, [1, 0, 1].map(Value::from));
    let done = migrate_requests(&nginx, "/\n/same\n", &["--quiet"]);
    let expected = "\nNot compared, so not known to be the same (1 request):\n     1  whose answers change from one time to the next\n";
    assert!(done.code == Some(1) && done.stdout.starts_with(expected), "{}", done.stdout);
}

#[test]
fn what_could_not_be_compared_is_not_the_same() {
    if !is_runnable() {
        return;
    }
    let site = Site::new();
    site.file("a.txt", "text").file("long", vec![b'a'; (8 << 20) + 1]).file("other", vec![b'a'; (8 << 20) + 1]);
    let lines = "location = /closed { return 444; }";
    let nginx = Setup::server(&site, lines).start(Kind::Nginx);
    let counts = |summary: &Value| ["same", "different", "too_long", "unanswered"].map(|name| summary[name].clone());
    let done = migrate_requests(&nginx, "/a.txt\n/long\n/closed\n", &["--json"]);
    assert_eq!((done.code, counts(&json(&done))), (Some(1), [2, 0, 1, 0].map(Value::from)), "{}", done.stdout);
    let done = migrate_requests(&nginx, "/a.txt\n/long\n", &["--quiet"]);
    assert!(done.stdout.contains("     1  with bodies of more than 8 MiB\n"), "{}", done.stdout);
    // One has such a body, and the other a short one; one closes the connection, and the other answers.
    nginx.edit(
        "location = /closed { return 444; }",
        "location = /closed { return 200; } location = /other { return 200 a; }",
    );
    let done = migrate_requests(&nginx, "/other\n/closed\n", &["--json"]);
    let summary = json(&done);
    assert_eq!((done.code, counts(&summary)), (Some(1), [0, 2, 0, 0].map(Value::from)), "{summary}");
    let reasons = summary["differences"].as_array().expect("a list").iter().map(|group| group["reason"].clone());
    let reasons: Vec<Value> = reasons.collect();
    assert!(reasons.contains(&"nginx's body is longer, and too long to be compared".into()), "{reasons:?}");
    assert!(reasons.contains(&"freerun answers, and nginx does not".into()), "{reasons:?}");
}

#[test]
fn compressed_bodies_are_compared_by_what_is_in_them() {
    if !is_runnable() {
        return;
    }
    let site = Site::new();
    site.file("a.html", "<p>text</p>".repeat(1000));
    let nginx = Setup::server(&site, "gzip on; gzip_comp_level 1;").start(Kind::Nginx);
    nginx.edit("gzip_comp_level 1", "gzip_comp_level 9");
    let done = migrate_requests(&nginx, "/a.html\n", &["--quiet"]);
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.as_str()), (Some(0), "", ""));
    nginx.edit("gzip on;", "gzip off;");
    let done = migrate_requests(&nginx, "/a.html\n", &["--json"]);
    let found = groups(&json(&done));
    assert!(
        found.iter().any(|group| group.ends_with("{\"field\":\"Content-Encoding\"} at null: gzip, absent")),
        "{found:?}"
    );
    assert!(!found.iter().any(|group| group.contains("body")), "{found:?}");
}

#[test]
fn nothing_of_the_running_server_is_touched() {
    if !is_runnable() {
        return;
    }
    // Another nginx is asked, and is the upstream server. The first one has left its files, as a crash does it, so nobody but
    // freerun could write to them.
    let other = Setup::new().http("server { listen 127.0.0.1:@PORT@; return 200 answer; }").start(Kind::Nginx);
    let site = Site::new();
    site.file("a.txt", "answer").file("put/x", "x").file("stored/x", "x");
    // Whatever user the workers are, they may store there.
    fs::set_permissions(site.path().join("stored"), Permissions::from_mode(0o777)).expect("rights");
    let upstream = other.port();
    let setup = Setup::server(
        &site,
        &format!(
            "location /cached/ {{ proxy_pass http://127.0.0.1:{upstream}/; proxy_cache c; proxy_cache_valid 1h; }}\n\
             location /stored/ {{ proxy_pass http://127.0.0.1:{upstream}/; proxy_store on; }}\n\
             location /put/ {{ dav_methods PUT DELETE; }}"
        ),
    )
    .http("proxy_cache_path @DIR@/cache keys_zone=c:1m; client_body_temp_path @DIR@/bodies; proxy_temp_path @DIR@/temporary;")
    .http("access_log @DIR@/access.log; access_log @DIR@/$host.log; error_log @DIR@/http.log info;")
    .http("server { listen unix:@DIR@/socket; access_log @DIR@/socket.log; return 200 answer; }");
    let mut nginx = setup.start(Kind::Nginx);
    assert_eq!(nginx.get("/stored/before").status, 200);
    nginx.access_lines(1);
    nginx.stop();
    for name in ["server.pid", "socket"] {
        fs::write(nginx.path(name), "1\n").expect("writing");
    }
    let requests = "/a.txt\n/cached/a\n/stored/a\nPUT /put/x\nDELETE /put/x\n";
    fs::write(nginx.path("requests"), requests).expect("writing");
    let seen = || {
        let mut found = BTreeMap::new();
        files(&nginx.path(""), &mut found);
        files(site.path(), &mut found);
        found
    };
    let before = seen();
    for name in ["access.log", "http.log", "socket.log", "server.pid", "stored/before"] {
        assert!(before.keys().any(|path| path.ends_with(name)), "{name} in {:?}", before.keys());
    }
    let url = format!("http://127.0.0.1:{upstream}");
    let done = migrate_requests(&nginx, requests, &["--against", &url, "--json"]);
    assert_eq!(done.stderr, "");
    let after = seen();
    let changed = |path: &&String| before.get(*path) != after.get(*path);
    let touched: Vec<&String> = before.keys().chain(after.keys()).filter(changed).collect();
    assert_eq!(touched, Vec::<&String>::new());
    // The requests did what would have left traces: freerun answered them from its root and from the upstream server.
    let summary = json(&done);
    assert_eq!((&summary["sent"], &summary["unanswered"]), (&3.into(), &0.into()), "{summary}");
    let statuses = groups(&summary).iter().filter(|group| group.contains("status")).count();
    assert_eq!(statuses, 0, "{summary}");
    assert_eq!(summary["lines"]["unsafe_methods"], serde_json::json!({"PUT": 1, "DELETE": 1}));
    assert_eq!(summary["left_out"].as_array().map(Vec::len), Some(1), "{summary}");
}

#[test]
fn a_configuration_that_is_refused_is_not_tried() {
    if !require::freerun() {
        return;
    }
    let dir = TempDir::new("migrate");
    let path = dir.path().join("nginx.conf");
    fs::write(&path, "events {}\nhttp {\n gzip maybe;\n server { listen 127.0.0.1:1; }\n}\n").expect("writing");
    let path = path.display().to_string();
    let done = run(Kind::Freerun, &["migrate", "--run", "-c", &path], TIME).expect("the program starts");
    assert_eq!(done.code, Some(2), "{}", done.stdout);
    assert!(done.stdout.contains("nginx.conf:3\n    invalid value \"maybe\" in \"gzip\" directive"), "{}", done.stdout);
    let done = run(Kind::Freerun, &["migrate", "--run", "-c", "/no/such/file"], TIME).expect("the program starts");
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""));
}

#[test]
fn servers_are_asked_by_name_and_with_tls() {
    if !is_runnable() {
        return;
    }
    let setup = Setup::new()
        .http("log_format mine escape=json '$host ' '$scheme \"$request\" $status'; access_log @DIR@/access.log mine;")
        .http("ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;")
        .http("server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ ssl; server_name a.example; return 200 \"a $scheme\"; }")
        .http("server { listen 127.0.0.1:@PORT2@ ssl; server_name b.example; return 200 \"b $ssl_server_name\"; }")
        .http("server { listen 127.0.0.1:@PORT2@ ssl default_server; return 403; }");
    let nginx = setup.start(Kind::Nginx);
    let log = "a.example http \"GET /1 HTTP/1.1\" 200\na.example https \"GET /2 HTTP/1.1\" 200\n\
               b.example https \"GET /3 HTTP/2.0\" 200\nother.example https \"GET /4 HTTP/1.1\" 403\n";
    fs::write(nginx.path("access.log"), log).expect("writing");
    let done = migrate(&nginx, &["--json"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert_eq!(json(&done)["sent"], 4);
    nginx.edit("\"b $ssl_server_name\"", "\"c $ssl_server_name\"");
    let done = migrate(&nginx, &["--json"]);
    let found = groups(&json(&done));
    assert_eq!((done.code, found.len()), (Some(1), 1), "{found:?}");
    assert!(
        found[0].contains("from byte 0: b b.example, ") && found[0].ends_with("from byte 0: c b.example"),
        "{found:?}"
    );
}

#[test]
fn lines_that_are_no_requests_are_counted() {
    if !is_runnable() {
        return;
    }
    let nginx = Setup::new()
        .http("log_format mine '$request_method $uri $args'; access_log @DIR@/mine.log mine;")
        .http("server { listen 127.0.0.1:@PORT@; return 200 \"$request_uri\"; }")
        .start(Kind::Nginx);
    let long = "x".repeat(1 << 20);
    let log = format!("GET /a b=c\nPOST /a -\nnonsense\n\u{1}\u{2}\nGET nowhere -\n{long}\nGET /a b=c\n");
    fs::write(nginx.path("mine.log"), log).expect("writing");
    let done = migrate(&nginx, &["--json"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let summary = json(&done);
    let counts = ["lines", "unreadable", "no_requests", "repeated"].map(|name| summary["lines"][name].clone());
    assert_eq!(counts, [7, 3, 1, 1].map(Value::from));
    assert_eq!((&summary["sent"], &summary["lines"]["unsafe_methods"]["POST"]), (&1.into(), &1.into()));
    // Another log of the usual format, and one that cannot be replayed.
    let other = nginx.path("other.log").display().to_string();
    fs::write(&other, "::1 - - [10/Oct/2026:13:55:36 +0000] \"GET /x HTTP/1.1\" 200 5 \"-\" \"-\"\n").expect("writing");
    assert_eq!(migrate(&nginx, &["--log", &other, "--quiet"]).code, Some(0));
    let done = migrate(&nginx, &["--log", &other, "--log-format", "mien"]);
    let expected =
        "--log-format mien: the configuration has no log_format of this name\nhelp: there are combined, json, mine; ";
    assert!(done.code == Some(2) && done.stderr.contains(expected), "{}", done.stderr);
    fs::write(&other, "POST /x -\n").expect("writing");
    let done = migrate(&nginx, &["--log", &other, "--log-format", "mine"]);
    assert_eq!(done.code, Some(2));
    assert!(
        done.stderr.contains("help: --all-methods sends requests that may change something, too\n"),
        "{}",
        done.stderr
    );
    let done = migrate(&nginx, &["--log", &other, "--log-format", "mine", "--all-methods", "--quiet"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""));
}

#[test]
fn without_nginx_or_requests_there_is_no_trial() {
    if !is_runnable() {
        return;
    }
    let site = Site::new();
    let mut nginx =
        Setup::server(&site, "").http("server { listen 127.0.0.1:@PORT2@; root @ROOT@; }").start(Kind::Nginx);
    let done = migrate_requests(&nginx, "# none\n", &[]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{}", done.stderr);
    let mut ports = [nginx.port(), nginx.port_number(2)];
    ports.sort_unstable();
    nginx.stop();
    // Each address is told once, however many requests are for it.
    let done = migrate_requests(&nginx, "/\n/a\n", &[]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""));
    let expected = format!("nginx does not answer at 127.0.0.1:{}, 127.0.0.1:{}\n", ports[0], ports[1]);
    assert!(done.stderr.contains(&expected), "{}", done.stderr);
    let other = Setup::server(&site, "").start(Kind::Nginx);
    let url = format!("http://127.0.0.1:{}", other.port());
    assert_eq!(migrate_requests(&nginx, "/\n", &["--against", &url, "--quiet"]).code, Some(0));
}

#[test]
fn a_wildcard_and_a_loopback_address_of_one_port_are_asked_apart() {
    if !is_runnable() {
        return;
    }
    let nginx = Setup::new()
        .http("server { listen @PORT@; server_name wild; return 200 wild; }")
        .http("server { listen 127.0.0.1:@PORT@; server_name loop; return 200 loop; }")
        .start(Kind::Nginx);
    let done = migrate_requests(&nginx, "/\n", &["--json"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let summary = json(&done);
    assert_eq!((&summary["sent"], &summary["same"]), (&2.into(), &2.into()), "{summary}");
}

#[test]
fn several_logs_share_the_list_and_no_file_is_read_twice() {
    if !is_runnable() {
        return;
    }
    let nginx = Setup::new()
        .http("log_format mine '$request_method $uri $args'; access_log @DIR@/mine.log mine;")
        .http("server { listen 127.0.0.1:@PORT@; return 200 \"$request_uri\"; }")
        .http("server { listen 127.0.0.1:@PORT2@; access_log @DIR@/other.log mine; access_log @DIR@/none.log mine; return 200; }")
        .start(Kind::Nginx);
    let path = |name: &str| nginx.path(name).display().to_string();
    let lines = |name: &str| (0..10).map(|number| format!("GET /{name}{number} -\n")).collect::<String>();
    fs::write(path("mine.log"), lines("a")).expect("writing");
    fs::write(path("other.log"), lines("b")).expect("writing");
    fs::remove_file(path("none.log")).expect("removing");
    let done = migrate(&nginx, &["--count", "4", "--json"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let summary = json(&done);
    let source = |name: &str| serde_json::json!({"path": path(name), "lines": 10, "requests": 2, "cut": 8});
    assert_eq!(summary["sources"], serde_json::json!([source("mine.log"), source("other.log")]));
    assert_eq!((&summary["sent"], &summary["lines"]["cut"]), (&4.into(), &16.into()));
    let unused = summary["unused"].to_string();
    assert!(unused.contains("none.log\",\"it cannot be read: "), "{unused}");
    // A link leads to the same file. An older part has the format of its log, and is asked of its servers.
    std::os::unix::fs::symlink(path("mine.log"), path("link.log")).expect("a link");
    fs::write(path("mine.log.1"), "GET /old x=y\n").expect("writing");
    let logs = ["mine.log", "link.log", "mine.log.1"].map(|name| format!("--log={}", path(name)));
    let done = migrate(&nginx, &[&logs[0], &logs[1], &logs[2]]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let expected = format!("         none of {}: it is a file that was read before\n", path("link.log"));
    assert!(done.stdout.contains(&expected), "{}", done.stdout);
    assert!(done.stdout.ends_with("\n11 of 11 requests have the same answer of both\n"), "{}", done.stdout);
}

/// A trial that a signal is to end, with its folder for temporary files.
struct StartedTrial {
    child: Child,
    temporary: TempDir,
}

impl StartedTrial {
    fn start(nginx: &TestServer, further: &[&str]) -> StartedTrial {
        let temporary = TempDir::new("temporary");
        let (conf, prefix) = (nginx.path("nginx.conf"), nginx.path(""));
        let child = Command::new(Kind::Freerun.program().expect("freerun"))
            .args(["migrate", "--run", "--quiet", "-c"])
            .arg(conf)
            .arg("-p")
            .arg(prefix)
            .args(further)
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        StartedTrial { child: child.expect("the program starts"), temporary }
    }

    /// The folder of the trial, once it is there.
    fn folder(&self) -> PathBuf {
        let first =
            || fs::read_dir(self.temporary.path()).expect("a folder").next().map(|entry| entry.expect("it").path());
        assert!(within(TIME, || first().is_some()), "no folder of a trial");
        first().expect("the folder")
    }

    /// Sends a signal, and returns what the program says at its end, and the exit code.
    fn end(mut self, signal: Signal) -> (String, Option<i32>) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process");
        drop(self.child.stdin.take());
        let done = self.child.wait_with_output().expect("its end");
        let left: Vec<_> = fs::read_dir(self.temporary.path()).expect("a folder").collect();
        assert!(left.is_empty(), "{left:?}");
        (String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned(), done.status.code())
    }
}

#[test]
fn a_signal_ends_a_trial_and_nothing_is_left() {
    if !is_runnable() {
        return;
    }
    // Nobody answers there, so a request waits for as long as it likes.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let site = Site::new();
    let nginx =
        Setup::server(&site, &format!("location / {{ proxy_pass http://127.0.0.1:{port}; }}")).start(Kind::Nginx);
    fs::write(nginx.path("requests"), "/\n").expect("writing");
    let requests = nginx.path("requests").display().to_string();
    // While the requests are sent.
    let trial = StartedTrial::start(&nginx, &["--requests", &requests]);
    silent.set_nonblocking(true).expect("a socket");
    let mut waiting = None;
    assert!(
        within(TIME, || {
            waiting = waiting.take().or_else(|| silent.accept().ok());
            waiting.is_some()
        }),
        "no request is sent"
    );
    let folder = trial.folder();
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let logs: Vec<PathBuf> = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("it").path()).collect();
    let is_log = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name == "messages" || name.ends_with(".log") || name.starts_with("log-")
        })
    };
    assert!(logs.iter().filter(is_log).count() >= 2, "{logs:?}");
    assert!(logs.iter().filter(is_log).all(|path| mode(path) == 0o600), "{logs:?}");
    let server: i32 = fs::read_to_string(folder.join("pid")).expect("a pid").trim().parse().expect("a number");
    let (text, code) = trial.end(Signal::INT);
    assert!(text.contains("not sent: a signal ended the trial\n"), "{text}");
    assert_eq!(code, Some(2), "{text}");
    let server = Pid::from_raw(server).expect("a process");
    assert!(rustix::process::test_kill_process(server).is_err(), "the server of the trial goes on");
    // While a log is read that has no end.
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let trial = StartedTrial::start(&nginx, &["--log", "-"]);
        trial.folder();
        let (text, code) = trial.end(signal);
        assert!(text.contains("a signal ended the trial\n"), "{text}");
        assert_eq!(code, Some(2), "{text}");
    }
}
