//! Access logs: the same requests, and line by line the same logs. Times are taken out, and what is the servers' own.

use crate::exchange::text_without_ports;
use crate::runner::{Both, Report, both, observe};
use crate::site::site;
use freerun_testkit::{Kind, Setup, Site, TempDir, TestServer, eventually};
use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// A server with these lines, behind the formats, which have to be defined before they are used.
fn server(site: &Site, http: &str, lines: &str) -> Setup {
    let server = format!("server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; {lines} }}");
    Setup::new().root(site).http(FORMATS).http(http).http(&server)
}

/// What both are asked, each on a connection of its own.
const REQUESTS: &[&str] = &[
    "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /a.txt?log=1&a=%22q%22&x=y HTTP/1.1\r\nHost: LocalHost:81\r\nX: \"a\" \\b\\\r\nUser-Agent: Agent/1 (x; y)\r\n\r\n",
    "HEAD /a.txt?log=0 HTTP/1.1\r\nHost: localhost\r\nReferer: http://r.example/?q=\"1\"\r\n\r\n",
    "GET /missing?log=yes HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    "GET /a.txt HTTP/1.0\r\n\r\n",
    "GET /a.txt\r\n",
    "GET\r\n\r\n",
    "get /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\n\r\n",
    "GET /a.txt HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "GET /%e4%22%5c%01x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /with%20space.txt?log= HTTP/1.1\r\nHost: localhost\r\nCookie: c=1; d=\"2\"\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nRange: bytes=2-5\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
    "GET /dir HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\nGET /digits?log=2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic dXNlcjpwYXNz\r\nX: \u{7f}\u{e9}\t!\r\n\r\n",
    "GET /off/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /own/a.txt?log=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /page/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /page/missing?log=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
];

/// Asks a server everything, ends it, and reads the files that the configuration names. Ends of lines stay.
fn logs_of(server: &mut TestServer, names: &[&str], requests: &[impl AsRef<str>]) -> BTreeMap<String, Vec<String>> {
    for request in requests {
        ask(server, request.as_ref());
    }
    server.stop();
    names.iter().map(|name| ((*name).to_owned(), lines(server, name))).collect()
}

fn ask(server: &TestServer, request: &str) {
    let mut client = server.connect();
    // The pi of "HTTP/1.1" and the like is ASCII; bytes above stand for themselves.
    client.send(request.chars().map(|c| c as u32 as u8).collect::<Vec<u8>>());
    client.half_close();
    while client.try_response("GET").is_ok() {}
}

fn lines(server: &TestServer, name: &str) -> Vec<String> {
    let path = server.path(name);
    let bytes = if name.ends_with(".gz") { unpack(&path) } else { std::fs::read(&path).unwrap_or_default() };
    let folder = server.path("").display().to_string();
    let text = String::from_utf8_lossy(&bytes).replace(folder.trim_end_matches('/'), "DIR");
    text_without_ports(&text, &[server.port()]).split_inclusive('\n').map(without_time).collect()
}

fn unpack(path: &Path) -> Vec<u8> {
    use std::io::Read as _;
    let mut text = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        flate2::read::MultiGzDecoder::new(file).read_to_end(&mut text).expect("whole members of gzip");
    }
    text
}

/// What `[…]` of the format `combined` holds is a time; numbers from 140 to 190 are lengths of built-in pages, which have the
/// server's name in them.
fn without_time(line: &str) -> String {
    let line = match (line.find('['), line.find(']')) {
        (Some(start), Some(end)) if start < end => format!("{}TIME{}", &line[..start], &line[end..]),
        _ => line.to_owned(),
    };
    let mut out = String::new();
    let mut rest = line.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[start..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| start + length);
        let number = &rest[start..end];
        out += &rest[..start];
        out += if number.parse().is_ok_and(|number: u32| (140..=190).contains(&number)) { "PAGE" } else { number };
        rest = &rest[end..];
    }
    out + rest
}

