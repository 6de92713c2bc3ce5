//! Zones of pairs in `stream`.

use freerun_testkit::{Kind, Setup, TestServer, within};
use std::io::Read;
use std::net::TcpStream;

use crate::engine::Engine;
use crate::{Machine, RECOVERED, becomes, change, flag, lines};

/// A machine with a zone in `stream` and one in `http`.
fn node(engine: &str) -> TestServer {
    let node = Setup::new()
        .main(&format!("zone_sync_engine {engine};"))
        .http(&lines("sync"))
        .stream(
            "keyval_zone zone=routes:1m sync;
             keyval x $route zone=routes;
             server { listen 127.0.0.1:@PORT2@; return $route; }",
        )
        .start(Kind::Freerun);
    becomes(&node, "connected");
    node
}

/// The value of the key, as sessions see it.
fn route(node: &TestServer) -> String {
    let mut text = String::new();
    let mut session = TcpStream::connect(node.address_number(2)).expect("a session");
    session.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn a_change_of_a_zone_in_stream_is_seen_on_all() {
    let Some(engine) = Engine::redis() else { return };
    let [a, b] = [0; 2].map(|_| node(&engine.address()));
    let add = |node: &TestServer, body: &str| node.ask("POST", "/api/9/stream/keyvals/routes", body).status;
    assert_eq!(add(&a, r#"{"x":"1"}"#), 201);
    assert_eq!(route(&a), "1");
    assert!(within(RECOVERED, || route(&b) == "1"), "{:?}", route(&b));
    assert_eq!(add(&b, r#"{"x":"2"}"#), 409);
    // The zone of HTTP has its own pairs.
    assert_eq!(change(&b, "POST", r#"{"x":"3"}"#), 201);
    assert_eq!((flag(&b, "x"), route(&b)), ("3".to_owned(), "1".to_owned()));
    assert_eq!(b.ask("DELETE", "/api/9/stream/keyvals/routes", "").status, 204);
    assert!(within(RECOVERED, || route(&a).is_empty()), "{:?}", route(&a));
    assert_eq!(flag(&b, "x"), "3");
}

#[test]
fn a_zone_in_stream_has_another_name_than_one_in_http() {
    let setup = Setup::new()
        .main("zone_sync_engine redis://127.0.0.1:1;")
        .http(&lines("sync"))
        .stream("keyval_zone zone=flags:1m sync;\nserver { listen 127.0.0.1:@PORT2@; return x; }");
    let error = setup.try_start(Kind::Freerun).expect_err("refused").to_string();
    let told = error.lines().find(|line| line.contains("[emerg]")).unwrap_or_default();
    assert!(told.contains("keyval_zone \"flags\" is already bound") && told.contains("/nginx.conf:"), "{error}");
}
