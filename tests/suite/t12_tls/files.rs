//! Files of certificates and keys: who reads them and when, what a reload changes, and what is said of those that are wrong.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::thread;

use super::secure_with;
use freerun_testkit::{
    Kind, Setup, Site, TestClient, TestServer, Tls, TlsVersion, certificates, check, eventually, require,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

/// Copies a certificate with its key into the site, under another name.
fn copy(site: &Site, from: &str, to: &str) {
    for kind in ["crt", "key"] {
        site.file(&format!("{to}.{kind}"), certificates().text(&format!("{from}.{kind}")));
    }
}

/// A server whose certificate is the file in the site with the name that the client asks for.
fn computed(site: &Site, lines: &str) -> Setup {
    Setup::new().root(site).http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; root @ROOT@;
                   ssl_certificate @ROOT@/$ssl_server_name.crt; ssl_certificate_key @ROOT@/$ssl_server_name.key;
                   {lines} }}"
    ))
}

/// The certificate that a client gets who asks for this name.
fn shown(server: &TestServer, name: &str) -> Vec<u8> {
    let mut client = server.connect_tls(&Tls::new().name(name));
    assert_eq!(client.get("/file").status, 200);
    client.agreed().certificates.remove(0)
}

#[test]
fn a_name_with_variables_is_read_when_it_is_asked_for() {
    let site = Site::new();
    site.file("file", "text");
    copy(&site, "ec", "a.example.com");
    copy(&site, "rsa", "b.example.com");
    let server = computed(&site, "").run();
    assert_eq!(shown(&server, "a.example.com"), certificates().der("ec.crt"));
    assert_eq!(shown(&server, "b.example.com"), certificates().der("rsa.crt"));
    copy(&site, "other", "a.example.com");
    assert_eq!(shown(&server, "a.example.com"), certificates().der("other.crt"), "nothing is kept");
}

#[test]
fn a_certificate_that_is_missing_ends_the_handshake() {
    let site = Site::new();
    site.file("file", "text");
    copy(&site, "ec", "a.example.com");
    site.file("b.example.com.crt", certificates().text("ec.crt"))
        .file("b.example.com.key", certificates().text("other.key"));
    let server = computed(&site, "").run();
    let refused = |name: &str| server.connect().try_tls(&Tls::new().name(name)).expect_err("a refusal").alert;
    assert_eq!(refused("none.example.com"), Some(80));
    server.logs("/none.example.com.crt\": BIO_new_file() failed (SSL: error:80000002:system library::No such file");
    assert_eq!(refused("b.example.com"), Some(80));
    server.logs("key values mismatch) while SSL handshaking");
    assert_eq!(shown(&server, "a.example.com"), certificates().der("ec.crt"), "the others are served");
}

#[test]
fn some_certificates_of_a_server_may_have_variables_in_their_names() {
    let site = Site::new();
    site.file("file", "text");
    copy(&site, "ec", "a.example.com");
    let fixed = "ssl_certificate @CERTS@/rsa.crt; ssl_certificate_key @CERTS@/rsa.key;";
    let server = computed(&site, fixed).run();
    let with = |suite: &str| {
        let tls = Tls::new().name("a.example.com").only(TlsVersion::V12).suites(&[suite]);
        server.connect_tls(&tls).agreed().certificates.remove(0)
    };
    assert_eq!(with("ECDHE-RSA-AES128-GCM-SHA256"), certificates().der("rsa.crt"));
    assert_eq!(with("ECDHE-ECDSA-AES128-GCM-SHA256"), certificates().der("ec.crt"));
}

#[test]
fn a_cache_keeps_what_was_read() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", "text");
    copy(&site, "ec", "a.example.com");
    let server = computed(&site, "ssl_certificate_cache max=10 inactive=1h valid=1h;").run();
    assert_eq!(shown(&server, "a.example.com"), certificates().der("ec.crt"));
    copy(&site, "other", "a.example.com");
    assert_eq!(shown(&server, "a.example.com"), certificates().der("ec.crt"));
    server.reload();
    assert_eq!(shown(&server, "a.example.com"), certificates().der("ec.crt"), "it outlives the configuration");
    server.edit("valid=1h", "valid=2h");
    server.reload();
    assert_eq!(shown(&server, "a.example.com"), certificates().der("other.crt"), "another cache has its own");
}

