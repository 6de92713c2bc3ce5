//! `api`: nginx's API, version 9, and what it changes.

mod changes;
mod description;
mod origin;

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;

use freerun_testkit::{
    AnsweringUpstream, Dns, DnsReply, Kind, Response, Setup, Site, TempDir, TestServer, TestUpstream, check,
    eventually, ok, require,
};
use serde_json::{Value, json};

/// A configuration with the API, for reading and changing, and these lines in `http`.
fn setup(http: &str, lines: &str) -> Setup {
    Setup::new().root(&Site::new()).http(&format!(
        "{http} server {{ listen 127.0.0.1:@PORT@; server_name localhost; status_zone main;
             location /api {{ api write=on; }} location /read/ {{ api; }} {lines} }}"
    ))
}

fn ask(server: &TestServer, method: &str, path: &str, body: Option<&Value>, fields: &str) -> Response {
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n{body}");
    let mut client = server.connect();
    client.send(text);
    client.response_to(method)
}

fn parsed(response: &Response) -> Value {
    assert_eq!(response.header("content-type"), Some("application/json"), "{}", response.text());
    serde_json::from_slice(&response.body).expect("JSON")
}

fn get(server: &TestServer, path: &str) -> Value {
    let response = server.get(&format!("/api/9{path}"));
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    parsed(&response)
}

/// Asks for a change; the status, and the body if there is one.
fn change(server: &TestServer, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let response = ask(server, method, &format!("/api/9{path}"), body.as_ref(), "");
    let value = if response.body.is_empty() { Value::Null } else { parsed(&response) };
    (response.status, value)
}

/// The status and the code of a refusal.
fn refused((status, body): (u16, Value)) -> (u16, String) {
    assert_eq!(body["error"]["status"], status, "{body}");
    assert_eq!(body["request_id"].as_str().map(str::len), Some(32), "{body}");
    (status, body["error"]["code"].as_str().expect("a code").to_owned())
}

/// A folder that workers may write to, whoever they run as.
fn for_workers(name: &str) -> TempDir {
    let folder = TempDir::new(name);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("permissions");
    folder
}

fn named(name: &'static str) -> AnsweringUpstream {
    TestUpstream::answering(move |_| ok(name))
}

