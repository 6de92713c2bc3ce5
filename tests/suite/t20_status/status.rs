//! The status handler: figures that agree with what was done.

use freerun_testkit::{Setup, Site, TestClient, TestServer, eventually, ports, require};
use serde_json::Value;
use std::collections::BTreeMap;

const LINES: &str = "location = /status { status; } location = /text { return 200 text; }";

fn site() -> Site {
    let site = Site::new();
    site.file("a", "file a");
    site
}

fn json(server: &TestServer) -> Value {
    let response = server.get("/status");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    serde_json::from_slice(&response.body).expect("JSON")
}

/// The sum of a figure over all loops.
fn sum(status: &Value, pointer: &str) -> u64 {
    let loops = status["loops"].as_array().expect("loops");
    loops.iter().map(|one| one.pointer(pointer).and_then(Value::as_u64).expect("a number")).sum()
}

#[test]
fn connections_and_requests_are_counted() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, LINES).main("worker_processes 2;").freerun();
    // The connection by which the server was seen to be there counts, too, when the loop that it woke has accepted it.
    let (mut before, mut asked) = (Value::Null, 0);
    eventually("all connections are accepted", || {
        before = json(&server);
        asked += 1;
        sum(&before, "/connections/accepted") == asked + 1
    });
    assert_eq!(before["loops"].as_array().map(Vec::len), Some(2));
    assert_eq!(before["pid"].as_u64(), Some(u64::from(server.worker())));
    let mut clients: Vec<TestClient> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        for _ in 0..5 {
            client.get("/text");
        }
    }
    let after = json(&server);
    // This request and its connection come on top.
    assert_eq!(sum(&after, "/connections/accepted") - sum(&before, "/connections/accepted"), 11);
    assert_eq!(sum(&after, "/requests") - sum(&before, "/requests"), 51);
    assert!(sum(&after, "/connections/active") >= 11);
    eventually("they are idle", || sum(&json(&server), "/connections/idle") >= 10);
    drop(clients);
    eventually("they are gone", || sum(&json(&server), "/connections/active") <= 2);
    assert!(sum(&after, "/polls/count") > 0);
}

#[test]
fn histograms_are_sound() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, &format!("{LINES} aio threads always;")).freerun();
    for _ in 0..50 {
        assert_eq!(server.get("/a").text(), "file a");
    }
    let status = json(&server);
    let pool = status["pools"]
        .as_array()
        .and_then(|pools| pools.iter().find(|pool| pool["name"] == "default"))
        .expect("the pool");
    assert!(pool["served"].as_u64() >= Some(1), "{pool}");
    assert_eq!((pool["limit"].as_u64(), pool["max_queue"].as_u64()), (Some(32), Some(65_536)));
    for histogram in [&status["loops"][0]["polls"], &pool["wait"], &pool["service"]] {
        let bounds = histogram["bounds_us"].as_array().expect("bounds");
        let counts: Vec<u64> =
            histogram["counts"].as_array().expect("counts").iter().filter_map(Value::as_u64).collect();
        assert_eq!(counts.len(), bounds.len() + 1);
        assert_eq!(Some(counts.iter().sum()), histogram["count"].as_u64());
        assert!(histogram["sum_us"].as_u64() >= histogram["max_us"].as_u64());
        assert!(bounds.windows(2).all(|pair| pair[0].as_u64() < pair[1].as_u64()));
    }
}

#[test]
fn mounts_are_told() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, LINES).freerun();
    for _ in 0..5 {
        server.get("/a");
    }
    let status = json(&server);
    let mounts = status["mounts"].as_array().expect("mounts");
    let known = ["memory", "nowait", "mincore", "pool"];
    assert!(
        !mounts.is_empty()
            && mounts.iter().all(|mount| mount["rung"].as_str().is_some_and(|rung| known.contains(&rung))),
        "{mounts:?}"
    );
}

#[test]
fn reloads_are_counted_and_figures_survive_them() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, LINES).freerun();
    for _ in 0..20 {
        server.get("/text");
    }
    let before = json(&server);
    assert_eq!(before["reloads"], 0);
    server.edit("return 200 text", "return 200 other");
    server.reload();
    eventually("the reload", || json(&server)["reloads"] == 1);
    let after = json(&server);
    assert!(after["generation"].as_u64() > before["generation"].as_u64());
    assert!(sum(&after, "/requests") > sum(&before, "/requests"));
    assert_eq!(after["pid"], before["pid"]);
}

#[test]
fn methods_and_formats() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, LINES).freerun();
    assert_eq!(server.send("POST /status HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n").status, 405);
    assert_eq!(server.send("HEAD /status HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
    assert_eq!(server.get("/status?format=xml").status, 400);
    assert_eq!(server.get("/status?format=json").header("content-type"), Some("application/json"));
}

/// One sample: the name, its labels, the value.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let value = value.parse().unwrap_or_else(|_| panic!("value {value:?} in {line:?}"));
    let Some((name, labels)) = series.split_once('{') else {
        return (series.to_owned(), BTreeMap::new(), value);
    };
    let labels = labels.strip_suffix('}').expect("a closing brace");
    let pairs = labels.split("\",").map(|pair| pair.split_once("=\"").expect("a pair"));
    (
        name.to_owned(),
        pairs.map(|(key, value)| (key.to_owned(), value.trim_end_matches('"').to_owned())).collect(),
        value,
    )
}

