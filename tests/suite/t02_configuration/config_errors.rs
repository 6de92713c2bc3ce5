//! What `-t` says to a broken configuration: nginx's words and nginx's line.

use freerun_testkit::{Kind, check, require};

/// Where the lines of a case stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum In {
    Main,
    Events,
    Http,
    Server,
    Location,
    Stream,
    StreamServer,
}

use In::{Events, Http, Location, Main, Server};

impl In {
    fn wrap(self, lines: &str) -> String {
        match self {
            Main => format!("events {{ }}\n{lines}\n"),
            Events => format!("events {{\n{lines}\n}}\n"),
            Http => format!("events {{ }}\nhttp {{\n{lines}\n}}\n"),
            Server => format!("events {{ }}\nhttp {{\nserver {{\n{lines}\n}}\n}}\n"),
            In::Stream => format!("events {{ }}\nstream {{\n{lines}\n}}\n"),
            In::StreamServer => format!("events {{ }}\nstream {{\nserver {{\n{lines}\n}}\n}}\n"),
            Location => format!("events {{ }}\nhttp {{\nserver {{\nlocation /x {{\n{lines}\n}}\n}}\n}}\n"),
        }
    }
}

/// The context, the lines in it, the message, and the line of the file it names (0: none).
pub(crate) type Case = (In, &'static str, &'static str, u32);

