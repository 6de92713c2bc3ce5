//! Levels of the error log for single clients.

use std::net::IpAddr;

use freerun_testkit::{TestClient, TestServer, require};
use serde_json::{Value, json};

use super::{get, origin, own, setup};

/// Has a client at this address ask for something that is missing, which is an error in the log.
fn asks(server: &TestServer, from: &str, target: &str) {
    let from: IpAddr = from.parse().expect("an address");
    let mut client = TestClient::try_connect_from(from, server.address()).expect("a connection");
    assert_eq!(client.get(target).status, 404);
}

/// The lines about a target.
fn lines(server: &TestServer, target: &str) -> Vec<String> {
    let about = format!("\"GET {target} HTTP");
    server.error_log().lines().filter(|line| line.contains(&about)).map(str::to_owned).collect()
}

fn patch(server: &TestServer, addresses: Value) -> (u16, Value) {
    own(server, "PATCH", "/log", Some(json!({ "addresses": addresses })))
}

#[test]
fn clients_have_levels_of_their_own() {
    if !require::freerun() {
        return;
    }
    let origin = origin();
    let server = setup(&origin, "error_log @DIR@/error.log notice;", "").freerun();
    let (status, told) = patch(&server, json!({"127.0.0.2": "debug", "127.0.0.3": "crit", "2001:DB8::1": "info"}));
    let expected = json!({"127.0.0.2": "debug", "127.0.0.3": "crit", "2001:db8::1": "info"});
    assert_eq!((status, &told["addresses"]), (200, &expected));
    for (from, target) in
        [("127.0.0.2", "/two"), ("127.0.0.3", "/three"), ("127.0.0.4", "/four"), ("127.0.0.2", "/end")]
    {
        asks(&server, from, target);
    }
    // Lines of one log are written in their order.
    server.logs("\"GET /end HTTP");
    let two = lines(&server, "/two");
    assert!(two.iter().any(|line| line.contains("[debug]") && line.contains("client: 127.0.0.2,")), "{two:?}");
    assert!(two.iter().any(|line| line.contains("[error]")), "{two:?}");
    assert_eq!(lines(&server, "/three"), Vec::<String>::new());
    let four = lines(&server, "/four");
    assert!(four.len() == 1 && four[0].contains("[error]"), "{four:?}");

    // One is taken away, others stay.
    let (_, told) = patch(&server, json!({"127.0.0.3": null, "127.0.0.9": null}));
    assert_eq!(told["addresses"], json!({"127.0.0.2": "debug", "2001:db8::1": "info"}));
    let (status, told) = own(&server, "DELETE", "/log", None);
    assert_eq!((status, &told["addresses"]), (200, &json!({})));
    asks(&server, "127.0.0.2", "/again");
    server.logs("\"GET /again HTTP");
    let again = lines(&server, "/again");
    assert!(again.len() == 1 && again[0].contains("[error]"), "{again:?}");

    // A reload takes them away, too.
    patch(&server, json!({"127.0.0.2": "debug"}));
    server.reload();
    assert_eq!(get(&server, "/log")["addresses"], json!({}));
}

#[test]
fn nothing_is_changed_in_part() {
    if !require::freerun() {
        return;
    }
    let origin = origin();
    let server = setup(&origin, "", "").freerun();
    let many = |count: usize| -> Value {
        (0..count).map(|n| (format!("10.0.0.{n}"), json!("info"))).collect::<serde_json::Map<_, _>>().into()
    };
    assert_eq!(patch(&server, many(63)).0, 200);
    for (addresses, status, code) in [
        (json!({"10.1.0.1": "debug", "10.1.0.2": "loud"}), 400, "BadBody"),
        (json!({"10.0.0.1": null, "10.1.0.0/16": "debug"}), 400, "BadBody"),
        (json!({"10.1.0.1": "debug", "10.1.0.2": "debug"}), 409, "TooManyAddresses"),
    ] {
        let (found, told) = patch(&server, addresses);
        assert_eq!((found, &told["error"]["code"]), (status, &json!(code)), "{told}");
    }
    assert_eq!(get(&server, "/log")["addresses"], many(63));
    assert_eq!(patch(&server, json!({"10.1.0.1": "debug"})).0, 200);
}
