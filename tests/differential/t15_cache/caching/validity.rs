//! For how long a response is stored, if at all: what the origin says, and what the configuration says where the origin is silent.

use super::{FRESH, STALE, Stories, ok, status, step, twice};
use crate::harness::get;

const ORDER: &str = "since 1.23.0 a later Cache-Control counts though Expires came first";

#[test]
fn nothing_said_and_nothing_configured() {
    let mut stories = Stories::plain();
    for line in ["200 OK", "301 Moved", "404 Not Found", "500 Oops", "206 Partial"] {
        stories.twice("/a", status(line, &[]));
    }
    stories.compare();
}

#[test]
fn cache_control() {
    let mut stories = Stories::plain();
    for value in [
        "max-age=10",
        "max-age=0",
        "max-age=1000000000",
        "max-age=99999999999999999999",
        "max-age=-1",
        "max-age=",
        "max-age",
        "max-age=x",
        "max-age=10x",
        "max-age=10;x",
        "max-age=\"10\"",
        "max-age = 10",
        "max-age= 10",
        "MAX-AGE=10",
        "Max-Age=10, public",
        "public",
        "public, max-age=10",
        "public,max-age=10",
        "no-cache",
        "no-store",
        "private",
        "No-Store",
        "PRIVATE, max-age=10",
        "max-age=10, private",
        "max-age=10, no-cache",
        "max-age=10, no-store",
        "no-cache=\"Set-Cookie\", max-age=10",
        "private=\"X-A\", max-age=10",
        "x-private, max-age=10",
        "must-revalidate, max-age=10",
        "proxy-revalidate, max-age=10",
        "s-maxage=10",
        "s-maxage=0",
        "s-maxage=0, max-age=10",
        "s-maxage=10, max-age=0",
        "max-age=0, s-maxage=10",
        "max-age=10, s-maxage=0",
        "max-age=10, max-age=0",
        "max-age=0, max-age=10",
        "s-maxage=x, max-age=10",
        "s-maxage=10, private",
        "xmax-age=10",
        "x=max-age=10",
        "immutable, max-age=10",
        "no-transform",
        "must-understand, no-store, max-age=10",
        "stale-while-revalidate=10",
        "stale-if-error=10",
        "max-age=0, stale-while-revalidate=10",
        "max-age=0, stale-if-error=10",
        "max-age=10, stale-if-error=x",
        "max-age=10, stale-while-revalidate=x",
        "",
        ",",
        "max-age=10,",
        ",max-age=10",
    ] {
        stories.twice("/a", ok(&[&format!("Cache-Control: {value}")]));
    }
    stories.compare();
}

#[test]
fn several_fields_of_cache_control() {
    let mut stories = Stories::plain();
    for fields in [
        ["Cache-Control: max-age=10", "Cache-Control: max-age=0"],
        ["Cache-Control: public", "Cache-Control: max-age=10"],
        ["Cache-Control: max-age=10", "Cache-Control: private"],
        ["Cache-Control: private", "Cache-Control: max-age=10"],
        ["Cache-Control: no-store", "Cache-Control: max-age=10"],
        ["Cache-Control: max-age=10", "Cache-Control: s-maxage=0"],
    ] {
        stories.twice("/a", ok(&fields));
    }
    stories.compare();
}

#[test]
fn expires() {
    let mut stories = Stories::plain();
    for value in [
        "Thu, 31 Dec 2037 23:55:55 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "Thu, 31-Dec-37 23:55:55 GMT",
        "Thursday, 31-Dec-37 23:55:55 GMT",
        "Thu Dec 31 23:55:55 2037",
        "Thu, 31 Dec 2037 23:55:55",
        "0",
        "-1",
        "",
        "never",
        "Thu, 31 Dec 9999 23:59:59 GMT",
    ] {
        stories.twice("/a", ok(&[&format!("Expires: {value}")]));
    }
    stories.compare();
}

#[test]
fn x_accel_expires() {
    let mut stories = Stories::plain();
    for value in [
        "10",
        "0",
        "-1",
        "x",
        "",
        "10s",
        "10 ",
        "@0",
        "@1",
        "@1000000000",
        "@4000000000",
        "@x",
        "@",
        "@-1",
        "1000000000",
        "99999999999999999999",
    ] {
        stories.twice("/a", ok(&[&format!("X-Accel-Expires: {value}")]));
    }
    stories.compare();
}

