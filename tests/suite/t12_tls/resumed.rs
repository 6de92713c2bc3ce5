//! Sessions that are resumed, and those that must not be.

use super::secure;
use freerun_testkit::{AgreedParameters, Setup, Site, TestClient, TestServer, Tls, TlsVersion, eventually, require};

const TELL: &str =
    "location = /r { return 200 '$ssl_session_reused'; } location = /id { return 200 '$ssl_session_id'; }";

/// One connection with a request on it, after which the tickets of TLS 1.3 have come.
fn visit(server: &TestServer, tls: &Tls) -> AgreedParameters {
    let mut client = server.connect_tls(tls);
    let reused = client.get("/r").text();
    let agreed = client.agreed();
    assert_eq!(reused, if agreed.resumed { "r" } else { "." });
    agreed
}

#[test]
fn sessions_are_resumed_by_tickets_and_by_the_cache_on_other_loops() {
    let site = Site::new();
    for lines in ["", "ssl_session_cache shared:s:1m;", "ssl_session_cache shared:s:1m; ssl_session_tickets off;"] {
        let server = secure(&site, &format!("{TELL} {lines}")).main("worker_processes 4;").run();
        for version in TlsVersion::ALL {
            for (by_id, tls) in [(false, Tls::new().resuming()), (true, Tls::new().resuming_by_id())] {
                // With TLS 1.3, what stands for a kept session is sent as a ticket.
                if by_id && version == TlsVersion::V12 && !lines.contains("shared") {
                    continue;
                }
                let tls = tls.only(version);
                assert!(!visit(&server, &tls).resumed);
                // So many come to more than one loop.
                let resumed = (0..24).filter(|_| visit(&server, &tls).resumed).count();
                assert_eq!(resumed, 24, "{version} {lines:?} by id: {by_id}");
            }
        }
    }
}

#[test]
fn without_tickets_and_cache_nothing_is_resumed() {
    let site = Site::new();
    for lines in ["ssl_session_tickets off;", "ssl_session_tickets off; ssl_session_cache off;"] {
        let server = secure(&site, &format!("{TELL} {lines}")).run();
        for version in TlsVersion::ALL {
            for tls in [Tls::new().only(version).resuming(), Tls::new().only(version).resuming_by_id()] {
                assert!((0..3).all(|_| !visit(&server, &tls).resumed), "{version} {lines}");
            }
        }
    }
}

#[test]
fn a_command_about_tickets_counts_more_than_the_directive() {
    let site = Site::new();
    for (lines, resumed) in [
        ("ssl_session_tickets off; ssl_conf_command Options SessionTicket;", true),
        ("ssl_session_tickets on; ssl_conf_command Options -SessionTicket;", false),
    ] {
        let server = secure(&site, &format!("{TELL} {lines}")).run();
        let tls = Tls::new().only(TlsVersion::V12).resuming();
        assert!(!visit(&server, &tls).resumed);
        assert_eq!(visit(&server, &tls).resumed, resumed, "{lines}");
    }
}

#[test]
fn the_cache_alone_is_enough_for_clients_without_tickets() {
    let site = Site::new();
    for lines in [
        "ssl_session_cache shared:s:1m; ssl_session_tickets off;",
        "ssl_session_cache builtin:100; ssl_session_tickets off;",
    ] {
        let server = secure(&site, &format!("{TELL} {lines}")).run();
        for version in TlsVersion::ALL {
            let tls = Tls::new().only(version).resuming_by_id();
            assert!(!visit(&server, &tls).resumed);
            assert!((0..3).all(|_| visit(&server, &tls).resumed), "{version} {lines}");
        }
    }
}

#[test]
fn sessions_outlive_a_reload() {
    let site = Site::new();
    for lines in [
        "",
        "ssl_session_cache shared:s:1m; ssl_session_tickets off;",
        "ssl_session_ticket_key @CERTS@/tickets-80.key;",
    ] {
        // nginx makes new keys of tickets when it reloads.
        if lines.is_empty() && !require::freerun() {
            continue;
        }
        let server = secure(&site, &format!("{TELL} {lines}")).run();
        for version in TlsVersion::ALL {
            let tls = Tls::new().only(version).resuming();
            visit(&server, &tls);
            server.reload();
            assert!(visit(&server, &tls).resumed, "{version} {lines:?}");
        }
    }
}

#[test]
fn key_files_let_sessions_outlive_the_process_and_the_keys_change() {
    let site = Site::new();
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version).resuming();
        let server = |lines: &str| secure(&site, &format!("{TELL} {lines}")).run();
        let old = server("ssl_session_ticket_key @CERTS@/tickets-48.key;");
        visit(&old, &tls);
        drop(old);
        let both = "ssl_session_ticket_key @CERTS@/tickets-80.key; ssl_session_ticket_key @CERTS@/tickets-48.key;";
        let rotated = server(both);
        assert!(visit(&rotated, &tls).resumed, "{version}: the second key is of earlier tickets");
        assert!(visit(&rotated, &tls).resumed, "{version}");
        drop(rotated);
        let new = server("ssl_session_ticket_key @CERTS@/tickets-80.key;");
        assert!(visit(&new, &tls).resumed, "{version}: new tickets are of the first key");
        drop(new);
        assert!(!visit(&server("ssl_session_ticket_key @CERTS@/tickets-48.key;"), &tls).resumed, "{version}");
    }
}

