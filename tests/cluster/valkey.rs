//! A server of Valkey as the engine.

use crate::engine::Engine;
use crate::purges::{Origin, purge, serves};
use crate::{becomes, change, flag, gets, node, purges};

#[test]
fn pairs_are_shared_through_valkey_and_survive_its_death() {
    let Some(mut engine) = Engine::valkey() else { return };
    let [a, b] = [0; 2].map(|_| node(&engine.address(), "sync"));
    assert_eq!(change(&a, "POST", r#"{"x":"1","y":"1"}"#), 201);
    gets(&b, "x", "1");
    assert_eq!(change(&b, "PATCH", r#"{"x":"2"}"#), 204);
    assert_eq!(change(&b, "PATCH", r#"{"y":null}"#), 204);
    gets(&a, "x", "2");
    gets(&a, "y", "");
    engine.kill();
    becomes(&a, "away");
    becomes(&b, "away");
    assert_eq!(change(&a, "PATCH", r#"{"x":"3"}"#), 503);
    engine.again();
    becomes(&a, "connected");
    becomes(&b, "connected");
    // A machine that comes now has what the others have given back.
    let c = node(&engine.address(), "sync");
    assert_eq!((flag(&c, "x"), flag(&c, "y")), ("2".to_owned(), String::new()));
    assert_eq!(change(&c, "PATCH", r#"{"x":"4"}"#), 204);
    gets(&a, "x", "4");
    gets(&b, "x", "4");
}

#[test]
fn purges_are_told_through_valkey() {
    let Some(mut engine) = Engine::valkey() else { return };
    let origin = Origin::new();
    let [a, b] = [0; 2].map(|_| purges::node(&engine.address(), &origin));
    for path in ["/x", "/y", "/z"] {
        serves(&a, path, 1);
        serves(&b, path, 1);
    }
    origin.change();
    assert_eq!(purge(&a, "/x"), 204);
    serves(&b, "/x", 2);
    engine.kill();
    becomes(&a, "away");
    assert_eq!(purge(&a, "/y"), 202);
    engine.again();
    becomes(&b, "connected");
    serves(&b, "/y", 2);
    assert_eq!(b.get("/z").text(), "1", "only what was purged");
}
