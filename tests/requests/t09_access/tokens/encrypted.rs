//! Encrypted tokens, and signed ones that are encrypted.

use freerun_testkit::{Site, TestServer};
use std::collections::BTreeMap;

use super::{KEYS, bearer, serving};

/// Keys for encryption, and one for signatures (`sign`).
const PRIVATE: &str = include_str!("private.json");

type Tokens = BTreeMap<String, String>;

/// Tokens by `good`, `bad` and `nested`.
fn tokens() -> BTreeMap<String, Tokens> {
    serde_json::from_str(include_str!("encrypted.json")).expect("tokens")
}

fn status(server: &TestServer, path: &str, token: &str) -> u16 {
    server.get_with(path, &bearer(token)).status
}

#[test]
fn tokens_of_every_algorithm_are_decrypted() {
    let site = Site::new();
    site.file("private.json", PRIVATE).file("keys.json", KEYS).file("index.html", "in");
    let server = serving(
        &site,
        "auth_jwt realm; auth_jwt_type encrypted;",
        "auth_jwt_key_file @ROOT@/private.json;
         location /others { auth_jwt_key_file @ROOT@/keys.json; try_files /index.html =404; }",
    );
    let tokens = tokens();
    let mut wrong = Vec::new();
    for (name, token) in &tokens["good"] {
        if status(&server, "/", token) != 200 {
            wrong.push(name.clone());
        }
        if status(&server, "/others", token) != 401 {
            wrong.push(format!("{name}, with keys that do not fit"));
        }
        // Each part with its first byte changed.
        let parts: Vec<&str> = token.split('.').collect();
        for place in 0..parts.len() {
            let mut parts = parts.clone();
            let other = if parts[place].starts_with('A') { "B" } else { "A" };
            let changed = format!("{other}{}", parts[place].get(1..).unwrap_or_default());
            parts[place] = &changed;
            if status(&server, "/", &parts.join(".")) != 401 {
                wrong.push(format!("{name}, part {place} changed"));
            }
        }
    }
    for (name, token) in &tokens["bad"] {
        if status(&server, "/", token) != 401 {
            wrong.push(format!("{name} was taken"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    server.logs("JWT validation failed: no key decrypts the token");
    let signed = &tokens["nested"]["not encrypted"];
    for wrong in [signed, &tokens["nested"]["nested"], "....", "a.b.c.d.e"] {
        assert_eq!(status(&server, "/", wrong), 401, "{wrong}");
    }
}

#[test]
fn what_was_decrypted_is_in_variables() {
    let site = Site::new();
    site.file("private.json", PRIVATE).file("index.html", "in");
    let server = serving(
        &site,
        "auth_jwt_claim_set $mail info e-mail; auth_jwt_header_set $algorithm alg; auth_jwt realm;",
        "auth_jwt_key_file @ROOT@/private.json; auth_jwt_type encrypted;
         add_header Claims \"$jwt_claim_sub|$mail|$jwt_header_enc|$algorithm|$jwt_payload|\" always;
         location = / { try_files /index.html =404; }
         location = /early { set $before \"$jwt_claim_sub$jwt_payload\"; add_header Before \"[$before]\" always;
                             auth_jwt_require $jwt_claim_sub; try_files /index.html =404; }
         location = /nested { auth_jwt_type nested; try_files /index.html =404; }
         location = /signed { auth_jwt_type signed; try_files /index.html =404; }",
    );
    let tokens = tokens();
    let claims =
        |path: &str, token: &str| server.get_with(path, &bearer(token)).header("Claims").unwrap_or_default().to_owned();
    let payload = r#"{"sub": "user", "exp": 4102444800, "info": {"e-mail": "a@b"}}"#;
    for name in ["RSA-OAEP", "A128KW"] {
        let content = if name == "A128KW" { "A128GCM" } else { "A256GCM" };
        assert_eq!(claims("/", &tokens["good"][name]), format!("user|a@b|{content}|{name}|{payload}|"));
    }
    let early = server.get_with("/early", &bearer(&tokens["good"]["dir A256GCM"]));
    assert_eq!((early.status, early.header("Before")), (200, Some("[]")));
    // Nothing of a signed token is seen where it has to be encrypted.
    let nested = &tokens["nested"];
    assert_eq!(claims("/", &nested["not encrypted"]), "|||||");
    let inside = claims("/nested", &nested["nested"]);
    assert!(inside.starts_with("user|a@b|A256GCM|RSA-OAEP-256|eyJ") && inside.matches('.').count() == 2, "{inside}");
    for (name, wanted) in [
        ("nested", 200),
        ("expired inside", 401),
        ("signed by another key", 401),
        ("signed by a key for encryption", 401),
        ("not signed", 401),
        ("not encrypted", 401),
    ] {
        assert_eq!(status(&server, "/nested", &nested[name]), wanted, "{name}");
    }
    assert_eq!(status(&server, "/signed", &nested["not encrypted"]), 200);
    assert_eq!(status(&server, "/signed", &nested["nested"]), 401);
}
