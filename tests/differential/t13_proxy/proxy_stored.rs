//! `proxy_store`, large heads, and sizes of buffers.

use crate::harness::{get, request};
use crate::t13_proxy::proxied::{answered, compare_proxied, with_fields};

#[test]
fn stored() {
    let lines = "
        location /s/ { proxy_store @DIR@/body$uri; proxy_pass http://@UP@; }
        location /on/ { proxy_store on; root @DIR@/body; proxy_pass http://@UP@; }
        location /rights/ { proxy_store @DIR@/body$uri; proxy_store_access user:rw group:rw all:r; proxy_pass http://@UP@; }
        location /read/ { alias @DIR@/body/; }
    ";
    let dated = "Last-Modified: Sat, 21 Nov 2020 13:42:48 GMT";
    let large = format!("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n{}", "0123456789".repeat(20_000));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let cut = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nok";
    let close = "HTTP/1.1 200 OK\r\n\r\nuntil the end";
    let mut cases = Vec::new();
    let mut stored = |path: &str, answer: &str| {
        cases.push(answered(get(path), answer));
        // A response without a time has that of its writing.
        let without: &[&str] = if answer.contains("Last-Modified") { &[] } else { &["Last-Modified"] };
        cases.push(answered(get(&format!("/read{path}")), "").without(without));
    };
    stored("/s/large.txt", &large);
    stored("/s/chunked.txt", chunked);
    stored("/s/close.txt", close);
    stored("/s/cut.txt", cut);
    stored("/s/error.txt", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno");
    stored("/s/dated.txt", &format!("HTTP/1.1 200 OK\r\n{dated}\r\nContent-Length: 2\r\n\r\nok"));
    stored("/on/dated.txt", &format!("HTTP/1.1 200 OK\r\n{dated}\r\nContent-Length: 2\r\n\r\nok"));
    stored("/on/deep/er/dated.txt", &format!("HTTP/1.1 200 OK\r\n{dated}\r\nContent-Length: 2\r\n\r\nok"));
    stored("/rights/dated.txt", &format!("HTTP/1.1 200 OK\r\n{dated}\r\nContent-Length: 2\r\n\r\nok"));
    cases.push(answered(request("HEAD", "/s/head.txt"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"));
    cases.push(answered(get("/read/s/head.txt"), ""));
    compare_proxied("etag off;", lines, cases);
}

#[test]
fn heads_of_all_sizes() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /k { proxy_buffer_size 1k; proxy_pass http://@UP@; }
        location /nb { proxy_buffering off; proxy_buffer_size 8k; proxy_pass http://@UP@; }
    ";
    let mut cases = Vec::new();
    for path in ["/a", "/k", "/nb"] {
        for size in [500, 900, 1100, 3900, 4200, 8000, 9000] {
            cases.push(with_fields(get(path), "200 OK", &[&format!("X-Long: {}", "x".repeat(size))]));
        }
    }
    compare_proxied("", lines, cases);
}
