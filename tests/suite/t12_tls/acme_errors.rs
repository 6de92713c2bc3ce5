//! What `-t` says to directives about ACME.

use freerun_testkit::{Kind, check, require};

/// The lines of `http` and the first message, with the number of its line.
const CASES: &[(&str, &str)] = &[
    ("acme_issuer a { }", "\"uri\" is missing in acme_issuer \"a\" in @:3"),
    ("acme_issuer a { uri ftp://x/; }", "invalid URI \"ftp://x/\" in @:3"),
    ("acme_issuer a { uri https://x/; uri https://y/; }", "\"uri\" directive is duplicate in @:3"),
    ("acme_issuer a { uri https://x/; }\nacme_issuer a { uri https://y/; }", "duplicate acme_issuer \"a\" in @:4"),
    ("acme_issuer { }", "invalid number of arguments in \"acme_issuer\" directive in @:3"),
    (
        "acme_issuer a { uri https://x/; account_key rsa:2048; }",
        "\"account_key\" directive supports no other algorithm",
    ),
    ("acme_issuer a { uri https://x/; account_key ecdsa:12; }", "invalid key type \"ecdsa:12\" in @:3"),
    ("acme_issuer a { uri https://x/; account_key none.key; }", "open() \"@DIR@/none.key\" failed (2: No such file"),
    ("acme_issuer a { uri https://x/; account_key @CERTS@/rsa.key; }", "\"account_key\" directive needs a private key"),
    ("acme_issuer a { uri https://x/; challenge dns-01; }", "unsupported challenge: \"dns-01\" in @:3"),
    ("acme_issuer a { uri https://x/; external_account_key k data:*; }", "invalid external account key in @:3"),
    (
        "acme_issuer a { uri https://x/; account_key @CERTS@/ec.key; external_account_key k data:YQ; }",
        "\"external_account_key\" directive cannot be used with an \"account_key\" from a file in @:3",
    ),
    (
        "acme_issuer a { uri https://x/; state_path s; }\n\
         acme_issuer b { uri https://x/; state_path s; account_key @CERTS@/ec.key; }",
        "\"state_path\" of acme_issuer \"b\" is that of \"a\", which has another account with the same \"uri\" in @:4",
    ),
    (
        "acme_issuer a { uri https://x/; }\nacme_issuer b { uri https://x/; state_path acme_a;\n\
         external_account_key k data:YQ; }",
        "\"state_path\" of acme_issuer \"b\" is that of \"a\", which has another account with the same \"uri\" in @:4",
    ),
    ("acme_issuer a { uri https://x/; profile p wanted; }", "invalid parameter \"wanted\" in @:3"),
    ("acme_issuer a { uri https://x/; ssl_verify maybe; }", "invalid value \"maybe\" in \"ssl_verify\" directive"),
    ("acme_issuer a { uri https://x/; ssl_trusted_certificate @CERTS@/ec.key; }", "no certificate in \""),
    ("acme_issuer a { uri https://x/; listen 80; }", "\"listen\" directive is not allowed here in @:3"),
    ("uri https://x/;", "\"uri\" directive is not allowed here in @:3"),
    ("acme_shared_zone zone=a;", "invalid zone size \"zone=a\" in @:3"),
    ("acme_shared_zone a:1m;", "invalid parameter \"a:1m\" in @:3"),
];

/// The lines of a server, beside an issuer `a`, and the message.
const OF_SERVER: &[(&str, &str)] = &[
    ("acme_certificate b x.example;", "acme_issuer \"b\" is not defined in @:4"),
    ("acme_certificate a x.example; acme_certificate a;", "\"acme_certificate\" directive is duplicate in @:4"),
    ("acme_certificate a x.example key=dsa;", "invalid key type \"dsa\" in @:4"),
    ("acme_certificate a *.x.example;", "invalid identifier \"*.x.example\": wildcard names need the challenge dns-01"),
    ("acme_certificate a;", "\"acme_certificate\" needs a \"server_name\", and the server has none in @:4"),
    (
        "server_name *.x.example; acme_certificate a;",
        "no certificate for the server name \"*.x.example\": it has a wildcard",
    ),
    ("server_name x.*; acme_certificate a;", "no certificate for the server name \"x.*\": it has a wildcard in @:4"),
    ("server_name ~^x; acme_certificate a;", "no certificate for a server name that is a regular expression in @:4"),
    ("server_name _; ssl_certificate auto;", "no certificate for the server name \"_\": no host has it in @:4"),
    ("ssl_certificate auto watch;", "invalid parameter \"watch\" in @:4"),
];

fn says(text: &str, message: &str) {
    let checked = check(Kind::Freerun, text).expect("it starts");
    let message = message.replace("@:", "@DIR@/nginx.conf:");
    let said = checked.stderr.lines().next().unwrap_or_default();
    assert!(checked.code == Some(1) && said.contains(&message), "{text}\n{}", checked.stderr);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    if !require::freerun() {
        return;
    }
    for (lines, message) in CASES {
        says(&format!("events {{ }}\nhttp {{\n{lines}\n}}\n"), message);
    }
    for (lines, message) in OF_SERVER {
        let issuer = "acme_issuer a { uri https://x/; state_path off; }";
        let server = format!("server {{ listen 127.0.0.1:@PORT@ ssl; {lines} }}");
        says(&format!("events {{ }}\nhttp {{\n{issuer}\n{server} }}\n"), message);
    }
}

#[test]
fn auto_needs_an_issuer_and_says_what_to_add() {
    if !require::freerun() {
        return;
    }
    let server = "server { listen 127.0.0.1:@PORT@ ssl; server_name x.example; ssl_certificate auto; }";
    let http = |lines: &str| format!("events {{ }}\nhttp {{\n{lines}\n{server} }}\n");
    let issuer = |name: &str| format!("acme_issuer {name} {{ uri https://x/; state_path off; }} ");
    let checked = check(Kind::Freerun, &http("")).expect("it starts");
    assert!(checked.stderr.contains("\"ssl_certificate auto\" needs an \"acme_issuer\""), "{}", checked.stderr);
    assert!(checked.stderr.contains("uri https://acme-v02.api.letsencrypt.org/directory;"), "{}", checked.stderr);
    says(&http(&(issuer("a") + &issuer("b"))), "does not say which \"acme_issuer\" is meant in @:4");
    for good in [issuer("a"), issuer("a") + &issuer("default")] {
        let checked = check(Kind::Freerun, &http(&good)).expect("it starts");
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    }
    // In `http` it is for servers with TLS, and an issuer may stand below them.
    let text = format!(
        "events {{ }}\nhttp {{ ssl_certificate auto; server {{ listen 127.0.0.1:@PORT@; }}
         server {{ listen 127.0.0.1:@PORT2@ ssl; server_name .x.example; }} {} }}\n",
        issuer("a")
    );
    let checked = check(Kind::Freerun, &text).expect("it starts");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(
        checked.stderr.contains("[warn] \"ssl_certificate auto\" orders no certificate for names below \"x.example\"")
    );
}
