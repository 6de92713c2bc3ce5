//! The directives of TLS where servers have certificates: what nginx says at `-t` of files, and of values that are looked at
//! only then, is said here, too, in the same order.

use std::fs;

use crate::runner::{Both, compare_verdicts, same_words};
use freerun_testkit::TempDir;

/// Certificates and keys, with their sizes and their password in the names.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/tls/tests/fixtures");

/// Files that are wrong in one way each, besides the good ones.
pub(super) fn folder() -> TempDir {
    let dir = TempDir::new("tls");
    let read = |name: &str| fs::read_to_string(format!("{FIXTURES}/{name}")).expect("a fixture");
    let block = |content: &str| format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
    let prime = "MEYCQQD".to_owned() + &"x".repeat(80) + "AgEC";
    let parameters = format!("-----BEGIN DH PARAMETERS-----\n{prime}\n-----END DH PARAMETERS-----\n");
    let files = [
        ("empty", String::new()),
        ("junk", "junk\n".to_owned()),
        ("bad-base64", block("!!!!")),
        ("cut", read("rsa.crt")[..200].to_owned()),
        ("no-der", block("AAAA")),
        ("second-no-der", read("rsa.crt") + &block("AAAA")),
        ("chain", read("rsa.crt") + &read("ec.crt")),
        ("secret", "wrong\n\nsecret\r\nother".to_owned()),
        ("wrong", "wrong\n".to_owned()),
        ("long-line", "x".repeat(4096)),
        ("line", "x".repeat(4095)),
        ("t47", "x".repeat(47)),
        ("t48", "x".repeat(48)),
        ("t80", "x".repeat(80)),
        ("small-dh", parameters),
    ];
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("it is written");
    }
    for name in [
        "rsa.crt",
        "rsa.key",
        "other-rsa.key",
        "rsa-pbes2.key",
        "rsa1024.crt",
        "rsa1024.key",
        "ec.crt",
        "ec.key",
        "ec.crl",
        "ec-scrypt.key",
        "ec-sha224.key",
        "ec-sha384.key",
        "ec-sha512.key",
        "ec-camellia.key",
        "ec-ofb.key",
        "ec-2des.key",
    ] {
        fs::write(dir.path().join(name), read(name)).expect("it is written");
        fs::write(dir.path().join(format!("marked-{name}")), format!("\u{feff}{}", read(name))).expect("it is written");
    }
    dir
}

/// A case: what stands in place of `@LINE@` in the text around it, and what freerun says if that is not what nginx says.
pub(super) type Case = (&'static str, Option<&'static str>);

/// Of that both say the same.
pub(super) const fn same(line: &'static str) -> Case {
    (line, None)
}

/// Of that freerun says this: its error without the place, its warning, or nothing at all.
pub(super) const fn differs(line: &'static str, told: &'static str) -> Case {
    (line, Some(told))
}

/// Each case in place of `@LINE@`; `@/` is the folder with the files.
#[track_caller]
pub(super) fn compare(around: &str, cases: &[Case]) {
    let dir = folder();
    let base = format!("{}/", dir.path().display());
    let whole = format!("events {{ }}\nhttp {{\n{around}\n}}\n");
    let texts = cases.iter().map(|(line, _)| (line, whole.replace("@LINE@", line).replace("@/", &base)));
    compare_verdicts(texts, |number, verdicts| {
        let Both { nginx, freerun } = verdicts;
        match cases[number].1 {
            None => nginx.code == freerun.code && verdicts.have_same_words(),
            Some("") => freerun.lines.is_empty() && freerun.is_accepted() && nginx.lines != freerun.lines,
            Some(told) => {
                let (own, told) = (&freerun.lines, told.replace("@/", &base));
                let told_so = own.len() == 1 && own[0].starts_with(&told) && same_words(&told, &own[0]);
                told_so && nginx.lines != *own && freerun.is_accepted() == told.starts_with("[warn]")
            }
        }
    });
}