/// Compares the logs of these names, line by line, after these requests.
#[track_caller]
fn compare_logs(what: &str, setup: &Setup, names: &[&str], requests: &[impl AsRef<str>]) {
    let Some(logs) = observe(setup, |server| logs_of(server, names, requests)) else { return };
    let mut report = Report::default();
    for (name, theirs) in &logs.nginx {
        let ours = &logs.freerun[name];
        assert!(!theirs.is_empty(), "nginx has written nothing to {name}");
        for index in 0..theirs.len().max(ours.len()) {
            let line = Both { nginx: theirs.get(index), freerun: ours.get(index) };
            report.add(format_args!("{what}, {name}:{}", index + 1), line.difference());
        }
    }
    report.finish();
}

#[track_caller]
fn compare(what: &str, setup: &Setup, names: &[&str]) {
    compare_logs(what, setup, names, REQUESTS);
}

/// A head that does not come to its end is one of the server that its host names; without a host so far, of the default server.
#[test]
fn heads_that_are_cut() {
    let names = ["first", "empty", "named"];
    let servers = [("first", "first"), ("\"\"", "empty"), ("a.example", "named")].map(|(name, log)| {
        format!("server {{ listen 127.0.0.1:@PORT@; server_name {name}; access_log @DIR@/{log} f; location / {{ return 204; }} }}")
    });
    let setup = Setup::new().http("log_format f \"$status [$host] [$server_name] $request\";").http(&servers.concat());
    let requests = [
        "GET /first HTTP/1.1\r\nX",
        "GET /first HTTP/1.0\r\n",
        "GET /first",
        "GET /first HTTP/1.1\r\nHost: a/b\r\nX",
        "GET /empty HTTP/1.0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a.example\r\nX",
        "GET http://a.example/a HTTP/1.1\r\nX",
    ];
    compare_logs("heads that are cut", &setup, &names, &requests);
}

/// Empty lines in front of a request are no part of it.
#[test]
fn lengths_of_requests() {
    let lines = "log_format f \"$request_length $request\"; access_log @DIR@/log f;";
    let setup = server(&site(), lines, "location /told { return 200 \"$request_length\"; }");
    let one = "/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let requests = [
        format!("GET {one}"),
        format!("\r\nGET {one}"),
        format!("\n\n\nGET {one}"),
        format!("GET {one}\r\n\r\nGET /told{one}"),
        "\r\n\r\nPOST /told HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello\r\nGET /told HTTP/1.0\r\n\r\n".into(),
        "\r\nGET /a.txt\r\n".into(),
        "\r\nGET /a.txt HTTP/1.1\r\n\r\n".into(),
        "\r\nGET /a.txt HTTP/1.1\r\nHost: a/b\r\n\r\n".into(),
        "\r\nGET /%zz HTTP/1.1\r\nHost: a\r\n\r\n".into(),
        "\r\nGET /a.txt HTTP/1.1\r\nHost".into(),
        "\r\nGET /a.txt HTTP/1.1".into(),
    ];
    compare_logs("lengths", &setup, &["log"], &requests);
}

