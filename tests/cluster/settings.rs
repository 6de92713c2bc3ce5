//! What a configuration must not say of state that several machines share.

use freerun_testkit::{Kind, check, require};

const ENGINE: &str = "zone_sync_engine redis://127.0.0.1:6379;";

#[test]
fn mistakes_are_refused_where_they_are() {
    if !require::freerun() {
        return;
    }
    // The line of the mistake is the second one.
    for (main, http, message) in [
        (
            "",
            "limit_req_zone $uri zone=a:1m rate=1r/s sync;",
            "\"sync\" of \"limit_req_zone\" needs \"zone_sync_engine\"",
        ),
        ("", "keyval_zone zone=a:1m sync;", "\"sync\" of \"keyval_zone\" needs \"zone_sync_engine\""),
        ("", "proxy_cache_path c keys_zone=a:1m sync;", "\"sync\" of \"proxy_cache_path\" needs \"zone_sync_engine\""),
        ("", "ssl_session_tickets sync;", "\"sync\" of \"ssl_session_tickets\" needs \"zone_sync_engine\""),
        (ENGINE, "ssl_session_tickets sync;", "\"sync\" of \"ssl_session_tickets\" needs \"zone_sync_secret\""),
        (ENGINE, "ssl_session_tickets maybe;", "invalid value"),
        (ENGINE, "limit_req_zone $uri zone=a:1m rate=1r/s strict;", "invalid parameter \"strict\""),
        (ENGINE, "limit_req_zone $uri zone=a:1m rate=1r/s alone=local;", "invalid parameter \"alone=local\""),
        (ENGINE, "limit_req_zone $uri zone=a:1m rate=1r/s sync alone=never;", "invalid parameter \"alone=never\""),
        (ENGINE, "limit_req_zone $uri zone=a:1m rate=1r/s sync wait=0;", "invalid parameter \"wait=0\""),
    ] {
        let checked = check(Kind::Freerun, &format!("{main} events {{}} http {{\n{http}\n}}")).expect("it runs");
        let said = checked.stderr;
        assert!(said.contains(message) && said.contains("nginx.conf:2"), "{http}: {said}");
    }
}