#[test]
fn certificates_and_keys() {
    let cases = &[
        same(""),
        same("ssl_certificate @/rsa.crt;"),
        same("ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/none.crt; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/none.key;"),
        same("ssl_certificate none.crt; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/other-rsa.key;"),
        differs(
            "ssl_certificate @/rsa.crt; ssl_certificate_key @/ec.key;",
            "[emerg] SSL_CTX_use_PrivateKey(\"@/ec.key\") failed (SSL: error:05800073:x509 certificate routines::key type mismatch)",
        ),
        same("ssl_certificate @/rsa1024.crt; ssl_certificate_key @/rsa1024.key;"),
        same("ssl_certificate @/empty; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/junk; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/cut; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/bad-base64; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/rsa.key; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate \"\"; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/chain; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/empty;"),
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/junk;"),
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/rsa.crt;"),
        same("ssl_certificate @/rsa.crt; ssl_certificate @/ec.crt; ssl_certificate_key @/rsa.key;"),
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/rsa.key; ssl_certificate_key @/none.key;"),
        same(
            "ssl_certificate @/rsa.crt; ssl_certificate_key @/rsa.key; ssl_certificate @/ec.crt; ssl_certificate_key @/ec.key;",
        ),
        same("ssl_certificate @/rsa.crt; ssl_certificate_key engine:foo;"),
        differs(
            "ssl_certificate @/rsa.crt; ssl_certificate_key engine:foo:bar;",
            "[emerg] cannot load certificate key \"engine:foo:bar\": engines are not supported",
        ),
        differs("ssl_certificate @/rsa.crt; ssl_certificate_key store:file:@/rsa.key;", ""),
        // A key in the configuration is not shown.
        differs(
            "ssl_certificate @/rsa.crt; ssl_certificate_key data:foo;",
            "[emerg] cannot load certificate key \"data:\": PEM_read_bio_PrivateKey() failed (SSL: error:1E08010C:DECODER routines::unsupported:No supported data to decode. Input type: PEM)",
        ),
    ];
    compare("server {\nlisten 127.0.0.1:@PORT@ ssl;\n@LINE@\n}", cases);
    let cases = &[
        same("ssl_certificate @/$host.crt; ssl_certificate_key @/$host.key;"),
        same("ssl_certificate data:$host; ssl_certificate_key data:$arg_a;"),
        same("ssl_certificate @/$nonsense.crt; ssl_certificate_key @/$host.key;"),
        same("ssl_certificate $host.crt;"),
        same("ssl_certificate @/$host.crt; ssl_certificate_key @/none.key;"),
        same("ssl_certificate @/none.crt; ssl_certificate_key @/$host.key;"),
        same("ssl_certificate @/$host.crt; ssl_certificate_key @/rsa.key; ssl_password_file @/secret;"),
        same(
            "ssl_certificate @/$host.crt; ssl_certificate_key @/$host.key; ssl_certificate @/rsa.crt; ssl_certificate_key @/rsa.key;",
        ),
        same("ssl_certificate @/$host.crt; ssl_certificate_key @/$host.key; ssl_ciphers foo;"),
    ];
    compare("server {\nlisten 127.0.0.1:@PORT@ ssl;\n@LINE@\n}", cases);
    // Certificates are read where nobody uses them, too.
    let cases = &[
        same("ssl_certificate_key @/none.key;"),
        same("ssl_certificate @/rsa.crt;"),
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/none.key;"),
    ];
    compare("server {\nlisten 127.0.0.1:@PORT@;\n@LINE@\n}", cases);
}

/// What OpenSSL says of what it cannot parse depends on its version, so only the beginning is compared.
#[test]
fn what_cannot_be_parsed() {
    let dir = folder();
    let base = format!("{}/", dir.path().display());
    let lines = [
        ("ssl_certificate @/no-der; ssl_certificate_key @/rsa.key;", "PEM_read_bio_X509_AUX() failed (SSL: error:"),
        ("ssl_certificate @/second-no-der; ssl_certificate_key @/rsa.key;", "PEM_read_bio_X509() failed (SSL: error:"),
        (
            "ssl_certificate @/rsa.crt; ssl_certificate_key @/rsa-pbes2.key; ssl_password_file @/wrong;",
            "PEM_read_bio_PrivateKey() failed (SSL: error:1C800064:Provider routines::bad decrypt",
        ),
        (
            "ssl_certificate @/rsa.crt; ssl_certificate_key @/rsa-pbes2.key; ssl_password_file @/empty;",
            "PEM_read_bio_PrivateKey() failed (SSL: error:",
        ),
    ];
    for (line, words) in lines {
        let text = format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:@PORT@ ssl;\n{line} }} }}\n");
        let text = text.replace("@/", &base);
        compare_verdicts([(line, text)], |_, verdicts| {
            let beginnings = verdicts.each(|verdict| {
                let beginning = verdict.lines[0].split(words).next().unwrap_or_default();
                assert!(beginning.starts_with("[emerg] cannot load certificate"), "{verdict:?}");
                (verdict.code, verdict.lines.len(), beginning)
            });
            beginnings.difference().is_none()
        });
    }
}

