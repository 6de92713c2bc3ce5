//! What the client's request changes: conditions, ranges, methods, `HEAD`, its own `Cache-Control`.

use super::{Answer, FRESH, STALE, Stories, ok, status, step};
use crate::harness::{get, head, raw, request};

const MODIFIED: &str = "Last-Modified: Sat, 21 Nov 2020 13:42:48 GMT";
const TAG: &str = "ETag: \"abc\"";

#[test]
fn conditions() {
    let mut stories = Stories::plain();
    let answers: [Answer; 4] =
        [ok(&[FRESH, MODIFIED, TAG]), ok(&[FRESH, "ETag: W/\"abc\""]), ok(&[FRESH, MODIFIED]), ok(&[FRESH])];
    for (number, answer) in answers.into_iter().enumerate() {
        for condition in [
            "If-None-Match: \"abc\"",
            "If-None-Match: W/\"abc\"",
            "If-None-Match: \"x\"",
            "If-None-Match: \"x\", \"abc\"",
            "If-None-Match: *",
            "If-Match: *",
            "If-Modified-Since: Sat, 21 Nov 2020 13:42:48 GMT",
            "If-Modified-Since: Sat, 21 Nov 2020 13:42:49 GMT",
            "If-Modified-Since: Sat, 21 Nov 2020 13:42:47 GMT",
            "If-Modified-Since: junk",
        ] {
            // On the way in, and from what is stored.
            stories.tell("/a", |target| {
                let asks = || step(get(target).field(condition), answer.clone());
                vec![asks(), asks(), step(get(target), answer.clone())]
            });
        }
        if number == 0 {
            for condition in ["If-Match: \"abc\"", "If-Unmodified-Since: Sat, 21 Nov 2020 13:42:48 GMT"] {
                stories.tell("/a", |target| {
                    let asks = || step(get(target).field(condition), answer.clone());
                    vec![asks(), asks()]
                });
            }
        }
        // nginx gives up the response whose condition does not hold, and stores nothing; what comes of the condition is the same.
        for condition in
            ["If-Match: \"x\"", "If-Match: \"x\", W/\"y\"", "If-Unmodified-Since: Sat, 21 Nov 2020 13:42:47 GMT"]
        {
            stories.tell("/a", |target| {
                vec![step(get(target), answer.clone()), step(get(target).field(condition), answer.clone())]
            });
            stories.tell("/a", |target| {
                vec![
                    step(get(target).field(condition), answer.clone()),
                    step(get(target), answer.clone()).instead(
                        "stored, whatever the client's condition",
                        &["X-Cache: HIT", "13 bytes \"answer no 001\""],
                    ),
                ]
            });
        }
        stories.tell("/a", |target| {
            let both =
                get(target).field("If-None-Match: \"x\"").field("If-Modified-Since: Sat, 21 Nov 2020 13:42:48 GMT");
            vec![step(get(target), answer.clone()), step(both, answer.clone())]
        });
    }
    stories.compare();
}

#[test]
fn exact_and_before() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z;
        location /off { if_modified_since off; proxy_pass http://@UP@; }
        location /before { if_modified_since before; proxy_pass http://@UP@; }",
    );
    for location in ["/off", "/before"] {
        for time in [46, 48, 49] {
            stories.tell(location, |target| {
                let condition = format!("If-Modified-Since: Sat, 21 Nov 2020 13:42:{time} GMT");
                let answer = || ok(&[FRESH, MODIFIED]);
                vec![step(get(target), answer()), step(get(target).field(&condition), answer())]
            });
        }
    }
    stories.compare();
}

/// A response whose bytes tell where they stand.
fn digits(fields: &[&str]) -> Answer {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 100\r\n\r\n{}", "0123456789".repeat(10)).into()
}

