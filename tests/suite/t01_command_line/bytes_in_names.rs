//! Bytes that are not UTF-8 on the command line, in the names of the configuration's files and logs, and in what is printed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use freerun_testkit::{Kind, Setup, Site, TempDir, TestClient, eventually, require};

/// A folder below this one whose name is not UTF-8.
fn folder(within: &Path) -> PathBuf {
    let path = within.join(OsStr::from_bytes(b"h\xe9"));
    fs::create_dir_all(path.join("logs")).expect("a folder is made");
    // The worker may be another user.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("its rights are set");
    path
}

/// Runs the program with these arguments.
fn run(arguments: &[&OsStr]) -> Output {
    let program = Kind::under_test().program().expect("the program");
    Command::new(program).args(arguments).output().expect("it runs")
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|one| one == part)
}

#[test]
fn paths_of_the_command_line_are_bytes() {
    let dir = TempDir::new("bytes");
    let path = folder(dir.path());
    let globals = OsString::from_vec(b"pid \"n\xe9.pid\";".to_vec());
    fs::write(path.join("n.conf"), b"events { }\ninclude more/*.conf;\n").expect("a file is written");
    fs::create_dir_all(path.join("more")).expect("a folder is made");
    fs::write(path.join(OsStr::from_bytes(b"more/\xff.conf")), b"# \xfe\nhttp { }\n").expect("a file is written");
    let log = path.join("e.log");
    let word = OsStr::new::<str>;
    let done = run(&[
        word("-T"),
        word("-p"),
        path.as_os_str(),
        word("-c"),
        word("n.conf"),
        word("-e"),
        log.as_os_str(),
        word("-g"),
        &globals,
    ]);
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{told}");
    let at = path.as_os_str().as_bytes();
    for part in [
        &[&b"# configuration file "[..], at, b"/n.conf:\nevents { }\ninclude more/*.conf;\n\n"].concat()[..],
        &[&b"# configuration file "[..], at, b"/more/\xff.conf:\n# \xfe\nhttp { }\n"].concat(),
    ] {
        assert!(has(&done.stdout, part), "{}", String::from_utf8_lossy(&done.stdout));
    }
    assert!(has(&done.stderr, &[&b"configuration file "[..], at, b"/n.conf test is successful"].concat()), "{told}");
}

