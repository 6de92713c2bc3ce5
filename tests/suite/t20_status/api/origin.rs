//! By which names pages may change something.

use freerun_testkit::{Setup, require};

#[test]
fn a_page_of_a_foreign_name_changes_nothing() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .http(
            "keyval_zone zone=z:64k;
             server { listen 127.0.0.1:@PORT@; location /api { api write=on; } }",
        )
        .freerun();
    // By which name the page has come, which may stand for this machine only because its owner says so.
    let named = |host: &str, fields: &str| {
        let text = format!(
            "DELETE /api/9/http/keyvals/z HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 0\r\n{fields}\r\n"
        );
        server.send(text).status
    };
    for host in ["rebind.test", "rebind.test:8080", "127.0.0.1.rebind.test", "localhost.rebind.test", "notlocalhost"] {
        assert_eq!(named(host, "Sec-Fetch-Site: same-origin\r\n"), 403, "{host}");
        assert_eq!(named(host, ""), 403, "{host}");
    }
    for host in ["127.0.0.1", "127.0.0.1:8080", "[::1]", "localhost:1", "a.localhost", "LOCALHOST"] {
        assert_eq!(named(host, "Sec-Fetch-Site: same-origin\r\n"), 204, "{host}");
    }
    // A program that is no browser says nothing of a page.
    let text = "DELETE /api/9/http/keyvals/z HTTP/1.1\r\nHost: any.test\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(server.send(text).status, 204);
}

#[test]
fn a_page_may_use_the_names_of_the_server() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .http(
            "keyval_zone zone=z:64k;
             server { listen 127.0.0.1:@PORT@; server_name _ status.test *.wild.test .both.test ~.; location /api { api write=on; } }",
        )
        .freerun();
    let status = |host: &str| {
        let text = format!(
            "DELETE /api/9/http/keyvals/z HTTP/1.1\r\nHost: {host}\r\nOrigin: https://{host}\r\nContent-Length: 0\r\n\r\n"
        );
        server.send(text).status
    };
    for host in ["status.test", "Status.test", "a.wild.test", "both.test", "a.both.test"] {
        assert_eq!(status(host), 204, "{host}");
    }
    // A regular expression that matches everything is no name.
    for host in ["other.test", "wild.test", "xboth.test"] {
        assert_eq!(status(host), 403, "{host}");
    }
}
