//! What an engine and its users may know.

use freerun_testkit::{Kind, Site, certificates};

use crate::engine::Engine;
use crate::{becomes, change, flag, gets, node_with, setup};

#[test]
fn whoever_reads_the_engine_learns_nothing() {
    let Some(engine) = Engine::redis() else { return };
    let site = Site::new();
    site.file("secret", "0123456789abcdef0123456789abcdef\n").file("other", "another secret of other machines\n");
    let with = |name: &str| format!("zone_sync_secret {};", site.at(name).display());
    let a = node_with(&engine.address(), "type=ip sync", &with("secret"));
    let b = node_with(&engine.address(), "type=ip sync", &with("secret"));
    assert_eq!(change(&a, "POST", r#"{"203.0.113.77":"banned-for-abuse"}"#), 201);
    gets(&b, "203.0.113.77", "banned-for-abuse");
    let names = engine.ask(&["keys", "*"]);
    let mut dump = names.clone();
    for name in names.lines().filter(|name| name.contains(":kv:")) {
        dump += &engine.ask(&["--no-raw", "dump", name]);
        dump += &engine.ask(&["--no-raw", "hgetall", name]);
        dump += &engine.ask(&["--no-raw", "xrange", name, "-", "+"]);
    }
    assert!(dump.contains("flags"), "{dump}");
    for secret in ["203.0.113", "banned", "0123456789abcdef"] {
        assert!(!dump.contains(secret), "{secret}: {dump}");
    }
    // A machine with another secret, or without one, is kept out.
    let other = setup(&engine.address(), "type=ip sync").main(&with("other")).start(Kind::Freerun);
    becomes(&other, "away");
    other.logs("the nodes of this cluster have another \"zone_sync_secret\"");
    let bare = setup(&engine.address(), "type=ip sync").start(Kind::Freerun);
    becomes(&bare, "away");
    assert_eq!((flag(&other, "203.0.113.77"), flag(&bare, "203.0.113.77")), (String::new(), String::new()));
    assert_eq!(change(&b, "PATCH", r#"{"203.0.113.77":null}"#), 204);
    gets(&a, "203.0.113.77", "");
}

#[test]
fn a_password_and_a_user_are_needed_where_the_engine_wants_them() {
    let Some(engine) = Engine::redis_with(&["--requirepass", "open sesame"]) else { return };
    let site = Site::new();
    site.file("password", "open sesame\n").file("wrong", "open barley\n");
    let address = |name: &str| format!("{} password_file={}", engine.address(), site.at(name).display());
    let a = node_with(&address("password"), "sync", "");
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 201);
    for engine in [address("wrong"), engine.address()] {
        let node = setup(&engine, "sync").start(Kind::Freerun);
        becomes(&node, "away");
        assert!(!node.error_log().contains("barley"));
    }
}

/// The rights that the guide names are enough, and needed are no others.
#[test]
fn a_user_with_the_rights_of_the_guide_can_take_part() {
    let Some(engine) = Engine::redis() else { return };
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/several-nodes.md"));
    let guide = guide.expect("the guide");
    let commands = guide.split_once("commands `").and_then(|(_, rest)| rest.split_once('`')).expect("commands").0;
    let rights: Vec<String> = commands.split_whitespace().map(|command| format!("+{command}")).collect();
    let mut arguments = vec!["acl", "setuser", "freerun", "on", ">open sesame", "~{freerun}:*", "-@all"];
    arguments.extend(rights.iter().map(String::as_str));
    assert_eq!(engine.ask(&arguments).trim(), "OK");
    let site = Site::new();
    site.file("password", "open sesame\n");
    let address = format!("{} user=freerun password_file={}", engine.address(), site.at("password").display());
    let [a, b] = [0; 2].map(|_| node_with(&address, "sync", ""));
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 201);
    gets(&b, "x", "1");
    assert_eq!(change(&a, "PATCH", r#"{"x":null}"#), 204);
    assert_eq!(change(&a, "DELETE", ""), 204);
    assert!(!a.error_log().contains("NOPERM") && !b.error_log().contains("NOPERM"), "{}", a.error_log());
}

#[test]
fn an_engine_is_reached_by_tls_and_verified() {
    let port = freerun_testkit::ports::free().to_string();
    let file = |name: &str| certificates().path(name).display().to_string();
    let arguments = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &file("rsa.crt"),
        "--tls-key-file",
        &file("rsa.key"),
        "--tls-ca-cert-file",
        &file("ca.crt"),
        "--tls-auth-clients",
        "no",
    ];
    let Some(_engine) = Engine::redis_with(&arguments) else { return };
    let engine = format!("rediss://localhost:{port}");
    let trusted = format!("zone_sync_ssl_trusted_certificate {};", file("ca.crt"));
    let a = node_with(&engine, "sync", &trusted);
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 201);
    let b = node_with(&engine, "sync", "zone_sync_ssl_verify off;");
    gets(&b, "x", "1");
    // The system trusts no authority of a test.
    let c = setup(&engine, "sync").start(Kind::Freerun);
    becomes(&c, "away");
}
