//! The history that the server keeps, and the problems of the last minutes.

use freerun_testkit::{Setup, TestServer, eventually, require};
use serde_json::Value;

const HTTP: &str = "upstream app { server 127.0.0.1:@PORT9@; }
    server { listen 127.0.0.1:@PORT@; server_name shop.example; location /status { status; } location /api { api; }
        location /good { return 200; } location /bad { return 500; } location /app { proxy_pass http://app; } }";

fn json(server: &TestServer, target: &str) -> Value {
    let response = server.get(target);
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")), "{target}");
    serde_json::from_slice(&response.body).expect("JSON")
}

/// The sum of a list of the history.
fn sum(list: &Value) -> u64 {
    list.as_array().expect("a list").iter().map(|value| value.as_u64().expect("a number")).sum()
}

/// The object of a list whose member `name` has this value.
fn named<'v>(list: &'v Value, name: &str, value: &str) -> Option<&'v Value> {
    list.as_array().expect("a list").iter().find(|one| one[name] == value)
}

#[test]
fn a_page_that_is_opened_afterwards_finds_the_incident() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new().http(HTTP).freerun();
    eventually("there is a first sample", || !json(&server, "/status?history=on")["newest"].as_i64().eq(&Some(0)));
    for _ in 0..50 {
        assert_eq!(server.get("/good").status, 200);
    }
    for _ in 0..5 {
        assert_eq!(server.get("/bad").status, 500);
        assert_eq!(server.get("/app").status, 502);
    }
    let zone = format!("shop.example:{}", server.port());
    let history = |server: &TestServer| json(server, "/status?history=on");
    eventually("the next sample shows them", || {
        let history = history(&server);
        named(&history["server_zones"], "name", &zone).is_some_and(|zone| sum(&zone["errors"]) == 10)
            || sum(&history["worker"]["errors"]) == 10
    });
    // Over a reload it goes on.
    server.edit("return 200", "return 204");
    server.reload();
    eventually("the new configuration serves", || server.get("/good").status == 204);
    let history = json(&server, "/api/freerun/1/history");
    assert_eq!((&history["interval_seconds"], &history["left_out"]), (&5.into(), &0.into()));
    assert!(sum(&history["worker"]["requests"]) >= 60, "{history}");
    assert_eq!(sum(&history["worker"]["errors"]), 10, "{history}");
    let dead = server.address_number(9).to_string();
    let upstream = named(&history["upstreams"], "address", &dead).expect("the server");
    assert_eq!(
        (&upstream["group"], &upstream["protocol"], sum(&upstream["failures"])),
        (&"app".into(), &"http".into(), 5)
    );
    let lengths: Vec<usize> = ["requests", "errors", "p99_us", "connections"]
        .iter()
        .map(|name| history["worker"][name].as_array().expect("a list").len())
        .collect();
    assert!(lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
}

#[test]
fn problems_have_the_time_when_they_began_and_are_shown_when_they_are_over() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .http(&HTTP.replace(
            "server 127.0.0.1:@PORT9@;",
            "server 127.0.0.1:@PORT9@ fail_timeout=1h; server 127.0.0.1:@PORT8@ fail_timeout=1h;",
        ))
        .freerun();
    let begun = json(&server, "/status")["problems"].clone();
    assert_eq!(begun, Value::Array(Vec::new()));
    assert_eq!(server.get("/app").status, 502);
    let dead = server.address_number(9).to_string();
    let ours = |list: &Value| -> Option<Value> {
        list.as_array().expect("a list").iter().find(|one| one["kind"] == "server_out" && one["part"] == *dead).cloned()
    };
    let first = ours(&json(&server, "/status")["problems"]).expect("the problem");
    assert_eq!((&first["section"], &first["subject"]), (&"upstreams".into(), &"app".into()));
    let since = first["since"].as_i64().expect("a time");
    eventually("a sample was taken meanwhile", || {
        let history = json(&server, "/status?history=on");
        let states = named(&history["upstreams"], "address", &dead).map(|one| one["state"].to_string());
        states.is_some_and(|states| states.contains("unavail"))
    });
    let again = ours(&json(&server, "/api/freerun/1/problems")["now"]).expect("it is still there");
    let later = again["since"].as_i64().expect("a time");
    // The sample has noticed it later than this test, by an interval or so.
    assert!((since..since + 60).contains(&later), "{since} {later}");
    let metrics = server.get("/status?format=prometheus").text();
    let labels = format!("{{section=\"upstreams\",kind=\"server_out\",subject=\"app\",part=\"{dead}\"}} {later}\n");
    assert!(metrics.contains(&format!("\nfreerun_problem_begin_timestamp_seconds{labels}")), "{metrics}");
    server.edit("fail_timeout=1h;", "down;");
    server.reload();
    eventually("it is over, and not forgotten", || {
        let status = json(&server, "/status");
        let past = ours(&status["past_problems"]);
        ours(&status["problems"]).is_none()
            && past.is_some_and(|past| past["since"] == later && past["ended"].as_i64() >= Some(later))
    });
}
