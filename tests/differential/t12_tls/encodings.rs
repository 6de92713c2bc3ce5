//! How certificates and keys may be written: texts with a byte order mark, and the ways in which keys are encrypted.

use super::files::{Case, compare, differs, folder, same};
use crate::runner::Verdict;
use freerun_testkit::Kind;

/// The directives of the modules that talk to upstream servers, with what makes them look at their files.
const FAMILIES: [(&str, &str); 3] = [
    ("proxy_", "proxy_pass https://127.0.0.1:1;"),
    ("grpc_", "grpc_pass grpcs://127.0.0.1:1;"),
    ("uwsgi_", "uwsgi_pass suwsgi://127.0.0.1:1;"),
];

/// Compares with these lines of a virtual server, and of locations that pass requests on, in which `@P@` is the prefix of the
/// directives.
fn compare_everywhere(cases: &[Case]) {
    compare("server {\nlisten 127.0.0.1:@PORT@ ssl;\n@LINE@\n}", &prefixed("", cases));
    compare("server {\nlisten 127.0.0.1:@PORT@;\n@LINE@\n}", &prefixed("", cases));
    for (prefix, pass) in FAMILIES {
        let around = format!("server {{\nlisten 127.0.0.1:@PORT@;\nlocation / {{ {pass}\n@LINE@\n}}\n}}");
        compare(&around, &prefixed(prefix, cases));
    }
    let client = "server {\nlisten 127.0.0.1:@PORT@ ssl;\nreturn x;\n@LINE@\n}";
    accepted_in_stream(client, &prefixed("", cases));
    let upstream = "server {\nlisten 127.0.0.1:@PORT@;\nproxy_ssl on; proxy_pass 127.0.0.1:1;\n@LINE@\n}";
    accepted_in_stream(upstream, &prefixed("proxy_", cases));
}

/// What nginx accepts in `http` is accepted in `stream`, too, which Debian's nginx has in a module of its own.
fn accepted_in_stream(around: &str, cases: &[Case]) {
    let dir = folder();
    let base = format!("{}/", dir.path().display());
    for (line, _) in cases {
        let text = format!("events {{ }}\nstream {{\n{}\n}}\n", around.replace("@LINE@", line)).replace("@/", &base);
        let verdict = Verdict::of(Kind::under_test(), &text);
        assert!(verdict.is_accepted(), "{line}: {verdict:?}");
    }
}

fn prefixed(prefix: &str, cases: &[Case]) -> Vec<Case> {
    let with = |text: &str| -> &'static str { text.replace("@P@", prefix).leak() };
    cases.iter().map(|(line, told)| (with(line), told.map(with))).collect()
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    compare_everywhere(&[
        same("@P@ssl_certificate @/marked-ec.crt; @P@ssl_certificate_key @/ec.key;"),
        same("@P@ssl_certificate @/ec.crt; @P@ssl_certificate_key @/marked-ec.key;"),
        same(
            "@P@ssl_certificate @/rsa.crt; @P@ssl_certificate_key @/marked-rsa-pbes2.key; @P@ssl_password_file @/secret;",
        ),
        same(
            "@P@ssl_certificate @/ec.crt; @P@ssl_certificate_key @/marked-ec-scrypt.key; @P@ssl_password_file @/secret;",
        ),
    ]);
    let pair = "ssl_certificate @/ec.crt; ssl_certificate_key @/ec.key;";
    let around = format!("server {{\nlisten 127.0.0.1:@PORT@ ssl;\n{pair} @LINE@\n}}");
    compare(
        &around,
        &[
            same("ssl_verify_client on; ssl_client_certificate @/marked-ec.crt;"),
            same("ssl_trusted_certificate @/marked-ec.crt;"),
            same("ssl_trusted_certificate @/ec.crt; ssl_crl @/marked-ec.crl;"),
        ],
    );
    for (prefix, pass) in FAMILIES {
        let around = format!("server {{\nlisten 127.0.0.1:@PORT@;\nlocation / {{ {pass}\n@LINE@\n}}\n}}");
        let cases = [same("@P@ssl_verify on; @P@ssl_trusted_certificate @/marked-ec.crt; @P@ssl_crl @/marked-ec.crl;")];
        compare(&around, &prefixed(prefix, &cases));
    }
}

#[test]
fn keys_are_decrypted_with_all_functions_for_passwords() {
    const LINE: &str = "@P@ssl_certificate @/ec.crt; @P@ssl_password_file @/secret; @P@ssl_certificate_key @/";
    let files = ["ec-scrypt.key", "ec-sha224.key", "ec-sha384.key", "ec-sha512.key"];
    let cases = files.map(|file| same(format!("{LINE}{file};").leak()));
    compare_everywhere(&cases);
}

#[test]
fn encryption_that_is_not_supported_is_called_so() {
    let cases = ["ec-camellia.key", "ec-ofb.key", "ec-2des.key"].map(|file| {
        let line = format!("ssl_certificate @/ec.crt; ssl_certificate_key @/{file}; ssl_password_file @/secret;");
        let told = format!(
            "[emerg] cannot load certificate key \"@/{file}\": PEM_read_bio_PrivateKey() failed (SSL: error:0308010C:digital \
             envelope routines::unsupported:the encryption of the key is not supported)"
        );
        differs(line.leak(), told.leak())
    });
    compare("server {\nlisten 127.0.0.1:@PORT@ ssl;\n@LINE@\n}", &cases);
}
