//! `status_zone`: what is counted of requests, sessions and handshakes.

use freerun_testkit::{ConnectionEnd, Setup, Site, TestClient, TestServer, Tls, certificates, eventually, require};
use serde_json::{Value, json};

const STATUS: &str = "location = /status { status; }";

fn site() -> Site {
    let site = Site::new();
    site.file("a", "file a");
    site
}

/// What `status` says of a zone of this list.
fn zone(server: &TestServer, list: &str, name: &str) -> Value {
    let status = server.status();
    let zones = status.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
    zones.into_iter().find(|zone| zone["name"] == name).unwrap_or(Value::Null)
}

/// The zone, when so many requests of it have ended.
fn ended(server: &TestServer, list: &str, name: &str, count: u64) -> Value {
    let mut found = Value::Null;
    eventually("the requests of the zone have ended", || {
        found = zone(server, list, name);
        found["times"]["count"] == count
    });
    found
}

#[test]
fn requests_are_counted_by_server_and_by_the_location_where_they_end() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let lines = format!(
        "status_zone site; {STATUS}
         location / {{ status_zone files; location /inner {{ return 204; }}
                      location /off {{ status_zone off; return 204; }} }}
         location /moved {{ status_zone moved; rewrite ^ /a last; }}
         location /if {{ status_zone plain; if ($arg_x) {{ status_zone chosen; return 403; }} return 200 x; }}
         location /gone {{ status_zone files; return 444; }}"
    );
    let server = Setup::server(&site, &lines).main("worker_processes 2;").freerun();
    // Each over a connection of its own, so that both loops count.
    for path in ["/a", "/missing", "/inner", "/off", "/moved", "/if", "/if?x=1"] {
        server.get(path);
    }
    let (rest, ending) = server.connect().send("GET /gone HTTP/1.1\r\nHost: localhost\r\n\r\n").rest();
    assert_eq!((rest.len(), ending), (0, ConnectionEnd::Closed));
    let files = ended(&server, "/location_zones", "files", 5);
    assert_eq!(files["codes"], json!({"200": 2, "204": 1, "404": 1}));
    assert_eq!(files["responses"], json!({"1xx": 0, "2xx": 3, "3xx": 0, "4xx": 1, "5xx": 0}));
    assert_eq!((&files["requests"], &files["discarded"], &files["processing"]), (&json!(5), &json!(1), &json!(0)));
    assert_eq!(zone(&server, "/location_zones", "moved")["requests"], 0, "it ended elsewhere");
    assert_eq!(ended(&server, "/location_zones", "plain", 1)["codes"], json!({"200": 1}));
    assert_eq!(ended(&server, "/location_zones", "chosen", 1)["codes"], json!({"403": 1}));
    assert_eq!(zone(&server, "/location_zones", "off"), Value::Null);
    let mut whole = Value::Null;
    // Clients have their answers before the ends of their requests are counted.
    eventually("this request is the only one", || {
        whole = zone(&server, "/server_zones", "site");
        whole["processing"] == 1
    });
    // The harness has asked, too.
    assert!(whole["requests"].as_u64() >= Some(9), "{whole}");
    assert!(whole["codes"]["204"] == 2 && whole["codes"]["403"] == 1 && whole["discarded"] == 1, "{whole}");
}

#[test]
fn bytes_are_those_of_whole_messages() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let behind = freerun_testkit::TestUpstream::answering(|_| freerun_testkit::ok("b"));
    let lines = format!(
        "{STATUS} location = /a {{ status_zone a; }} location = /b {{ status_zone b; proxy_pass http://{}; }}",
        behind.address()
    );
    let server = Setup::server(&site, &lines).freerun();
    let request = "GET /a HTTP/1.0\r\nHost: localhost\r\n\r\n";
    let (answer, _) = server.connect().send(request).rest();
    let a = ended(&server, "/location_zones", "a", 1);
    assert_eq!((&a["received"], &a["sent"]), (&json!(request.len()), &json!(answer.len())));
    let request = "POST /b HTTP/1.0\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
    server.connect().send(request).rest();
    let b = ended(&server, "/location_zones", "b", 1);
    assert_eq!(b["received"], request.len());
}

#[test]
fn what_is_counted_goes_on_over_a_reload_and_a_request_counts_where_it_began() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let lines = format!("status_zone site; {STATUS} location = /slow {{ limit_rate 1; return 200 slowly; }}");
    let server = Setup::server(&site, &lines).freerun();
    assert_eq!(server.get("/a").status, 200);
    let mut slow = server.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("both requests are there", || zone(&server, "/server_zones", "site")["processing"] == 2);
    server.edit("location = /slow", "location = /slower");
    server.reload();
    let after = zone(&server, "/server_zones", "site");
    assert_eq!(after["processing"], 2, "{after}");
    assert!(after["codes"]["200"].as_u64() >= Some(2), "{after}");
    slow.reset();
    eventually("the slow one has ended", || zone(&server, "/server_zones", "site")["processing"] == 1);
}

