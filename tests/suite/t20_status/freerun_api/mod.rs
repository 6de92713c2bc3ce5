//! freerun's own API: `/freerun/1/` of `api`.

mod caches;
mod drain;
mod examples;
mod log;
mod schema;

use std::collections::BTreeSet;
use std::process::Command;

use freerun_testkit::{
    AnsweringUpstream, Application, ReceivedRequest, Response, Setup, Site, TempDir, TestServer, TestUpstream,
    eventually, ports, require,
};
use serde_json::{Value, json};

/// The loops that most tests have.
const TWO: &str = "worker_processes 2;";

/// A server with a cache named `c` in front of an origin, and the API, for changing below `/api` and for reading below `/read`.
/// `listen` are parameters of the socket.
fn setup(origin: &AnsweringUpstream, main: &str, listen: &str) -> Setup {
    let lines = format!(
        "location /api {{ api write=on; }} location /read/ {{ api; }}
         location /p/ {{ proxy_cache c; proxy_cache_key $uri; proxy_pass http://{}; }}",
        origin.address()
    );
    Setup::new().root(&Site::new()).main(main).http(&format!(
        "proxy_cache_path @DIR@/cache keys_zone=c:1m;
         server {{ listen 127.0.0.1:@PORT@ {listen}; server_name localhost; root @ROOT@; {lines} }}"
    ))
}

/// An engine for what machines share: Redis, and the directive that names it. `None`: there is no Redis here.
fn engine() -> Option<(Application, String)> {
    let program = require::program("redis-server")?;
    let (folder, port) = (TempDir::new("engine"), ports::free());
    let mut command = Command::new(program);
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]).arg(folder.path());
    let engine = Application::start(command, &format!("127.0.0.1:{port}"), folder);
    Some((engine, format!("zone_sync_engine redis://127.0.0.1:{port};")))
}

/// Waits until the server is connected to its engine.
fn is_connected(server: &TestServer) {
    eventually("the engine is there", || get(server, "/cluster")["state"] == "connected");
}

fn origin() -> AnsweringUpstream {
    TestUpstream::answering(|request: &ReceivedRequest| {
        let tag = if request.target().ends_with("/red") { "Surrogate-Key: red\r\n" } else { "" };
        format!("HTTP/1.1 200 OK\r\n{tag}Content-Length: 5\r\nCache-Control: max-age=600\r\n\r\nhello").into_bytes()
    })
}

fn ask(server: &TestServer, method: &str, path: &str, body: &str, fields: &str) -> Response {
    let length = body.len();
    let text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n{body}");
    server.send(text)
}

/// The status of an answer of the API that may be changed, and its JSON.
fn own(server: &TestServer, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    told(&ask(server, method, &format!("/api/freerun/1{path}"), &body, ""))
}

fn told(response: &Response) -> (u16, Value) {
    if response.body.is_empty() {
        return (response.status, Value::Null);
    }
    assert_eq!(response.header("content-type"), Some("application/json"), "{}", response.text());
    (response.status, serde_json::from_slice(&response.body).expect("JSON"))
}

fn get(server: &TestServer, path: &str) -> Value {
    let (status, value) = own(server, "GET", path, None);
    assert_eq!(status, 200, "{path}: {value}");
    value
}

/// The arguments, and the body, with which an operation is tried.
fn sample(operation: &str) -> (&'static str, Value) {
    match operation {
        "explainKey" | "removeKey" => ("?key=/p/1", Value::Null),
        "purge" => ("", json!({"key": "/p/*"})),
        "changeLog" => ("", json!({"addresses": {"192.0.2.1": "debug"}})),
        "changeLoop" => ("", json!({"drain": true})),
        _ => ("", Value::Null),
    }
}