#[test]
fn which_field_counts() {
    const PAST: &str = "Expires: Thu, 01 Jan 1970 00:00:00 GMT";
    const FUTURE: &str = "Expires: Thu, 31 Dec 2037 23:55:55 GMT";
    let mut stories = Stories::plain();
    for fields in [
        [FUTURE, "Cache-Control: max-age=0"],
        [FUTURE, "Cache-Control: private"],
        ["Cache-Control: max-age=0", FUTURE],
        [FRESH, PAST],
        ["X-Accel-Expires: 0", FRESH],
        [FRESH, "X-Accel-Expires: 0"],
        ["X-Accel-Expires: 10", PAST],
        ["X-Accel-Expires: 0", FUTURE],
        [FUTURE, "X-Accel-Expires: 0"],
        [FRESH, STALE],
        [STALE, FRESH],
        [FUTURE, STALE],
        [STALE, FUTURE],
        ["Pragma: no-cache", FRESH],
        ["Age: 100000", FRESH],
        ["Date: Thu, 01 Jan 1970 00:00:00 GMT", FRESH],
        ["Authorization: x", FRESH],
        ["Warning: 110 x", FRESH],
        ["Surrogate-Control: max-age=10", "X: y"],
    ] {
        stories.twice("/a", ok(&fields));
    }
    const FIRST: &str = "since 1.23.0 the first of several counts";
    const ONCE: &[&str] = &["X-Cache: HIT", "13 bytes \"answer no 001\""];
    stories.tell("/a", |target| {
        let answer = ok(&["X-Accel-Expires: 10", "X-Accel-Expires: 0"]);
        vec![step(get(target), answer.clone()), step(get(target), answer).instead(FIRST, ONCE)]
    });
    stories.compare();
}

#[test]
fn orders_that_today_do_not_matter() {
    const STORED: &[&str] = &["X-Cache: HIT"];
    let mut stories = Stories::plain();
    for (fields, why) in [
        (["Expires: Thu, 01 Jan 1970 00:00:00 GMT", FRESH], ORDER),
        (["Expires: Thu, 01 Jan 1970 00:00:00 GMT", "X-Accel-Expires: 10"], ORDER),
        (["Cache-Control: no-cache", "X-Accel-Expires: 10"], ORDER),
        (["Cache-Control: max-age=0", "X-Accel-Expires: 10"], ORDER),
    ] {
        stories.tell("/a", |target| {
            let mut steps = twice(target, ok(&fields));
            let last = steps.pop().expect("two steps");
            steps.push(last.instead(why, STORED));
            steps
        });
    }
    stories.compare();
}