#[test]
fn versions_and_paths_are_found_or_refused() {
    if !require::freerun() {
        return;
    }
    let server = setup("", "").freerun();
    let versions = json!([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for path in ["/api", "/api/", "/read/"] {
        assert_eq!(parsed(&server.get(path)), versions, "{path}");
    }
    let root = json!(["nginx", "processes", "connections", "slabs", "http", "resolvers", "ssl", "workers"]);
    assert_eq!(get(&server, ""), root);
    assert_eq!(get(&server, "/slabs/"), json!({}));
    for (path, status, code) in [
        ("/10/nginx", 404, "UnknownVersion"),
        ("/9/license", 404, "PathNotFound"),
        ("/9/stream/", 404, "PathNotFound"),
        ("/9/http/nothing", 404, "PathNotFound"),
        ("/9/http/server_zones/x", 404, "ServerZoneNotFound"),
        ("/9/http/location_zones/x", 404, "LocationZoneNotFound"),
        ("/9/http/caches/x", 404, "CacheNotFound"),
        ("/9/http/limit_reqs/x", 404, "LimitReqNotFound"),
        ("/9/http/limit_conns/x", 404, "LimitConnNotFound"),
        ("/9/http/upstreams/x", 404, "UpstreamNotFound"),
        ("/9/http/keyvals/x", 404, "KeyvalNotFound"),
        ("/9/resolvers/x", 404, "ResolverZoneNotFound"),
        ("/9/slabs/x", 404, "SlabNotFound"),
        ("/9/workers/7", 404, "WorkerNotFound"),
    ] {
        let response = server.get(&format!("/read{path}"));
        assert_eq!(refused((response.status, parsed(&response))), (status, code.to_owned()), "{path}");
    }
    let head = ask(&server, "HEAD", "/api/9/nginx", None, "");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn fields_are_chosen() {
    if !require::freerun() {
        return;
    }
    let server =
        setup("", "location /a { status_zone a; return 204; } location /b { status_zone b; return 204; }").freerun();
    assert_eq!(get(&server, "/nginx?fields=build,nothing"), json!({"build": "freerun"}));
    assert_eq!(get(&server, "/http/location_zones/?fields="), json!({"a": {}, "b": {}}));
    assert_eq!(get(&server, "/http/location_zones/a?fields=requests"), json!({"requests": 0}));
}

#[test]
fn what_has_happened_is_told() {
    if !require::freerun() {
        return;
    }
    let http = "limit_req_zone $arg_k zone=r:1m rate=1r/m; limit_conn_zone $arg_k zone=c:1m; resolver 127.0.0.1 status_zone=dns;";
    let lines = "location /r { limit_req zone=r; status_zone r; return 200 r; }
        location /dry { limit_req zone=r; limit_req_dry_run on; empty_gif; }
        location /limited { limit_req zone=r; limit_conn c 1; empty_gif; }";
    let server = setup(http, lines).main("worker_processes 2;").freerun();
    for path in ["/limited?k=1", "/limited?k=1", "/dry?k=1", "/dry?k=2"] {
        server.get(path);
    }
    let limits = get(&server, "/http/limit_reqs");
    let expected = json!({"passed": 2, "delayed": 0, "rejected": 1, "delayed_dry_run": 0, "rejected_dry_run": 1});
    assert_eq!(limits, json!({"r": expected}));
    assert_eq!(get(&server, "/http/limit_conns/c"), json!({"passed": 1, "rejected": 0, "rejected_dry_run": 0}));
    assert_eq!(get(&server, "/resolvers/dns")["requests"]["name"], 0);
    let mut zone = Value::Null;
    // A client has its answer before the end of its request is counted.
    eventually("this request is the only one", || {
        zone = get(&server, "/http/server_zones/main");
        zone["processing"] == 1
    });
    assert_eq!(zone["responses"]["codes"]["503"], 1, "{zone}");
    let workers = get(&server, "/workers");
    assert_eq!(workers.as_array().map(Vec::len), Some(2));
    let sum = |pointer: &str| -> u64 {
        let all = workers.as_array().expect("a list").iter();
        all.map(|worker| worker.pointer(pointer).and_then(Value::as_u64).expect("a number")).sum()
    };
    // The requests after that one came later.
    assert!(sum("/http/requests/total") < get(&server, "/http/requests")["total"].as_u64().expect("a number"));
    assert!(sum("/connections/accepted") >= 5);
    let nginx = get(&server, "/nginx");
    assert_eq!(nginx["pid"].as_u64(), Some(u64::from(server.worker())));
    assert_eq!((&nginx["address"], &nginx["ppid"]), (&json!("127.0.0.1"), &json!(server.master())));
}

#[test]
fn caches_tell_bytes_by_how_they_came() {
    if !require::freerun() {
        return;
    }
    let behind = TestUpstream::answering(|_| {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\n\r\nhello".into()
    });
    let http = "proxy_cache_path @DIR@/cache keys_zone=c:1m max_size=10m;";
    let lines =
        format!("location /p/ {{ proxy_pass http://{}; proxy_cache c; proxy_cache_bypass $arg_b; }}", behind.address());
    let server = setup(http, &lines).freerun();
    for path in ["/p/1", "/p/1", "/p/1", "/p/2"] {
        assert_eq!(server.get(path).text(), "hello");
    }
    let mut cache = Value::Null;
    eventually("both are stored", || {
        cache = get(&server, "/http/caches/c");
        cache["miss"]["responses_written"] == 2
    });
    assert_eq!(cache["hit"], json!({"responses": 2, "bytes": 10}));
    assert_eq!(cache["miss"], json!({"responses": 2, "bytes": 10, "responses_written": 2, "bytes_written": 10}));
    assert_eq!(cache["max_size"], 10 << 20);
}

const GROUPS: &str = "upstream g { zone g 64k; server 127.0.0.1:9 weight=3 max_conns=7; server 127.0.0.1:10 backup; }
    upstream static { server 127.0.0.1:9; }";

#[test]
fn groups_with_a_zone_are_told() {
    if !require::freerun() {
        return;
    }
    let server = setup(GROUPS, "location /g { proxy_pass http://g; }").freerun();
    assert_eq!(server.get("/g").status, 502);
    let all = get(&server, "/http/upstreams");
    assert_eq!(all.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>()), Some(vec!["g".to_owned()]));
    let group = &all["g"];
    assert_eq!((&group["zone"], &group["keepalive"], &group["zombies"]), (&json!("g"), &json!(0), &json!(0)));
    let peer = &group["peers"][0];
    for (name, value) in [
        ("server", json!("127.0.0.1:9")),
        ("name", json!("127.0.0.1:9")),
        ("backup", json!(false)),
        ("weight", json!(3)),
        ("max_conns", json!(7)),
        ("requests", json!(1)),
        ("fails", json!(1)),
        ("unavail", json!(1)),
        ("state", json!("unavail")),
        ("active", json!(0)),
    ] {
        assert_eq!(peer[name], value, "{name} of {peer}");
    }
    assert!(peer["selected"].is_string() && peer["downstart"].is_string() && peer["downtime"].is_u64(), "{peer}");
    let configured = get(&server, "/http/upstreams/g/servers");
    assert_eq!(configured[0]["id"], peer["id"]);
    assert_eq!((&configured[1]["backup"], &configured[0]["fail_timeout"]), (&json!(true), &json!("10s")));
    let id = configured[1]["id"].as_u64().expect("a number");
    assert_eq!(get(&server, &format!("/http/upstreams/g/servers/{id}")), configured[1]);
    let told = |path: &str| {
        let response = server.get(&format!("/api/9/http/upstreams/{path}"));
        refused((response.status, parsed(&response)))
    };
    assert_eq!(told("static"), (400, "UpstreamStatic".to_owned()));
    assert_eq!(told("g/servers/x"), (400, "UpstreamBadServerId".to_owned()));
    assert_eq!(told("g/servers/0"), (404, "UpstreamServerNotFound".to_owned()));
}

#[test]
fn servers_are_added_changed_drained_and_removed() {
    if !require::freerun() {
        return;
    }
    let (one, two) = (named("one"), named("two"));
    let http = format!("upstream g {{ zone g 64k; server {}; }}", one.address());
    let server = setup(&http, "location = /g { proxy_pass http://g; }").main("worker_processes 2;").freerun();
    let servers = "/http/upstreams/g/servers";
    assert_eq!(server.get("/g").text(), "one");
    let (status, added) = change(&server, "POST", servers, Some(json!({"server": two.address(), "weight": 5})));
    assert_eq!((status, &added["weight"], &added["server"]), (201, &json!(5), &json!(two.address())), "{added}");
    let texts = || -> Vec<String> { (0..12).map(|_| server.get("/g").text()).collect() };
    assert_eq!(texts().iter().filter(|text| *text == "two").count(), 10);
    let again = change(&server, "POST", servers, Some(json!({"server": two.address()})));
    assert_eq!(refused(again), (409, "EntryExists".to_owned()));
    // Only what is told changes.
    let of_two = format!("{servers}/{}", added["id"]);
    let (status, changed) = change(&server, "PATCH", &of_two, Some(json!({"drain": true})));
    assert_eq!((status, &changed["weight"], &changed["drain"]), (200, &json!(5), &json!(true)), "{changed}");
    assert_eq!(get(&server, "/http/upstreams/g")["peers"][1]["state"], "draining");
    assert!(texts().iter().all(|text| text == "one"));
    let drain = json!({"drain": true});
    let told = ask(&server, "PATCH", &format!("/api/9{of_two}"), Some(&drain), "");
    assert_eq!(told.header("freerun-note"), Some("the next reload undoes this: the group has no state file"));
    change(&server, "PATCH", &of_two, Some(json!({"drain": false, "down": false})));
    let first = get(&server, servers)[0]["id"].clone();
    change(&server, "PATCH", &format!("{servers}/{first}"), Some(json!({"down": true})));
    assert!(texts().iter().all(|text| text == "two"));
    let (status, rest) = change(&server, "DELETE", &format!("{servers}/{first}"), None);
    assert_eq!((status, rest.as_array().map(Vec::len)), (200, Some(1)), "{rest}");
    assert_eq!(texts()[0], "two");
    // The same server is a new one, with what is known of its address.
    let (_, back) = change(&server, "POST", servers, Some(json!({"server": one.address(), "backup": true})));
    assert_ne!(back["id"], first);
    let fixed = change(&server, "PATCH", &format!("{servers}/{}", back["id"]), Some(json!({"backup": false})));
    assert_eq!(refused(fixed), (400, "UpstreamConfFormatError".to_owned()));
    for (body, code) in [
        (json!({}), "UpstreamConfFormatError"),
        (json!({"server": "127.0.0.1:x"}), "UpstreamBadAddress"),
        (json!({"server": "127.0.0.1:1; weight"}), "UpstreamBadAddress"),
        (json!({"server": "a.test"}), "UpstreamConfNoResolver"),
        (json!({"server": "127.0.0.1:1", "weight": 0}), "UpstreamBadWeight"),
    ] {
        let error = refused(change(&server, "POST", servers, Some(body.clone())));
        assert_eq!(error, (400, code.to_owned()), "{body}");
    }
    let broken = ask(&server, "POST", &format!("/api/9{servers}"), None, "");
    assert_eq!(refused((broken.status, parsed(&broken))), (415, "JsonError".to_owned()));
    // Without a file, the configuration's servers come back.
    server.reload();
    assert_eq!(get(&server, servers).as_array().map(Vec::len), Some(1));
    assert_eq!(server.get("/g").text(), "one");
}

#[test]
fn a_state_file_keeps_the_servers() {
    if !require::freerun() {
        return;
    }
    let (one, two) = (named("one"), named("two"));
    let folder = for_workers("state-of-servers");
    let file = folder.path().join("g.state");
    let http = format!("upstream g {{ zone g 64k; state {}; }}", file.display());
    let server = setup(&http, "location = /g { proxy_pass http://g; }").freerun();
    assert_eq!(server.get("/g").status, 502);
    let servers = "/http/upstreams/g/servers";
    for (address, weight) in [(one.address(), 2), (two.address(), 1)] {
        let (status, body) = change(&server, "POST", servers, Some(json!({"server": address, "weight": weight})));
        assert_eq!(status, 201, "{body}");
    }
    let text = format!("server {} weight=2;\nserver {};\n", one.address(), two.address());
    assert_eq!(fs::read_to_string(&file).expect("the file"), text);
    server.reload();
    assert_eq!(get(&server, servers).as_array().map(Vec::len), Some(2));
    let id = get(&server, servers)[0]["id"].clone();
    let kept = ask(&server, "DELETE", &format!("/api/9{servers}/{id}"), None, "");
    assert_eq!((kept.status, kept.header("freerun-note")), (200, None));
    assert_eq!(fs::read_to_string(&file).expect("the file"), format!("server {};\n", two.address()));
    // It cannot be written: the change is in effect all the same.
    fs::create_dir(folder.path().join("g.state.new")).expect("a folder");
    let (status, _) = change(&server, "POST", servers, Some(json!({"server": one.address()})));
    assert_eq!((status, get(&server, servers).as_array().map(Vec::len)), (201, Some(2)));
    server.logs("cannot be written");
}

#[test]
fn a_state_file_may_have_backup_servers_alone() {
    if !require::freerun() {
        return;
    }
    let one = named("one");
    let folder = for_workers("state-of-a-backup");
    let file = folder.path().join("g.state");
    fs::write(&file, format!("server {} backup;\n", one.address())).expect("the file");
    let http = format!("upstream g {{ zone g 64k; state {}; }}", file.display());
    let server = setup(&http, "location = /g { proxy_pass http://g; }").freerun();
    assert_eq!(server.get("/g").text(), "one");
}

#[test]
fn a_worker_that_is_started_again_has_the_servers_of_the_state_file() {
    if !require::freerun() {
        return;
    }
    let one = named("one");
    let folder = for_workers("state-after-a-death");
    let file = folder.path().join("g.state");
    let http = format!("upstream g {{ zone g 64k; state {}; }}", file.display());
    let server = setup(&http, "location = /g { proxy_pass http://g; }").freerun();
    let servers = "/http/upstreams/g/servers";
    assert_eq!(change(&server, "POST", servers, Some(json!({"server": one.address()}))).0, 201);
    let kill = || {
        let worker = server.worker();
        server.signal_pid(worker, rustix::process::Signal::KILL);
        eventually("there is another worker", || server.workers().first().is_some_and(|other| *other != worker));
    };
    let id = get(&server, servers)[0]["id"].clone();
    kill();
    assert_eq!(server.get("/g").text(), "one");
    // Who has kept a number from before changes no other server by it.
    let (status, _) = change(&server, "PATCH", &format!("{servers}/{id}"), Some(json!({"down": true})));
    assert_eq!((status, get(&server, servers)[0]["down"].clone()), (404, json!(false)));
    // One that is wrong by now does not keep a worker from serving: it has what the last configuration was read with.
    server.reload();
    fs::write(&file, "server 127.0.0.1:1; server").expect("the file");
    kill();
    assert_eq!(server.get("/g").text(), "one");
    server.logs("the state file is not used as it is");
    // The next change does not destroy it.
    assert_eq!(change(&server, "POST", servers, Some(json!({"server": "127.0.0.1:1"}))).0, 201);
    let aside = fs::read_to_string(folder.path().join("g.state.unused"));
    assert_eq!(aside.expect("the file"), "server 127.0.0.1:1; server");
    assert!(fs::read_to_string(&file).expect("the file").starts_with(&format!("server {};\n", one.address())));
}

#[test]
fn a_server_that_gets_another_name_is_looked_up_by_that() {
    if !require::freerun() {
        return;
    }
    let (one, two) = (named("one"), named("two"));
    let at = |name: &str, upstream: &AnsweringUpstream| upstream.address().replace("127.0.0.1", name);
    let dns = Dns::start();
    for name in ["a.test", "b.test"] {
        dns.set(name, DnsReply::address(Ipv4Addr::LOCALHOST, 3600));
    }
    let (resolver, first) = (dns.address(), one.address());
    let http = format!("upstream g {{ zone g 64k; resolver {resolver} ipv6=off; server {first}; }}");
    let server = setup(&http, "location = /g { proxy_pass http://g; }").freerun();
    let id = get(&server, "/http/upstreams/g/servers")[0]["id"].clone();
    let rename = |text: &str| {
        let path = format!("/http/upstreams/g/servers/{id}");
        let (status, body) = change(&server, "PATCH", &path, Some(json!({"server": text})));
        assert_eq!((status, &body["server"]), (200, &json!(text)), "{body}");
    };
    rename(&at("a.test", &two));
    eventually("an address has become a name", || server.get("/g").text() == "two");
    rename(&at("b.test", &one));
    eventually("a name has become another one", || server.get("/g").text() == "one");
    // The name stays, and with it what is known of it.
    let asked = dns.asked("b.test");
    rename(&at("b.test", &two));
    assert_eq!((server.get("/g").text(), dns.asked("b.test")), ("two".to_owned(), asked));
}

#[test]
fn pairs_are_looked_up_and_changed() {
    if !require::freerun() {
        return;
    }
    let folder = for_workers("state-of-pairs");
    let http = format!(
        "keyval_zone zone=texts:64k; keyval $arg_k $text zone=texts;
         keyval_zone zone=nets:64k type=ip timeout=1h state={}/nets.json; keyval $arg_a $net zone=nets;
         keyval_zone zone=starts:64k type=prefix; keyval $uri $start zone=starts;",
        folder.path().display()
    );
    let server = setup(&http, "location / { return 200 '$text,$net,$start'; }").main("worker_processes 2;").freerun();
    let said = |target: &str| server.get(target).text();
    assert_eq!(said("/x?k=a"), ",,");
    let zone = "/http/keyvals/texts";
    assert_eq!(change(&server, "POST", zone, Some(json!({"a": "1", "b": "2"}))), (201, Value::Null));
    assert_eq!(said("/x?k=a"), "1,,");
    assert_eq!(refused(change(&server, "POST", zone, Some(json!({"a": "3"})))), (409, "KeyvalKeyExists".to_owned()));
    assert_eq!(change(&server, "PATCH", zone, Some(json!({"a": "3"}))), (204, Value::Null));
    assert_eq!(said("/x?k=a"), "3,,");
    assert_eq!(get(&server, zone), json!({"a": "3", "b": "2"}));
    assert_eq!(get(&server, &format!("{zone}?key=b")), json!({"b": "2"}));
    assert_eq!(change(&server, "PATCH", zone, Some(json!({"b": null}))), (204, Value::Null));
    let missing = server.get(&format!("/api/9{zone}?key=b"));
    assert_eq!(refused((missing.status, parsed(&missing))), (404, "KeyvalKeyNotFound".to_owned()));
    let timed = change(&server, "PATCH", zone, Some(json!({"a": {"value": "1", "expire": 1000}})));
    assert_eq!(refused(timed), (400, "KeyvalFormatError".to_owned()));
    let large = "v".repeat(70_000);
    assert_eq!(
        refused(change(&server, "POST", zone, Some(json!({"c": large})))),
        (413, "KeyvalOutOfMemory".to_owned())
    );

    change(&server, "POST", "/http/keyvals/nets", Some(json!({"10.0.0.0/8": "ten", "10.1.2.3": "one"})));
    change(&server, "POST", "/http/keyvals/starts", Some(json!({"/x": "short", "/x/y": "long"})));
    assert_eq!(said("/x/y/z?a=10.1.2.3"), ",one,long");
    assert_eq!(said("/xa?a=10.9.9.9"), ",ten,short");
    assert_eq!(get(&server, "/http/keyvals?fields="), json!({"texts": {}, "nets": {}, "starts": {}}));
    assert_eq!(get(&server, "/http/keyvals")["nets"], json!({"10.0.0.0/8": "ten", "10.1.2.3": "one"}));
    server.reload();
    assert_eq!(said("/x/y?k=a&a=10.1.2.3"), "3,one,long");
    assert_eq!(change(&server, "DELETE", zone, None), (204, Value::Null));
    assert_eq!(get(&server, zone), json!({}));
    // Another process finds those of the file.
    let worker = server.worker();
    server.signal_pid(worker, rustix::process::Signal::KILL);
    eventually("another worker answers", || {
        server.workers().first().is_some_and(|other| *other != worker) && said("/q?a=10.9.9.9") == ",ten,"
    });
    assert_eq!(get(&server, "/processes"), json!({"respawned": 1}));
}

#[test]
fn nothing_is_changed_that_may_not_be() {
    if !require::freerun() {
        return;
    }
    let server = setup(&format!("{GROUPS} keyval_zone zone=z:64k;"), "").freerun();
    let probe = "/9/http/upstreams/DASHBOARD_INIT/servers/__TEST_FOR_WRITE__";
    let read_only = ask(&server, "DELETE", &format!("/read{probe}"), None, "");
    assert_eq!(refused((read_only.status, parsed(&read_only))), (405, "MethodDisabled".to_owned()));
    assert_eq!(read_only.header("allow"), Some("GET, HEAD"));
    let writable = ask(&server, "DELETE", &format!("/api{probe}"), None, "");
    assert_eq!(refused((writable.status, parsed(&writable))), (404, "UpstreamNotFound".to_owned()));
    let pair = json!({"k": "v"});
    let post = |fields: &str| ask(&server, "POST", "/api/9/http/keyvals/z", Some(&pair), fields);
    for fields in [
        "Origin: https://other.test\r\n",
        "Origin: null\r\n",
        "Origin: http://localhost.other.test\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Origin: http://localhost\r\nSec-Fetch-Site: same-site\r\n",
    ] {
        let response = post(fields);
        assert_eq!(refused((response.status, parsed(&response))), (403, "OtherOrigin".to_owned()), "{fields}");
    }
    assert_eq!(post("Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n").status, 201);
    for (method, path, allow) in [
        ("PUT", "/api", "GET, HEAD"),
        ("PUT", "/read/9/http/keyvals/z", "GET, HEAD"),
        ("PUT", "/api/9/http/keyvals/z", "GET, HEAD, POST, PATCH, DELETE"),
        ("PUT", "/api/9/http/upstreams/g/servers", "GET, HEAD, POST"),
        ("PUT", "/api/9/http/upstreams/g/servers/1", "GET, HEAD, PATCH, DELETE"),
        ("POST", "/api/9/http/upstreams/g", "GET, HEAD"),
    ] {
        let response = ask(&server, method, path, None, "");
        let code = refused((response.status, parsed(&response)));
        assert_eq!(code, (405, "MethodNotAllowed".to_owned()), "{method} {path}");
        assert_eq!(response.header("allow"), Some(allow), "{method} {path}");
    }
    for (method, path, status, code) in [
        ("DELETE", "/connections", 405, "MethodDisabled"),
        ("DELETE", "/nothing", 404, "PathNotFound"),
        ("POST", "/http/upstreams/static/servers", 400, "UpstreamStatic"),
        ("PATCH", "/http/keyvals/none", 404, "KeyvalNotFound"),
    ] {
        assert_eq!(
            refused(change(&server, method, path, Some(json!({})))),
            (status, code.to_owned()),
            "{method} {path}"
        );
    }
    let long = json!({"k": "v".repeat(2 << 20)});
    assert_eq!(ask(&server, "POST", "/api/9/http/keyvals/z", Some(&long), "").status, 413);
}

#[test]
fn stream_has_its_own_objects() {
    if !require::freerun() {
        return;
    }
    let stream = "upstream s { zone s 64k; server 127.0.0.1:9; } limit_conn_zone $remote_addr zone=sc:1m;
        keyval_zone zone=names:64k; keyval $remote_addr $name zone=names;
        server { listen 127.0.0.1:@PORT2@; status_zone sz; limit_conn sc 5; return $name; }";
    let server = setup("", "").stream(stream).freerun();
    assert_eq!(get(&server, "/stream"), json!(["server_zones", "limit_conns", "upstreams", "keyvals"]));
    assert_eq!(
        change(&server, "POST", "/stream/keyvals/names", Some(json!({"127.0.0.1": "here"}))),
        (201, Value::Null)
    );
    let (said, _) = freerun_testkit::TestClient::connect(server.address_number(2)).rest();
    assert_eq!(said, b"here");
    eventually("the session has ended", || get(&server, "/stream/server_zones/sz")["sessions"]["2xx"] == 1);
    let zone = get(&server, "/stream/server_zones")["sz"].clone();
    assert_eq!((&zone["connections"], &zone["sent"], &zone["processing"]), (&json!(1), &json!(4), &json!(0)));
    assert_eq!(get(&server, "/stream/limit_conns/sc")["passed"], 1);
    let peer = get(&server, "/stream/upstreams/s")["peers"][0].clone();
    assert_eq!((&peer["connections"], &peer["state"]), (&json!(0), &json!("up")));
    let (status, added) =
        change(&server, "POST", "/stream/upstreams/s/servers", Some(json!({"server": "127.0.0.1:10"})));
    assert_eq!((status, added["route"].clone()), (201, Value::Null), "{added}");
    let portless = change(&server, "POST", "/stream/upstreams/s/servers", Some(json!({"server": "127.0.0.1"})));
    assert_eq!(refused(portless), (400, "UpstreamBadAddress".to_owned()));
}

#[test]
fn long_answers_are_made_by_the_pool() {
    if !require::freerun() {
        return;
    }
    let servers: String = (1..=200).map(|n| format!("server 127.0.0.1:{n};")).collect();
    let limits: String = (0..200).map(|n| format!("limit_req_zone $arg_k zone=r{n}:32k rate=1r/s;")).collect();
    for many in [format!("upstream g {{ zone g 1m; {servers} }}"), limits] {
        let server = setup(&many, "location = /status { status; }").freerun();
        let served = || {
            let pools = server.status()["pools"].clone();
            let mut pools = pools.as_array().expect("a list").iter();
            pools.find(|pool| pool["name"] == "(cpu)").and_then(|pool| pool["served"].as_u64()).expect("a number")
        };
        let before = served();
        for _ in 0..5 {
            get(&server, "/http/upstreams");
            get(&server, "/http/limit_reqs");
        }
        // Besides these, the answer about the pool before is one of its tasks; the last one may still be counted.
        assert!(served() >= before + 10, "{} after {before}, {}", served(), &many[..40]);
    }
}

#[test]
fn an_api_and_a_status_for_everybody_are_warned_of() {
    if !require::freerun() {
        return;
    }
    let told = |listen: &str, lines: &str| {
        let text = format!(
            "events {{ }} http {{ server {{ {listen} location /api {{ api write=on; {lines} }}
             location /status {{ status; {lines} }} }} }}"
        );
        let checked = check(Kind::Freerun, &text).expect("it starts");
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
        let [api, status] = ["the API", "the status"]
            .map(|what| checked.stderr.matches(&format!("{what} can be used by everybody")).count());
        assert_eq!(api, status, "{}", checked.stderr);
        api
    };
    assert_eq!(told("listen 8080;", ""), 1);
    assert_eq!(told("listen 8080;", "limit_except GET { deny all; }"), 1);
    for (listen, lines) in [
        ("listen 127.0.0.1:8080;", ""),
        ("listen [::1]:8080;", ""),
        ("listen unix:/tmp/no-such-api.sock;", ""),
        ("listen 8080;", "allow 127.0.0.1; deny all;"),
        ("listen 8080;", "auth_basic x; auth_basic_user_file /dev/null;"),
        ("listen 8080;", "internal;"),
    ] {
        assert_eq!(told(listen, lines), 0, "{listen} {lines}");
    }
}