#[test]
fn passwords() {
    let cases = &[
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/rsa-pbes2.key; ssl_password_file @/secret;"),
        same("ssl_password_file @/none;"),
        same("ssl_password_file @/;"),
        same("ssl_password_file \"\";"),
        same("ssl_password_file @/long-line;"),
        same("ssl_password_file @/line;"),
        same("ssl_password_file @/empty;"),
    ];
    compare("server {\nlisten 127.0.0.1:@PORT@;\n@LINE@\n}", cases);
}

#[test]
fn values_are_looked_at_in_the_same_order() {
    let around = "server {\nlisten 127.0.0.1:@PORT@ ssl;\nssl_certificate_key @/rsa.key;\n@LINE@\n}";
    let cases = &[
        same("ssl_certificate @/rsa.crt; ssl_certificate @/none; ssl_ciphers foo;"),
        same("ssl_certificate @/none; ssl_ciphers foo;"),
        same("ssl_certificate @/none; ssl_verify_client on; ssl_client_certificate @/none1;"),
    ];
    compare(around, cases);
    let around =
        "server {\nlisten 127.0.0.1:@PORT@ ssl;\nssl_certificate @/rsa.crt; ssl_certificate_key @/rsa.key;\n@LINE@\n}";
    let cases = &[
        same(
            "ssl_verify_client on; ssl_client_certificate @/none1; ssl_trusted_certificate @/none2; ssl_crl @/none3; ssl_dhparam @/none4; ssl_ecdh_curve foo; ssl_session_ticket_key @/none5; ssl_conf_command Foo bar;",
        ),
        same(
            "ssl_client_certificate @/none1; ssl_trusted_certificate @/none2; ssl_crl @/none3; ssl_dhparam @/none4; ssl_ecdh_curve foo;",
        ),
        same("ssl_crl @/none3; ssl_dhparam @/none4; ssl_ecdh_curve foo; ssl_session_ticket_key @/none5;"),
        same("ssl_dhparam @/none4; ssl_ecdh_curve foo; ssl_session_ticket_key @/none5; ssl_conf_command Foo bar;"),
        same("ssl_ecdh_curve foo; ssl_session_ticket_key @/none5; ssl_conf_command Foo bar;"),
        same("ssl_session_ticket_key @/none5; ssl_conf_command Foo bar;"),
        same("ssl_conf_command Foo bar;"),
    ];
    compare(around, cases);
    let cases = &[
        same("ssl_ciphers foo;"),
        same("ssl_session_ticket_key @/none;"),
        same("ssl_trusted_certificate @/none;"),
        same("ssl_conf_command Foo bar;"),
        same(""),
    ];
    compare("server {\nlisten 127.0.0.1:@PORT@ ssl;\nssl_reject_handshake on;\n@LINE@\n}", cases);
    // A later problem of a directive comes before what is found out when everything has been read.
    let around = "server {\nlisten 127.0.0.1:@PORT@ ssl;\n@LINE@\n}\nserver {\nfoo bar;\n}";
    compare(around, &[same("ssl_certificate @/none; ssl_certificate_key @/none;"), same("")]);
}