#[test]
fn configured_times() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z;
        location /any { proxy_cache_valid any 10m; proxy_pass http://@UP@; }
        location /plain { proxy_cache_valid 10m; proxy_pass http://@UP@; }
        location /some { proxy_cache_valid 404 500 1h; proxy_cache_valid 200 302 0; proxy_pass http://@UP@; }
        location /order { proxy_cache_valid any 10m; proxy_cache_valid 404 0; proxy_pass http://@UP@; }
        location /first { proxy_cache_valid 404 0; proxy_cache_valid any 10m; proxy_pass http://@UP@; }
        location /zero { proxy_cache_valid any 0; proxy_pass http://@UP@; }
        location /over { proxy_cache_valid 200 10m; proxy_cache_valid 200 0; proxy_pass http://@UP@; }
        location /odd { proxy_cache_valid 299 418 599 1h; proxy_pass http://@UP@; }",
    );
    for location in ["/any", "/plain", "/some", "/order", "/first", "/zero", "/over"] {
        for line in ["200 OK", "301 Moved", "302 Found", "404 Not Found", "500 Oops", "303 See Other", "403 No"] {
            stories.twice(location, status(line, &[]));
        }
    }
    for location in ["/any", "/zero"] {
        stories.twice(location, ok(&[FRESH]));
        stories.twice(location, ok(&["Cache-Control: max-age=0"]));
        stories.twice(location, ok(&["Cache-Control: no-store"]));
        stories.twice(location, ok(&["Cache-Control: public"]));
        stories.twice(location, ok(&["Expires: 0"]));
        stories.twice(location, ok(&["X-Accel-Expires: 0"]));
        stories.twice(location, ok(&[STALE]));
    }
    for line in ["299 Odd", "418 Teapot", "599 High", "201 Created"] {
        stories.twice("/odd", status(line, &[]));
    }
    stories.compare();
}

#[test]
fn what_comes_with_a_cookie() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z; proxy_cache_valid any 10m;
        location /a { proxy_pass http://@UP@; }
        location /ignored { proxy_ignore_headers Set-Cookie; proxy_pass http://@UP@; }
        location /hidden { proxy_hide_header Set-Cookie; proxy_pass http://@UP@; }
        location /both { proxy_ignore_headers Set-Cookie; proxy_hide_header Set-Cookie; proxy_pass http://@UP@; }",
    );
    for location in ["/a", "/ignored", "/hidden", "/both"] {
        stories.twice(location, ok(&["Set-Cookie: a=b", FRESH]));
        stories.twice(location, ok(&[FRESH, "set-cookie:"]));
        stories.twice(location, ok(&["X-Accel-Expires: 10", "Set-Cookie: a=b"]));
    }
    stories.compare();
}

#[test]
fn bodies_and_framing() {
    let mut stories = Stories::plain();
    let large = "0123456789".repeat(30_000);
    for answer in [
        format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\n@N@d\r\n0\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\n{FRESH}\r\n\r\nuntil the end @N@"),
        format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nContent-Length: 0\r\n\r\n"),
        format!("HTTP/1.1 204 No\r\n{FRESH}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nContent-Length: 300000\r\n\r\n{large}"),
        format!("HTTP/1.1 200 OK\r\n{FRESH}\r\n\r\n{large}"),
        format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nConnection: close\r\nContent-Length: 20\r\n\r\nshort @N@"),
        format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab"),
        format!("HTTP/1.0 200 OK\r\n{FRESH}\r\n\r\nold @N@"),
        format!("HTTP/1.1 200 \r\n{FRESH}\r\nContent-Length: 3\r\n\r\n@N@"),
        format!("HTTP/1.1 200 Fine With Me\r\n{FRESH}\r\nContent-Length: 3\r\n\r\n@N@"),
        format!("HTTP/1.1 206 Partial\r\n{FRESH}\r\nContent-Range: bytes 0-2/9\r\nContent-Length: 3\r\n\r\n@N@"),
    ] {
        stories.twice("/a", answer);
    }
    let many: String = (0..60).map(|number| format!("X-Field-{number}: {number}\r\n")).collect();
    stories.twice("/a", format!("HTTP/1.1 200 OK\r\n{many}{FRESH}\r\nContent-Length: 3\r\n\r\n@N@"));
    stories.compare();
}

#[test]
fn fields_of_a_stored_response() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z;
        location /a { proxy_pass http://@UP@; }
        location /hide { proxy_hide_header X-A; proxy_hide_header ETag; proxy_pass_header Server; proxy_pass http://@UP@; }
        location /add { add_header X-Cache $upstream_cache_status always; add_header X-Up $upstream_http_x_a; expires 1h;
            proxy_pass http://@UP@; }
        location /redirect { proxy_redirect http://old/ http://new/; proxy_cookie_domain a b; proxy_pass http://@UP@; }
        location /unused { charset utf-8; }
        location /rate { limit_rate 0; proxy_pass http://@UP@; }",
    );
    let fields = [
        FRESH,
        "Server: origin",
        "Content-Type: text/plain",
        "ETag: \"abc\"",
        "Last-Modified: Sat, 21 Nov 2020 13:42:48 GMT",
        "X-A: 1",
        "X-B: 2",
        "Link: <l>",
        "Connection: keep-alive",
        "Keep-Alive: timeout=3",
        "Content-Language: de",
        "X-Accel-Limit-Rate: 300000",
        "X-Accel-Buffering: yes",
        "X-Accel-Charset: utf-8",
        "X-Powered-By: q",
        "Age: 5",
        "Via: v",
        "X-Empty:",
        "X-Spaces:    a b  ",
        "Location: http://old/x",
    ];
    for location in ["/a", "/hide", "/add", "/redirect", "/rate"] {
        stories.tell(location, |target| {
            let again = || step(get(target).in_order(), ok(&fields));
            vec![again(), again(), again()]
        });
        stories.tell(location, |target| {
            // What a redirect's character set is has nothing to do with caching.
            let fields: Vec<&str> = fields.iter().copied().filter(|field| !field.contains("Charset")).collect();
            let again = || step(get(target).in_order(), status("302 Found", &fields));
            vec![again(), again()]
        });
    }
    stories.compare();
}
