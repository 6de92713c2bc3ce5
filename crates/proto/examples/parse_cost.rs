//! Prints the cost of the parsers, in nanoseconds and allocations per call: `cargo run --release -p freerun-proto
//! --example parse_cost`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use freerun_proto::{HeadParser, HeadRules, HeaderId, Progress, conditional, date, parse_request, range, uri};

const SMALL: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: localhost:8080\r\nConnection: keep-alive\r\n\r\n";

const BROWSER: &[u8] = b"GET /assets/app.5f2c1e.js?v=20261121 HTTP/1.1\r\n\
Host: www.example.com\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Accept-Language: en-US,en;q=0.9\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Connection: keep-alive\r\n\
Referer: https://www.example.com/some/page?with=args\r\n\
Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=yes; _ga=GA1.2.1234567890.1234567890\r\n\
Sec-Fetch-Dest: script\r\n\
Sec-Fetch-Mode: no-cors\r\n\
Sec-Fetch-Site: same-origin\r\n\
If-None-Match: \"6553f100-a\"\r\n\
If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
\r\n";

/// Times a call: the best of several rounds, since other work on the machine only adds.
fn measure<T>(name: &str, mut call: impl FnMut() -> T) {
    const CALLS: u32 = 200_000;
    let mut best = f64::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(call());
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    println!("{name:<44} {best:8.1} ns");
}

fn main() {
    let rules = HeadRules::default();
    println!("heads: small {} bytes, browser {} bytes", SMALL.len(), BROWSER.len());
    measure("head, 2 fields", || parse_request(black_box(SMALL), &rules));
    measure("head, 13 fields", || parse_request(black_box(BROWSER), &rules));
    measure("head, 13 fields, in pieces of 64 bytes", || {
        let mut parser = HeadParser::new();
        let mut end = 0;
        while parser.advance(&BROWSER[..end], &rules) == Ok(Progress::Partial) {
            end = (end + 64).min(BROWSER.len());
        }
        parser.into_head()
    });
    if let Ok(Some(head)) = parse_request(BROWSER, &rules) {
        measure("look up a field that is there", || head.value(BROWSER, black_box(HeaderId::IfNoneMatch)));
        measure("look up a field that is not", || head.value(BROWSER, black_box(HeaderId::Range)));
    }
    measure("uri, nothing to do", || uri::normalise(black_box(b"/assets/app.5f2c1e.js?v=20261121"), true).is_ok());
    measure("uri, to be rewritten", || uri::normalise(black_box(b"/a%20b//c/../d.html?x"), true).is_ok());
    measure("imf_fixdate", || date::imf_fixdate(black_box(1_795_244_700)));
    measure("parse_http_date", || date::parse_http_date(black_box(b"Tue, 14 Nov 2023 22:13:20 GMT")));
    measure("etag", || conditional::etag(black_box(1_700_000_000), 10));
    measure("range, one part", || range::parse(black_box(b"bytes=100-199"), 1000, None));
}
