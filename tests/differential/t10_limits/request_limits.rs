//! `limit_req` and `limit_conn`. Rates are one request a minute, so that counting decides and not the clock.

use crate::harness::{compare, get, head, request};
use crate::site::site;
use freerun_testkit::Setup;

/// A zone for each letter, keyed by `?k=`, at one request a minute.
fn zones(letters: &str) -> String {
    letters.chars().map(|zone| format!("limit_req_zone $arg_k zone={zone}:1m rate=1r/m;\n")).collect()
}

#[test]
fn bursts() {
    let site = site();
    let setup = Setup::server(
        &site,
        "location /none/ { alias @ROOT@/; limit_req zone=a; }
         location /burst/ { alias @ROOT@/; limit_req zone=b burst=3 nodelay; }
         location /delay/ { alias @ROOT@/; limit_req zone=c burst=4 delay=4; }
         location /large/ { alias @ROOT@/; limit_req zone=d burst=99999999999999999 nodelay; }
         location /same/ { alias @ROOT@/; limit_req zone=b burst=4 nodelay; }
         location /off/ { alias @ROOT@/; }",
    )
    .http(&zones("abcd"));
    let mut cases = Vec::new();
    for (place, times) in [("none", 3), ("burst", 6), ("delay", 7), ("large", 9), ("off", 3), ("same", 3)] {
        for key in ["1", "2"] {
            cases.extend((0..times).map(|_| get(&format!("/{place}/a.txt?k={key}"))));
        }
    }
    // No key, nothing counted.
    cases.extend((0..3).map(|_| get("/none/a.txt")));
    cases.extend((0..3).map(|_| get("/none/a.txt?k=")));
    // Whatever the request is.
    cases.extend([head("/none/a.txt?k=3"), head("/none/a.txt?k=3"), request("POST", "/none/a.txt?k=3")]);
    cases.extend([
        get("/none/missing?k=4"),
        get("/none/missing?k=4"),
        get("/none/a.txt?k=4").field("Range: bytes=0-1"),
    ]);
    let three = "GET /burst/a.txt?k=5 HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(5);
    cases.push(crate::harness::raw(three).responses(5));
    compare(&setup, cases);
}