#[test]
fn sessions_end_with_their_time() {
    let site = Site::new();
    let server =
        |time: &str| secure(&site, &format!("{TELL} ssl_session_timeout {time}; ssl_session_cache shared:s:1m;")).run();
    let (long, short) = (server("1h"), server("1s"));
    for version in TlsVersion::ALL {
        let tls = || Tls::new().only(version).resuming_by_id();
        let lasting = tls();
        visit(&long, &lasting);
        assert!(visit(&long, &lasting).resumed, "{version}");
        let brief = tls();
        visit(&short, &brief);
        eventually("a session whose time is over", || !visit(&short, &brief).resumed);
    }
}

/// Two servers on one address, with other authorities for clients.
fn two(lines: &str) -> TestServer {
    let server = |name: &str, certificate: &str, ca: &str| {
        format!(
            "server {{ listen 127.0.0.1:@PORT@ ssl; server_name {name}; {TELL}
                       ssl_certificate @CERTS@/{certificate}.crt; ssl_certificate_key @CERTS@/{certificate}.key;
                       ssl_verify_client on; ssl_client_certificate @CERTS@/{ca}.crt;
                       location = /who {{ return 200 '$ssl_client_s_dn $ssl_client_verify'; }} }}\n"
        )
    };
    let http = format!("ssl_protocols TLSv1.2 TLSv1.3; {lines}\n")
        + &server("a.example.com", "ec", "ca")
        + &server("b.example.com", "ec", "strangers")
        + &server("c.example.com", "rsa", "ca");
    Setup::new().http(&http).run()
}

fn who(server: &TestServer, tls: &Tls, name: &str) -> (u16, String, bool) {
    let mut client: TestClient = server.connect_tls(&tls.clone().name(name));
    client.send(format!("GET /who HTTP/1.1\r\nHost: {name}\r\n\r\n"));
    let response = client.response();
    (response.status, response.text(), client.agreed().resumed)
}

#[test]
fn a_session_of_one_server_lets_nobody_into_another() {
    // nginx answers 421, or ends the handshake.
    if !require::freerun() {
        return;
    }
    for lines in ["", "ssl_session_cache shared:s:1m; ssl_session_tickets off;"] {
        let server = two(lines);
        for version in TlsVersion::ALL {
            for other in ["b.example.com", "c.example.com"] {
                let tls = Tls::new().only(version).certificate("client").resuming();
                assert_eq!(who(&server, &tls, "a.example.com").0, 200);
                let (status, text, resumed) = who(&server, &tls, "a.example.com");
                assert_eq!(
                    (status, &text[..], resumed),
                    (200, "CN=Client\\, \\\"the first\\\",O=Tests SUCCESS", true),
                    "{version}"
                );
                // The session is offered to the other one.
                let (status, _, resumed) = who(&server, &tls, other);
                assert_eq!(
                    (status, resumed),
                    (if other.starts_with('b') { 400 } else { 200 }, false),
                    "{version} {other} {lines}"
                );
            }
        }
    }
}

#[test]
fn a_certificate_that_is_not_taken_is_not_taken_by_resuming_either() {
    let site = Site::new();
    for lines in ["", "ssl_session_cache shared:s:1m; ssl_session_tickets off;"] {
        let lines = format!("{TELL} {lines} ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;");
        let server = secure(&site, &lines).run();
        for version in TlsVersion::ALL {
            for name in ["client-other", "client-stale"] {
                let tls = Tls::new().only(version).certificate(name).resuming();
                assert!((0..4).all(|_| server.connect_tls(&tls).get("/r").status == 400), "{version} {name}");
            }
            let nobody = Tls::new().only(version).resuming();
            assert!((0..4).all(|_| server.connect_tls(&nobody).get("/r").status == 400), "{version}");
        }
    }
}

#[test]
fn the_cache_forgets_the_sessions_of_clients_that_are_refused() {
    let site = Site::new();
    let lines = format!(
        "{TELL} ssl_session_cache shared:s:1m; ssl_session_tickets off;
         ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;"
    );
    let server = secure(&site, &lines).run();
    for version in TlsVersion::ALL {
        let resumed = |tls: &Tls, status: u16| {
            let mut client = server.connect_tls(tls);
            assert_eq!(client.get("/r").status, status, "{version}");
            client.agreed().resumed
        };
        let good = Tls::new().only(version).certificate("client").resuming_by_id();
        assert!(!resumed(&good, 200) && resumed(&good, 200), "{version}");
        for bad in [Tls::new(), Tls::new().certificate("client-other"), Tls::new().certificate("client-stale")] {
            let bad = bad.only(version).resuming_by_id();
            assert!(!resumed(&bad, 400) && !resumed(&bad, 400), "{version}");
        }
    }
}

#[test]
fn a_certificate_that_was_revoked_meanwhile_is_not_taken_by_resuming() {
    // nginx believes what the session has.
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    for lines in
        ["ssl_session_ticket_key @CERTS@/tickets-80.key;", "ssl_session_cache shared:s:1m; ssl_session_tickets off;"]
    {
        let server =
            secure(&site, &format!("{TELL} {lines} ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;"))
                .run();
        let known = TlsVersion::ALL.map(|version| {
            let tls = Tls::new().only(version).certificate("client-withdrawn").resuming();
            assert_eq!(server.connect_tls(&tls).get("/r").text(), ".");
            assert_eq!(server.connect_tls(&tls).get("/r").text(), "r");
            tls
        });
        server.edit("ssl_verify_client on;", "ssl_verify_client on; ssl_crl @CERTS@/ca.crl;");
        server.reload();
        for tls in known {
            assert_eq!(server.connect_tls(&tls).get("/r").status, 400);
        }
    }
}