#[rustfmt::skip]
const CASES: &[Case] = &[
    (Main, "unknown_thing on;", "unknown directive \"unknown_thing\"", 2),
    (Main, "worker_processes", "unexpected end of file, expecting \";\" or \"}\"", 3),
    (Main, "worker_processes;", "invalid number of arguments in \"worker_processes\" directive", 2),
    (Main, "worker_processes x;", "\"worker_processes\" directive invalid value", 2),
    (Main, "worker_processes -1;", "\"worker_processes\" directive invalid value", 2),
    (Main, "worker_processes 1; worker_processes 2;", "\"worker_processes\" directive is duplicate", 2),
    (Main, "worker_processes 1 2;", "invalid number of arguments in \"worker_processes\" directive", 2),
    (Main, "daemon maybe;", "invalid value \"maybe\" in \"daemon\" directive, it must be \"on\" or \"off\"", 2),
    (Main, "daemon off; daemon on;", "\"daemon\" directive is duplicate", 2),
    (Main, "master_process 1;", "invalid value \"1\" in \"master_process\" directive, it must be \"on\" or \"off\"", 2),
    (Main, "user no-such-user-here;", "getpwnam(\"no-such-user-here\") failed", 2),
    (Main, "user root no-such-group-here;", "getgrnam(\"no-such-group-here\") failed", 2),
    (Main, "pid;", "invalid number of arguments in \"pid\" directive", 2),
    (Main, "listen 80;", "\"listen\" directive is not allowed here", 2),
    (Main, "server { }", "\"server\" directive is not allowed here", 2),
    (Main, "location / { }", "\"location\" directive is not allowed here", 2),
    (Main, "worker_rlimit_nofile x;", "\"worker_rlimit_nofile\" directive invalid number", 2),
    (Main, "worker_cpu_affinity 012;", "invalid character \"2\" in \"worker_cpu_affinity\"", 2),
    (Main, "worker_shutdown_timeout x;", "\"worker_shutdown_timeout\" directive invalid value", 2),
    (Main, "error_log;", "invalid number of arguments in \"error_log\" directive", 2),
    (Main, "error_log @DIR@/e.log loud;", "invalid log level \"loud\"", 2),
    (Main, "error_log @DIR@/e.log info info;", "duplicate log level \"info\"", 2),
    (Main, "include @DIR@/none.conf;", "open() \"@DIR@/none.conf\" failed (2: No such file or directory)", 2),
    (Main, "include;", "invalid number of arguments in \"include\" directive", 2),
    (Main, "env;", "invalid number of arguments in \"env\" directive", 2),
    (Main, "http { } http { }", "\"http\" directive is duplicate", 2),
    (Main, "events { }", "\"events\" directive is duplicate", 2),
    (Main, "http;", "directive \"http\" has no opening \"{\"", 2),
    (Main, "worker_processes 1 { }", "directive \"worker_processes\" is not terminated by \";\"", 2),
    (Main, "}", "unexpected \"}\"", 2),
    (Main, ";", "unexpected \";\"", 2),
    (Main, "{", "unexpected \"{\"", 2),
    (Main, "http {", "unexpected end of file, expecting \"}\"", 3),
    (Main, "http { server { listen 127.0.0.1:1;", "unexpected end of file, expecting \"}\"", 3),
    (Main, "worker_processes \"1;", "unexpected end of file, expecting \";\" or \"}\"", 3),
    (Main, "worker_processes '1;\n\nhttp { }\n", "unexpected end of file, expecting \";\" or \"}\"", 6),
    (Main, "worker_processes 1", "unexpected end of file, expecting \";\" or \"}\"", 3),
    (Main, "worker_processes \"1\"x;", "unexpected \"x\"", 2),
    (Main, "worker_processes \"1\"{", "directive \"worker_processes\" is not terminated by \";\"", 2),
    (Main, "}}", "unexpected \"}\"", 2),
    (Main, "http { } }", "unexpected \"}\"", 2),
    (Main, "thread_pool;", "invalid number of arguments in \"thread_pool\" directive", 2),
    (Main, "thread_pool p threads=0;", "invalid threads value \"threads=0\"", 2),
    (Main, "thread_pool p threads=x;", "invalid threads value \"threads=x\"", 2),
    (Main, "thread_pool p;", "invalid number of arguments in \"thread_pool\" directive", 2),
    (Main, "thread_pool p threads=2 max_queue=x;", "invalid max_queue value \"max_queue=x\"", 2),
    (Main, "thread_pool p threads=2; thread_pool p threads=3;", "duplicate thread pool \"p\"", 2),
    (Main, "thread_pool default threads=0;", "invalid threads value \"threads=0\"", 2),
    (Events, "worker_connections x;", "invalid number \"x\"", 2),
    (Events, "worker_connections;", "invalid number of arguments in \"worker_connections\" directive", 2),
    (Events, "worker_connections 10; worker_connections 10;", "\"worker_connections\" directive is duplicate", 2),
    (Events, "use nothing;", "invalid event type \"nothing\"", 2),
    (Events, "use epoll; use epoll;", "\"use\" directive is duplicate", 2),
    (Events, "multi_accept yes;", "invalid value \"yes\" in \"multi_accept\" directive, it must be \"on\" or \"off\"", 2),
    (Events, "accept_mutex 1;", "invalid value \"1\" in \"accept_mutex\" directive, it must be \"on\" or \"off\"", 2),
    (Events, "root /x;", "\"root\" directive is not allowed here", 2),
    (Events, "server { }", "\"server\" directive is not allowed here", 2),
    (Http, "events { }", "\"events\" directive is not allowed here", 3),
    (Http, "listen 80;", "\"listen\" directive is not allowed here", 3),
    (Http, "worker_processes 1;", "\"worker_processes\" directive is not allowed here", 3),
    (Http, "sendfile yes;", "invalid value \"yes\" in \"sendfile\" directive, it must be \"on\" or \"off\"", 3),
    (Http, "sendfile;", "invalid number of arguments in \"sendfile\" directive", 3),
    (Http, "sendfile on on;", "invalid number of arguments in \"sendfile\" directive", 3),
    (Http, "sendfile on; sendfile on;", "\"sendfile\" directive is duplicate", 3),
    (Http, "keepalive_timeout x;", "\"keepalive_timeout\" directive invalid value", 3),
    (Http, "keepalive_timeout 1x;", "\"keepalive_timeout\" directive invalid value", 3),
    (Http, "keepalive_timeout 10 x;", "\"keepalive_timeout\" directive invalid value", 3),
    (Http, "client_max_body_size 1z;", "\"client_max_body_size\" directive invalid value", 3),
    (Http, "client_max_body_size;", "invalid number of arguments in \"client_max_body_size\" directive", 3),
    (Http, "types;", "directive \"types\" has no opening \"{\"", 3),
    (Http, "types { text/plain txt", "unexpected \"}\"", 4),
    (Http, "default_type;", "invalid number of arguments in \"default_type\" directive", 3),
    (Http, "default_type a b;", "invalid number of arguments in \"default_type\" directive", 3),
    (Http, "index;", "invalid number of arguments in \"index\" directive", 3),
    (Http, "root;", "invalid number of arguments in \"root\" directive", 3),
    (Http, "root a b;", "invalid number of arguments in \"root\" directive", 3),
    (Http, "root /a; root /b;", "\"root\" directive is duplicate", 3),
    (Http, "alias /x;", "\"alias\" directive is not allowed here", 3),
    (Http, "server_name x;", "\"server_name\" directive is not allowed here", 3),
    (Http, "try_files a b;", "\"try_files\" directive is not allowed here", 3),
    (Http, "return 200;", "\"return\" directive is not allowed here", 3),
    (Http, "location / { }", "\"location\" directive is not allowed here", 3),
    (Http, "error_page 404;", "invalid number of arguments in \"error_page\" directive", 3),
    (Http, "error_page x /y;", "invalid value \"x\"", 3),
    (Http, "error_page 200 /y;", "value \"200\" must be between 300 and 599", 3),
    (Http, "error_page 299 /y;", "value \"299\" must be between 300 and 599", 3),
    (Http, "error_page 600 /y;", "value \"600\" must be between 300 and 599", 3),
    (Http, "error_page 404 =x /y;", "invalid value \"=x\"", 3),
    (Http, "error_page 499 /y;", "invalid value \"499\"", 3),
    (Http, "log_format;", "invalid number of arguments in \"log_format\" directive", 3),
    (Http, "log_format main;", "invalid number of arguments in \"log_format\" directive", 3),
    (Http, "log_format a \"$nonexistent_variable\";", "unknown \"nonexistent_variable\" variable", 0),
    (Http, "log_format a \"x\"; log_format a \"y\";", "duplicate \"log_format\" name \"a\"", 3),
    (Http, "access_log;", "invalid number of arguments in \"access_log\" directive", 3),
    (Http, "access_log @DIR@/a.log nosuchformat;", "unknown log format \"nosuchformat\"", 3),
    (Http, "access_log @DIR@/a.log combined buffer=x;", "invalid buffer size \"x\"", 3),
    (Http, "access_log @DIR@/a.log combined foo;", "invalid parameter \"foo\"", 3),
    (Http, "access_log off on;", "invalid parameter \"on\"", 3),
    (Http, "access_log @DIR@/nodir/a.log;", "open() \"@DIR@/nodir/a.log\" failed (2: No such file or directory)", 0),
    (Http, "access_log @DIR@/a.log combined flush=1s;", "no buffer is defined for access_log \"@DIR@/a.log\"", 3),
    (Http, "log_format combined \"x\";", "duplicate \"log_format\" name \"combined\"", 3),
    (Http, "large_client_header_buffers 4;", "invalid number of arguments in \"large_client_header_buffers\" directive", 3),
    (Http, "large_client_header_buffers x 1k;", "\"large_client_header_buffers\" directive invalid value", 3),
    (Http, "large_client_header_buffers 0 1k;", "\"large_client_header_buffers\" directive invalid value", 3),
    (Http, "client_header_buffer_size x;", "\"client_header_buffer_size\" directive invalid value", 3),
    (Http, "client_body_buffer_size;", "invalid number of arguments in \"client_body_buffer_size\" directive", 3),
    (Http, "client_header_timeout x;", "\"client_header_timeout\" directive invalid value", 3),
    (Http, "send_timeout 1x;", "\"send_timeout\" directive invalid value", 3),
    (Http, "lingering_close maybe;", "invalid value \"maybe\"", 3),
    (Http, "lingering_time;", "invalid number of arguments in \"lingering_time\" directive", 3),
    (Http, "max_ranges x;", "\"max_ranges\" directive invalid number", 3),
    (Http, "etag maybe;", "invalid value \"maybe\" in \"etag\" directive, it must be \"on\" or \"off\"", 3),
    (Http, "if_modified_since maybe;", "invalid value \"maybe\"", 3),
    (Http, "server_tokens maybe;", "invalid value \"maybe\"", 3),
    (Http, "sendfile_max_chunk x;", "\"sendfile_max_chunk\" directive invalid value", 3),
    (Http, "tcp_nopush 1;", "invalid value \"1\" in \"tcp_nopush\" directive, it must be \"on\" or \"off\"", 3),
    (Http, "tcp_nodelay;", "invalid number of arguments in \"tcp_nodelay\" directive", 3),
    (Http, "keepalive_requests x;", "\"keepalive_requests\" directive invalid number", 3),
    (Http, "keepalive_disable chrome;", "invalid value \"chrome\"", 3),
    (Http, "aio threads=;", "unknown thread pool \"\"", 3),
    (Http, "aio maybe;", "\"aio\" directive invalid value", 3),
    (Http, "aio threads=nosuchpool;", "unknown thread pool \"nosuchpool\"", 3),
    (Http, "aio;", "invalid number of arguments in \"aio\" directive", 3),
    (Server, "server { }", "\"server\" directive is not allowed here", 4),
    (Server, "listen;", "invalid number of arguments in \"listen\" directive", 4),
    (Server, "listen x:y;", "invalid port in \"x:y\" of the \"listen\" directive", 4),
    (Server, "listen 127.0.0.1:99999;", "invalid port in \"127.0.0.1:99999\" of the \"listen\" directive", 4),
    (Server, "listen 127.0.0.1:0;", "invalid port in \"127.0.0.1:0\" of the \"listen\" directive", 4),
    (Server, "listen 127.0.0.1:65536;", "invalid port in \"127.0.0.1:65536\" of the \"listen\" directive", 4),
    (Server, "listen [::1;", "invalid host in \"[::1\" of the \"listen\" directive", 4),
    (Server, "listen 127.0.0.1:@PORT@ foo;", "invalid parameter \"foo\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ backlog=x;", "invalid backlog \"backlog=x\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ backlog=0;", "invalid backlog \"backlog=0\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ rcvbuf=x;", "invalid rcvbuf \"rcvbuf=x\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ so_keepalive=x;", "invalid so_keepalive value: \"x\"", 4),
    (Server, "listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT@;", "a duplicate listen 127.0.0.1:@PORT@", 4),
    (Server, "listen unix:;", "no path in the unix domain socket in \"unix:\" of the \"listen\" directive", 4),
    (Server, "server_name;", "invalid number of arguments in \"server_name\" directive", 4),
    (Server, "server_name ~[;", "pcre2_compile() failed: missing terminating ] for character class in \"[\"", 4),
    (Server, "server_name ~;", "empty regex in server name \"~\"", 4),
    (Server, "server_name *.;", "server name \"*.\" is invalid", 4),
    (Server, "server_name .;", "server name \".\" is invalid", 4),
    (Server, "location { }", "invalid number of arguments in \"location\" directive", 4),
    (Server, "location / / / { }", "invalid number of arguments in \"location\" directive", 4),
    (Server, "location / ;", "directive \"location\" has no opening \"{\"", 4),
    (Server, "location / { } location / { }", "duplicate location \"/\"", 4),
    (Server, "location = / { } location = / { }", "duplicate location \"/\"", 4),
    (Server, "location ~ [ { }", "pcre2_compile() failed: missing terminating ] for character class in \"[\"", 4),
    (Server, "location ~ ( { }", "pcre2_compile() failed: missing closing parenthesis in \"(\"", 4),
    (Server, "location @n { location /x { } }", "location \"/x\" cannot be inside the named location \"@n\"", 4),
    (Server, "location = /x { location /x/y { } }", "location \"/x/y\" cannot be inside the exact location \"/x\"", 4),
    (Server, "location /x { location /y { } }", "location \"/y\" is outside location \"/x\"", 4),
    (Server, "location ~ ^/x { location /x/y { } }", "location \"/x/y\" is outside location \"^/x\"", 4),
    (Server, "location ~~ /x { }", "invalid location modifier \"~~\"", 4),
    (Server, "location !~ /x { }", "invalid location modifier \"!~\"", 4),
    (Server, "location /x { server_name y; }", "\"server_name\" directive is not allowed here", 4),
    (Server, "location /x { listen 80; }", "\"listen\" directive is not allowed here", 4),
    (Server, "location ^~ /x { } location /x { }", "duplicate location \"/x\"", 4),
    (Server, "location /x { location @n { } }", "named location \"@n\" can be on the server level only", 4),
    (Server, "alias /x;", "\"alias\" directive is not allowed here", 4),
    (Server, "root $nosuchvar;", "unknown \"nosuchvar\" variable", 0),
    (Server, "try_files $uri;", "invalid number of arguments in \"try_files\" directive", 4),
    (Server, "try_files;", "invalid number of arguments in \"try_files\" directive", 4),
    (Server, "try_files $uri =abc;", "invalid code \"=abc\"", 4),
    (Server, "try_files $uri =404; try_files $uri =404;", "\"try_files\" directive is duplicate", 4),
    (Server, "return;", "invalid number of arguments in \"return\" directive", 4),
    (Server, "return abc;", "invalid return code \"abc\"", 4),
    (Server, "return 1000;", "invalid return code \"1000\"", 4),
    (Server, "return 200 a b;", "invalid number of arguments in \"return\" directive", 4),
    (Server, "return 200 \"$nosuchvar\";", "unknown \"nosuchvar\" variable", 0),
    (Server, "return 301 \"$\";", "invalid variable name", 4),
    (Server, "return 200 \"${uri\";", "the closing bracket in \"uri\" variable is missing", 4),
    (Server, "index $nosuch;", "unknown \"nosuch\" variable", 0),
    (Server, "root \"/a", "unexpected end of file, expecting \";\" or \"}\"", 7),
    (Server, "root /a{b};", "directive \"root\" is not terminated by \";\"", 4),
    (Location, "alias;", "invalid number of arguments in \"alias\" directive", 5),
    (Location, "alias /x; alias /y;", "\"alias\" directive is duplicate", 5),
    (Location, "alias /x; root /y;", "\"root\" directive is duplicate, \"alias\" directive was specified earlier", 5),
    (Location, "root /y; alias /x;", "\"alias\" directive is duplicate, \"root\" directive was specified earlier", 5),
    (Location, "server { }", "\"server\" directive is not allowed here", 5),
    (Location, "http { }", "\"http\" directive is not allowed here", 5),
    (Location, "return 200 a b;", "invalid number of arguments in \"return\" directive", 5),
    (Location, "try_files /a;", "invalid number of arguments in \"try_files\" directive", 5),
    (Location, "worker_connections 1;", "\"worker_connections\" directive is not allowed here", 5),
    (Location, "location /other { }", "location \"/other\" is outside location \"/x\"", 5),
    (Location, "nosuch;", "unknown directive \"nosuch\"", 5),
    (Location, "ssl_certificate_typo x;", "unknown directive \"ssl_certificate_typo\"", 5),
    (Location, "root /a", "unexpected \"}\"", 6),
    (Location, "root \"/a\"b;", "unexpected \"b\"", 5),
    (Location, "client_body_temp_path @DIR@/t 1 2 3 4;", "invalid number of arguments in \"client_body_temp_path\" directive", 5),
    (Location, "client_body_temp_path @DIR@/t x;", "\"client_body_temp_path\" directive invalid value", 5),
    (Location, "aio threads=$nosuchvar;", "unknown \"nosuchvar\" variable", 0),
];

