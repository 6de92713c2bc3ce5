//! `proxy_cache_revalidate`, and 304 from the origin.

use super::{Answer, FRESH, STALE, Stories, ok, status, step};
use crate::harness::get;

const MODIFIED: &str = "Last-Modified: Sat, 21 Nov 2020 13:42:48 GMT";
const TAG: &str = "ETag: \"abc\"";

#[test]
fn revalidated() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z; proxy_cache_revalidate on;
        location /a { proxy_pass http://@UP@; }
        location /valid { proxy_cache_valid 200 10m; proxy_pass http://@UP@; }
        location /304 { proxy_cache_valid 304 10m; proxy_pass http://@UP@; }
        location /off { proxy_cache_revalidate off; proxy_pass http://@UP@; }
        location /stale { proxy_cache_use_stale http_500 error; proxy_pass http://@UP@; }
        location /own { proxy_set_header Connection \"\"; proxy_set_header If-None-Match mine; proxy_pass http://@UP@; }",
    );
    for location in ["/a", "/valid", "/304", "/off", "/stale", "/own"] {
        for validators in [&[TAG, MODIFIED][..], &[TAG], &[MODIFIED], &["ETag: W/\"abc\""], &["ETag: unquoted"], &[]] {
            for answer in
                [&[FRESH][..], &[STALE], &[], &["Cache-Control: no-store"], &[FRESH, "ETag: \"new\"", "X-A: new"]]
            {
                stories.tell(location, |target| {
                    let first = ok(&[&[STALE, "X-A: old"], validators].concat());
                    let second = ok(&[&[FRESH], validators].concat()).unchanged("304 Not Modified", answer);
                    vec![
                        step(get(target), first),
                        step(get(target), second.clone()),
                        step(get(target), second.clone()),
                        step(get(target), second),
                    ]
                });
            }
        }
    }
    stories.compare();
}

#[test]
fn answers_other_than_304() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z; proxy_cache_revalidate on;
        location /a { proxy_pass http://@UP@; }
        location /stale { proxy_cache_use_stale http_500 http_404; proxy_pass http://@UP@; }",
    );
    for location in ["/a", "/stale"] {
        for answer in [
            ok(&[FRESH, "ETag: \"new\""]),
            ok(&["Cache-Control: no-store"]),
            status("500 No", &[]),
            status("404 No", &[FRESH]),
            status("404 No", &[]),
            Answer::default(),
        ] {
            stories.tell(location, |target| {
                vec![step(get(target), ok(&[STALE, TAG])), step(get(target), answer), step(get(target), ok(&[FRESH]))]
            });
        }
    }
    stories.compare();
}

#[test]
fn the_clients_condition_and_ours() {
    let mut stories =
        Stories::new("", "location /a { proxy_cache z; proxy_cache_revalidate on; proxy_pass http://@UP@; }");
    for condition in [
        "If-None-Match: \"abc\"",
        "If-None-Match: \"x\"",
        "If-Modified-Since: Sat, 21 Nov 2020 13:42:48 GMT",
        "If-Modified-Since: Sat, 21 Nov 2020 13:42:47 GMT",
        "If-Match: \"x\"",
        "Range: bytes=0-2",
    ] {
        for answer in [&[FRESH][..], &[]] {
            stories.tell("/a", |target| {
                let first = ok(&[STALE, TAG, MODIFIED]);
                let second = || ok(&[FRESH, TAG, MODIFIED]).unchanged("304 Not Modified", answer);
                vec![
                    step(get(target), first),
                    step(get(target).field(condition), second()),
                    step(get(target).field(condition), second()),
                ]
            });
        }
    }
    stories.compare();
}

#[test]
fn a_304_that_nobody_asked_for() {
    let mut stories =
        Stories::new("", "location /a { proxy_cache z; proxy_cache_valid any 10m; proxy_pass http://@UP@; }");
    let same = || Answer::from("HTTP/1.1 304 Not Modified\r\nETag: \"abc\"\r\n\r\n");
    const NOT_A_RESPONSE: &str = "a 304 that nobody asked for is no answer to anybody else (RFC 9111 section 4.3.3)";
    stories.tell("/a", |target| {
        vec![step(get(target), same()), step(get(target), same()).instead(NOT_A_RESPONSE, &["X-Cache: MISS"])]
    });
    stories.tell("/a", |target| {
        let asks =
            || step(get(target).field("If-None-Match: \"abc\""), ok(&[TAG]).unchanged("304 Not Modified", &[TAG]));
        vec![asks(), asks()]
    });
    stories.compare();
}

#[test]
fn revalidated_behind() {
    let mut stories = Stories::new(
        "",
        "location /a { proxy_cache z; proxy_cache_revalidate on; proxy_cache_use_stale updating;
            proxy_cache_background_update on; proxy_pass http://@UP@; }",
    );
    stories.tell("/a", |target| {
        let second = || ok(&[FRESH]).unchanged("304 Not Modified", &[FRESH]);
        vec![
            step(get(target), ok(&[STALE, TAG])),
            step(get(target), second()).asked(1),
            step(get(target), second()).until("X-Cache: HIT"),
        ]
    });
    stories.compare();
}