#[test]
fn values_of_a_server() {
    let cases = &[
        same("ssl_protocols TLSv1.2 TLSv1.2;"),
        same("ssl_protocols TLSv1.2; ssl_protocols TLSv1.2;"),
        same("ssl_protocols TLSv1.2; ssl_protocols TLSv1.3;"),
        same("ssl_protocols TLSv1.4;"),
        differs("ssl_protocols TLSv1 TLSv1.1 TLSv1.2;", "[warn] TLSv1 TLSv1.1 not supported, ignored"),
        differs(
            "ssl_protocols SSLv3;",
            "[emerg] no protocol is left: SSLv3 not supported, only TLSv1.2 and TLSv1.3 are",
        ),
        same("ssl_ciphers \"A(B\";"),
        same("ssl_ciphers \"\";"),
        // A list that Mozilla's generator writes, of which some suites are not there.
        same(
            "ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:DHE-RSA-CHACHA20-POLY1305; ssl_prefer_server_ciphers off;",
        ),
        differs(
            "ssl_ciphers AES128-SHA;",
            "[warn] none of the 1 ciphers in \"AES128-SHA\" is supported, TLSv1.2 is off",
        ),
        differs(
            "ssl_ciphers AES128-SHA; ssl_protocols TLSv1.2;",
            "[emerg] none of the 1 ciphers in \"AES128-SHA\" is supported, and TLSv1.3 is not enabled",
        ),
        same("ssl_ecdh_curve \"\";"),
        same("ssl_ecdh_curve prime256v1:secp384r1:secp521r1;"),
        differs("ssl_ecdh_curve X25519:X448;", "[warn] X448 not supported, ignored"),
        same("ssl_conf_command Options bar;"),
        same("ssl_conf_command Options -KTLS; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;"),
        same("ssl_conf_command Certificate @/ec.crt; ssl_conf_command PrivateKey @/ec.key;"),
        differs(
            "ssl_conf_command VerifyMode Require;",
            "[warn] \"VerifyMode\" contradicts \"ssl_verify_client\", ignored",
        ),
        same("ssl_dhparam @/rsa.crt;"),
        same("ssl_dhparam @/small-dh;"),
        same("ssl_dhparam \"\";"),
        same("ssl_trusted_certificate \"\"; ssl_crl \"\"; ssl_client_certificate \"\";"),
        same("ssl_client_certificate @/none;"),
        same("ssl_verify_client on; ssl_client_certificate @/rsa.crt;"),
        same("ssl_verify_client on; ssl_client_certificate @/junk;"),
        same("ssl_verify_client optional_no_ca;"),
        differs(
            "ssl_verify_client on;",
            "[emerg] no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client",
        ),
        // nginx takes it since 1.27.
        differs("ssl_verify_client on; ssl_trusted_certificate @/rsa.crt;", ""),
        same("ssl_crl @/junk;"),
        same("ssl_session_ticket_key @/t47;"),
        same("ssl_session_ticket_key @/t48; ssl_session_ticket_key @/t80;"),
        same("ssl_session_ticket_key @/;"),
        same("ssl_session_ticket_key @/none; ssl_session_tickets off;"),
        same("ssl_session_cache shared:a:10m; ssl_session_cache shared:b:10m;"),
        same("ssl_session_cache builtin:0; ssl_session_timeout 0; ssl_buffer_size 0; ssl_early_data on;"),
    ];
    let around =
        "ssl_certificate @/rsa.crt;\nssl_certificate_key @/rsa.key;\nserver {\nlisten 127.0.0.1:@PORT@ ssl;\n@LINE@\n}";
    compare(around, cases);
    // Where nobody speaks TLS, nobody looks.
    let cases =
        &[same("ssl_protocols SSLv3; ssl_ciphers foo; ssl_ecdh_curve foo; ssl_conf_command Foo bar; ssl_crl @/none;")];
    compare("server {\nlisten 127.0.0.1:@PORT@;\n@LINE@\n}", cases);
}

#[test]
fn a_warning_about_a_value_comes_once_for_all_servers() {
    let around = "ssl_certificate @/rsa.crt;\nssl_certificate_key @/rsa.key;\n@LINE@\nserver {\nlisten 127.0.0.1:@PORT@ ssl;\n}\n\
                  server {\nlisten 127.0.0.1:@PORT@ ssl;\nserver_name a;\nssl_session_timeout 1m;\n}";
    compare(around, &[differs("ssl_protocols TLSv1 TLSv1.3;", "[warn] TLSv1 not supported, ignored")]);
}

