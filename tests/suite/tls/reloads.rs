//! Files of certificates and keys: who reads them, when they change, and what is said when they are wrong.

use freerun_testkit::{Client, Kind, Server, Setup, Tls, TlsVersion, certificates, check, copied, eventually, require};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn copy(from: &str, to: &Path) {
    for ending in ["crt", "key"] {
        std::fs::copy(certificates().path(&format!("{from}.{ending}")), to.join(format!("own.{ending}")))
            .expect("a copy");
    }
}

fn served(server: &Server) -> Vec<u8> {
    server.connect_tls(&Tls::new()).agreed().certificates[0].clone()
}

fn own(dir: &Path, lines: &str) -> Setup {
    let dir = dir.display();
    Setup::new().http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; ssl_protocols TLSv1.2 TLSv1.3; {lines}
                   ssl_certificate {dir}/own.crt; ssl_certificate_key {dir}/own.key; return 200 '$ssl_server_name'; }}"
    ))
}

#[test]
fn a_reload_changes_the_certificate_and_nothing_else_does() {
    let dir = copied(&[]);
    copy("ec", dir.path());
    let server = own(dir.path(), "").run();
    let mut old: Client = server.connect_tls(&Tls::new());
    assert_eq!(old.get("/").text(), "localhost");
    copy("rsa", dir.path());
    assert_eq!(served(&server), certificates().der("ec.crt"));
    server.reload();
    // A worker of nginx that ends may accept a connection yet.
    eventually("the new certificate", || served(&server) == certificates().der("rsa.crt"));
    if server.kind() == Kind::Freerun {
        assert_eq!(old.get("/").text(), "localhost", "a connection that is kept goes on");
    }
    // A pair that does not match is refused, and the old one stays.
    copy("ec", dir.path());
    std::fs::copy(certificates().path("other.crt"), dir.path().join("own.crt")).expect("a copy");
    server.signal(rustix::process::Signal::HUP);
    server.logs("key values mismatch");
    assert_eq!(served(&server), certificates().der("rsa.crt"));
}

#[test]
fn keys_that_only_root_can_read_are_used_by_workers_without_rights() {
    if !require::root() {
        return;
    }
    let dir = copied(&[]);
    copy("rsa", dir.path());
    std::fs::set_permissions(dir.path().join("own.key"), std::fs::Permissions::from_mode(0o600)).expect("chmod");
    let server = own(dir.path(), "").main("user nobody nogroup;").run();
    for version in TlsVersion::ALL {
        assert_eq!(server.connect_tls(&Tls::new().only(version)).get("/").text(), "localhost");
    }
    server.reload();
    assert_eq!(server.connect_tls(&Tls::new()).get("/").text(), "localhost");
}

#[test]
fn encrypted_keys_need_one_of_the_passwords() {
    for (certificate, key) in [("ec", "locked"), ("rsa", "old-locked")] {
        let pair = format!(
            "listen 127.0.0.1:@PORT@ ssl; ssl_protocols TLSv1.2 TLSv1.3; return 200 opened;
             ssl_certificate @CERTS@/{certificate}.crt; ssl_certificate_key @CERTS@/{key}.key;"
        );
        let server = Setup::new().http(&format!("server {{ {pair} ssl_password_file @CERTS@/secret.txt; }}")).run();
        assert_eq!(server.connect_tls(&Tls::new()).get("/").text(), "opened");
        let dir = copied(&[]);
        std::fs::write(dir.path().join("wrong"), "wrong\nworse\n").expect("a file");
        let passwords = format!("ssl_password_file {}/wrong;", dir.path().display());
        let text = format!("events {{ }}\nhttp {{ server {{ {pair} {passwords} }} }}\n");
        let checked = check(Kind::under_test(), &text).expect("it starts");
        assert_eq!(checked.code, Some(1), "{}", checked.stderr);
        assert!(checked.stderr.contains("[emerg] cannot load certificate key"), "{}", checked.stderr);
    }
}

#[test]
fn files_that_are_wrong_are_named_by_t() {
    for (lines, said) in [
        ("ssl_certificate @CERTS@/none.crt; ssl_certificate_key @CERTS@/ec.key;", "cannot load certificate \""),
        ("ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/none.key;", "cannot load certificate key \""),
        ("ssl_certificate @CERTS@/ec.crt;", "no \"ssl_certificate_key\" is defined for certificate \""),
        ("ssl_certificate @CERTS@/secret.txt; ssl_certificate_key @CERTS@/ec.key;", "cannot load certificate \""),
        ("ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/other.key;", "SSL_CTX_use_PrivateKey(\""),
        (
            "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_session_ticket_key @CERTS@/ec.key;",
            "must be 48 or 80 bytes",
        ),
        (
            "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_client_certificate @CERTS@/none; ssl_verify_client on;",
            "SSL_CTX_load_verify_locations(\"",
        ),
        (
            "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_verify_client on;",
            "no ssl_client_certificate",
        ),
        ("ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_ciphers NONE;", "no cipher match"),
    ] {
        let text = format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:@PORT@ ssl; {lines} }} }}\n");
        let checked = check(Kind::under_test(), &text).expect("it starts");
        assert_eq!(checked.code, Some(1), "{lines}: {}", checked.stderr);
        assert!(checked.stderr.contains(said), "{lines}: {}", checked.stderr);
    }
}

#[test]
fn a_chain_is_sent_whole() {
    let dir = copied(&[]);
    std::fs::copy(certificates().path("below.key"), dir.path().join("own.key")).expect("a copy");
    std::fs::copy(certificates().path("below-chain.crt"), dir.path().join("own.crt")).expect("a copy");
    let server = own(dir.path(), "").run();
    for version in TlsVersion::ALL {
        let sent = server.connect_tls(&Tls::new().only(version)).agreed().certificates;
        assert_eq!(sent, [certificates().der("below.crt"), certificates().der("middle.crt")]);
    }
}
