//! Stale responses: when they are used, and how they are replaced.

use super::{FRESH, STALE, Stories, dead, ok, status, step};
use crate::harness::get;

const CASES: [&str; 8] =
    ["error", "timeout", "invalid_header", "http_500", "http_502", "http_403", "http_404", "http_429"];

#[test]
fn use_stale() {
    let locations: String = CASES
        .iter()
        .map(|case| format!("location /{case} {{ proxy_cache_use_stale {case}; proxy_pass http://@UP@; }}\n"))
        .collect();
    let mut stories = Stories::new(
        "",
        &format!(
            "proxy_cache z; {locations}
            location /off {{ proxy_cache_use_stale off; proxy_pass http://@UP@; }}
            location /503 {{ proxy_cache_use_stale http_503 http_504; proxy_pass http://@UP@; }}
            location /intercept {{ proxy_cache_use_stale http_500; proxy_intercept_errors on; error_page 500 404 =200 /probe;
                proxy_pass http://@UP@; }}"
        ),
    );
    for location in CASES.iter().copied().chain(["off", "503", "intercept"]) {
        for answer in [
            dead(),
            "HTTP/1.1 200 OK\r\n bad: x\r\n\r\n".into(),
            status("500 No", &[]),
            status("502 No", &[]),
            status("503 No", &[]),
            status("403 No", &[]),
            status("404 No", &[]),
            status("429 No", &[]),
        ] {
            stories.tell(&format!("/{location}"), |target| {
                vec![
                    step(get(target), ok(&[STALE])),
                    step(get(target), answer),
                    step(get(target), ok(&[FRESH])),
                    step(get(target), ok(&[FRESH])),
                ]
            });
        }
    }
    stories.compare();
}

#[test]
fn nothing_stale_to_use() {
    let mut stories = Stories::new(
        "",
        "location /a { proxy_cache z; proxy_cache_use_stale error http_500 updating; proxy_pass http://@UP@; }",
    );
    stories.tell("/a", |target| {
        vec![step(get(target), dead()), step(get(target), ok(&[FRESH])), step(get(target), dead())]
    });
    stories.twice("/a", status("500 No", &[]));
    stories.twice("/a", status("500 No", &[FRESH]));
    // The error may be stored in place of what is stale, where it says so and is not in the list.
    stories.tell("/a", |target| {
        vec![
            step(get(target), ok(&[STALE])),
            step(get(target), status("404 No", &[FRESH])),
            step(get(target), ok(&[FRESH])),
        ]
    });
    // A stale one that becomes one that cannot be stored goes on to be there.
    stories.tell("/a", |target| {
        vec![
            step(get(target), ok(&[STALE])),
            step(get(target), ok(&["Cache-Control: no-store"])),
            step(get(target), dead()),
        ]
    });
    stories.compare();
}

#[test]
fn stale_if_error() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z;
        location /a { proxy_pass http://@UP@; }
        location /500 { proxy_cache_use_stale http_500; proxy_pass http://@UP@; }
        location /ignore { proxy_ignore_headers Cache-Control; proxy_pass http://@UP@; }",
    );
    // The window begins at the time of X-Accel-Expires, in 2001.
    const LONG: &str = "Cache-Control: max-age=1, stale-if-error=2000000000";
    const OVER: &str = "Cache-Control: max-age=1, stale-if-error=10";
    for window in [LONG, OVER] {
        for answer in [
            dead(),
            status("404 No", &[]),
            status("429 No", &[]),
            status("403 No", &[]),
            "HTTP/1.1 200 OK\r\n bad: x\r\n\r\n".into(),
        ] {
            stories.tell("/a", |target| {
                vec![
                    step(get(target), ok(&[window, STALE])),
                    step(get(target), answer),
                    step(get(target), ok(&[FRESH])),
                ]
            });
        }
    }
    // A status is covered by the configuration alone.
    const BEHIND: &str = "Cache-Control: max-age=1, stale-while-revalidate=2000000000";
    for line in ["500 No", "502 No", "503 No", "504 No"] {
        for location in ["/a", "/500"] {
            for window in [LONG, OVER, BEHIND] {
                stories.tell(location, |target| {
                    vec![
                        step(get(target), ok(&[window, STALE])),
                        step(get(target), status(line, &[])),
                        step(get(target), ok(&[FRESH])),
                    ]
                });
            }
        }
    }
    stories.tell("/ignore", |target| {
        vec![step(get(target), ok(&[LONG, STALE])), step(get(target), dead()), step(get(target), ok(&[FRESH]))]
    });
    stories.compare();
}

#[test]
fn updated_behind() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z;
        location /updating { proxy_cache_use_stale updating; proxy_pass http://@UP@; }
        location /background { proxy_cache_use_stale updating; proxy_cache_background_update on; proxy_pass http://@UP@; }
        location /unused { proxy_cache_background_update on; proxy_pass http://@UP@; }
        location /lock { proxy_cache_use_stale updating; proxy_cache_background_update on; proxy_cache_lock on; proxy_pass http://@UP@; }",
    );
    for location in ["/updating", "/unused"] {
        stories.tell(location, |target| {
            vec![step(get(target), ok(&[STALE])), step(get(target), ok(&[FRESH])), step(get(target), ok(&[FRESH]))]
        });
    }
    for location in ["/background", "/lock"] {
        stories.tell(location, |target| {
            vec![
                step(get(target), ok(&[STALE])),
                step(get(target), ok(&[FRESH])).asked(1),
                step(get(target), ok(&[FRESH])).until("X-Cache: HIT"),
            ]
        });
        // What is fetched behind may fail; the next one tries again.
        stories.tell(location, |target| {
            vec![step(get(target), ok(&[STALE])), step(get(target), status("500 No", &[])).asked(1)]
        });
        stories.tell(location, |target| vec![step(get(target), ok(&[STALE])), step(get(target), dead()).asked(1)]);
        // Conditions and ranges of the client are not for the one behind.
        stories.tell(location, |target| {
            vec![
                step(get(target), ok(&[STALE, "ETag: \"a\""])),
                step(get(target).field("Range: bytes=0-3").field("If-Match: \"a\""), ok(&[FRESH])).asked(1),
                step(get(target), ok(&[FRESH])).until("X-Cache: HIT"),
            ]
        });
    }
    // As the origin says it.
    stories.tell("/unused", |target| {
        vec![
            step(get(target), ok(&["Cache-Control: max-age=1, stale-while-revalidate=2000000000", STALE])),
            step(get(target), ok(&[FRESH])).asked(1),
            step(get(target), ok(&[FRESH])).until("X-Cache: HIT"),
        ]
    });
    stories.tell("/unused", |target| {
        vec![
            step(get(target), ok(&["Cache-Control: max-age=1, stale-while-revalidate=10", STALE])),
            step(get(target), ok(&[FRESH])),
            step(get(target), ok(&[FRESH])),
        ]
    });
    stories.compare();
}

#[test]
fn the_origin_is_not_there() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 502 10m;
        location /a { if ($arg_down) { proxy_pass http://127.0.0.1:1; } proxy_cache_use_stale error; proxy_pass http://@UP@; }
        location /b { if ($arg_down) { proxy_pass http://127.0.0.1:1; } proxy_pass http://@UP@; }",
    )
    .files_differ("nginx remembers its own failures in the zone alone");
    for location in ["/a", "/b"] {
        stories.tell(location, |target| {
            vec![
                step(get(target), ok(&[STALE])),
                step(get(&format!("{target}?down=1")), dead()),
                step(get(target), ok(&[FRESH])),
                step(get(&format!("{target}?down=1")), dead()),
            ]
        });
        stories.tell(location, |target| {
            let down = || step(get(&format!("{target}?down=1")), dead());
            vec![down(), down(), step(get(target), ok(&[FRESH]))]
        });
    }
    stories.compare();
}
