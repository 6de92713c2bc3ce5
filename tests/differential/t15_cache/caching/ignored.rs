//! Fields that `proxy_ignore_headers` leaves out of account, and what is hidden.

use super::{FRESH, STALE, Stories, ok, step};
use crate::harness::get;

#[test]
fn ignored_fields() {
    let names = ["Cache-Control", "Expires", "X-Accel-Expires", "Set-Cookie", "Vary"];
    let locations: String = names
        .iter()
        .map(|name| format!("location /{name} {{ proxy_ignore_headers {name}; proxy_pass http://@UP@; }}\n"))
        .collect();
    let mut stories = Stories::new(
        "",
        &format!(
            "proxy_cache z; {locations}
            location /all {{ proxy_ignore_headers {}; proxy_pass http://@UP@; }}
            location /valid {{ proxy_ignore_headers {}; proxy_cache_valid any 10m; proxy_pass http://@UP@; }}",
            names.join(" "),
            names.join(" "),
        ),
    );
    for location in names.iter().copied().chain(["all", "valid"]) {
        for field in [
            FRESH,
            "Cache-Control: no-store",
            "Expires: Thu, 31 Dec 2037 23:55:55 GMT",
            "X-Accel-Expires: 10",
            "Vary: *",
        ] {
            stories.twice(&format!("/{location}"), ok(&[field]));
        }
        stories.twice(&format!("/{location}"), ok(&[FRESH, "Set-Cookie: a=b"]));
        stories.twice(&format!("/{location}"), ok(&[FRESH, "Vary: Accept"]));
        stories.twice(&format!("/{location}"), ok(&[FRESH, "X-Accel-Expires: 0"]));
    }
    stories.compare();
}

#[test]
fn lines_of_one_level_add_up() {
    let mut stories = Stories::new(
        "",
        "proxy_cache z; proxy_cache_valid any 10m; proxy_ignore_headers Set-Cookie;
        location /a { proxy_ignore_headers Cache-Control; proxy_ignore_headers Expires Cache-Control;
            proxy_pass http://@UP@; }
        location /inherits { proxy_pass http://@UP@; }",
    );
    for location in ["/a", "/inherits"] {
        for field in ["Cache-Control: no-store", "Expires: Thu, 01 Jan 1970 00:00:00 GMT", "Set-Cookie: a=b"] {
            stories.twice(location, ok(&[field]));
        }
    }
    stories.compare();
}

#[test]
fn hidden_fields_count_all_the_same() {
    let mut stories = Stories::new(
        "",
        "location /a { proxy_cache z; proxy_hide_header Cache-Control; proxy_hide_header Vary; proxy_hide_header Expires;
            proxy_pass_header X-Accel-Expires; proxy_pass http://@UP@; }",
    );
    stories.twice("/a", ok(&[FRESH]));
    stories.twice("/a", ok(&["Cache-Control: private"]));
    stories.twice("/a", ok(&["X-Accel-Expires: 10"]));
    stories.twice("/a", ok(&[STALE]));
    stories.tell("/a", |target| {
        let asks = |accept: &str| step(get(target).field(accept), ok(&[FRESH, "Vary: Accept"]));
        vec![asks("Accept: a"), asks("Accept: a"), asks("Accept: b"), asks("Accept: b")]
    });
    stories.compare();
}