#[test]
fn a_tunnel_is_there_until_it_ends() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let behind = freerun_testkit::TestUpstream::new();
    let lines = format!(
        "status_zone site; {STATUS}
         location /ws {{ status_zone ws; proxy_pass http://{}; proxy_http_version 1.1;
                        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }}",
        behind.address()
    );
    let server = Setup::server(&site, &lines).freerun();
    let mut client = server.connect();
    client.send("GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
    let mut peer = behind.accept();
    peer.request();
    peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello");
    client.until(|bytes| bytes.ends_with(b"hello"));
    // This one and that which asks.
    assert_eq!(zone(&server, "/server_zones", "site")["processing"], 2);
    drop((peer, client));
    let ws = ended(&server, "/location_zones", "ws", 1);
    assert_eq!(ws["codes"], json!({"101": 1}));
    eventually("the server knows", || zone(&server, "/server_zones", "site")["processing"] == 1);
}

#[test]
fn handshakes_are_counted_by_the_server_that_the_client_names() {
    if !require::freerun() {
        return;
    }
    let http = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
        server { listen 127.0.0.1:@PORT@; location = /status { status; } }
        server { listen 127.0.0.1:@PORT2@ ssl default_server; server_name first.test; status_zone first; return 200 first; }
        server { listen 127.0.0.1:@PORT2@ ssl; server_name other.test; status_zone other; return 200 other; }
        server { listen 127.0.0.1:@PORT2@ ssl; server_name closed.test; status_zone closed; ssl_reject_handshake on; }";
    let _ = certificates();
    let server = Setup::new().http(http).freerun();
    let address = server.address_number(2);
    let named = |name: &str| TestClient::connect(address).try_tls(&Tls::new().name(name));
    for name in ["other.test", "other.test", "first.test", "unknown.test"] {
        let mut client = named(name).unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        client.send(format!("GET / HTTP/1.0\r\nHost: {name}\r\n\r\n")).rest();
    }
    assert!(named("closed.test").is_err());
    eventually("all are counted", || zone(&server, "/server_zones", "closed")["tls"]["failed"] == 1);
    let tls = |name: &str| zone(&server, "/server_zones", name)["tls"]["done"].clone();
    assert_eq!([tls("first"), tls("other"), tls("closed")], [json!(2), json!(2), json!(0)]);
    assert_eq!(ended(&server, "/server_zones", "other", 2)["codes"], json!({"200": 2}));
}

#[test]
fn sessions_are_counted() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let setup = Setup::server(&site, STATUS).stream(
        "server { listen 127.0.0.1:@PORT2@; status_zone all; return hello; }
         server { listen 127.0.0.1:@PORT3@; status_zone all; deny all; return hello; }",
    );
    let server = setup.freerun();
    for number in [2, 2, 3] {
        TestClient::connect(server.address_number(number)).rest();
    }
    let list = "/stream/server_zones";
    let all = ended(&server, list, "all", 3);
    assert_eq!(
        (&all["codes"], &all["sent"], &all["processing"]),
        (&json!({"200": 2, "403": 1}), &json!(10), &json!(0))
    );
}

#[test]
fn prometheus_has_the_zones() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let lines = format!("status_zone site; {STATUS} location / {{ status_zone files; }}");
    let server = Setup::server(&site, &lines).freerun();
    server.get("/a");
    ended(&server, "/location_zones", "files", 1);
    let text = server.get("/status?format=prometheus").text();
    for line in [
        "freerun_http_location_requests_total{location_zone=\"files\",code=\"200\"} 1",
        "freerun_http_location_request_duration_seconds_count{location_zone=\"files\"} 1",
        "freerun_http_requests_processing{server_zone=\"site\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_long_answer_has_all_zones() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let many: String = (0..300).map(|n| format!("location = /{n} {{ status_zone z{n}; return 204; }}")).collect();
    let server = Setup::server(&site, &format!("{STATUS} {many}")).freerun();
    server.get("/299");
    let last = ended(&server, "/location_zones", "z299", 1);
    assert_eq!(last["codes"], json!({"204": 1}));
    let status = server.status();
    assert_eq!(status["location_zones"].as_array().map(Vec::len), Some(300));
    // The pool for such work has made it.
    let pools = status["pools"].as_array().cloned().unwrap_or_default();
    let served = pools.iter().find(|pool| pool["name"] == "(cpu)").map(|pool| pool["served"].clone());
    assert!(served.as_ref().and_then(Value::as_u64) >= Some(1), "{served:?}");
}
