//! Caches: keys are explained, removed and purged.

use freerun_testkit::{TestServer, TestUpstream, eventually, require};
use serde_json::{Value, json};

use super::{get, origin, own, setup};

/// Has a response stored: its target is its key.
pub fn stored(server: &TestServer, key: &str) {
    eventually("the cache is open", || get(server, "/caches/c")["state"] == "ready");
    assert_eq!(server.get(key).status, 200);
    eventually("it is stored", || explained(server, key)["entry"].is_object());
}

fn explained(server: &TestServer, key: &str) -> Value {
    get(server, &format!("/caches/c/keys?key={key}"))
}

#[test]
fn a_key_is_explained_and_removed() {
    if !require::freerun() {
        return;
    }
    let origin = origin();
    let server = setup(&origin, "", "").freerun();
    stored(&server, "/p/a*");
    let told = explained(&server, "/p/a*");
    assert_eq!((&told["cache"], &told["key"], &told["response"]["length"]), (&json!("c"), &json!("/p/a*"), &json!(5)));
    assert!(told["why"].as_str().is_some_and(|why| why.starts_with("fresh for ")), "{told}");
    let hash = told["hash"].as_str().expect("a hash");
    assert_eq!(get(&server, &format!("/caches/c/keys?hash={hash}"))["key"], "/p/a*");
    stored(&server, "/p/ab");
    // An asterisk is no wildcard here.
    assert_eq!(own(&server, "DELETE", "/caches/c/keys?key=%2Fp%2Fa*", None), (204, Value::Null));
    assert_eq!(
        (&explained(&server, "/p/a*")["place"], &explained(&server, "/p/a*")["entry"]),
        (&json!("nowhere"), &Value::Null)
    );
    assert!(explained(&server, "/p/ab")["entry"].is_object());
    let again = own(&server, "DELETE", "/caches/c/keys?key=/p/a*", None);
    assert_eq!((again.0, &again.1["error"]["code"]), (404, &json!("KeyNotFound")));
    let all = get(&server, "/caches");
    assert_eq!((all.as_array().map(Vec::len), &all[0]["entries"]), (Some(1), &json!(1)));
}

#[test]
fn variants_of_a_key_are_told() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|_| {
        "HTTP/1.1 200 OK\r\nVary: Accept\r\nContent-Length: 1\r\nCache-Control: max-age=600\r\n\r\nv".into()
    });
    let server = setup(&origin, "", "").freerun();
    stored(&server, "/p/v");
    for accept in ["text/html", "text/plain", "text/html"] {
        assert_eq!(server.get_with("/p/v", &format!("Accept: {accept}\r\n")).status, 200);
    }
    let mut told = Value::Null;
    eventually("both others are stored", || {
        told = explained(&server, "/p/v");
        told["variants"].as_array().is_some_and(|variants| variants.len() == 2)
    });
    let hash = told["variants"][0]["hash"].as_str().expect("a hash");
    let variant = get(&server, &format!("/caches/c/keys?hash={hash}"));
    assert_eq!((&variant["key"], &variant["entry"]["size"]), (&json!("/p/v"), &told["variants"][0]["size"]));
    assert_eq!((&told["variants"][0]["fresh"], &told["response"]["vary"]), (&json!(true), &json!("accept")));
    // They go with the key.
    assert_eq!(own(&server, "DELETE", "/caches/c/keys?key=/p/v", None).0, 204);
    let gone = get(&server, &format!("/caches/c/keys?hash={hash}"));
    assert!(
        gone["response"].is_null() || gone["why"] == "a purge means it: it is not used, and its file goes",
        "{gone}"
    );
}

#[test]
fn many_keys_are_purged_at_once() {
    if !require::freerun() {
        return;
    }
    let origin = origin();
    let server = setup(&origin, "", "").freerun();
    for key in ["/p/1", "/p/2", "/p/x/red", "/p/y/red", "/p/z"] {
        stored(&server, key);
    }
    let left = || -> Vec<&str> {
        let keys = ["/p/1", "/p/2", "/p/x/red", "/p/y/red", "/p/z"];
        let is_used = |key: &&str| {
            let told = explained(&server, key);
            told["response"].is_object() && !told["why"].as_str().unwrap_or_default().starts_with("a purge")
        };
        keys.into_iter().filter(is_used).collect()
    };
    let purge = |body: Value| own(&server, "POST", "/caches/c/purge", Some(body));
    assert_eq!(left().len(), 5);
    assert_eq!(purge(json!({"tags": ["blue", "red"]})), (204, Value::Null));
    assert_eq!(left(), ["/p/1", "/p/2", "/p/z"]);
    assert_eq!(purge(json!({"key": "/p/1"})), (204, Value::Null));
    assert_eq!(left(), ["/p/2", "/p/z"]);
    // What is wrong in one part changes nothing.
    assert_eq!(purge(json!({"tags": ["red", 1]})).0, 400);
    assert_eq!(purge(json!({"key": "/p/2", "tags": ["red"]})).0, 400);
    assert_eq!(left(), ["/p/2", "/p/z"]);
    assert_eq!(purge(json!({"key": "/p/*"})), (204, Value::Null));
    assert_eq!(left(), Vec::<&str>::new());
}
