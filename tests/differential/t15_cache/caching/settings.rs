//! Directives and variables of caching.

use super::{FRESH, STALE, Stories, ok, status, step};
use crate::harness::{get, head};

#[test]
fn bypass_and_no_cache() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z; proxy_cache_key $uri;
        location /bypass { proxy_cache_bypass $arg_b $http_x_b; proxy_pass http://@UP@; }
        location /no { proxy_no_cache $arg_b $upstream_http_x_no; proxy_pass http://@UP@; }
        location /both { proxy_cache_bypass $arg_b; proxy_no_cache $arg_b; proxy_pass http://@UP@; }",
    );
    for location in ["/bypass", "/no", "/both"] {
        for value in ["1", "0", "", "00", "no", "false"] {
            stories.tell(location, |target| {
                let flagged = format!("{target}?b={value}");
                vec![
                    step(get(&flagged), ok(&[FRESH])),
                    step(get(target), ok(&[FRESH])),
                    step(get(&flagged), ok(&[FRESH])),
                    step(get(target), ok(&[FRESH])),
                    step(get(target).field("X-B: 1"), status("404 No", &[])),
                    step(get(target), ok(&[FRESH])),
                ]
            });
        }
        stories.tell(location, |target| {
            vec![
                step(get(target), ok(&[FRESH, "X-No: 1"])),
                step(get(target), ok(&[FRESH, "X-No: 0"])),
                step(get(target), ok(&[FRESH])),
            ]
        });
        // A stale one is asked for with the flag.
        stories.tell(location, |target| {
            let flagged = format!("{target}?b=1");
            vec![step(get(target), ok(&[STALE])), step(get(&flagged), ok(&[FRESH])), step(get(target), ok(&[FRESH]))]
        });
    }
    stories.compare();
}

#[test]
fn min_uses() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z;
        location /two { proxy_cache_min_uses 2; proxy_pass http://@UP@; }
        location /three { proxy_cache_min_uses 3; proxy_pass http://@UP@; }
        location /one { proxy_cache_min_uses 1; proxy_pass http://@UP@; }",
    );
    for location in ["/one", "/two", "/three"] {
        stories.tell(location, |target| {
            let asks = || step(get(target), ok(&[FRESH]));
            (0..6).map(|_| asks()).collect()
        });
        stories.tell(location, |target| {
            vec![
                step(get(target), ok(&["Cache-Control: no-store"])),
                step(get(target), ok(&[FRESH])),
                step(head(target), ok(&[FRESH])),
                step(get(target).field("Range: bytes=0-2"), ok(&[FRESH])),
                step(get(target), ok(&[FRESH])),
            ]
        });
        stories.tell(location, |target| {
            let asks = || step(get(target), ok(&[STALE]));
            (0..5).map(|_| asks()).collect()
        });
    }
    stories.compare();
}

#[test]
fn where_it_is_set() {
    let mut stories = Stories::new(
        "proxy_cache_path @DIR@/second keys_zone=second:1m; proxy_cache z; map $arg_z $zone { default z; 2 second; 0 off; }",
        "location /http { proxy_pass http://@UP@; }
        location /off { proxy_cache off; proxy_pass http://@UP@; }
        location /named { proxy_cache second; proxy_cache_key $uri; proxy_pass http://@UP@; }
        location /variable { proxy_cache $zone; proxy_cache_key $uri; proxy_pass http://@UP@; }
        location /unknown { set $no nowhere; proxy_cache $no; proxy_pass http://@UP@; }
        location /empty { set $empty \"\"; proxy_cache $empty; proxy_pass http://@UP@; }
        location /if { proxy_cache_key $uri; if ($arg_a) { proxy_pass http://@UP@; } proxy_pass http://@UP@; }
        location /outer { proxy_cache_valid any 10m; location /outer/in { proxy_pass http://@UP@; } }
        location /unbuffered { proxy_buffering off; proxy_pass http://@UP@; }
        location /accel { proxy_pass http://@UP@; }
        location /stored { proxy_cache off; proxy_store @DIR@/stored; proxy_pass http://@UP@; }",
    );
    for location in ["/http", "/off", "/named", "/unknown", "/empty", "/outer/in", "/unbuffered", "/stored"] {
        stories.twice(location, ok(&[FRESH]));
        stories.twice(location, status("404 No", &[]));
    }
    stories.twice("/accel", ok(&[FRESH, "X-Accel-Buffering: no"]));
    stories.tell("/variable", |target| {
        ["z", "2", "z", "2", "0", "0"]
            .map(|zone| step(get(&format!("{target}?z={zone}")), ok(&[FRESH])))
            .into_iter()
            .collect()
    });
    stories.tell("/if", |target| {
        ["", "?a=1", "?a=1", ""].map(|args| step(get(&format!("{target}{args}")), ok(&[FRESH]))).into_iter().collect()
    });
    stories.compare();
}

#[test]
fn variables() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z; proxy_cache_key $scheme$uri; proxy_cache_revalidate on;
        proxy_cache_use_stale http_500;
        add_header X-Cache $upstream_cache_status always;
        add_header X-Validators \"$upstream_cache_last_modified|$upstream_cache_etag\" always;
        add_header X-Zone \"$upstream_cache_status-$proxy_host-$proxy_add_x_forwarded_for\" always;
        add_header X-Upstream \"$upstream_status|$upstream_bytes_received\" always;
        add_header X-Fields \"$upstream_http_x_a|$upstream_http_etag|$upstream_cookie_c|$sent_http_x_a\" always;
        location /a { proxy_pass http://@UP@; }
        location /none { return 200 none; }",
    );
    const ALL: &[&str] = &[FRESH, "ETag: \"abc\"", "Last-Modified: Sat, 21 Nov 2020 13:42:48 GMT", "X-A: 1"];
    const OLD: &[&str] = &[STALE, "ETag: \"abc\"", "Last-Modified: Sat, 21 Nov 2020 13:42:48 GMT", "X-A: 1"];
    stories.twice("/a", ok(ALL));
    stories.twice("/a", ok(&[FRESH]));
    stories.twice("/a", ok(OLD));
    stories.twice("/a", ok(&["Cache-Control: no-store"]));
    stories.twice("/none", ok(ALL));
    stories.tell("/a", |target| {
        vec![
            step(get(target), ok(OLD)),
            step(get(target), ok(&[]).unchanged("304 Not Modified", &[FRESH, "X-A: 2"])),
            step(get(target), ok(&[])),
        ]
    });
    stories.tell("/a", |target| {
        vec![
            step(get(target), ok(OLD)),
            step(get(target), status("500 No", &[])),
            step(get(target), status("503 No", &[])),
        ]
    });
    stories.compare();
}

#[test]
fn elsewhere() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z; proxy_cache_key $uri;
        location /a { proxy_pass http://@UP@; }
        location /intercept { proxy_intercept_errors on; error_page 404 /page; error_page 500 @fallback; proxy_pass http://@UP@; }
        location /page { return 200 \"page $upstream_cache_status\"; }
        location @fallback { proxy_cache off; proxy_pass http://@UP@; }
        location /sent { internal; return 200 \"sent $uri\"; }
        location /sub { sub_filter answer question; sub_filter_types *; proxy_pass http://@UP@; }
        location /ssi { ssi on; ssi_types *; proxy_pass http://@UP@; }
        location /gzip { gzip on; gzip_proxied any; gzip_min_length 1; gzip_types *; proxy_pass http://@UP@; }
        location /rewritten { rewrite ^/rewritten/(.*) /a/$1?x=1 break; proxy_pass http://@UP@; }
        location /auth { auth_request /auth-ask; proxy_pass http://@UP@; }
        location = /auth-ask { internal; proxy_cache_key \"auth $http_x_user\"; proxy_pass http://@UP@/allowed; }",
    )
    .files_differ("nginx remembers errors that error_page has replaced in the zone alone");
    stories.twice("/intercept", status("404 No", &[FRESH]));
    stories.twice("/intercept", status("500 No", &[FRESH]));
    stories.twice("/a", ok(&[FRESH, "X-Accel-Redirect: /sent/x"]));
    stories.twice("/a", ok(&["X-Accel-Redirect: /sent/y"]));
    stories.twice("/sub", ok(&[FRESH, "Content-Type: text/plain"]));
    stories.tell("/gzip", |target| {
        let asks =
            |coding: &str| step(get(target).field(coding), ok(&[FRESH, "Content-Type: text/plain", "ETag: \"a\""]));
        vec![asks("Accept-Encoding: gzip"), asks("Accept-Encoding: gzip"), asks("Accept-Encoding: x")]
    });
    stories.tell("/rewritten", |target| {
        let asks = || step(get(target), ok(&[FRESH]));
        vec![asks(), asks()]
    });
    stories.tell("/ssi", |target| {
        let page = format!(
            "HTTP/1.1 200 OK\r\n{FRESH}\r\nContent-Type: text/html\r\nContent-Length: 60\r\n\r\n{:60}",
            format!("<!--#include virtual=\"/a{target}\" -->")
        );
        vec![step(get(target), page.clone()), step(get(target), page)]
    });
    stories.tell("/auth", |target| {
        let asks = |user: &str| step(get(target).field(user), ok(&[FRESH]));
        vec![asks("X-User: a"), asks("X-User: a"), asks("X-User: b")]
    });
    stories.compare();
}

#[test]
fn tries_and_stored_answers() {
    let mut stories = Stories::new(
        "upstream two { server 127.0.0.1:1 max_fails=0; server @UP@ max_fails=0; }",
        "proxy_cache z; add_header X-Cache $upstream_cache_status always; add_header X-Tries $upstream_status always;
        location /two { proxy_next_upstream error http_404; proxy_pass http://two; }",
    );
    stories.twice("/two", ok(&[FRESH]));
    stories.compare();
}