#[test]
fn levels_and_several_zones() {
    let site = site();
    let setup = Setup::server(
        &site,
        "limit_req zone=a;
         location /inherited/ { alias @ROOT@/; }
         location /own/ { alias @ROOT@/; limit_req zone=b burst=1 nodelay; }
         location /two/ { alias @ROOT@/; limit_req zone=c burst=2 nodelay; limit_req zone=d burst=1 nodelay; }
         location /three/ {
             alias @ROOT@/;
             limit_req zone=e burst=5 nodelay;
             limit_req zone=server burst=2 nodelay;
             limit_req zone=f burst=4 nodelay;
         }
         location /after/ { alias @ROOT@/; limit_req zone=e burst=5 nodelay; }
         location /status/ { alias @ROOT@/; limit_req zone=g; limit_req_status 429; }
         location /odd/ { alias @ROOT@/; limit_req zone=g; limit_req_status 599; }
         location /page/ { alias @ROOT@/; limit_req zone=h; error_page 503 /errors/50x.html; }
         location /named/ { alias @ROOT@/; limit_req zone=i; error_page 503 = @limited; }
         location @limited { return 200 \"limited $limit_req_status $status\"; }
         location /again/ { alias @ROOT@/; limit_req zone=j; error_page 404 /inherited/a.txt; }
         location /errors/ { limit_req zone=h; }",
    )
    .http(&format!(
        "{}limit_req_zone $server_name$arg_s zone=server:32k rate=1r/m;\nlimit_req_zone $arg_k$arg_k zone=unused:32k rate=5;",
        zones("abcdefghij")
    ));
    let mut cases = Vec::new();
    for (place, times) in [("inherited", 2), ("own", 3), ("two", 4), ("three", 4), ("after", 4)] {
        cases.extend((0..times).map(|_| get(&format!("/{place}/a.txt?k=1"))));
    }
    for place in ["status", "odd", "page", "named"] {
        cases.extend((0..3).map(|_| get(&format!("/{place}/a.txt?k={place}"))));
    }
    // The page of a refused request is not judged again, and neither is what an internal redirect leads to.
    cases.extend((0..3).map(|_| get("/again/nothing?k=2")));
    cases.push(get("/inherited/a.txt?k=2"));
    cases.push(get("/inherited/a.txt?k=2"));
    cases.push(head("/page/a.txt?k=page"));
    compare(&setup, cases);
}

#[test]
fn what_the_variables_say() {
    let site = site();
    let setup = Setup::server(
        &site,
        "error_page 404 429 430 503 = @say;
         location @say { return 200 \"<$limit_req_status> <$limit_conn_status> $status\"; }
         location /r/ { alias @ROOT@/; limit_req zone=a burst=1 nodelay; }
         location /dry/ { alias @ROOT@/; limit_req zone=b; limit_req_dry_run on; }
         location /dryd/ { alias @ROOT@/; limit_req zone=c burst=3; limit_req_dry_run on; }
         location /c/ { alias @ROOT@/; limit_conn d 1; }
         location /both/ {
             alias @ROOT@/;
             limit_conn d 1;
             limit_req zone=e;
             limit_conn_status 429;
             limit_req_status 430;
         }
         location /plain/ { alias @ROOT@/; }",
    )
    .http(&format!("{}limit_conn_zone $arg_k zone=d:1m;", zones("abce")));
    let mut cases = Vec::new();
    for place in ["r", "dry", "dryd", "c", "both", "plain"] {
        cases.extend((0..4).map(|_| get(&format!("/{place}/missing?k=1"))));
        cases.push(get(&format!("/{place}/missing")));
    }
    compare(&setup, cases);
}

#[test]
fn connections_are_counted_while_they_are_served() {
    let site = site();
    let setup = Setup::server(
        &site,
        "location /one/ { alias @ROOT@/; limit_conn a 1; }
         location /two/ { alias @ROOT@/; limit_conn a 1; limit_conn b 2; }
         location /page/ { alias @ROOT@/; limit_conn a 1; error_page 404 /two/a.txt; }
         location /many/ { alias @ROOT@/; limit_conn b 65535; }",
    )
    .http("limit_conn_zone $arg_k zone=a:1m; limit_conn_zone $server_name zone=b:32k;");
    let mut cases = Vec::new();
    for place in ["one", "two", "page", "many"] {
        for file in ["a.txt", "missing", "dir/", "dir", "secret/denied.txt"] {
            // Each is over before the next one begins.
            cases.push(get(&format!("/{place}/{file}?k=1")));
            cases.push(head(&format!("/{place}/{file}?k=1")));
        }
    }
    let pipelined = "GET /one/a.txt?k=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(4);
    cases.push(crate::harness::raw(pipelined).responses(4));
    compare(&setup, cases);
}

#[test]
fn limited_rates_change_no_byte() {
    let site = site();
    let setup = Setup::server(
        &site,
        "limit_rate $arg_r; limit_rate_after $arg_a;
         location /text { return 200 \"0123456789abcdefghij\"; }
         location /fixed/ { alias @ROOT@/; limit_rate 200k; limit_rate_after 50k; }
         location /none/ { alias @ROOT@/; limit_rate 0; limit_rate_after 1; }
         location /logged { return 200 \"$limit_rate\"; }
         location /set/ { alias @ROOT@/; set $limit_rate $arg_s; error_page 404 = @said; }
         location @said { return 200 \"$limit_rate\"; }",
    );
    let cases = vec![
        get("/a.txt?r=200"),
        get("/a.txt?r=x&a=y"),
        get("/digits?r=3k"),
        get("/digits?r=1&a=1m"),
        get("/digits?r=200").field("Range: bytes=0-9,20-29"),
        get("/big.bin?r=200k"),
        get("/big.bin?r=1k&a=10m"),
        get("/big.bin?r=150k&a=100k").field("Range: bytes=1000-"),
        head("/big.bin?r=1k"),
        head("/big.bin?r=200"),
        get("/text?r=190"),
        get("/text"),
        get("/missing?r=300"),
        get("/fixed/big.bin"),
        get("/none/big.bin"),
        get("/logged?r=5k"),
        get("/set/missing?s=5k"),
        get("/set/missing?s=0&r=1"),
        get("/set/missing?s=x"),
        get("/set/missing"),
        get("/set/big.bin?s=250k"),
        get("/set/digits?s=0&r=1"),
    ];
    compare(&setup, cases);
}