#[test]
fn ranges() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z;
        location /a { proxy_pass http://@UP@; }
        location /max { max_ranges 1; proxy_pass http://@UP@; }
        location /none { max_ranges 0; proxy_pass http://@UP@; }
        location /force { proxy_force_ranges on; proxy_pass http://@UP@; }
        location /not { proxy_cache_bypass 1; proxy_no_cache 1; proxy_pass http://@UP@; }
        location /through { proxy_buffering off; proxy_pass http://@UP@; }",
    );
    for range in [
        "bytes=0-0",
        "bytes=2-4",
        "bytes=90-",
        "bytes=-5",
        "bytes=0-",
        "bytes=99-200",
        "bytes=100-",
        "bytes=-0",
        "bytes=-200",
        "bytes=4-2",
        "bytes=0-1,4-5",
        "bytes=0-99,0-99",
        "bytes=x",
        "chars=0-1",
        "bytes=0-1, 200-300",
    ] {
        stories.tell("/a", |target| {
            let range = format!("Range: {range}");
            let asks = || step(get(target).field(&range), digits(&[FRESH, TAG, MODIFIED]));
            vec![asks(), asks(), step(get(target), digits(&[]))]
        });
    }
    for location in ["/max", "/none", "/force"] {
        stories.tell(location, |target| {
            let asks = |range: &str| step(get(target).field(range), digits(&[FRESH]));
            vec![asks("Range: bytes=2-4"), asks("Range: bytes=3-5"), asks("Range: bytes=0-1,4-5")]
        });
    }
    for accepted in ["Accept-Ranges: none", "Accept-Ranges: bytes"] {
        stories.tell("/a", |target| {
            let asks = || step(get(target).field("Range: bytes=2-4"), digits(&[FRESH, accepted]));
            vec![asks(), asks()]
        });
    }
    for condition in [
        "If-Range: \"abc\"",
        "If-Range: \"x\"",
        "If-Range: Sat, 21 Nov 2020 13:42:48 GMT",
        "If-Range: Sat, 21 Nov 2020 13:42:47 GMT",
        "If-Range: W/\"abc\"",
    ] {
        stories.tell("/a", |target| {
            let asks = || step(get(target).field("Range: bytes=2-4").field(condition), digits(&[FRESH, TAG, MODIFIED]));
            vec![asks(), asks()]
        });
    }
    // What is not kept, though the server would let everybody keep it.
    for location in ["/a", "/not", "/through"] {
        for time in [FRESH, "", "Cache-Control: no-store"] {
            let fields: Vec<&str> =
                ["Accept-Ranges: bytes", TAG, time].into_iter().filter(|field| !field.is_empty()).collect();
            for asked in ["Range: bytes=2-4", "If-None-Match: \"abc\""] {
                stories.tell(location, |target| {
                    let asks = || step(get(target).field(asked), digits(&fields));
                    vec![asks(), asks()]
                });
            }
        }
    }
    // A range of what cannot be stored, of an error, of a response without a length, and of a stale one.
    stories.tell("/a", |target| {
        let asks = || step(get(target).field("Range: bytes=2-4"), digits(&["Cache-Control: no-store"]));
        vec![asks(), asks()]
    });
    stories.tell("/a", |target| {
        let asks = || step(get(target).field("Range: bytes=2-4"), status("404 Not Found", &[FRESH]));
        vec![asks(), asks()]
    });
    stories.tell("/a", |target| {
        let chunked = format!(
            "HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n"
        );
        let asks = || step(get(target).field("Range: bytes=2-4"), chunked.clone());
        vec![asks(), asks()]
    });
    stories.tell("/a", |target| {
        let asks = || step(get(target).field("Range: bytes=2-4"), digits(&[STALE]));
        vec![asks(), asks()]
    });
    stories.compare();
}

#[test]
fn ranges_beyond_an_offset() {
    let mut stories =
        Stories::new("", "location /a { proxy_cache z; proxy_cache_max_range_offset 20; proxy_pass http://@UP@; }");
    for range in
        ["bytes=0-5", "bytes=19-20", "bytes=20-21", "bytes=21-22", "bytes=90-", "bytes=-5", "bytes=0-1,30-31", "x"]
    {
        stories.tell("/a", |target| {
            let range = format!("Range: {range}");
            let partial = "HTTP/1.1 206 Partial\r\nCache-Control: max-age=9\r\nContent-Range: bytes 30-32/100\r\nContent-Length: 3\r\n\r\n@N@";
            vec![
                step(get(target).field(&range), partial),
                step(get(target), digits(&[FRESH])),
                step(get(target).field(&range), digits(&[FRESH])),
            ]
        });
    }
    stories.compare();
}

#[test]
fn heads_and_methods() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z;
        location /a { proxy_pass http://@UP@; }
        location /post { proxy_cache_methods POST; proxy_pass http://@UP@; }
        location /noconvert { proxy_cache_convert_head off; proxy_pass http://@UP@; }
        location /keyed { proxy_cache_convert_head off; proxy_cache_key $request_method$uri; proxy_pass http://@UP@; }",
    );
    let bodiless = || Answer::from(format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nX-N: @N@\r\nContent-Length: 13\r\n\r\n"));
    for location in ["/a", "/post"] {
        stories.tell(location, |target| {
            vec![
                step(head(target), ok(&[FRESH])),
                step(head(target), ok(&[FRESH])),
                step(get(target), ok(&[FRESH])),
                step(head(target), ok(&[FRESH])),
            ]
        });
    }
    for location in ["/noconvert", "/keyed"] {
        stories.tell(location, |target| {
            vec![step(head(target), bodiless()), step(head(target), bodiless()), step(head(target), bodiless())]
        });
        stories.tell(location, |target| {
            vec![step(get(target), ok(&[FRESH])), step(head(target), bodiless()), step(get(target), ok(&[FRESH]))]
        });
    }
    for location in ["/a", "/post"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "FOO"] {
            stories.tell(location, |target| {
                let asks = || step(request(method, target).field("Content-Length: 4").body("body"), ok(&[FRESH]));
                vec![step(get(target), ok(&[FRESH])), asks(), asks(), step(get(target), ok(&[FRESH]))]
            });
        }
        stories.tell(location, |target| {
            let asks = |body: &str| step(request("POST", target).field("Content-Length: 4").body(body), ok(&[FRESH]));
            vec![asks("same"), asks("same"), asks("diff")]
        });
    }
    // The answer to a body is none to another one, whatever the method; nginx takes it from the cache.
    const FAT: &str = "a body with GET is not part of the key, so its answer is not stored";
    stories.tell("/a", |target| {
        let asks = |body: &str| step(get(target).field("Content-Length: 4").body(body), ok(&[FRESH]));
        vec![asks("aaaa"), asks("bbbb").instead(FAT, &["X-Cache: MISS", "13 bytes \"answer no 002\""])]
    });
    stories.compare();
}

#[test]
fn what_the_client_says_of_caching() {
    let mut stories = Stories::plain();
    for field in [
        "Cache-Control: no-cache",
        "Cache-Control: no-store",
        "Cache-Control: max-age=0",
        "Cache-Control: only-if-cached",
        "Cache-Control: max-stale=10",
        "Pragma: no-cache",
        "Authorization: Basic eA==",
        "Cookie: a=b",
    ] {
        stories.tell("/a", |target| {
            vec![
                step(get(target), ok(&[FRESH])),
                step(get(target).field(field), ok(&[FRESH])),
                step(get(target), ok(&[FRESH])),
            ]
        });
        stories.tell("/a", |target| {
            let asks = || step(get(target).field(field), ok(&[FRESH]));
            vec![asks(), asks()]
        });
    }
    stories.compare();
}

#[test]
fn old_protocols() {
    let mut stories = Stories::plain();
    let chunked =
        format!("HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n3\r\n@N@\r\n0\r\n\r\n");
    stories.tell("/a", |target| {
        let old = || step(raw(format!("GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n")), chunked.clone());
        vec![old(), old(), step(get(target), chunked.clone())]
    });
    stories.tell("/a", |target| {
        let old = || {
            let case = raw(format!("GET {target} HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"));
            step(case, chunked.clone())
        };
        vec![step(get(target), chunked.clone()), old(), old()]
    });
    stories.compare();
}