#[test]
fn every_endpoint_answers_as_it_is_described() {
    if !require::freerun() {
        return;
    }
    let Some((_engine, shared)) = engine() else { return };
    let origin = origin();
    let server = setup(&origin, &format!("{TWO} {shared}"), "").freerun();
    server.edit("keys_zone=c:1m", "keys_zone=c:1m sync");
    server.reload();
    is_connected(&server);
    caches::stored(&server, "/p/1");
    let document = get(&server, "/openapi.json");
    assert_eq!((&document["openapi"], &document["servers"][0]["url"]), (&json!("3.1.0"), &json!("/api/freerun/1")));
    let mut tried = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let id = operation["operationId"].as_str().expect("a name");
            let (arguments, body) = sample(id);
            assert_eq!(body.is_null(), operation["requestBody"].is_null(), "{id}");
            let path = path.replace("{zone}", "c").replace("{index}", "1") + arguments;
            let body = (!body.is_null()).then_some(body);
            let (status, value) = own(&server, &method.to_uppercase(), &path, body);
            let response = &operation["responses"][status.to_string()];
            assert!(status < 300 && !response.is_null(), "{id}: {status} {value}");
            match &response["content"]["application/json"]["schema"] {
                Value::Null => assert_eq!((status, &value), (204, &Value::Null), "{id}"),
                schema => {
                    assert_eq!(schema::faults(&document, schema, &value), Vec::<String>::new(), "{id}: {value}");
                }
            }
            tried.insert(id.to_owned());
        }
    }
    assert_eq!(tried.len(), 21, "{tried:?}");
    assert_eq!(
        get(&server, ""),
        json!([
            "caches",
            "cluster",
            "history",
            "log",
            "loops",
            "mounts",
            "openapi.json",
            "pools",
            "problems",
            "routes"
        ])
    );
    assert_eq!(told(&server.get("/api/freerun/")), (200, json!([1])));
    let head = ask(&server, "HEAD", "/api/freerun/1/loops", "", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn what_is_wrong_is_refused_in_one_form() {
    if !require::freerun() {
        return;
    }
    let origin = origin();
    let server = setup(&origin, TWO, "").freerun();
    let document = get(&server, "/openapi.json");
    let form = json!({"$ref": "#/components/schemas/Error"});
    let long = format!("{{\"key\": \"{}\"}}", "k".repeat(70_000));
    let long_text = json!({"key": format!("{}*", "k".repeat(20_000))}).to_string();
    let (read, patch, log) = (Some("GET, HEAD"), Some("GET, HEAD, PATCH"), Some("GET, HEAD, PATCH, DELETE"));
    for (method, path, body, status, code, allow) in [
        ("GET", "/api/freerun/2/loops", "", 404, "UnknownVersion", None),
        ("GET", "/api/freerun/01/", "", 404, "UnknownVersion", None),
        ("DELETE", "/api/freerun", "", 405, "MethodNotAllowed", read),
        ("GET", "/api/freerun/1/nothing", "", 404, "PathNotFound", None),
        ("GET", "/api/freerun/1/caches/c/keys/x", "", 404, "PathNotFound", None),
        ("PATCH", "/api/freerun/1/nothing", "{}", 404, "PathNotFound", None),
        ("GET", "/api/freerun/1/loops/2", "", 404, "LoopNotFound", None),
        ("GET", "/api/freerun/1/loops/x", "", 404, "LoopNotFound", None),
        ("GET", "/api/freerun/1/loops/-1", "", 404, "LoopNotFound", None),
        ("PATCH", "/api/freerun/1/loops/2", "{\"drain\": true}", 404, "LoopNotFound", None),
        ("GET", "/api/freerun/1/caches/x", "", 404, "CacheNotFound", None),
        ("GET", "/api/freerun/1/caches/x/keys?key=a", "", 404, "CacheNotFound", None),
        ("POST", "/api/freerun/1/caches/x/purge", "{\"key\": \"a\"}", 404, "CacheNotFound", None),
        ("GET", "/api/freerun/1/caches/c/keys", "", 400, "BadArgument", None),
        ("GET", "/api/freerun/1/caches/c/keys?hash=12", "", 400, "BadArgument", None),
        ("DELETE", "/api/freerun/1/caches/c/keys", "", 400, "BadArgument", None),
        ("DELETE", "/api/freerun/1/caches/c/keys?key=none", "", 404, "KeyNotFound", None),
        ("POST", "/api/freerun/1/caches/c/purge", "{\"key\": \"none\"}", 404, "KeyNotFound", None),
        ("POST", "/api/freerun/1/caches/c/purge", "{\"key\": \"\"}", 400, "BadBody", None),
        ("POST", "/api/freerun/1/caches/c/purge", "", 400, "BadBody", None),
        ("POST", "/api/freerun/1/caches/c/purge", "{\"key\": ", 400, "BadBody", None),
        ("POST", "/api/freerun/1/caches/c/purge", long.as_str(), 413, "TooLong", None),
        ("POST", "/api/freerun/1/caches/c/purge", long_text.as_str(), 413, "TooLong", None),
        ("PATCH", "/api/freerun/1/loops/0", "{\"drain\": 1}", 400, "BadBody", None),
        ("PATCH", "/api/freerun/1/log", "{\"addresses\": {\"localhost\": \"debug\"}}", 400, "BadBody", None),
        ("PUT", "/api/freerun/1/log", "{}", 405, "MethodNotAllowed", log),
        ("FOO", "/api/freerun/1/log", "", 405, "MethodNotAllowed", log),
        ("DELETE", "/api/freerun/1/pools", "", 405, "MethodNotAllowed", read),
        ("DELETE", "/api/freerun/1/loops/0", "", 405, "MethodNotAllowed", patch),
        ("GET", "/api/freerun/1/caches/c/purge", "", 405, "MethodNotAllowed", Some("POST")),
        // Where nothing may be changed.
        ("PATCH", "/read/freerun/1/loops/0", "{\"drain\": true}", 405, "MethodDisabled", read),
        ("DELETE", "/read/freerun/1/log", "", 405, "MethodDisabled", read),
        ("POST", "/read/freerun/1/caches/c/purge", "{\"key\": \"/p/*\"}", 405, "MethodDisabled", Some("")),
    ] {
        let response = ask(&server, method, path, body, "");
        let (found, value) = told(&response);
        let at = format!("{method} {path} {value}");
        assert_eq!(
            (found, &value["error"]["status"], &value["error"]["code"]),
            (status, &json!(status), &json!(code)),
            "{at}"
        );
        assert_eq!(schema::faults(&document, &form, &value), Vec::<String>::new(), "{at}");
        assert_eq!(response.header("allow"), allow, "{at}");
        assert!(value["href"].as_str().is_some_and(|href| href.ends_with("/freerun/1/openapi.json")), "{at}");
    }
    let foreign = ask(&server, "DELETE", "/api/freerun/1/log", "", "Origin: https://other.test\r\n");
    let (status, value) = told(&foreign);
    assert_eq!((status, &value["error"]["code"]), (403, &json!("OtherOrigin")));
}
