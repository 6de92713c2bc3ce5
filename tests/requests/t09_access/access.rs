//! `allow`, `deny` and `auth_basic`: their log lines, their files, and what bad files do.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site};

/// `plain:secret`
const PLAIN: &str = "Authorization: Basic cGxhaW46c2VjcmV0\r\n";
/// `plain:wrong`
const WRONG: &str = "Authorization: Basic cGxhaW46d3Jvbmc=\r\n";

fn site() -> Site {
    let site = Site::new();
    site.file("a", "0123456789")
        .file("users", "plain:{PLAIN}secret\nslow:$2y$31$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n");
    site
}

#[test]
fn refusals_are_logged_and_passwords_are_not() {
    let site = site();
    let lines = "
        location /deny { deny all; }
        location /any { satisfy any; deny all; auth_basic realm; auth_basic_user_file @ROOT@/users; }
        location /basic { auth_basic realm; auth_basic_user_file @ROOT@/users; }
        location /none { auth_basic realm; auth_basic_user_file none; }
    ";
    let server = Setup::server(&site, lines).run_in_process();
    let tail = |target: &str| {
        format!(", client: 127.0.0.1, server: localhost, request: \"GET {target} HTTP/1.1\", host: \"localhost\"")
    };
    assert_eq!(server.get("/deny").status, 403);
    server.logs(&format!("access forbidden by rule{}", tail("/deny")));
    assert_eq!(server.get("/any").status, 401);
    server.logs(&format!("no user/password was provided for basic authentication{}", tail("/any")));
    assert_eq!(server.get_with("/basic", PLAIN).status, 404);
    assert_eq!(server.get_with("/basic", WRONG).status, 401);
    server.logs(&format!("user \"plain\": password mismatch{}", tail("/basic")));
    assert_eq!(server.get_with("/basic", "Authorization: Basic bm9ib2R5OnNlY3JldA==\r\n").status, 401);
    server.logs(&format!("user \"nobody\" was not found in \"{}\"{}", site.at("users").display(), tail("/basic")));
    assert_eq!(server.get_with("/none", PLAIN).status, 403);
    let beside = server.path("none").display().to_string();
    server.logs(&format!("open() \"{beside}\" failed (2: No such file or directory){}", tail("/none")));
    let log = server.error_log();
    assert_eq!(log.matches("access forbidden").count(), 1, "{log}");
    assert!(!log.contains("secret") && !log.contains("wrong") && !log.contains("cGxhaW4"), "{log}");
}

#[test]
fn a_changed_file_counts_at_once() {
    let site = site();
    // An old date, so that it is kept.
    site.dated("old", "plain:{PLAIN}secret\n", 784_111_777);
    let server =
        Setup::server(&site, "location / { auth_basic realm; auth_basic_user_file @ROOT@/old; try_files /a =404; }")
            .run_in_process();
    for round in 0..3 {
        assert_eq!(server.get_with("/", PLAIN).status, 200);
        // Of the same length, and first with the time of now, then with that of before.
        site.file("old", "plain:{PLAIN}wrong\n#");
        assert_eq!(server.get_with("/", PLAIN).status, 401, "{round}");
        assert_eq!(server.get_with("/", WRONG).status, 200);
        site.file("old", "plain:{PLAIN}secret\n");
    }
    std::fs::remove_file(site.at("old")).expect("removing it");
    assert_eq!(server.get_with("/", PLAIN).status, 403);
}

#[test]
fn hostile_files_are_bounded() {
    let site = site();
    let huge = std::fs::File::create(site.at("huge")).expect("a file");
    huge.set_len(1 << 30).expect("a hole of 1 GB");
    site.file("long", "x".repeat(1 << 20)).file("binary", (0..=255).cycle().take(1 << 18).collect::<Vec<u8>>());
    let lines = "location / { auth_basic realm; auth_basic_user_file @ROOT@/$arg_f; try_files /a =404; }";
    let server = Setup::server(&site, lines).in_process();
    for (target, status) in [
        ("/?f=huge", 500),
        ("/?f=long", 401),
        ("/?f=binary", 401),
        ("/?f=../../../../../../../../dev/zero", 500),
        ("/?f=../../../../../../../../proc/cpuinfo", 401),
        ("/?f=", 500),
        ("/?f=users", 200),
    ] {
        assert_eq!(server.get_with(target, PLAIN).status, status, "{target}");
    }
    server.logs("is too large for a password file: 1073741824 bytes");
    server.logs("is not a file");
    assert_eq!(server.get_with("/?f=users", "Authorization: Basic c2xvdzp4\r\n").status, 500);
    server.logs("user \"slow\": the stored password asks for too much time or memory");
}

#[test]
fn a_delayed_refusal_ends_with_its_client() {
    let site = site();
    let lines = "location / { auth_delay 1h; auth_basic realm; auth_basic_user_file @ROOT@/users; try_files /a =404; }";
    let server =
        Setup::server(&site, lines).http("log_format s $status; access_log @DIR@/access.log s;").run_in_process();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    server.logs("no user/password was provided");
    drop(client);
    assert_eq!(server.access_lines(1), ["499"]);
    // Others do not wait with it.
    assert_eq!(server.get_with("/", PLAIN).status, 200);
}

#[test]
fn many_slow_passwords_do_not_keep_others_waiting() {
    let site = site();
    // About 50 ms each.
    site.file("costly", "plain:$2b$10$abcdefghijklmnopqrstuuNaD4Lk6cfTTL2gOmM1Kv0wQEnNq6HjW\n");
    let lines = "location /slow { auth_basic realm; auth_basic_user_file @ROOT@/costly; try_files /a =404; }";
    let server = Setup::server(&site, lines).in_process();
    let mut attackers: Vec<_> = (0..40).map(|_| server.connect()).collect();
    for client in &mut attackers {
        client.send(format!("GET /slow HTTP/1.1\r\nHost: localhost\r\n{PLAIN}\r\n"));
    }
    assert_eq!(server.get("/a").status, 200);
    for client in &mut attackers {
        assert_eq!(client.response().status, 401);
    }
}

#[test]
fn clients_of_a_unix_socket_have_rules_of_their_own() {
    let site = site();
    let setup = Setup::new().root(&site).http("log_format who '$remote_addr $status'; access_log @DIR@/access.log who;").http(
        "server { listen 127.0.0.1:@PORT@; listen unix:@DIR@/socket; server_name localhost; root @ROOT@; try_files /a =404;
                  location /unix { allow unix:; deny all; try_files /a =404; }
                  location /ip { deny unix:; try_files /a =404; }
                  location /network { allow 0.0.0.0/0; allow ::/0; deny all; try_files /a =404; }
                  location /real { set_real_ip_from unix:; deny 192.0.2.1; try_files /a =404; } }",
    );
    let server = setup.run_in_process();
    let mut statuses = Vec::new();
    for target in ["/unix", "/ip", "/network", "/real"] {
        let mut client = freerun_testkit::TestClient::try_connect_unix(&server.path("socket")).expect("connecting");
        let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nX-Real-IP: 192.0.2.1\r\n\r\n");
        client.send(&head);
        statuses.push((client.response().status, server.send(&head).status));
    }
    assert_eq!(statuses, [(200, 403), (403, 200), (403, 200), (403, 200)]);
    let lines = server.access_lines(8);
    assert!(lines.contains(&"unix: 200".to_owned()) && lines.contains(&"192.0.2.1 403".to_owned()), "{lines:?}");
}
