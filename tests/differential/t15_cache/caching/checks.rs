//! What `-t` says to the directives of caching.

use crate::t02_configuration::checks::same_verdicts_around;

#[test]
fn paths() {
    let lines = [
        "proxy_cache_path;",
        "proxy_cache_path @DIR@/c;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c keys_zone=a;",
        "proxy_cache_path @DIR@/c keys_zone=a:;",
        "proxy_cache_path @DIR@/c keys_zone=:1m;",
        "proxy_cache_path @DIR@/c keys_zone=a:x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1;",
        "proxy_cache_path @DIR@/c keys_zone=a:32k;",
        "proxy_cache_path @DIR@/c keys_zone=;",
        "proxy_cache_path @DIR@/c levels=1:2 keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c levels=1:2:2 keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c levels=1:2:2:1 keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c levels=3 keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c levels=0 keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c levels= keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c levels=1: keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c levels=12 keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c levels=x keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m inactive=10m;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m inactive=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m inactive=;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m max_size=1g;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m max_size=1024G;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m max_size=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m max_size=;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m min_free=1m;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m min_free=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m use_temp_path=on;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m use_temp_path=off;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m use_temp_path=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m use_temp_path=;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m loader_files=1 loader_sleep=1s loader_threshold=2ms;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m loader_files=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m loader_sleep=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m loader_threshold=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m manager_files=1 manager_sleep=1s manager_threshold=2ms;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m manager_files=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m manager_sleep=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m manager_threshold=x;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m foo=1;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m foo;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m keys_zone=b:1m;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m; proxy_cache_path @DIR@/c keys_zone=b:1m;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m; proxy_cache_path @DIR@/d keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m; proxy_cache_path @DIR@/d keys_zone=a:2m;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m; fastcgi_cache_path @DIR@/d keys_zone=a:1m;",
        "proxy_cache_path @DIR@/c keys_zone=a:1m; limit_req_zone $uri zone=a:1m rate=1r/s;",
        "limit_req_zone $uri zone=a:1m rate=1r/s; proxy_cache_path @DIR@/c keys_zone=a:1m;",
        "fastcgi_cache_path @DIR@/c keys_zone=a:1m;",
        "uwsgi_cache_path @DIR@/c keys_zone=a:1m;",
        "scgi_cache_path @DIR@/c keys_zone=a:1m;",
        "fastcgi_cache_path @DIR@/c;",
        "uwsgi_cache_path @DIR@/c levels=4 keys_zone=a:1m;",
    ]
    .map(|line| line.replace("@DIR@", "/tmp/freerun-never-made"));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    same_verdicts_around("@LINE@", &lines);
}

