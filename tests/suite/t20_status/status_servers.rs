//! `status_servers`: servers are counted without any directive.

use freerun_testkit::{Setup, TestClient, TestServer, eventually, require};
use serde_json::{Value, json};

/// Sites at one address as somebody writes them who knows of no zones. The first one shows the state.
const SITES: &str = "server { listen 127.0.0.1:@PORT@; location /status { status; } location /api { api; } }
    server { listen 127.0.0.1:@PORT@; server_name shop.example www.shop.example;
        location / { return 200 shop; } location /broken { return 500; } }
    server { listen 127.0.0.1:@PORT@ ; listen 127.0.0.1:@PORT2@; server_name ~^blog(.*)$; return 204; }
    server { listen 127.0.0.1:@PORT2@; server_name ~^blog(.*)$; return 205; }
    server { listen 127.0.0.1:@PORT@; server_name named.example; status_zone named; return 200 named; }
    server { listen 127.0.0.1:@PORT@; server_name silent.example; status_servers off; return 200 silent; }";

/// The figures of a server of this list with this name.
fn figures(server: &TestServer, list: &str, name: &str) -> Value {
    let status = server.status();
    let all = status.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
    all.into_iter().find(|one| one["name"] == name).unwrap_or_default()
}

/// The names of the servers and zones of this list, in its order, with `PORT` for the server's port.
fn names(server: &TestServer, list: &str) -> Vec<String> {
    let status = server.status();
    let all = status.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let port = server.address().port().to_string();
    all.iter().map(|one| one["name"].as_str().unwrap_or_default().replace(&port, "PORT")).collect()
}

/// A host is asked for a path.
fn ask(server: &TestServer, host: &str, path: &str) -> u16 {
    server.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).status
}

#[test]
fn error_rates_are_there_without_a_directive() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new().http(SITES).freerun();
    for path in ["/", "/a", "/broken"] {
        ask(&server, "www.shop.example", path);
    }
    for host in ["blog.example", "named.example", "silent.example"] {
        ask(&server, host, "/");
    }
    let port = server.address().port();
    let (shop, blog) = (format!("shop.example:{port}"), format!("~^blog(.*)$:{port}"));
    let mut found = Value::Null;
    eventually("the requests have ended", || {
        found = figures(&server, "/server_zones", &shop);
        found["times"]["count"] == 3
    });
    assert_eq!((&found["codes"], &found["is_server"]), (&json!({"200": 2, "500": 1}), &json!(true)));
    eventually("other servers count for themselves", || {
        figures(&server, "/server_zones", &blog)["codes"] == json!({"204": 1})
    });
    assert_eq!(figures(&server, "/server_zones", "named")["is_server"], false);
    let metrics = server.get("/status?format=prometheus").text();
    let line = format!("freerun_http_requests_total{{server_zone=\"{shop}\",code=\"500\"}} 1\n");
    assert!(metrics.contains(&line), "{line} is not in {metrics}");
    // NGINX Plus lists what has a zone.
    let zones: Value = serde_json::from_str(&server.get("/api/9/http/server_zones").text()).expect("JSON");
    assert_eq!(
        zones.as_object().map(|zones| zones.keys().cloned().collect::<Vec<_>>()),
        Some(vec!["named".to_owned()])
    );
}

#[test]
fn each_server_has_a_name_of_its_own_and_goes_on_over_a_reload() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new().http(SITES).freerun();
    let second = server.address_number(2).port();
    let known = names(&server, "/server_zones");
    let blog = format!("~^blog(.*)$:{second}");
    assert_eq!(known, ["named", "127.0.0.1:PORT", "shop.example:PORT", "~^blog(.*)$:PORT", &blog]);
    ask(&server, "shop.example", "/broken");
    server.edit("silent.example", "more.example");
    server.edit("status_servers off;", "");
    server.reload();
    eventually("the new server is there", || names(&server, "/server_zones").contains(&"more.example:PORT".to_owned()));
    let shop = format!("shop.example:{}", server.address().port());
    assert_eq!(figures(&server, "/server_zones", &shop)["codes"]["500"], 1, "what was counted before the reload");
}

#[test]
fn servers_of_stream_are_counted_too() {
    if !require::freerun() {
        return;
    }
    let setup = Setup::new().http("server { listen 127.0.0.1:@PORT@; location /status { status; } }").stream(
        "server { listen 127.0.0.1:@PORT2@; return hello; }
         server { listen 127.0.0.1:@PORT3@; status_servers off; return hello; }",
    );
    let server = setup.freerun();
    for number in [2, 2, 3] {
        TestClient::connect(server.address_number(number)).rest();
    }
    let name = server.address_number(2).to_string();
    eventually("both sessions have ended", || {
        figures(&server, "/stream/server_zones", &name)["codes"] == json!({"200": 2})
    });
    assert_eq!(names(&server, "/stream/server_zones"), [name]);
}
