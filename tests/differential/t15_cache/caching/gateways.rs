//! Caching behind FastCGI, uwsgi and SCGI: the same rules, and keys that have no default.

use crate::t16_applications::recorder::Protocol;
use crate::t16_applications::{Ask, alike_in, ask, ask_with};

const CACHED: &str = "Content-Type: text/plain\r\nCache-Control: max-age=1000\r\n\r\nfirst";
const OTHER: &str = "Content-Type: text/plain\r\nCache-Control: max-age=1000\r\n\r\nsecond";

/// What is asked in turn; what is answered from the cache asks the application nothing.
fn asks() -> Vec<Ask> {
    let get = |target: &str, answer: &str| ask(target).answered(answer);
    vec![
        get("/c/a", CACHED),
        get("/c/a", OTHER),
        ask_with("HEAD", "/c/a", "", b"").answered(OTHER),
        ask_with("GET", "/c/a", "Range: bytes=1-2\r\n", b"").answered(OTHER),
        ask_with("POST", "/c/a", "Content-Length: 2\r\n", b"ab").answered(OTHER),
        get("/c/a?x", OTHER),
        get("/c/private", "Cache-Control: private\r\n\r\nfirst"),
        get("/c/private", "Cache-Control: private\r\n\r\nsecond"),
        get("/c/status", "Status: 404 Not Found\r\nX-Accel-Expires: 100\r\n\r\nfirst"),
        get("/c/status", "Status: 200 OK\r\nX-Accel-Expires: 100\r\n\r\nsecond"),
        get("/c/moved", "Location: http://example.com/x\r\nX-Accel-Expires: 100\r\n\r\n"),
        get("/c/moved", "\r\n\r\nsecond"),
        get("/c/cookie", "Set-Cookie: a=b\r\nCache-Control: max-age=10\r\n\r\nfirst"),
        get("/c/cookie", "Set-Cookie: a=b\r\nCache-Control: max-age=10\r\n\r\nsecond"),
        ask_with("GET", "/c/vary", "Accept: a\r\n", b"")
            .answered("Vary: Accept\r\nCache-Control: max-age=10\r\n\r\nfirst"),
        ask_with("GET", "/c/vary", "Accept: b\r\n", b"")
            .answered("Vary: Accept\r\nCache-Control: max-age=10\r\n\r\nsecond"),
        ask_with("GET", "/c/vary", "Accept: a\r\n", b"")
            .answered("Vary: Accept\r\nCache-Control: max-age=10\r\n\r\nthird"),
        get("/c/stale", "ETag: \"a\"\r\nX-Accel-Expires: @1000000000\r\n\r\nfirst"),
        get("/c/stale", "Status: 304 Not Modified\r\nCache-Control: max-age=100\r\n\r\n"),
        get("/c/stale", "X-Accel-Expires: @1000000000\r\n\r\nsecond"),
        get("/c/failed", "X-Accel-Expires: @1000000000\r\n\r\nfirst"),
        get("/c/failed", "Status: 500 Oops\r\n\r\nsecond"),
        get("/c/failed", "Cache-Control: max-age=100\r\n\r\nthird"),
        get("/c/failed", "\r\n\r\nfourth"),
        get("/c/silent", "A: b\r\n\r\nfirst"),
        get("/c/silent", "A: b\r\n\r\nsecond"),
        get("/valid/silent", "A: b\r\n\r\nfirst"),
        get("/valid/silent", "A: b\r\n\r\nsecond"),
        get("/valid/bypass", CACHED),
        get("/valid/bypass?b=1", OTHER),
    ]
}

#[track_caller]
fn cached_behind(family: &str, protocol: Protocol) {
    let http = format!(
        "{family}_cache_path @DIR@/cache keys_zone=z:1m; add_header X-Cache $upstream_cache_status always;
        {family}_cache z; {family}_cache_key $request_method$uri; {family}_cache_methods GET HEAD;"
    );
    let lines = format!(
        "location /c/ {{ {family}_pass @ADDRESS@; {family}_param REQUEST_METHOD $request_method; {family}_param T $request_uri;
            {family}_cache_key $request_uri; {family}_cache_revalidate on; {family}_cache_use_stale http_500; }}
        location /valid/ {{ {family}_pass @ADDRESS@; {family}_param T $request_uri; {family}_cache_key $uri;
            {family}_cache_valid any 1m; {family}_cache_bypass $arg_b; }}"
    );
    alike_in(protocol, &http, &lines, &asks());
}

#[test]
fn fastcgi() {
    cached_behind("fastcgi", Protocol::FastCgi);
}

#[test]
fn uwsgi() {
    cached_behind("uwsgi", Protocol::Uwsgi);
}

#[test]
fn scgi() {
    cached_behind("scgi", Protocol::Scgi);
}