#[test]
fn directives() {
    for family in ["proxy", "fastcgi", "uwsgi", "scgi"] {
        let key = if family == "proxy" { "" } else { "@F@_cache_key k;" };
        let lines: Vec<String> = [
            "@F@_cache;",
            "@F@_cache off;",
            "@F@_cache z;",
            "@F@_cache z z;",
            "@F@_cache z; @F@_cache off;",
            "@F@_cache nowhere;",
            "@F@_cache lim;",
            "@F@_cache $uri;",
            "@F@_cache $uri$;",
            "@F@_cache \"\";",
            "@F@_cache_key;",
            "@F@_cache_key a b;",
            "@F@_cache_key a; @F@_cache_key b;",
            "@F@_cache_key $unknown;",
            "@F@_cache_valid;",
            "@F@_cache_valid 1m;",
            "@F@_cache_valid x;",
            "@F@_cache_valid any 1m;",
            "@F@_cache_valid 200;",
            "@F@_cache_valid 200 302 10m;",
            "@F@_cache_valid 99 10m;",
            "@F@_cache_valid 600 10m;",
            "@F@_cache_valid x 10m;",
            "@F@_cache_valid 200 x;",
            "@F@_cache_valid 200 1m; @F@_cache_valid 200 2m;",
            "@F@_cache_min_uses;",
            "@F@_cache_min_uses 0;",
            "@F@_cache_min_uses 1;",
            "@F@_cache_min_uses -1;",
            "@F@_cache_min_uses x;",
            "@F@_cache_min_uses 1; @F@_cache_min_uses 2;",
            "@F@_cache_use_stale;",
            "@F@_cache_use_stale off;",
            "@F@_cache_use_stale error timeout invalid_header updating http_500 http_503 http_403 http_404 http_429;",
            "@F@_cache_use_stale http_502;",
            "@F@_cache_use_stale http_504;",
            "@F@_cache_use_stale http_400;",
            "@F@_cache_use_stale foo;",
            "@F@_cache_use_stale error error;",
            "@F@_cache_use_stale non_idempotent;",
            "@F@_cache_use_stale error off;",
            "@F@_cache_use_stale error; @F@_cache_use_stale off;",
            "@F@_cache_methods;",
            "@F@_cache_methods GET;",
            "@F@_cache_methods POST;",
            "@F@_cache_methods GET HEAD POST;",
            "@F@_cache_methods PUT;",
            "@F@_cache_methods get;",
            "@F@_cache_methods POST POST;",
            "@F@_cache_bypass;",
            "@F@_cache_bypass a b c;",
            "@F@_cache_bypass a; @F@_cache_bypass b;",
            "@F@_no_cache;",
            "@F@_no_cache $uri;",
            "@F@_no_cache a; @F@_no_cache b;",
            "@F@_cache_lock;",
            "@F@_cache_lock on;",
            "@F@_cache_lock x;",
            "@F@_cache_lock on; @F@_cache_lock on;",
            "@F@_cache_lock_timeout;",
            "@F@_cache_lock_timeout 5s;",
            "@F@_cache_lock_timeout x;",
            "@F@_cache_lock_age 5s;",
            "@F@_cache_lock_age x;",
            "@F@_cache_revalidate on;",
            "@F@_cache_revalidate x;",
            "@F@_cache_background_update on;",
            "@F@_cache_background_update x;",
            "@F@_cache_max_range_offset 1k;",
            "@F@_cache_max_range_offset x;",
            "@F@_cache_max_range_offset 1k; @F@_cache_max_range_offset 1k;",
            "@F@_cache_convert_head on;",
            "@F@_cache_convert_head x;",
            "@F@_ignore_headers Cache-Control Expires Set-Cookie Vary X-Accel-Expires;",
            "@F@_ignore_headers Age;",
            "@F@_ignore_headers Vary Vary;",
            "@F@_ignore_headers Vary; @F@_ignore_headers Expires;",
            "@F@_ignore_headers Vary; @F@_ignore_headers Expires Vary;",
            "@F@_store on; @F@_cache z;",
            "@F@_cache z; @F@_store on;",
            "@F@_store off; @F@_cache z;",
            "@F@_cache off; @F@_store on;",
            "if ($uri) { @F@_cache z; }",
            "if ($uri) { @F@_cache_valid 1m; }",
            "limit_except GET { @F@_cache z; }",
            "set $upstream_cache_status x;",
            "set $upstream_cache_etag x;",
            "set $upstream_cache_last_modified x;",
            "set $upstream_cache_key x;",
        ]
        .iter()
        .map(|line| line.replace("@F@", family))
        .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let around = format!(
            "{family}_cache_path /tmp/freerun-never-made keys_zone=z:1m; limit_req_zone $uri zone=lim:1m rate=1r/s;
            server {{ listen 127.0.0.1:@PORT@; location / {{\n{} @LINE@\n}} }}",
            key.replace("@F@", family)
        );
        same_verdicts_around(&around, &lines);
    }
}

#[test]
fn a_cache_without_a_key() {
    for family in ["fastcgi", "uwsgi", "scgi"] {
        let lines: Vec<String> =
            ["@F@_cache z;", "@F@_cache z; @F@_cache_key \"\";", "@F@_cache $uri;", "@F@_cache off;"]
                .iter()
                .map(|line| line.replace("@F@", family))
                .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let around = format!(
            "{family}_cache_path /tmp/freerun-never-made keys_zone=z:1m;
            server {{ listen 127.0.0.1:@PORT@; location / {{ @LINE@ }} }}"
        );
        same_verdicts_around(&around, &lines);
    }
}