#[test]
fn prometheus_can_read_it() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, LINES).freerun();
    server.get("/a");
    let response = server.get("/status?format=prometheus");
    assert!(
        response.header("content-type").is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")),
        "{response:?}"
    );
    let text = response.text();
    let mut types = BTreeMap::new();
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    let mut helped = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            helped.push(rest.split(' ').next().expect("a name").to_owned());
        } else {
            let (name, mut labels, value) = sample(line);
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix).filter(|n| types.contains_key(*n)));
            let family = family.unwrap_or(&name).to_owned();
            let kind = types.get(&family).unwrap_or_else(|| panic!("{family} has no type"));
            assert!(kind != "counter" || name.ends_with("_total"), "{name}");
            let bound = labels.remove("le");
            let key = format!("{family} {labels:?}");
            if name.ends_with("_bucket") {
                let bound = bound.map_or(f64::NAN, |bound| {
                    if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a bound") }
                });
                buckets.entry(key).or_default().push((bound, value));
            } else if name.ends_with("_count") && kind == "histogram" {
                counts.insert(key, value);
            }
        }
    }
    assert!(types.keys().all(|name| helped.contains(name)), "every family is explained");
    assert!(!buckets.is_empty());
    for (key, series) in &buckets {
        assert!(series.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{key}: {series:?}");
        let last = series.last().expect("a bucket");
        assert_eq!((last.0, Some(&last.1)), (f64::INFINITY, counts.get(key)), "{key}");
    }
}

#[test]
fn a_browser_gets_a_page_and_others_json() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, LINES).freerun();
    let ask = |accept: &str, query: &str| {
        server.send(format!("GET /status{query} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"))
    };
    let page = ask("text/html,application/xhtml+xml,*/*;q=0.8", "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!((page.header("cache-control"), page.header("vary")), (Some("no-store"), Some("Accept")));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(page.text().starts_with("<!DOCTYPE html>"));
    assert_eq!(ask("*/*", "?format=html").text(), page.text());
    for (accept, query) in [("*/*", ""), ("application/json", ""), ("text/html", "?format=json")] {
        assert_eq!(ask(accept, query).header("content-type"), Some("application/json"), "{accept} {query}");
    }
    assert_eq!(ask("text/html", "?format=xml").status, 400);
}

#[test]
fn the_last_errors_are_kept_and_say_why_a_server_is_not_asked() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let nobody = ports::free();
    let lines = format!("{LINES} location /dead {{ proxy_pass http://dead; }}");
    let group = format!("upstream dead {{ server 127.0.0.1:{nobody}; server 127.0.0.1:{nobody}; }}");
    let server = Setup::server(&site, &lines).http(&group).freerun();
    assert_eq!(server.get("/dead/1").status, 502);
    let status = json(&server);
    let errors = status["last_errors"].as_array().expect("lines");
    let refused =
        |line: &Value| line.as_str().is_some_and(|line| line.contains("connect() failed (111: Connection refused)"));
    assert!(errors.iter().any(refused), "{errors:?}");
    let failed = &status["upstreams"][0]["servers"][0]["last_failure"];
    assert_eq!(failed["kind"], "connect", "{failed}");
    // Of 60 more only the last 50 are there.
    for _ in 0..60 {
        server.get("/dead/2");
    }
    let status = json(&server);
    let errors = status["last_errors"].as_array().expect("lines");
    assert_eq!(errors.len(), 50);
    assert!(!errors.iter().any(|line| line.as_str().is_some_and(|line| line.contains("/dead/1"))), "{errors:?}");
}

#[test]
fn limits_say_what_they_refuse() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let lines = format!("{LINES} location = /a {{ limit_req zone=each; }}");
    let zone = "limit_req_zone $server_name zone=each:1m rate=1r/m;";
    let server = Setup::server(&site, &lines).http(zone).freerun();
    assert_eq!([(), ()].map(|()| server.get("/a").status), [200, 503]);
    let zone = &json(&server)["limit_reqs"][0];
    assert_eq!((&zone["name"], &zone["passed"], &zone["rejected"]), (&"each".into(), &1.into(), &1.into()), "{zone}");
    let text = server.get("/status?format=prometheus").text();
    assert!(text.contains("freerun_limit_total{kind=\"requests\",zone=\"each\",result=\"rejected\"} 1"), "{text}");
}

#[test]
fn no_browser_takes_an_answer_for_another_type() {
    let lines = "location /status { status; } location /api/ { api; }";
    let server = Setup::server(&Site::new(), lines).freerun();
    for path in ["/status", "/status?format=html", "/status?format=prometheus", "/api/", "/api/9/nginx", "/api/9/none"]
    {
        assert_eq!(server.get(path).all("x-content-type-options"), ["nosniff"], "{path}");
    }
}