/// A client chooses the name, so that it may say `..` where files are.
#[test]
fn variables_do_not_lead_out_of_a_folder() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", "text");
    copy(&site, "ec", "in/localhost");
    let lines = |up: &str| {
        format!(
            "map $ssl_server_name $folder {{ default in; localhost {up}; }}
             server {{ listen 127.0.0.1:@PORT@ ssl; root @ROOT@;
                       ssl_certificate @ROOT@/in/../$folder/localhost.crt;
                       ssl_certificate_key @ROOT@/in/../$folder/localhost.key; }}"
        )
    };
    let server = Setup::new().root(&site).http(&lines("in")).run();
    assert_eq!(shown(&server, "localhost"), certificates().der("ec.crt"), "the configuration itself may");
    let server = Setup::new().root(&site).http(&lines("in/../in")).run();
    let refused = server.connect().try_tls(&Tls::new()).expect_err("a refusal");
    assert_eq!(refused.alert, Some(80));
    server.logs("a variable has \"..\" in its value while SSL handshaking");
}

#[test]
fn contents_that_variables_give_are_not_told_of() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .http(
            "map $ssl_server_name $pem { default \"data:a/../secret\"; }
             server { listen 127.0.0.1:@PORT@ ssl; ssl_certificate $pem; ssl_certificate_key $pem; }",
        )
        .run();
    let refused = server.connect().try_tls(&Tls::new()).expect_err("a refusal");
    assert_eq!(refused.alert, Some(80));
    server.logs("cannot load certificate \"data:\": a variable has \"..\" in its value");
}

#[test]
fn the_values_themselves_may_be_certificates() {
    let site = Site::new();
    site.file("file", "text");
    let quoted = |file: &str| certificates().text(file);
    let lines = format!(
        "map $ssl_server_name $pem {{ default \"data:{}\"; }} map $ssl_server_name $key {{ default \"{}\"; }}
         server {{ listen 127.0.0.1:@PORT@ ssl; root @ROOT@; ssl_certificate $pem; ssl_certificate_key data:$key; }}
         server {{ listen 127.0.0.1:@PORT2@ ssl; root @ROOT@;
                   ssl_certificate \"data:{}\"; ssl_certificate_key \"data:{}\"; }}",
        quoted("ec.crt"),
        quoted("ec.key"),
        quoted("rsa.crt"),
        quoted("rsa.key")
    );
    let server = Setup::new().root(&site).http(&lines).run();
    assert_eq!(shown(&server, "localhost"), certificates().der("ec.crt"));
    let client = TestClient::connect(server.address_number(2)).tls(&Tls::new());
    assert_eq!(client.agreed().certificates[0], certificates().der("rsa.crt"));
}

/// A FIFO gives its contents once, and a key may be readable by root alone.
#[test]
fn files_are_read_once_with_the_rights_of_the_master() {
    // nginx reads once since 1.27.4.
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", "text");
    let feed = |name: &'static str, text: String| {
        let path = site.at(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        thread::spawn(move || fs::write(path, text))
    };
    let text = |name: &str| certificates().text(name);
    let fed = [("fifo.crt", text("ec.crt")), ("fifo.key", text("locked.key")), ("fifo.txt", text("secret.txt"))];
    let fed: Vec<_> = fed.into_iter().map(|(name, text)| feed(name, text)).collect();
    let files =
        "ssl_certificate @ROOT@/fifo.crt; ssl_certificate_key @ROOT@/fifo.key; ssl_password_file @ROOT@/fifo.txt;";
    let lines = format!(
        "{files} server {{ listen 127.0.0.1:@PORT@ ssl; root @ROOT@; }}
         server {{ listen 127.0.0.1:@PORT@ ssl; server_name a; ssl_session_timeout 1m; {files} }}"
    );
    let server = Setup::new().root(&site).http(&lines).run();
    for writer in fed {
        writer.join().expect("it ends").expect("it is read");
    }
    assert_eq!(shown(&server, "localhost"), certificates().der("ec.crt"));
}

#[test]
fn keys_may_be_closed_to_the_worker() {
    if !require::root() {
        return;
    }
    let site = Site::new();
    site.file("file", "text");
    copy(&site, "ec", "own");
    let key = site.at("own.key");
    chown(&key, Some(0), Some(0)).expect("the owner is set");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("the mode is set");
    let lines = "ssl_certificate @ROOT@/own.crt; ssl_certificate_key @ROOT@/own.key;";
    let http = format!("server {{ listen 127.0.0.1:@PORT@ ssl; root @ROOT@; {lines} }}");
    let server = Setup::new().main("user nobody nogroup;").root(&site).http(&http).run();
    assert_eq!(shown(&server, "localhost"), certificates().der("ec.crt"));
    server.reload();
    assert_eq!(shown(&server, "localhost"), certificates().der("ec.crt"));
}

/// Writes other contents into a file, which stays the same one, and gives it back its time.
fn rewrite(path: &Path, text: &str) {
    let time = fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a time");
    fs::write(path, text).expect("it is written");
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("the time is set");
}

#[test]
fn a_reload_reads_what_was_modified() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", "text");
    copy(&site, "ec", "own");
    let lines = "ssl_certificate @ROOT@/own.crt; ssl_certificate_key @ROOT@/own.key;";
    let http = format!("server {{ listen 127.0.0.1:@PORT@ ssl; root @ROOT@; {lines} }}");
    let server = Setup::new().main("ssl_object_cache_inheritable on;").root(&site).http(&http).run();
    for kind in ["crt", "key"] {
        rewrite(&site.at(&format!("own.{kind}")), &certificates().text(&format!("other.{kind}")));
    }
    server.reload();
    assert_eq!(shown(&server, "localhost"), certificates().der("ec.crt"), "the files look the same");
    server.edit("ssl_object_cache_inheritable on", "ssl_object_cache_inheritable off");
    server.reload();
    assert_eq!(shown(&server, "localhost"), certificates().der("other.crt"));
    server.edit("ssl_object_cache_inheritable off", "ssl_object_cache_inheritable on");
    fs::remove_file(site.at("own.crt")).expect("removed");
    fs::remove_file(site.at("own.key")).expect("removed");
    copy(&site, "ec", "own");
    server.reload();
    assert_eq!(shown(&server, "localhost"), certificates().der("ec.crt"), "they are other files");
}

#[test]
fn a_configuration_whose_key_is_gone_changes_nothing() {
    let site = Site::new();
    site.file("file", "text");
    let server = secure_with(&site, "ec", "").run();
    server.edit("/ec.key", "/none.key");
    server.signal(Signal::HUP);
    server.logs("cannot load certificate key");
    assert_eq!(shown(&server, "localhost"), certificates().der("ec.crt"));
}

fn served(server: &TestServer) -> Vec<u8> {
    server.connect_tls(&Tls::new()).agreed().certificates[0].clone()
}

/// A server with the certificate and the key `own` of the site.
fn own(site: &Site, lines: &str) -> Setup {
    Setup::new().root(site).http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; ssl_protocols TLSv1.2 TLSv1.3; {lines}
                   ssl_certificate @ROOT@/own.crt; ssl_certificate_key @ROOT@/own.key; return 200 '$ssl_server_name'; }}"
    ))
}

