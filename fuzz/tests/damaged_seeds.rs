//! Runs the bodies of the fuzz targets over damaged seeds, without a fuzzer.
//!
//! The damage comes from a fixed generator, so that a failure comes again. `FUZZ_ROUNDS` sets how many inputs each
//! target gets.

/// Inputs for each target when nothing else is asked for: a few seconds without optimisation.
const ROUNDS: u64 = 20_000;
/// Longest input.
const LONGEST: usize = 600;

/// A small generator of numbers; good enough to break things.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Damages a seed: bytes changed, cut out, doubled, or taken from another seed or from `words`.
fn damage(numbers: &mut Numbers, seeds: &[&[u8]], words: &[&[u8]]) -> Vec<u8> {
    let mut text = seeds[numbers.below(seeds.len())].to_vec();
    for _ in 0..numbers.below(6) {
        let at = numbers.below(text.len() + 1);
        match numbers.below(7) {
            0 if at < text.len() => text[at] = numbers.next() as u8,
            1 if at < text.len() => text[at] ^= 1 << numbers.below(8),
            2 => text.truncate(at),
            3 => {
                let end = (at + numbers.below(8)).min(text.len());
                text.drain(at..end);
            }
            4 => {
                let end = (at + numbers.below(40)).min(text.len());
                let part = text[at..end].to_vec();
                text.splice(at..at, part);
            }
            5 => {
                let other = seeds[numbers.below(seeds.len())];
                let part = &other[numbers.below(other.len())..];
                text.splice(at.., part.iter().copied());
            }
            _ => {
                let word = words[numbers.below(words.len())];
                text.splice(at..at, word.iter().copied());
            }
        }
        text.truncate(LONGEST);
    }
    text
}

