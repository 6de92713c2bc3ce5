//! The engine dies, hangs, is cut off, is slow, is full, forgets: requests go on, and machines catch up.

use freerun_testkit::relay::Relay;
use freerun_testkit::{Kind, TestServer, within};
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::{RECOVERED, becomes, change, cluster, flag, gets, json, node, setup};

/// A relay to an engine, and the address of the engine behind it.
fn relayed(engine: &Engine) -> (Relay, String) {
    let relay = engine.relay();
    let address = format!("redis://{}", relay.address());
    (relay, address)
}

/// How often a text is in the error log.
fn told(node: &TestServer, text: &str) -> usize {
    node.error_log().matches(text).count()
}

#[test]
fn an_engine_that_dies_and_forgets_gets_the_pairs_back() {
    let Some(mut engine) = Engine::redis() else { return };
    let [a, b] = [0; 2].map(|_| node(&engine.address(), "sync"));
    assert_eq!(change(&a, "POST", r#"{"x":"1","y":"2"}"#), 201);
    gets(&b, "y", "2");
    engine.kill();
    becomes(&a, "away");
    becomes(&b, "away");
    assert_eq!((flag(&a, "x"), flag(&b, "y")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(change(&a, "PATCH", r#"{"x":"3"}"#), 503);
    assert_eq!(flag(&a, "x"), "1", "a refused change is made nowhere");
    let problems = json(&a.get("/api/freerun/1/problems"));
    let mut kinds = problems["now"].as_array().into_iter().flatten().map(|problem| &problem["kind"]);
    assert!(kinds.any(|kind| kind == "engine_away"), "{problems}");
    engine.again();
    let begun = Instant::now();
    becomes(&a, "connected");
    becomes(&b, "connected");
    assert!(begun.elapsed() < RECOVERED, "{:?}", begun.elapsed());
    assert_eq!((flag(&a, "x"), flag(&b, "x")), ("1".to_owned(), "1".to_owned()));
    assert_eq!(change(&b, "PATCH", r#"{"y":"4"}"#), 204);
    gets(&a, "y", "4");
    let c = node(&engine.address(), "sync");
    assert_eq!((flag(&c, "x"), flag(&c, "y")), ("1".to_owned(), "4".to_owned()));
    // One line for each change of the state.
    assert_eq!((told(&a, "is away"), told(&a, "cluster: connected")), (1, 2), "{}", a.error_log());
}

#[test]
fn changes_that_are_made_alone_are_told_afterwards() {
    let Some(engine) = Engine::redis() else { return };
    let (relay, address) = relayed(&engine);
    let a = node(&address, "sync alone=local");
    let b = node(&engine.address(), "sync");
    assert_eq!(change(&a, "POST", r#"{"gone":"1","kept":"1"}"#), 201);
    gets(&b, "gone", "1");
    relay.cut();
    becomes(&a, "away");
    assert_eq!(change(&a, "PATCH", r#"{"gone":null}"#), 204);
    assert_eq!(change(&a, "PATCH", r#"{"kept":"2"}"#), 204);
    assert_eq!(change(&a, "POST", r#"{"new":"3"}"#), 201);
    assert_eq!(change(&a, "POST", r#"{"new":"4"}"#), 409);
    assert!(within(RECOVERED, || cluster(&a)["zones"][0]["pending"] == 3), "{}", cluster(&a));
    assert_eq!(flag(&b, "gone"), "1");
    // The other machine changes something as well.
    assert_eq!(change(&b, "POST", r#"{"other":"5"}"#), 201);
    relay.heal();
    becomes(&a, "connected");
    for (key, value) in [("gone", ""), ("kept", "2"), ("new", "3"), ("other", "5")] {
        gets(&a, key, value);
        gets(&b, key, value);
    }
    assert_eq!(cluster(&a)["zones"][0]["pending"], 0);
}

#[test]
fn nobody_waits_for_an_engine_that_is_slow_or_hangs() {
    let Some(engine) = Engine::redis() else { return };
    let (relay, address) = relayed(&engine);
    let a = node(&address, "sync");
    let b = node(&engine.address(), "sync");
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 201);
    relay.set_delay(Duration::from_secs(2));
    // A change that others make comes late, and no request waits for it.
    assert_eq!(change(&b, "PATCH", r#"{"x":"2"}"#), 204);
    let mut longest = Duration::ZERO;
    let mut client = a.connect();
    for _ in 0..900 {
        let begun = Instant::now();
        assert_eq!(client.get("/?key=x").status, 200);
        longest = longest.max(begun.elapsed());
    }
    // The machine may be busy with other tests; the engine's two seconds are far beyond that.
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    let begun = Instant::now();
    assert_eq!(change(&a, "PATCH", r#"{"x":"3"}"#), 503);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    relay.set_delay(Duration::ZERO);
    engine.freeze();
    becomes(&a, "away");
    becomes(&b, "away");
    assert_eq!((client.get("/?key=x").status, b.get("/?key=x").status), (200, 200));
    engine.thaw();
    let begun = Instant::now();
    becomes(&a, "connected");
    becomes(&b, "connected");
    assert!(begun.elapsed() < RECOVERED, "{:?}", begun.elapsed());
    assert!(within(RECOVERED, || flag(&a, "x") == flag(&b, "x")), "{} {}", flag(&a, "x"), flag(&b, "x"));
}

#[test]
fn a_connection_that_comes_and_goes_loses_nothing() {
    let Some(engine) = Engine::redis() else { return };
    let (relay, address) = relayed(&engine);
    let a = node(&address, "sync");
    let b = node(&engine.address(), "sync");
    assert_eq!(change(&b, "POST", r#"{"n":"0"}"#), 201);
    for number in 1..=20 {
        if number % 2 == 0 {
            relay.heal()
        } else {
            relay.cut()
        }
        assert_eq!(change(&b, "PATCH", &format!(r#"{{"n":"{number}"}}"#)), 204);
        assert_eq!(change(&b, "POST", &format!(r#"{{"k{number}":"{number}"}}"#)), 201);
    }
    relay.heal();
    gets(&a, "n", "20");
    for number in 1..=20 {
        gets(&a, &format!("k{number}"), &number.to_string());
    }
}

#[test]
fn an_engine_without_room_is_read_and_not_written() {
    let Some(engine) = Engine::redis_with(&["--maxmemory-policy", "noeviction"]) else { return };
    let [a, b] = [0; 2].map(|_| node(&engine.address(), "sync"));
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 201);
    engine.ask(&["config", "set", "maxmemory", "1"]);
    assert_eq!(change(&a, "PATCH", r#"{"x":"2"}"#), 503);
    becomes(&a, "read_only");
    assert_eq!((flag(&a, "x"), flag(&b, "x")), ("1".to_owned(), "1".to_owned()));
    // A machine that comes now reads what there is.
    let c = setup(&engine.address(), "sync alone=local").start(Kind::Freerun);
    becomes(&c, "read_only");
    gets(&c, "x", "1");
    assert_eq!(change(&c, "POST", r#"{"y":"1"}"#), 201, "it is made there");
    assert_eq!((flag(&c, "y"), flag(&a, "y")), ("1".to_owned(), String::new()));
    engine.ask(&["config", "set", "maxmemory", "0"]);
    becomes(&a, "connected");
    gets(&a, "y", "1");
    assert_eq!(change(&a, "PATCH", r#"{"x":"2"}"#), 204);
    gets(&b, "x", "2");
}

#[test]
fn an_engine_may_forget_scripts_and_trim_its_logs() {
    let Some(engine) = Engine::redis() else { return };
    let (relay, address) = relayed(&engine);
    let a = node(&address, "sync");
    let b = node(&engine.address(), "sync");
    engine.ask(&["script", "flush"]);
    assert_eq!(change(&b, "POST", r#"{"x":"1"}"#), 201);
    gets(&a, "x", "1");
    relay.cut();
    becomes(&a, "away");
    assert_eq!(change(&b, "PATCH", r#"{"x":"2"}"#), 204);
    assert_eq!(change(&b, "POST", r#"{"y":"1"}"#), 201);
    engine.ask(&["xtrim", "{freerun}:kv:flags:log", "MAXLEN", "0"]);
    relay.heal();
    becomes(&a, "connected");
    gets(&a, "x", "2");
    gets(&a, "y", "1");
}