#[test]
fn a_reload_changes_the_certificate_and_nothing_else_does() {
    let site = Site::new();
    copy(&site, "ec", "own");
    let server = own(&site, "").run();
    let mut old: TestClient = server.connect_tls(&Tls::new());
    assert_eq!(old.get("/").text(), "localhost");
    copy(&site, "rsa", "own");
    assert_eq!(served(&server), certificates().der("ec.crt"));
    server.reload();
    // A worker of nginx that ends may accept a connection yet.
    eventually("the new certificate", || served(&server) == certificates().der("rsa.crt"));
    if server.kind() == Kind::Freerun {
        assert_eq!(old.get("/").text(), "localhost", "a connection that is kept goes on");
    }
    // A pair that does not match is refused, and the old one stays.
    copy(&site, "ec", "own");
    site.file("own.crt", certificates().text("other.crt"));
    server.signal(Signal::HUP);
    server.logs("key values mismatch");
    assert_eq!(served(&server), certificates().der("rsa.crt"));
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
        let site = Site::new();
        site.file("wrong", "wrong\nworse\n");
        let passwords = format!("ssl_password_file {};", site.at("wrong").display());
        let text = format!("events {{ }}\nhttp {{ server {{ {pair} {passwords} }} }}\n");
        let checked = check(Kind::under_test(), &text).expect("it starts");
        assert_eq!(checked.code, Some(1), "{}", checked.stderr);
        assert!(checked.stderr.contains("[emerg] cannot load certificate key"), "{}", checked.stderr);
    }
}