#[test]
fn zones_of_sessions_have_names_like_others() {
    let cases = &[
        same("ssl_session_cache shared:a:10m; server { ssl_session_cache shared:a:10m; }"),
        same("ssl_session_cache shared:a:10m; server { ssl_session_cache shared:a:20m; }"),
        same("ssl_session_cache shared:a:10m; limit_req_zone $arg_a zone=a:10m rate=1r/s;"),
        same("limit_req_zone $arg_a zone=a:10m rate=1r/s; ssl_session_cache shared:a:10m;"),
        same("ssl_session_cache shared:a:10m; ssl_ocsp_cache shared:a:10m;"),
    ];
    compare("server {\nlisten 127.0.0.1:@PORT@;\n}\n@LINE@", cases);
}

#[test]
fn servers_at_an_address() {
    let cases = &[
        same("ssl_certificate @/rsa.crt; ssl_certificate_key @/rsa.key;"),
        same("ssl_reject_handshake on;"),
        same(""),
    ];
    compare(
        "server {\nlisten 127.0.0.1:@PORT@ ssl;\n@LINE@\n}\nserver {\nlisten 127.0.0.1:@PORT@ ssl;\nserver_name a;\n}",
        cases,
    );
}

#[test]
fn upstream_servers() {
    let cases = &[
        same("proxy_ssl_ciphers foo; proxy_ssl_certificate @/none;"),
        same("proxy_ssl_verify on; proxy_ssl_certificate @/none;"),
        same("proxy_ssl_verify on; proxy_ssl_certificate @/none; proxy_ssl_certificate_key @/rsa.key;"),
        same("proxy_ssl_verify on; proxy_ssl_trusted_certificate @/none2; proxy_ssl_crl @/none3;"),
        same("proxy_ssl_verify on; proxy_ssl_trusted_certificate @/rsa.crt; proxy_ssl_crl @/none3;"),
        same("proxy_ssl_verify on; proxy_ssl_trusted_certificate @/rsa.crt; proxy_ssl_conf_command Foo bar;"),
        same("proxy_ssl_verify on; proxy_ssl_conf_command Foo bar;"),
        same("proxy_ssl_verify on; proxy_ssl_trusted_certificate \"\";"),
        same("proxy_ssl_trusted_certificate @/none; proxy_ssl_crl @/none;"),
        same("proxy_ssl_certificate @/rsa.crt; proxy_ssl_certificate_key @/rsa.key;"),
        same("proxy_ssl_certificate @/rsa.crt; proxy_ssl_certificate_key @/other-rsa.key;"),
        same(
            "proxy_ssl_certificate @/rsa.crt; proxy_ssl_certificate_key @/rsa-pbes2.key; proxy_ssl_password_file @/secret;",
        ),
        same("proxy_ssl_certificate_key @/none;"),
        same("proxy_ssl_certificate @/$host; proxy_ssl_certificate_key @/$host;"),
        same("proxy_ssl_certificate @/none; proxy_ssl_certificate_key @/$host;"),
        same("proxy_ssl_certificate @/$host;"),
        same("proxy_ssl_certificate @/$nonsense; proxy_ssl_certificate_key @/rsa.key;"),
        same("proxy_ssl_password_file @/none;"),
        same("proxy_ssl_name $nonsense;"),
        // Newer versions of nginx take an empty value for none.
        differs("proxy_ssl_certificate \"\"; proxy_ssl_certificate_key @/none;", ""),
    ];
    compare("server {\nlisten 127.0.0.1:@PORT@;\nlocation / {\nproxy_pass https://127.0.0.1:1;\n@LINE@\n}\n}", cases);
    let cases = &[same("proxy_ssl_certificate @/none; proxy_ssl_verify on; proxy_ssl_ciphers foo;")];
    compare("server {\nlisten 127.0.0.1:@PORT@;\nlocation / {\nproxy_pass http://127.0.0.1:1;\n@LINE@\n}\n}", cases);
    let cases = &[
        same("uwsgi_ssl_verify on;"),
        same("uwsgi_ssl_certificate @/rsa.crt;"),
        same("uwsgi_ssl_certificate @/none; uwsgi_ssl_certificate_key @/none;"),
    ];
    compare("server {\nlisten 127.0.0.1:@PORT@;\nlocation / {\nuwsgi_pass suwsgi://127.0.0.1:1;\n@LINE@\n}\n}", cases);
}
