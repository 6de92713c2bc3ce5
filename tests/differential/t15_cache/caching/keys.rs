//! What a response is stored under: the key, and the name of the file.

use super::{FRESH, Stories, ok, step};
use crate::harness::{get, raw};

#[test]
fn default_keys() {
    let mut stories = Stories::new(
        "proxy_cache z; upstream named { server @UP@; }",
        "location /a { proxy_pass http://named; }
        location /with/ { proxy_pass http://named/uri/; }
        location /variable { set $to named; proxy_pass http://$to; }
        location /rewritten { rewrite ^/rewritten/(.*) /a/$1 break; proxy_pass http://named; }",
    );
    for location in ["/a", "/with", "/variable", "/rewritten"] {
        stories.tell(location, |target| {
            let asks = |target: &str| step(get(target), ok(&[FRESH]));
            vec![
                asks(target),
                asks(target),
                asks(&format!("{target}?")),
                asks(&format!("{target}?b=1&a=2")),
                asks(&format!("{target}?a=2&b=1")),
                asks(&format!("{target}?B=1&a=2")),
                asks(&format!("/x/..{target}")),
                asks(&target.replace("/a", "/%61")),
                asks(&format!("/{target}")),
                asks(&format!("{target}#frag")),
                asks(&format!("http://other{target}")),
                asks(target),
            ]
        });
    }
    stories.compare();
}

#[test]
fn configured_keys() {
    let mut stories = Stories::new(
        "proxy_cache z;",
        "location /uri { proxy_cache_key $uri; proxy_pass http://@UP@; }
        location /request { proxy_cache_key $request_uri; proxy_pass http://@UP@; }
        location /host { proxy_cache_key \"$host$uri\"; proxy_pass http://@UP@; }
        location /method { proxy_cache_key \"$request_method $uri $cookie_user $http_x_b\"; proxy_pass http://@UP@; }
        location /empty { proxy_cache_key $arg_none; proxy_pass http://@UP@; }
        location /constant { proxy_cache_key same; proxy_pass http://@UP@; }
        location /long { proxy_cache_key $uri$http_x_b; proxy_pass http://@UP@; }",
    );
    for location in ["/uri", "/request", "/host", "/method", "/constant"] {
        stories.tell(location, |target| {
            let asks = |target: &str| step(get(target), ok(&[FRESH]));
            let host = |line: &str| step(raw(format!("GET {target} HTTP/1.1\r\nHost: {line}\r\n\r\n")), ok(&[FRESH]));
            vec![
                asks(target),
                asks(&format!("{target}?a")),
                asks(&format!("/./{target}")),
                asks(&target.replace("/u", "/%75")),
                host("LOCALHOST"),
                host("localhost."),
                host("localhost:80"),
                host("other"),
                step(get(target).field("Cookie: user=1"), ok(&[FRESH])),
                step(get(target).field("X-B: 1"), ok(&[FRESH])),
                step(get(target).field("X-Forwarded-Host: evil"), ok(&[FRESH])),
            ]
        });
    }
    stories.twice("/empty", ok(&[FRESH]));
    let long = |target: &str, length| {
        let field = format!("X-B: {}", "k".repeat(length));
        let asks = || step(get(target).field(&field), ok(&[FRESH]));
        vec![asks(), asks()]
    };
    for length in [100, 1000, 3000] {
        stories.tell("/long", |target| long(target, length));
    }
    stories.tell("/long", |target| {
        const BUFFER: &str = "nginx stores nothing whose key is longer than proxy_buffer_size";
        let steps = long(target, 6000).into_iter().zip([&["X-Cache: MISS"], &["X-Cache: HIT"]]);
        steps.map(|(step, lines)| step.instead(BUFFER, lines)).collect()
    });
    stories.compare();
}

#[test]
fn names_of_files() {
    for levels in ["levels=1", "levels=2:2", "levels=1:1:1", "levels=2:1:2", ""] {
        let mut stories = Stories::new(
            &format!("proxy_cache_path @DIR@/cache/more {levels} keys_zone=more:1m;"),
            "location /a { proxy_cache more; proxy_cache_key $uri; proxy_pass http://@UP@; }",
        )
        .names();
        for _ in 0..5 {
            stories.twice("/a", ok(&[FRESH]));
        }
        stories.compare();
    }
}