#[test]
fn the_passwords_of_one_server_do_not_open_the_key_of_another() {
    let server = |name: &str, more: &str| {
        format!(
            "server {{ listen 127.0.0.1:@PORT@ ssl; server_name {name}; ssl_certificate @CERTS@/ec.crt;
                       ssl_certificate_key @CERTS@/locked.key; {more} }}"
        )
    };
    let (with, without) = (server("a.example", "ssl_password_file @CERTS@/secret.txt;"), server("b.example", ""));
    for servers in [[&with, &without], [&without, &with]] {
        let text = format!("events {{ }}\nhttp {{ {} {} }}\n", servers[0], servers[1]);
        let checked = check(Kind::under_test(), &text).expect("it starts");
        assert_eq!(checked.code, Some(1), "{}", checked.stderr);
        assert!(checked.stderr.contains("[emerg] cannot load certificate key"), "{}", checked.stderr);
    }
}

#[test]
fn the_directive_that_opens_a_key_is_named() {
    if !require::freerun() {
        return;
    }
    let encrypted = |prefix: &str| {
        format!("{prefix}ssl_certificate @CERTS@/ec.crt; {prefix}ssl_certificate_key @CERTS@/locked.key;")
    };
    let target = "127.0.0.1:81";
    let location = |lines: String| format!("http {{ server {{ location / {{ {lines} }} }} }}");
    for (prefix, text) in [
        ("", format!("http {{ server {{ listen 127.0.0.1:@PORT@ ssl; {} }} }}", encrypted(""))),
        ("proxy_", location(format!("proxy_pass https://{target}; {}", encrypted("proxy_")))),
        ("grpc_", location(format!("grpc_pass grpcs://{target}; {}", encrypted("grpc_")))),
        ("uwsgi_", location(format!("uwsgi_pass suwsgi://{target}; {}", encrypted("uwsgi_")))),
        ("", format!("stream {{ server {{ listen 127.0.0.1:@PORT@ ssl; return x; {} }} }}", encrypted(""))),
        (
            "proxy_",
            format!(
                "stream {{ server {{ listen 127.0.0.1:@PORT@; proxy_pass {target}; proxy_ssl on; {} }} }}",
                encrypted("proxy_")
            ),
        ),
    ] {
        let checked = check(Kind::Freerun, &format!("events {{ }}\n{text}\n")).expect("it starts");
        let help = format!("the key is encrypted: \"{prefix}ssl_password_file\" names the file with its password");
        assert!(checked.stderr.contains("bad password read"), "{text}: {}", checked.stderr);
        assert!(checked.stderr.contains(&help), "{text}: {}", checked.stderr);
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
fn contents_are_not_told_of_as_names() {
    // nginx shows them.
    if !require::freerun() {
        return;
    }
    for (lines, said) in [
        ("listen 127.0.0.1:@PORT@ ssl; ssl_certificate data:secret;", "no \"ssl_certificate_key\""),
        (
            "location / { proxy_pass https://127.0.0.1:1; proxy_ssl_certificate data:secret; }",
            "no \"proxy_ssl_certificate_key\"",
        ),
    ] {
        let text = format!("events {{ }}\nhttp {{ server {{ {lines} }} }}\n");
        let checked = check(Kind::Freerun, &text).expect("it starts");
        let said = format!("{said} is defined for certificate \"data:\"");
        assert!(checked.stderr.contains(&said), "{lines}: {}", checked.stderr);
    }
}

#[test]
fn a_chain_is_sent_whole() {
    let site = Site::new();
    site.file("own.key", certificates().text("below.key")).file("own.crt", certificates().text("below-chain.crt"));
    let server = own(&site, "").run();
    for version in TlsVersion::ALL {
        let sent = server.connect_tls(&Tls::new().only(version)).agreed().certificates;
        assert_eq!(sent, [certificates().der("below.crt"), certificates().der("middle.crt")]);
    }
}

#[test]
fn keys_of_encrypted_hellos_are_warned_of_once() {
    let text = "events {}\nhttp {\n ssl_ech_file a.pem;\n server { ssl_ech_file b.pem; ssl_ech_file c.pem; }\n}\n";
    let checked = check(Kind::Freerun, text).expect("it starts");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert_eq!(checked.stderr.matches("\"ssl_ech_file\" has no effect yet in").count(), 1, "{}", checked.stderr);
    assert!(checked.stderr.contains("nginx.conf:3"), "{}", checked.stderr);
}
