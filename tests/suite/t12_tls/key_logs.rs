//! Secrets of sessions that are logged.

use freerun_testkit::{Kind, Setup, Site, TestClient, TestServer, Tls, TlsVersion, check, eventually, require};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A server with TLS that logs the secrets of its clients, and one that passes requests to it and logs its own.
const BOTH: &str = "
    server { listen 127.0.0.1:@PORT@ ssl; server_name localhost; ssl_key_log clients.keys;
             ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
             ssl_protocols TLSv1.2 TLSv1.3; location / { return 200 yes; } }
    server { listen 127.0.0.1:@PORT2@; proxy_ssl_key_log @DIR@/upstreams.keys;
             location / { proxy_pass https://127.0.0.1:@PORT@; } }";

fn lines(server: &TestServer, name: &str) -> Vec<String> {
    fs::read_to_string(server.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn mode(server: &TestServer, name: &str) -> u32 {
    fs::metadata(server.path(name)).map_or(0, |metadata| metadata.permissions().mode() & 0o777)
}

#[test]
fn the_secrets_of_both_sides_are_those_that_the_peers_know() {
    // It is for subscribers only.
    if !require::freerun() {
        return;
    }
    let server = Setup::new().http(BOTH).run();
    for (version, label) in TlsVersion::ALL.into_iter().zip(["CLIENT_RANDOM ", "CLIENT_TRAFFIC_SECRET_0 "]) {
        let tls = Tls::new().only(version);
        assert_eq!(server.connect_tls(&tls).get("/").text(), "yes");
        let known = tls.secrets();
        assert!(known.iter().any(|line| line.starts_with(label)), "{known:?}");
        eventually("the client's secrets", || {
            let logged = lines(&server, "clients.keys");
            known.iter().all(|line| logged.contains(line))
        });
    }
    let mut client = TestClient::connect(server.address_number(2));
    assert_eq!(client.get("/").text(), "yes");
    eventually("the secrets of the session with the upstream server, in both files", || {
        let (clients, upstreams) = (lines(&server, "clients.keys"), lines(&server, "upstreams.keys"));
        !upstreams.is_empty() && upstreams.iter().all(|line| clients.contains(line))
    });
    assert_eq!((mode(&server, "clients.keys"), mode(&server, "upstreams.keys")), (0o600, 0o600));
    for name in ["clients.keys", "upstreams.keys"] {
        let path = server.path(name).display().to_string();
        let warning = format!("secrets of TLS sessions are written to \"{path}\"");
        assert!(server.stderr().contains(&warning), "{}", server.stderr());
    }
}

#[test]
fn the_file_is_reopened_with_the_logs_and_outlives_a_reload() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new().http(BOTH).run();
    let visit = || {
        let tls = Tls::new();
        assert_eq!(server.connect_tls(&tls).get("/").text(), "yes");
        let known = tls.secrets();
        eventually("the client's secrets", || {
            let logged = lines(&server, "clients.keys");
            known.iter().all(|line| logged.contains(line))
        });
    };
    visit();
    server.reload();
    visit();
    let both = lines(&server, "clients.keys").len();
    fs::rename(server.path("clients.keys"), server.path("old.keys")).expect("a file");
    server.signal(Signal::USR1);
    eventually("a new file", || mode(&server, "clients.keys") == 0o600);
    server.reload();
    visit();
    assert_eq!(lines(&server, "old.keys").len(), both);
}

#[test]
fn each_file_is_warned_of_once() {
    let text = "events {} http { ssl_key_log a.keys; uwsgi_ssl_key_log @DIR@/b.keys;
        ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
        server { listen 127.0.0.1:@PORT@ ssl; location / { uwsgi_pass suwsgi://127.0.0.1:1; } }
        server { listen 127.0.0.1:@PORT@ ssl; server_name b; ssl_buffer_size 4k;
                 location / { uwsgi_pass suwsgi://127.0.0.1:1; uwsgi_ssl_verify off; uwsgi_ssl_server_name on; } } }";
    let checked = check(Kind::Freerun, text).expect("a program");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    for name in ["a", "b"] {
        let warning = format!("secrets of TLS sessions are written to \"@DIR@/{name}.keys\"");
        assert_eq!(checked.stderr.matches(&warning).count(), 1, "{}", checked.stderr);
    }
    let none = check(Kind::Freerun, "events {} http { ssl_key_log ''; }").expect("a program");
    assert_eq!(none.code, Some(1), "{}", none.stderr);
    let site = Site::new();
    let folder = site.at("none").display().to_string();
    let lost = text.replace("a.keys", &format!("{folder}/a.keys"));
    let lost = check(Kind::Freerun, &lost).expect("a program");
    assert!(lost.code == Some(1) && lost.stderr.contains("a.keys\" failed (2: No such file"), "{}", lost.stderr);
}
