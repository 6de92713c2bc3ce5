//! What a server behind says of its answer with `X-Accel-…`, and what else becomes of heads: fields that come twice, ranges
//! that are offered here, errors within error pages.

use crate::harness::{get, head, request};
use crate::t13_proxy::proxied::{answered, compare_proxied, with_fields};

#[test]
fn a_named_location_gets_the_request_as_it_was() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /nb { proxy_request_buffering off; proxy_pass http://@UP@; }
        location @named { proxy_intercept_errors on; proxy_ignore_headers X-Accel-Redirect; \
            proxy_set_header Connection \"\"; \
            proxy_set_header X-M \"$request_method|$uri|$args\"; proxy_pass http://@UP@; }
        location @own { return 200 \"$request_method $uri $args\"; }
        location /uri { proxy_ignore_headers X-Accel-Redirect; proxy_pass http://@UP@/second; proxy_set_header Connection \"\"; \
            proxy_set_header X-M \"$request_method|$uri|$args\"; }
    ";
    let large = "x".repeat(100_000);
    let mut cases = Vec::new();
    for target in ["@named", "@own", "/uri?q=2"] {
        let field = format!("X-Accel-Redirect: {target}");
        for method in ["POST", "PUT", "DELETE", "FOO"] {
            for body in ["bod", "", &large] {
                let length = format!("Content-Length: {}", body.len());
                let case = request(method, "/a/o?arg=1").field(&length).body(body);
                cases.push(with_fields(case, "200 OK", &[&field]));
            }
            // One that has come whole with its head is kept.
            let case = request(method, "/nb/o").field("Content-Length: 3").body("bod");
            cases.push(with_fields(case, "200 OK", &[&field]));
            let case = request(method, "/a/c").field("Transfer-Encoding: chunked").body("3\r\nbod\r\n0\r\n\r\n");
            cases.push(with_fields(case, "404 No", &[&field]));
        }
        cases.push(with_fields(head("/a/h"), "200 OK", &[&field]));
        cases.push(with_fields(get("/a/g"), "200 OK", &[&field]));
    }
    compare_proxied("", lines, cases);
}

#[test]
fn a_type_that_goes_along_to_an_answer_without_one() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /int/ { internal; proxy_ignore_headers X-Accel-Redirect; proxy_hide_header Content-Type; proxy_pass http://@UP@; }
        location /same/ { internal; proxy_ignore_headers X-Accel-Redirect; proxy_pass http://@UP@; }
        location /unused { charset utf-8; }
    ";
    let mut cases = Vec::new();
    for target in ["/int/x", "/same/x"] {
        let redirect = format!("X-Accel-Redirect: {target}");
        for fields in [&["Content-Type: text/q"][..], &["Content-Type: text/q; charset=utf-8"], &[]] {
            let fields: Vec<&str> = std::iter::once(redirect.as_str()).chain(fields.iter().copied()).collect();
            cases.push(with_fields(get("/a"), "200 OK", &fields));
            cases.push(with_fields(get("/a"), "404 No", &fields));
        }
    }
    compare_proxied("", lines, cases);
}

#[test]
fn errors_within_error_pages_are_intercepted() {
    let lines = "
        location /off { proxy_intercept_errors on; error_page 404 /off-page; proxy_pass http://@UP@; }
        location /off-page { proxy_intercept_errors on; error_page 404 /end; proxy_pass http://@UP@; }
        location /on { proxy_intercept_errors on; recursive_error_pages on; error_page 404 /on-page; proxy_pass http://@UP@; }
        location /on-page { proxy_intercept_errors on; error_page 404 /end; proxy_pass http://@UP@; }
        location /none { proxy_intercept_errors on; error_page 404 /none-page; proxy_pass http://@UP@; }
        location /none-page { proxy_intercept_errors on; error_page 500 /end; proxy_pass http://@UP@; }
        location /end { return 200 end; }
    ";
    let mut cases = Vec::new();
    for path in ["/off", "/on", "/none"] {
        for status in ["404 N", "500 X"] {
            cases.push(with_fields(get(path), status, &["X-A: 1", "Content-Type: a/b"]));
            cases.push(with_fields(head(path), status, &["X-A: 1", "Content-Type: a/b"]));
        }
    }
    compare_proxied("", lines, cases);
}

#[test]
fn fields_for_this_server_that_come_twice() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /int/ { internal; charset_types *; return 200 \"int $uri\"; }
        location @named { return 200 named; }
        location /unused { charset utf-8; charset koi8-r; }
    "
    .replace(" charset koi8-r;", "");
    let mut cases = Vec::new();
    for fields in [
        &["X-Accel-Redirect: /int/1", "X-Accel-Redirect: /int/2"][..],
        &["X-Accel-Redirect: @named", "X-Accel-Redirect: /int/2"],
        &["X-Accel-Redirect: /int/1", "x-accel-redirect: @named"],
        &["X-Accel-Redirect: ", "X-Accel-Redirect: /int/2"],
        &["Content-Type: text/html", "X-Accel-Charset: utf-8", "X-Accel-Charset: koi8-r"],
        &["Content-Type: text/html", "X-Accel-Charset: koi8-r", "X-Accel-Charset: utf-8"],
        &["Content-Type: text/html", "X-Accel-Charset: utf-8", "X-Accel-Charset: off"],
        &["Content-Type: text/html", "X-Accel-Charset: ", "X-Accel-Charset: utf-8"],
    ] {
        cases.push(with_fields(get("/a").in_order(), "200 OK", fields));
    }
    compare_proxied("charset_map koi8-r utf-8 { C0 D18E; }", lines.as_str(), cases);
}

#[test]
fn ranges_that_are_offered_for_another_server() {
    let lines = "
        location /fr { proxy_force_ranges on; proxy_pass http://@UP@; }
        location /nb { proxy_force_ranges on; proxy_buffering off; proxy_pass http://@UP@; }
        location /a { proxy_pass http://@UP@; }
    ";
    let large = "0123456789".repeat(30_000);
    let mut cases = Vec::new();
    for path in ["/fr", "/nb", "/a"] {
        for fields in ["", "Accept-Ranges: bytes\r\n", "Accept-Ranges: none\r\n"] {
            for range in
                ["0-1,3-4", "5-6,0-1", "0-0,-1", "0-5,3-8", "9-,0-2", "0-1", "0-1,", "-2", "20-,30-", "20-,0-1"]
            {
                for body in ["0123456789", &large] {
                    let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len());
                    cases.push(answered(get(path).field(&format!("Range: bytes={range}")), answer));
                }
            }
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
            cases.push(answered(get(path).field("Range: bytes=0-1"), &answer));
            cases.push(answered(get(path), &answer));
            cases.push(answered(head(path), format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 3\r\n\r\n")));
        }
        for status in ["404 N", "206 P", "301 M", "401 U", "500 X", "201 C", "203 N", "416 R"] {
            cases.push(with_fields(get(path), status, &["Accept-Ranges: bytes"]));
            cases.push(with_fields(get(path).field("Range: bytes=0-0"), status, &["Accept-Ranges: words"]));
        }
        cases.push(answered(get(path), "HTTP/1.1 304 N\r\nAccept-Ranges: bytes\r\n\r\n"));
        cases.push(answered(get(path), "HTTP/1.1 204 N\r\nAccept-Ranges: bytes\r\n\r\n"));
    }
    compare_proxied("", lines, cases);
}

#[test]
fn a_whole_made_of_slices_offers_ranges_of_its_own() {
    let lines = "location /s { slice 8; proxy_set_header Range $slice_range; proxy_set_header Connection \"\"; \
        proxy_pass http://@UP@; }";
    let mut cases = Vec::new();
    for fields in ["", "Accept-Ranges: bytes\r\n", "Accept-Ranges: none\r\n"] {
        for range in ["0-1", "1-", "0-0", "5-6"] {
            let answer =
                format!("HTTP/1.1 206 Part\r\n{fields}Content-Range: bytes 0-4/5\r\nContent-Length: 5\r\n\r\n01234");
            cases.push(answered(get("/s").field(&format!("Range: bytes={range}")), &answer));
            cases.push(answered(get("/s"), answer));
        }
    }
    compare_proxied("", lines, cases);
}

#[test]
fn a_character_set_for_the_client_comes_before_that_of_the_type() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /src { source_charset koi8-r; proxy_pass http://@UP@; }
        location /ov { charset utf-8; override_charset on; proxy_pass http://@UP@; }
        location /unused { charset koi8-r; }
        location /none { charset latin; }
    ";
    let mut cases = Vec::new();
    for path in ["/a", "/src", "/ov"] {
        for own in ["", "; charset=koi8-r", "; charset=KOI8-R", "; charset=utf-8", "; charset=unknown"] {
            for told in ["utf-8", "UTF-8", "koi8-r", "latin", "off", ""] {
                let fields = format!("Content-Type: text/html{own}\r\nX-Accel-Charset: {told}\r\n");
                let answer = |status: &str, more: &str| {
                    let head = format!("HTTP/1.1 {status}\r\n{fields}{more}Content-Length: 2\r\n\r\n");
                    [head.as_bytes(), b"a\xc0"].concat()
                };
                cases.push(answered(get(path), answer("200 OK", "")));
                cases.push(answered(get(path), answer("302 OK", "Location: /\r\n")));
                cases.push(answered(get(path), answer("200 OK", "Content-Encoding: gzip\r\n")));
            }
        }
    }
    compare_proxied("charset_map koi8-r utf-8 { C0 D18E; }", lines, cases);
}

#[test]
fn a_field_that_is_passed_on_is_missing_where_it_was_not_sent() {
    let lines = "
        location /both { proxy_pass_header Server; proxy_pass_header date; proxy_pass http://@UP@; }
        location /server { proxy_pass_header Server; proxy_pass http://@UP@; }
        location /hidden { proxy_pass_header Server; proxy_hide_header Server; proxy_pass http://@UP@; }
    ";
    let mut cases = Vec::new();
    for path in ["/both", "/server", "/hidden"] {
        for fields in [&["Server: s", "Date: d"][..], &["Server: s"], &["Date: d"], &[]] {
            cases.push(with_fields(get(path), "200 OK", fields));
        }
    }
    compare_proxied("", lines, cases);
}

/// The first answer comes from the server behind, the second one from the cache.
#[test]
fn several_ranges_of_what_is_cached() {
    let lines = "
        location /c { proxy_cache c; proxy_cache_valid any 1m; proxy_pass http://@UP@; }
        location /fr { proxy_cache c; proxy_cache_valid any 1m; proxy_force_ranges on; proxy_pass http://@UP@; }
    ";
    let large = "0123456789".repeat(30_000);
    let mut cases = Vec::new();
    for path in ["/c", "/fr"] {
        for (number, fields) in ["", "Accept-Ranges: bytes\r\n", "Accept-Ranges: none\r\n"].iter().enumerate() {
            for range in ["0-1,3-4", "0-1", "9-"] {
                for body in ["0123456789", &large] {
                    let target = format!("{path}/{number}/{range}/{}", body.len());
                    let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len());
                    for _ in 0..3 {
                        let case = get(&target).field(&format!("Range: bytes={range}"));
                        cases.push(answered(case, &answer));
                    }
                }
            }
        }
    }
    compare_proxied("proxy_cache_path @DIR@/cache keys_zone=c:1m;", lines, cases);
}