/// The first line with `[emerg]` in it, from there on.
fn first_line(stderr: &str) -> &str {
    stderr.lines().find_map(|line| line.find("[emerg]").map(|at| &line[at..])).unwrap_or(stderr)
}

pub(crate) fn run_all(kind: Kind, cases: &[Case]) {
    let mut wrong = String::new();
    for (place, lines, message, line) in cases {
        let checked = check(kind, &place.wrap(lines)).expect("the program starts");
        let first = first_line(&checked.stderr);
        let wanted = format!("[emerg] {message}");
        // Where nginx names no place, naming one is an improvement.
        let same = match line {
            0 => first == wanted || first.starts_with(&format!("{wanted} in @DIR@/nginx.conf:")),
            line => first == format!("{wanted} in @DIR@/nginx.conf:{line}"),
        };
        if !same || checked.code != Some(1) {
            wrong += &format!(
                "{place:?} {lines:?}\n  wanted {wanted:?} at {line}\n  got    {first:?}, exit {:?}\n",
                checked.code
            );
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ\n{wrong}", wrong.matches("wanted").count(), cases.len());
}

#[test]
fn messages_are_nginx_s() {
    if !require::freerun() {
        return;
    }
    run_all(Kind::Freerun, CASES);
}

#[test]
fn the_table_is_what_nginx_says() {
    if require::nginx() && require::root() {
        run_all(Kind::Nginx, CASES);
    }
}

#[test]
fn the_place_is_shown_under_the_message() {
    if !require::freerun() {
        return;
    }
    let checked = check(Kind::Freerun, "events { }\nhttp {\n    sendfil on;\n}\n").expect("freerun starts");
    let lines: Vec<&str> = checked.stderr.lines().collect();
    assert!(lines[0].ends_with("[emerg] unknown directive \"sendfil\" in @DIR@/nginx.conf:3"), "{}", checked.stderr);
    let shown = lines.iter().position(|line| line.contains("    sendfil on;")).expect("the line itself");
    let column = lines[shown].find("sendfil").expect("the word");
    assert_eq!(lines[shown + 1].find('^'), Some(column), "the caret stands under the word\n{}", checked.stderr);
    assert!(checked.stderr.contains("sendfile"), "a near name is offered\n{}", checked.stderr);
}

#[test]
fn a_directive_that_only_nginx_has_is_said_to_be_one() {
    if !require::freerun() {
        return;
    }
    let checked =
        check(Kind::Freerun, "events { }\nhttp { server { listen 127.0.0.1:@PORT@; xslt_last_modified on; } }\n")
            .expect("freerun starts");
    assert!(
        first_line(&checked.stderr).starts_with("[emerg] unknown directive \"xslt_last_modified\""),
        "{}",
        checked.stderr
    );
    assert!(checked.stderr.contains("nginx has this directive"), "{}", checked.stderr);
}

#[test]
fn an_error_in_an_included_file_names_it() {
    let dir = freerun_testkit::TempDir::new("include");
    std::fs::write(dir.path().join("inner.conf"), "sendfile on;\n\nnosuch x;\n").expect("writing");
    let path = dir.path().join("inner.conf").display().to_string();
    let checked =
        check(Kind::under_test(), &format!("events {{ }}\nhttp {{\n include {path};\n}}\n")).expect("it starts");
    assert_eq!(first_line(&checked.stderr), format!("[emerg] unknown directive \"nosuch\" in {path}:3"));
}

#[test]
fn the_language_is_read_whole() {
    let dir = freerun_testkit::TempDir::new("language");
    for (name, text) in [("b.conf", "keepalive_requests 7;"), ("a.conf", "sendfile on;"), ("c.txt", "nonsense")] {
        std::fs::write(dir.path().join(name), text).expect("writing");
    }
    let text = format!(
        "events {{ worker_connections 64; }} # comment ; {{\nhttp {{ include {0}/*.conf; include {0}/*.none;\r\n\
         \tlog_format \"with \\\"quotes\\\"\" '$remote_addr \"$request\"' ' second' \"third\";\n\
         keepalive_timeout 1h30m; send_timeout 1500ms; client_max_body_size 1M; client_header_timeout 90;\n\
         server {{ listen 127.0.0.1:@PORT@; server_name \"quoted\" 'single' plain\\ space ~^(?<x>a{{2,3}}|b)$ \"~^c{{1,2}}$\";\n\
         location \"/br{{ace\" {{ return 200 \"multi\nline ${{uri}}; {{}} # no comment\"; }} location /a#b {{ }} }} }}\n",
        dir.path().display()
    )
    .replace(" ~^(?<x>a{2,3}|b)$", "");
    let checked = check(Kind::under_test(), &text).expect("it starts");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn the_end_of_a_valid_test_is_nginx_s() {
    let checked = check(Kind::under_test(), "events { }\n").expect("it starts");
    let lines: Vec<&str> = checked.stderr.lines().collect();
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(lines[0].ends_with(": the configuration file @DIR@/nginx.conf syntax is ok"), "{}", checked.stderr);
    assert!(lines[1].ends_with(": configuration file @DIR@/nginx.conf test is successful"), "{}", checked.stderr);
}

#[test]
fn servers_of_one_address_that_name_different_protocols_are_warned_of() {
    if !freerun_testkit::require::freerun() {
        return;
    }
    let servers = |second: &str| {
        format!(
            "events {{ }}\nhttp {{\nserver {{ listen 127.0.0.1:@PORT@ proxy_protocol; }}\n\
             server {{ listen 127.0.0.1:@PORT@{second}; server_name b; }}\n}}\n"
        )
    };
    let is_warned = |text: &str| {
        let checked = check(Kind::under_test(), text).expect("it starts");
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
        checked.stderr.contains("protocol options redefined for 127.0.0.1:@PORT@ in @DIR@/nginx.conf:4")
    };
    assert!(is_warned(&servers(" http2")));
    // The same ones, or none at all, are no contradiction.
    assert!(!is_warned(&servers(" proxy_protocol")) && !is_warned(&servers("")));
}

#[test]
fn three_thousand_servers_are_checked() {
    // The time is the benchmark's business; here it must merely be no matter of minutes.
    let servers: String = (0..3000)
        .map(|n| format!("server {{ listen 127.0.0.1:@PORT@; server_name s{n}.example *.s{n}.example; location / {{ return 200; }} }}\n"))
        .collect();
    let checked =
        check(Kind::under_test(), &format!("events {{ }}\nhttp {{ server_names_hash_max_size 65536; {servers} }}\n"));
    let checked = checked.expect("it starts");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}