#[test]
fn errors_name_the_bytes() {
    let dir = TempDir::new("bytes");
    let path = folder(dir.path());
    fs::write(path.join("n.conf"), b"events { }\ninclude \"n\xe9ne\";\n").expect("a file is written");
    let word = OsStr::new::<str>;
    let done = run(&[word("-t"), word("-p"), path.as_os_str(), word("-c"), word("n.conf")]);
    assert_eq!(done.status.code(), Some(1));
    let at = path.as_os_str().as_bytes();
    let words =
        [&b"open() \""[..], at, b"/n\xe9ne\" failed (2: No such file or directory) in ", at, b"/n.conf:2"].concat();
    assert!(has(&done.stderr, &words), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn logs_have_names_and_lines_of_bytes() {
    let site = Site::new();
    let path = folder(site.path());
    let text = [
        &b"log_format f \"l\xe9g $arg_a\";\naccess_log \""[..],
        path.as_os_str().as_bytes(),
        b"/a.log\" f;\naccess_log \"",
        path.as_os_str().as_bytes(),
        b"/$arg_a.log\" f;\nerror_log \"",
        path.as_os_str().as_bytes(),
        b"/e.log\";\nlocation = /none { root \"",
        path.as_os_str().as_bytes(),
        b"\"; log_not_found on; }\n",
    ]
    .concat();
    // A format is of `http`, the logs of the server.
    let split = text.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    site.file("format.conf", &text[..split]).file("server.conf", &text[split..]);
    let include = |name: &str| format!("include {};\n", site.at(name).display());
    let root = site.path().display();
    let server = format!("server {{ listen 127.0.0.1:@PORT@; root {root};\n@SERVER@ location / {{ return 204; }} }}\n");
    let setup = Setup::new().http(&(include("format.conf") + &server.replace("@SERVER@", &include("server.conf"))));
    let server = setup.run();
    let mut client = server.connect();
    client.send(b"GET /x?a=z HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 204);
    client.send(b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 404);
    let read = |name: &str| fs::read(path.join(name)).unwrap_or_default();
    let missing =
        [&b"open() \""[..], path.as_os_str().as_bytes(), b"/none\" failed (2: No such file or directory)"].concat();
    eventually("the lines", || {
        has(&read("a.log"), b"l\xe9g z\n") && has(&read("z.log"), b"l\xe9g z\n") && has(&read("e.log"), &missing)
    });
}

#[test]
fn sessions_have_maps_names_and_logs_of_bytes() {
    let site = Site::new();
    let included = |name: &str, text: &[u8]| {
        site.file(name, text);
        format!("include {};", site.at(name).display())
    };
    let path = folder(site.path());
    let log = [&b"access_log \""[..], path.as_os_str().as_bytes(), b"/s.log\" f;\n"].concat();
    let common =
        [&b"map $server_port $word { default \"w\xe9\"; }\nlog_format f \"l\xe9g $word $status\";\n"[..], &log]
            .concat();
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = upstream.local_addr().expect("an address").to_string();
    let group = [b"upstream w\xe9 { server ", address.as_bytes(), b"; }\n"].concat();
    let common = included("common.conf", &[common, group].concat());
    let said = included("said.conf", b"return \"$word \xe9\";");
    let named = included("named.conf", b"proxy_pass w\xe9;");
    let server = Setup::new()
        .stream(&format!(
            "{common}
             server {{ listen 127.0.0.1:@PORT2@; {said} }}
             server {{ listen 127.0.0.1:@PORT3@; {named} }}
             server {{ listen 127.0.0.1:@PORT4@; proxy_pass $word; }}"
        ))
        .http("server { listen 127.0.0.1:@PORT@; }")
        .run();
    assert_eq!(TestClient::connect(server.address_number(2)).rest().0, b"w\xe9 \xe9");
    for number in [3, 4] {
        let mut client = TestClient::connect(server.address_number(number));
        let (mut peer, _) = upstream.accept().expect("the server asks");
        peer.write_all(b"\xff").expect("it is sent");
        drop(peer);
        assert_eq!(client.rest().0, b"\xff", "{number}");
    }
    let lines = || fs::read(path.join("s.log")).unwrap_or_default();
    // What a variable gives is escaped in a log.
    eventually("a line of each session", || lines() == b"l\xe9g w\\xE9 200\n".repeat(3));
}

#[test]
fn names_are_told_as_utf8() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let included = |name: &str, text: &[u8]| {
        site.file(name, text);
        format!("include {};", site.at(name).display())
    };
    let zones = included(
        "zones.conf",
        b"limit_req_zone $arg_a zone=w\xe9:1m rate=1r/s;\nkeyval_zone zone=k\xe9:1m;\nkeyval $arg_a $kept zone=k\xe9;\n\
          upstream u\xe9 { zone u\xe9 64k; server 127.0.0.1:1; }\n",
    );
    let counted = included("counted.conf", b"status_zone s\xe9;\nlimit_req zone=w\xe9 burst=100 nodelay;\n");
    let passed = included("passed.conf", b"proxy_pass http://u\xe9;");
    let server = Setup::new()
        .http(&format!(
            "{zones} server {{ listen 127.0.0.1:@PORT@; {counted} location = /status {{ status; }}
                 location /api {{ api; }} location /passed {{ {passed} }} }}"
        ))
        .freerun();
    server.get("/passed");
    for (path, names) in [
        ("/status?format=json", &["s", "w", "u"][..]),
        ("/status?format=prometheus", &["s", "w", "u"]),
        ("/api/9/http/server_zones", &["s"]),
        ("/api/9/http/limit_reqs", &["w"]),
        ("/api/9/http/keyvals", &["k"]),
        ("/api/9/http/upstreams", &["u"]),
    ] {
        let response = server.get(path);
        let text = String::from_utf8(response.body).expect("UTF-8");
        for name in names {
            assert!(text.contains(&format!("{name}\u{fffd}\"")), "{name} in {path}: {text}");
        }
        assert!(!text.contains('\u{10ffe9}'), "{path}: {text}");
    }
}