fn run(body: fn(&[u8]), seeds: &[&[u8]], words: &[&[u8]]) {
    let rounds = std::env::var("FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for seed in seeds {
        body(seed);
    }
    for round in 0..rounds {
        let text = damage(&mut numbers, seeds, words);
        let result = std::panic::catch_unwind(|| body(&text));
        assert!(result.is_ok(), "round {round}: {:?}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn request_head() {
    run(
        freerun_fuzz::request_head,
        &[
            b"\x02GET /a/b?c HTTP/1.1\r\nHost: www.example.com:80\r\nConnection: keep-alive\r\nRange: bytes=0-1\r\n\r\n",
            b"\x04\r\nPOST http://h:8080/x HTTP/1.1\nHost: a\nContent-Length: 5\nExpect: 100-continue\n\nhello",
            b"\x8ePUT /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\nX_Y: z\r\nIf-None-Match: \"a-1\", W/\"b\"\r\n\r\n",
            b"\x26CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nIf-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n\r\n",
            b"\x72GET /x\r\nGET /y\r\n",
        ],
        &[b"\r\n", b"\n", b"\r", b"\0", b": ", b" ", b"\t", b"Host: b\r\n", b"_", b"(", b"http://", b"HTTP/1.1", b"%2e", b"//", b"\r\n\r\n"],
    );
}

#[test]
fn chunked() {
    run(
        freerun_fuzz::chunked,
        &[
            b"\x00" as &[u8],
            b"\x013\r\nabc\r\n0\r\n\r\n",
            b"\x07a;x=y\r\n0123456789\r\n002 \r\nab\r\n0\r\nX: y\r\nA-B: c\r\n\r\nGET",
        ],
        &[
            b"\r\n",
            b"\n",
            b"0\r\n",
            b"1\r\na\r\n",
            b"7fffffffffffffff\r\n",
            b"ffffffffffffffff\r\n",
            b";",
            b" ",
            b"X:\r\n",
            b"0\r\n\r\n",
        ],
    );
}

#[test]
fn uri() {
    run(
        freerun_fuzz::uri,
        &[
            b"\x00/a/b/../c/./d//e/%2e%2e/f?q=1#x",
            b"\x01//a//../..%2fb%25%32%65/.",
            b"\x00/index.html?a=b&c=d",
            b"\x01?x",
        ],
        &[b"/", b"//", b".", b"..", b"/..", b"%2e", b"%2F", b"%00", b"%25", b"%", b"?", b"#", b"a"],
    );
}

#[test]
fn range() {
    run(
        freerun_fuzz::range,
        &[
            b"\x0a\0\0\0\0\0\0\0\x00bytes=0-0,2-3",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\x09bytes=-5, 0 - 9,7-,9223372036854775807-",
            b"\0\0\0\0\0\0\0\0\x00bytes=0-",
        ],
        &[b",", b"-", b" ", b"0-", b"-1", b"9223372036854775807", b"5-4", b"bytes=", b"\t"],
    );
}

#[test]
fn configuration() {
    run(
        freerun_fuzz::configuration,
        &[
            b"user a b; events { worker_connections 10; } http { include 1; server { listen 80; location ~ \\.php$ { return 200 \"a\\\"b$x\"; } } }\xffserver { root 'x y'; }",
            b"# c\nhttp{types{text/html html;}log_format a '$b' \"c\\n\";\nmap $a $b { default 1; ~^x{2} y; }\n if ($x = a) { set ${y} z; } }",
            b"include *;\xffinclude 0;\xff}{\xff\"\xff'",
        ],
        &[b"{", b"}", b";", b"\"", b"'", b"\\", b"#", b"\n", b"$", b"${", b"include 1;", b"\xff", b"\0", b"\xef\xbb\xbf", b"include *;"],
    );
}

#[test]
fn proxy_header() {
    run(
        freerun_fuzz::proxy_header,
        &[
            b"PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\r\nGET / HTTP/1.1\r\n",
            b"PROXY TCP6 2001:db8::9 2001:db8::3 5555 443\r\n",
            b"PROXY UNKNOWN whatever\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x09\xc6\x33\x64\x03\x15\xb3\x01\xbbGET /",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x1f\xc0\0\x02\x09\xc6\x33\x64\x03\x15\xb3\x01\xbb\x01\0\x02h2\x20\0\x0b\x01\0\0\0\0\x21\0\x03abc",
            b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
        ],
        &[b"\r\n", b" ", b"PROXY ", b"TCP4 ", b"UNKNOWN", b"\0\0", b"\xff", b"65536", b":", b"\x20\0\x05"],
    );
}

#[test]
fn response() {
    run(
        freerun_fuzz::upstreams::response,
        &[
            b"\x00HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhelloX",
            b"\x23HTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: v\r\n\r\n",
            b"\x41Status: 404 Not Found\r\nContent-Type: text/html\r\nLocation: /x\r\n\r\nbody",
            b"\x62HTTP/1.0 200 OK\nConnection: close\n\nall",
            b"\x1cHTTP/1.1 200 OK\r\nConnection: keep-alive\r\nX\r\n\r\n",
            b"\x00HTTP/1.1 304 N\r\nContent-Length: 5\r\n\r\n",
        ],
        &[
            b"\r\n",
            b"\n",
            b"\r",
            b"\0",
            b" ",
            b":",
            b"HTTP/1.1 100 C\r\n\r\n",
            b"Content-Length: 1\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Status: 500\r\n",
            b"\r\n\r\n",
            b"0\r\n\r\n",
        ],
    );
}

#[test]
fn fastcgi() {
    run(
        freerun_fuzz::upstreams::fastcgi,
        &[
            b"\x00\x01\x06\0\x01\0\x04\x04\0ok\r\npppp\x01\x06\0\x01\0\0\0\0\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0X",
            b"\x02\x01\x07\0\x01\0\x03\x01\0errp\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0",
            b"\x01\x02\x03ABxyz\x00\x00\x04\xffNAMEvalue",
        ],
        &[b"\x01\x06\0\x01\0\x01\0\0x", b"\x01\x07\0\x01", b"\0", b"\xff", b"\x01\x03", b"\0\0\0\0"],
    );
}

#[test]
fn uwsgi_and_scgi() {
    let seeds: &[&[u8]] = &[b"\x00\x02\x03ABxyz\x00\x00\x04\xffNAMEvalue", b"\xff\x01\x01ab", b"\x07"];
    let words: &[&[u8]] = &[b"\0", b"\x01\x01", b"\xff\xff", b"abc", b":", b","];
    run(freerun_fuzz::upstreams::uwsgi, seeds, words);
    run(freerun_fuzz::upstreams::scgi, seeds, words);
}

#[test]
fn memcached() {
    run(
        freerun_fuzz::upstreams::memcached,
        &[
            b"\x00VALUE k 3 5\r\nhello\r\nEND\r\nX",
            b"\x01END\r\n",
            b"\x02VALUE k 0 0\r\n\r\nEND\r\n",
            b"\x03SERVER_ERROR x\r\n",
        ],
        &[b"\r\n", b" ", b"VALUE k ", b"END\r\n", b"99999999999999999999", b"-1", b"\0", b"\n"],
    );
}

#[test]
fn record() {
    let head = freerun_cache::record::Head {
        key: "http://a/b".into(),
        status: 200,
        reason: "OK".into(),
        fields: vec![("A".into(), "b".into()), ("Cache-Control".into(), "max-age=1".into())],
        tags: vec!["tag".into()],
        body: 5,
        ..Default::default()
    };
    let bytes = head.encode().expect("a short head");
    let seeds: [Vec<u8>; 2] = [0, 1].map(|options| [&[options], &bytes[..], b"hello"].concat());
    run(freerun_fuzz::caches::record, &[&seeds[0], &seeds[1]], &[b"\0\0\0\0", b"\xff", b"\x01\0\0\0", b"frcache1"]);
}

#[test]
fn cache_control() {
    run(
        freerun_fuzz::caches::cache_control,
        &[
            b"\x00max-age=100, s-maxage=\"5\"\n\x03Age 3\n\x01Sun, 06 Nov 2094 08:49:37 GMT",
            b"\x00no-cache=\"a, b\", private=c, stale-if-error=5\n\x06a, b\n\x02@1900000000",
            b"\x05Sun, 06 Nov 1994 08:49:37 GMT\n\x07a b c\n\x00must-understand, no-store",
        ],
        &[
            b",",
            b"=",
            b"\"",
            b"\\",
            b" ",
            b"max-age=",
            b"99999999999999999999",
            b"*",
            b"\n\x00",
            b"\n\x03",
            b"\n\x06",
            b";",
        ],
    );
}