/// A target that is not understood is no URI, and interim responses count with the body.
#[test]
fn refused_targets_and_interim_responses() {
    let http = "log_format f '$request_uri|$uri|$args|$request|$status'; log_format s '$request_uri $body_bytes_sent';
        server { listen 127.0.0.1:@PORT2@; access_log off; return 200 text; }";
    let lines = "access_log @DIR@/log f; error_page 400 /page; location /page { return 200 \"$request_uri\"; }
        location /read { access_log @DIR@/sent s; proxy_ignore_client_abort on; proxy_pass http://127.0.0.1:@PORT2@; }
        location /none { access_log @DIR@/sent s; return 204; }";
    let setup = server(&site(), http, lines);
    let mut requests: Vec<String> = ["/a%00b", "/%zz", "/../x?a=b", "http://localhost/../x", "/a?b=%00", "/x y", "x"]
        .map(|target| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .into();
    for path in ["/read", "/none"] {
        for expect in ["", "Expect: 100-continue\r\n"] {
            let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{expect}");
            requests.push(format!("{head}Content-Length: 3\r\n\r\nabc"));
        }
    }
    compare_logs("refused targets", &setup, &["log", "sent"], &requests);
}

/// Of a body in chunks that somebody reads all counts that came over the wire, and what follows it does not.
#[test]
fn lengths_of_requests_in_chunks() {
    let other = "server { listen 127.0.0.1:@PORT2@; access_log off; location / { return 200 \"$http_x\"; } }";
    let http = format!(
        "log_format f '$request_length $content_length $request'; access_log @DIR@/log f; proxy_ignore_client_abort on; {other}"
    );
    let read = "proxy_set_header X $request_length; proxy_pass http://127.0.0.1:@PORT2@;";
    let lines = format!(
        "location /read {{ {read} }}
         location /in_file {{ client_body_in_file_only clean; {read} }}
         location /mirrored {{ mirror /aside; {read} }}
         location /aside {{ internal; proxy_pass http://127.0.0.1:@PORT2@; }}
         location /unread {{ return 204; }}"
    );
    let setup = server(&site(), &http, &lines);
    let head = "HTTP/1.1\r\nHost: localhost\r\n";
    let next = format!("GET /a.txt {head}\r\n");
    let many = format!("{}0\r\n\r\n", "3;extension=\"value\"\r\nabc\r\n".repeat(2000));
    let bodies = ["0\r\n\r\n", "2\r\nab\r\n003;e=f\r\ncde\r\n0\r\nX-T: trail\r\n\r\n", &many];
    let mut requests = Vec::new();
    for place in ["/read", "/in_file", "/mirrored"] {
        requests.push(format!("POST {place} {head}Content-Length: 5\r\n\r\nabcde{next}"));
        for body in bodies {
            requests.push(format!("POST {place} {head}Transfer-Encoding: chunked\r\n\r\n{body}"));
            requests.push(format!("POST {place} {head}Transfer-Encoding: chunked\r\n\r\n{body}{next}"));
        }
    }
    requests.push(format!("POST /unread {head}Transfer-Encoding: chunked\r\n\r\n{}", bodies[1]));
    compare_logs("lengths in chunks", &setup, &["log"], &requests);
}

/// What a response's variables were when they were first asked for, they stay.
#[test]
fn variables_that_stay() {
    let site = site();
    let names = "x_a content_type location last_modified etag transfer_encoding cache_control link expires
        accept_ranges content_encoding content_range date server"
        .split_whitespace()
        .map(|name| format!("sent_http_{name}"))
        .chain(["sent_trailer_x_t", "request_completion", "status", "request_length"].map(Into::into));
    let names: Vec<String> = names.collect();
    let format: String = names.iter().map(|name| format!("{name}=${name}|")).collect();
    let read: String = names.iter().map(|name| format!("set $s_{name} ${name};\n")).collect();
    let shown: String =
        names.iter().map(|name| format!("add_header S-{} ${name};\n", name.replace('_', "-"))).collect();
    let locations = |at: &str| {
        format!(
            "location {at}/file/ {{ alias @ROOT@/; add_header X-A a; add_header Link 1; add_header Link 2; add_trailer X-T t; expires epoch; }}
             location {at}/to {{ return 301 /x; }}
             location {at}/relative {{ absolute_redirect off; return 301 /x; }}
             location {at}/page {{ error_page 301 {at}/file/a.txt; return 301 /x; }}
             location {at}/fields {{ add_header Date d; add_header Server s; return 200 text; }}
             location {at}/shown {{ {shown} return 201 text; }}
             location {at}/go {{ rewrite ^ {at}/file/a.txt; }}\n"
        )
    };
    let lines = format!("if ($uri ~ ^/early) {{ {read} }}\n{}{}", locations("/late"), locations("/early"));
    let http = format!("log_format f \"{format}$request\"; access_log @DIR@/log f;");
    let setup = server(&site, &http, &lines);
    let requests: Vec<String> = ["/late", "/early"]
        .iter()
        .flat_map(|at| {
            ["/file/a.txt", "/file/none", "/to", "/relative", "/page", "/fields", "/shown", "/go"]
                .map(|to| format!("{at}{to}"))
        })
        .map(|target| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
        .collect();
    compare_logs("variables that stay", &setup, &["log"], &requests);
}

/// The locations that some requests go to.
const LOCATIONS: &str = "location /off/ { alias @ROOT@/; access_log off; }
    location /own/ { alias @ROOT@/; access_log @DIR@/own f1; }
    location /page/ { alias @ROOT@/; error_page 404 /own/page.html; }";

const FORMATS: &str = r#"
    log_format f1 '$remote_addr "$request" $status $body_bytes_sent "$http_x" "$arg_a" "$cookie_d" <$uri> <$args>';
    log_format f2 escape=json '{"r":"$request","x":"$http_x","a":"$http_user_agent","n":"$http_none","u":"$uri"}';
    log_format f3 escape=none '$http_x|$http_none|$uri|$request';
    log_format f4 '$connection_requests|$pipe|$request_completion|$scheme|$server_name|$http_host|$host';
    log_format f5 '$request_method|$request_uri|$document_root|$request_filename|$is_args$args';
    log_format f6 '$sent_http_content_range|$remote_user|$server_port|$server_addr';
    log_format f7 'no variable at all' ' in two strings' "!";
    log_format f8 escape=default '${status}0${arg_x}a"$http_referer"' '\t\\' "\n|";
"#;

#[test]
fn formats() {
    let site = site();
    let files: String = (1..=8).map(|number| format!("access_log @DIR@/f{number} f{number};\n")).collect();
    let setup = server(&site, "", &format!("{files} access_log @DIR@/combined; {LOCATIONS}"));
    let names = ["combined", "own", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"];
    compare("formats", &setup, &names);
}

#[test]
fn conditions_and_levels() {
    let site = site();
    let setup = server(
        &site,
        "access_log @DIR@/http f1;",
        &format!(
            "access_log @DIR@/always f1; access_log @DIR@/if f1 if=$arg_log; access_log @DIR@/two f1 if=$arg_log$arg_x;
             access_log @DIR@/never f1 if=; access_log @DIR@/one f1 if=1; {LOCATIONS}"
        ),
    )
    .http("server { listen 127.0.0.1:@PORT@; server_name localhost2; }");
    compare("conditions", &setup, &["always", "if", "two", "one", "own"]);
}

#[test]
fn buffers_and_packing() {
    let site = site();
    let setup = server(
        &site,
        "",
        &format!(
            "access_log @DIR@/small f1 buffer=200; access_log @DIR@/large f1 buffer=32k flush=1h;
             access_log @DIR@/a.gz f1 gzip; access_log @DIR@/b.gz f1 gzip=9 buffer=300;
             access_log @DIR@/c.gz f1 gzip=5 flush=1m; {LOCATIONS}"
        ),
    );
    compare("buffers", &setup, &["small", "large", "a.gz", "b.gz", "c.gz", "own"]);
}

#[test]
fn variables_in_paths() {
    let site = site();
    let setup = server(
        &site,
        "",
        &format!(
            "access_log @DIR@/by-$request_method f1; access_log @DIR@/host-${{host}}-$status.log f1;
             access_log @DIR@/$arg_none/nowhere f1; open_log_file_cache max=2 inactive=10s min_uses=1 valid=1s;
             location /root/ {{ root @ROOT@/$arg_r; access_log @DIR@/root-$arg_r f1; }} {LOCATIONS}"
        ),
    )
    .main("user root;");
    let names = ["by-GET", "by-HEAD", "by-POST", "host-localhost-200.log", "host-localhost-404.log", "own"];
    compare("variables", &setup, &names);
}

#[test]
fn a_log_is_not_made_without_its_document_root() {
    let site = site();
    let setup = server(
        &site,
        "",
        "location / { root @ROOT@/$arg_r; access_log @DIR@/root-$arg_l; }
         location /alias/ { alias @ROOT@/$arg_r/; access_log @DIR@/alias-$arg_l; }",
    )
    .main("user root;");
    let made = observe(&setup, |server| {
        for target in [
            "/x?r=dir&l=1",
            "/x?r=none&l=2",
            "/x?r=&l=3",
            "/alias/f.txt?r=dir&l=4",
            "/alias/x?r=none&l=5",
            "/x?r=a.txt&l=6",
        ] {
            server.get(target);
        }
        server.stop();
        (1..=6).map(|l| ["root", "alias"].map(|kind| server.path(&format!("{kind}-{l}")).exists())).collect::<Vec<_>>()
    });
    if let Some(made) = made {
        made.assert_same("logs that exist");
    }
}

/// A syslog server at a path.
struct Syslog(UnixDatagram);

impl Syslog {
    fn at(path: &Path) -> Syslog {
        let _ = std::fs::remove_file(path);
        let socket = UnixDatagram::bind(path).expect("binding");
        socket.set_nonblocking(true).expect("a socket option");
        Syslog(socket)
    }

    /// What has come, with the time taken out; in order of their texts, as logs may overtake each other.
    fn take(&self, out: &mut Vec<String>) {
        let mut buffer = [0; 4096];
        while let Ok(length) = self.0.recv(&mut buffer) {
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let (priority, rest) = message.split_once('>').expect("a priority");
            out.push(format!("{priority}>TIME{}", &rest[15..]));
        }
        out.sort();
    }
}

fn messages(setup: &Setup, kind: Kind, path: &Path, count: usize) -> Vec<String> {
    let syslog = Syslog::at(path);
    let server = setup.start(kind);
    let mut out = Vec::new();
    for request in REQUESTS {
        ask(&server, request);
        // nginx drops what a full socket does not take, and that is full with ten messages.
        syslog.take(&mut out);
    }
    eventually("all messages", || {
        syslog.take(&mut out);
        out.len() >= count
    });
    let port = server.port();
    out.into_iter().map(|message| text_without_ports(&message, &[port])).collect()
}

#[test]
fn syslog() {
    let site: Site = site();
    let dir = TempDir::new("syslog");
    let path = dir.path().join("socket");
    let log = format!("syslog:server=unix:{}", path.display());
    let setup = server(
        &site,
        "",
        &format!(
            "access_log {log} f1; access_log {log},nohostname,tag=,facility=user,severity=crit f2;
             access_log {log},tag=a_b,facility=local0,severity=debug f3 if=$arg_log; access_log {log},tag=x;"
        ),
    )
    .main("user root;");
    let logged = REQUESTS.len() + 1;
    let conditional =
        REQUESTS.iter().filter(|r| r.contains("log=1") || r.contains("log=2") || r.contains("log=y")).count();
    let count = 3 * logged + conditional;
    let Some(messages) = both(|kind| messages(&setup, kind, &path, count)) else { return };
    let without_times = messages.map(|all| {
        let mut all: Vec<String> = all.iter().map(|message| without_time(message)).collect();
        // Two that differ by their times alone may have come in either order.
        all.sort();
        all
    });
    without_times.assert_same_lines("messages");
    assert_eq!(without_times.freerun.len(), count);
}

#[test]
fn errors_to_syslog() {
    let site: Site = site();
    let dir = TempDir::new("syslog-errors");
    let path = dir.path().join("socket");
    let setup = server(&site, "", "").main(&format!(
        "user root; error_log syslog:server=unix:{},tag=err,facility=daemon,severity=info error; error_log @DIR@/error.log info;",
        path.display()
    ));
    let told = |kind: Kind| {
        let syslog = Syslog::at(&path);
        let server = setup.start(kind);
        for target in ["/missing", "/none/x", "/secret/denied.txt?x", "/loop"] {
            server.get(target);
        }
        let mut out = Vec::new();
        eventually("three messages", || {
            syslog.take(&mut out);
            out.len() >= 3
        });
        let port = server.port();
        // The process, the thread and the connection differ.
        let shown = |message: &String| {
            let (head, rest) = message.split_once(": 20").expect("a time");
            let (_, rest) = rest.split_once(" [").expect("a level");
            let (level, rest) = rest.split_once("] ").expect("its end");
            let (_, rest) = rest.split_once('*').expect("a connection");
            let (_, rest) = rest.split_once(' ').expect("a message");
            text_without_ports(&format!("{head}: [{level}] {rest}"), &[port])
        };
        let mut shown: Vec<String> = out.iter().map(shown).collect();
        shown.sort();
        shown
    };
    if let Some(told) = both(told) {
        told.assert_same_lines("messages");
    }
}
