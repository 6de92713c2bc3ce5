//! The list of targets: the body of each, the inputs to begin with, and the words that its inputs are made of.

use crate::target::Target;
use crate::{
    acme_state, caches, certificates, conversations, expressions, field_heads, handed_over, hellos, hpack, http1,
    http2, http3, log_lines, message_boxes, qpack, quic, sessions, telemetry, tls, upstreams,
};

/// Seeds that are written as they are.
pub(crate) fn owned(seeds: &[&[u8]]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.to_vec()).collect()
}

/// Runs [`crate::request_head`].
pub static REQUEST_HEAD: Target = Target {
    name: "request_head",
    body: crate::request_head,
    seeds: || {
        owned(&[
            b"\x02GET /a/b?c HTTP/1.1\r\nHost: www.example.com:80\r\nConnection: keep-alive\r\nRange: bytes=0-1\r\n\r\n",
            b"\x04\r\nPOST http://h:8080/x HTTP/1.1\nHost: a\nContent-Length: 5\nExpect: 100-continue\n\nhello",
            b"\x8ePUT /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\nX_Y: z\r\nIf-None-Match: \"a-1\", W/\"b\"\r\n\r\n",
            b"\x26CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nIf-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n\r\n",
            b"\x72GET /x\r\nGET /y\r\n",
            // A line longer than all buffers, and wrong behind them.
            b"\x41GET /0123456789012345678901234567890123456789012345678901234567890123456789\x01 HTTP/1.1\r\n",
        ])
    },
    words: &[
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b": ",
        b" ",
        b"\t",
        b"Host: b\r\n",
        b"_",
        b"(",
        b"http://",
        b"HTTP/1.1",
        b"%2e",
        b"//",
        b"\r\n\r\n",
    ],
};

/// Runs [`crate::chunked`].
pub static CHUNKED: Target = Target {
    name: "chunked",
    body: crate::chunked,
    seeds: || {
        owned(&[
            b"\x00" as &[u8],
            b"\x013\r\nabc\r\n0\r\n\r\n",
            b"\x07a;x=y\r\n0123456789\r\n002 \r\nab\r\n0\r\nX: y\r\nA-B: c\r\n\r\nGET",
        ])
    },
    words: &[
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
};

/// Runs [`crate::requests`].
pub static REQUESTS: Target = Target {
    name: "requests",
    body: crate::requests,
    seeds: || {
        owned(&[
            b"\x00POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\x02POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nT: v\r\n\r\nGET /b HTTP/1.0\r\n\r\n",
            // Looked at twice, this would be a chunk and an end.
            b"\x1fPUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n4;a\x7f\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
            b"\x06POST / HTTP/1.0\r\nContent-Length: 18446744073709551615\r\n\r\nx",
        ])
    },
    words: &[
        b"\r\n",
        b"\n",
        b"\r",
        b"0\r\n\r\n",
        b";",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"1\r\na\r\n",
        b"7fffffffffffffff",
        b"\x7f",
        b"\r\n\r\n",
    ],
};

/// Runs [`crate::uri`].
pub static URI: Target = Target {
    name: "uri",
    body: crate::uri,
    seeds: || {
        owned(&[
            b"\x00/a/b/../c/./d//e/%2e%2e/f?q=1#x",
            b"\x01//a//../..%2fb%25%32%65/.",
            b"\x00/index.html?a=b&c=d",
            b"\x01?x",
        ])
    },
    words: &[b"/", b"//", b".", b"..", b"/..", b"%2e", b"%2F", b"%00", b"%25", b"%", b"?", b"#", b"a"],
};

/// Runs [`crate::range`].
pub static RANGE: Target = Target {
    name: "range",
    body: crate::range,
    seeds: || {
        owned(&[
            b"\x0a\0\0\0\0\0\0\0\x00bytes=0-0,2-3",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\x09bytes=-5, 0 - 9,7-,9223372036854775807-",
            b"\0\0\0\0\0\0\0\0\x00bytes=0-",
        ])
    },
    words: &[b",", b"-", b" ", b"0-", b"-1", b"9223372036854775807", b"5-4", b"bytes=", b"\t"],
};

/// Runs [`crate::configuration`].
pub static CONFIGURATION: Target = Target {
    name: "configuration",
    body: crate::configuration,
    seeds: || {
        owned(&[
            b"user a b; events { worker_connections 10; } http { include 1; server { listen 80; location ~ \\.php$ { return 200 \"a\\\"b$x\"; } } }\xffserver { root 'x y'; }",
            b"# c\nhttp{types{text/html html;}log_format a '$b' \"c\\n\";\nmap $a $b { default 1; ~^x{2} y; }\n if ($x = a) { set ${y} z; } }",
            b"include *;\xffinclude 0;\xff}{\xff\"\xff'",
        ])
    },
    words: &[
        b"{",
        b"}",
        b";",
        b"\"",
        b"'",
        b"\\",
        b"#",
        b"\n",
        b"$",
        b"${",
        b"include 1;",
        b"\xff",
        b"\0",
        b"\xef\xbb\xbf",
        b"include *;",
    ],
};

/// Runs [`crate::proxy_header`].
pub static PROXY_HEADER: Target = Target {
    name: "proxy_header",
    body: crate::proxy_header,
    seeds: || {
        owned(&[
            b"PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\r\nGET / HTTP/1.1\r\n",
            b"PROXY TCP6 2001:db8::9 2001:db8::3 5555 443\r\n",
            b"PROXY UNKNOWN whatever\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x09\xc6\x33\x64\x03\x15\xb3\x01\xbbGET /",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x1f\xc0\0\x02\x09\xc6\x33\x64\x03\x15\xb3\x01\xbb\x01\0\x02h2\x20\0\x0b\x01\0\0\0\0\x21\0\x03abc",
            b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
        ])
    },
    words: &[b"\r\n", b" ", b"PROXY ", b"TCP4 ", b"UNKNOWN", b"\0\0", b"\xff", b"65536", b":", b"\x20\0\x05"],
};

/// Runs [`upstreams::response`].
pub static RESPONSE: Target = Target {
    name: "response",
    body: upstreams::response,
    seeds: || {
        owned(&[
            b"\x00HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhelloX",
            b"\x23HTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: v\r\n\r\n",
            b"\x41Status: 404 Not Found\r\nContent-Type: text/html\r\nLocation: /x\r\n\r\nbody",
            b"\x62HTTP/1.0 200 OK\nConnection: close\n\nall",
            b"\x1cHTTP/1.1 200 OK\r\nConnection: keep-alive\r\nX\r\n\r\n",
            b"\x00HTTP/1.1 304 N\r\nContent-Length: 5\r\n\r\n",
        ])
    },
    words: &[
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
};

/// Runs [`upstreams::fastcgi`].
pub static FASTCGI: Target = Target {
    name: "fastcgi",
    body: upstreams::fastcgi,
    seeds: || {
        owned(&[
            b"\x00\x01\x06\0\x01\0\x04\x04\0ok\r\npppp\x01\x06\0\x01\0\0\0\0\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0X",
            b"\x02\x01\x07\0\x01\0\x03\x01\0errp\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0",
            b"\x01\x02\x03ABxyz\x00\x00\x04\xffNAMEvalue",
        ])
    },
    words: &[b"\x01\x06\0\x01\0\x01\0\0x", b"\x01\x07\0\x01", b"\0", b"\xff", b"\x01\x03", b"\0\0\0\0"],
};

/// Names and values for [`UWSGI`] and [`SCGI`].
const PAIRS: &[&[u8]] = &[b"\x00\x02\x03ABxyz\x00\x00\x04\xffNAMEvalue", b"\xff\x01\x01ab", b"\x07"];
const PAIRS_WORDS: &[&[u8]] = &[b"\0", b"\x01\x01", b"\xff\xff", b"abc", b":", b","];

/// Runs [`upstreams::uwsgi`].
pub static UWSGI: Target = Target { name: "uwsgi", body: upstreams::uwsgi, seeds: || owned(PAIRS), words: PAIRS_WORDS };

/// Runs [`upstreams::scgi`].
pub static SCGI: Target = Target { name: "scgi", body: upstreams::scgi, seeds: || owned(PAIRS), words: PAIRS_WORDS };

/// Runs [`upstreams::memcached`].
pub static MEMCACHED: Target = Target {
    name: "memcached",
    body: upstreams::memcached,
    seeds: || {
        owned(&[
            b"\x00VALUE k 3 5\r\nhello\r\nEND\r\nX",
            b"\x01END\r\n",
            b"\x02VALUE k 0 0\r\n\r\nEND\r\n",
            b"\x03SERVER_ERROR x\r\n",
        ])
    },
    words: &[b"\r\n", b" ", b"VALUE k ", b"END\r\n", b"99999999999999999999", b"-1", b"\0", b"\n"],
};

/// Runs [`caches::record`].
pub static RECORD: Target = Target {
    name: "record",
    body: caches::record,
    seeds: stored_heads,
    words: &[b"\0\0\0\0", b"\xff", b"\x01\0\0\0", b"frcache1"],
};

/// Runs [`handed_over::states`].
pub static HANDED_OVER: Target = Target {
    name: "handed_over",
    body: handed_over::states,
    seeds: handed_over::seeds,
    words: &[b"sessn. 1", b"tickets1", b"\0\0\0\0", b"\xff\xff\xff\xff"],
};

/// Runs [`message_boxes::message`].
pub static MESSAGE_BOX: Target = Target {
    name: "message_box",
    body: message_boxes::message,
    seeds: message_boxes::seeds,
    words: &[b"\x80\x80\x80\x80", b"\xff\xff\x03", b"127.0.0.1:443", b"\0\0\0\0"],
};

/// Runs [`sessions::session`].
pub static SESSION: Target = Target {
    name: "session",
    body: sessions::session,
    seeds: first_bytes,
    words: &[
        b"\x16\x03\x01\0",
        b"\x16\x03\x03\0\x01",
        b"\x14\x03\x03\0\x01\x01",
        b"\x15\x03\x03\0\x02\x02",
        b"\x17\x03\x03",
        b"\0\0",
        b"\xff\xff",
        b"\0\x2b\0\x03\x02\x03\x04",
        b"\0\x33",
        b"\0\x0d",
        b"\0\x29",
    ],
};

/// The bytes that clients begin a session with, and what may come behind them.
fn first_bytes() -> Vec<Vec<u8>> {
    let hellos: [&[u8]; 2] = [
        include_bytes!("../../crates/tls/tests/fixtures/client-hello-tls12.bin"),
        include_bytes!("../../crates/tls/tests/fixtures/client-hello-tls13.bin"),
    ];
    let more: [(u8, &[u8]); 3] = [(0, b""), (0x83, b"\x14\x03\x03\0\x01\x01"), (0x29, b"\x15\x03\x03\0\x02\x01\0")];
    let clients = more.iter().flat_map(|(options, more)| hellos.map(|hello| [&[*options], hello, more].concat()));
    clients.chain(servers_first_bytes()).collect()
}

/// The answers of servers: a ServerHello of each version with a certificate behind it that is none, an alert, and HTTP.
fn servers_first_bytes() -> [Vec<u8>; 4] {
    let hello = |suite: [u8; 2], extensions: &[u8]| {
        let extensions = [&[0, extensions.len() as u8], extensions].concat();
        let body = [&[3, 3][..], &[7; 32], &[0], &suite, &[0], &extensions].concat();
        let message = [&[2, 0, 0, body.len() as u8][..], &body, b"\x0b\0\0\x0a\0\0\x07\0\0\x040\x02\x05\0"].concat();
        [&[0x45, 22, 3, 3, 0, message.len() as u8][..], &message].concat()
    };
    [
        hello([0xc0, 0x2b], b"\xff\x01\0\x01\0\0\x17\0\0"),
        hello([0x13, 0x01], b"\0\x2b\0\x02\x03\x04\0\x33\0\x04\0\x1d\0\0"),
        b"\x40\x15\x03\x03\0\x02\x02\x28".to_vec(),
        b"\x41HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
    ]
}

/// Runs [`conversations::conversation`].
pub static CONVERSATION: Target = Target {
    name: "conversation",
    body: conversations::conversation,
    seeds: || {
        // A client and a server in turns, then data in both directions, and both ends.
        let turns = b"\x02\x03\x02\x03\x02\x0c\x0d\x03\x02\x15\x0a\x06\x03\x07\x02";
        // The same in small pieces, with data between the messages behind the handshake.
        let pieces = b"\x02\x29\x39\xf9\x20\x40\xf8\xf8\x03\x14\x0c\x0e\x0e\x38\x14\x38\xa4\x29\x0d\x38\x02";
        (0..4).flat_map(|options| [&turns[..], pieces].map(|text| [&[options], text, text].concat())).collect()
    },
    words: &[b"\x02\x03", b"\x0e", b"\x0f", b"\x10\x14", b"\x11\x15", b"\x06", b"\x07", b"\xfc", b"\xfd"],
};

/// A head as the cache writes it, so that the seeds follow its format.
fn stored_heads() -> Vec<Vec<u8>> {
    let head = freerun_cache::record::Head {
        key: "http://a/b".into(),
        status: 200,
        reason: "OK".into(),
        fields: vec![("A".into(), "b".into()), ("Cache-Control".into(), "max-age=1".into())],
        tags: vec!["tag".into()],
        body: 5,
        ..Default::default()
    };
    let Ok(bytes) = head.encode() else { return Vec::new() };
    [0, 1].map(|options| [&[options], &bytes[..], b"hello"].concat()).to_vec()
}

/// Runs [`caches::cache_control`].
pub static CACHE_CONTROL: Target = Target {
    name: "cache_control",
    body: caches::cache_control,
    seeds: || {
        owned(&[
            b"\x00max-age=100, s-maxage=\"5\"\n\x03Age 3\n\x01Sun, 06 Nov 2094 08:49:37 GMT",
            b"\x00no-cache=\"a, b\", private=c, stale-if-error=5\n\x06a, b\n\x02@1900000000",
            b"\x05Sun, 06 Nov 1994 08:49:37 GMT\n\x07a b c\n\x00must-understand, no-store",
        ])
    },
    words: &[
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
};

/// Runs [`hellos::client_hello`].
pub static CLIENT_HELLO: Target = Target {
    name: "client_hello",
    body: hellos::client_hello,
    seeds: recorded_hellos,
    words: &[
        b"\x16\x03\x01",
        b"\x15\x03\x03\0\x02",
        b"\0\0",
        b"\0\x01",
        b"\x01\0\0",
        b"\xff\xff",
        b"\0\x10\0\x05\0\x03\x02h2",
        b"\0\0\0\x08\0\x06\0\0\x03a.b",
        b"\0\x2b\0\x03\x02\x03\x04",
        b"\0\x0a\0\x04\0\x02\0\x1d",
        b"\0\x33\0\x02\0\0",
        b"\0\x29",
        b"\0\x2a\0\0",
        b"\x0a\x0a\0\0",
    ],
};

/// The hellos of clients, as the tests of proto have them, and a hello of SSLv2.
fn recorded_hellos() -> Vec<Vec<u8>> {
    let recorded = [
        include_str!("../../crates/proto/src/tls/samples/openssl.hex"),
        include_str!("../../crates/proto/src/tls/samples/openssl-tls12.hex"),
        include_str!("../../crates/proto/src/tls/samples/openssl-four-records.hex"),
        include_str!("../../crates/proto/src/tls/samples/curl.hex"),
        include_str!("../../crates/proto/src/tls/samples/go.hex"),
        include_str!("../../crates/proto/src/tls/samples/node.hex"),
    ];
    let mut seeds = owned(&[b"\x01\x80\x2e\x01\x03\x01\0\x15\0\0\0\x10\x01\0\x80\0\0\x2f"]);
    for (number, hex) in recorded.into_iter().enumerate() {
        let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let bytes = digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8));
        seeds.push(std::iter::once(number as u8 * 3).chain(bytes).collect());
    }
    seeds
}

/// Runs [`tls::cipher_string`].
pub static CIPHER_STRING: Target = Target {
    name: "cipher_string",
    body: tls::cipher_string,
    seeds: || {
        owned(&[
            b"\x00HIGH:!aNULL:!MD5:@STRENGTH",
            b"\x00DEFAULT@SECLEVEL=4:-AES:+kRSA+AES128:AES128-SHA",
            b"\x01ALL:COMPLEMENTOFALL,SUITEB128;kEECDH+ECDSA+AES128 -ALL +ALL",
            b"\x06TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256",
            b"\x0aX25519:?P-256/*secp521r1:X448",
            b"\x1eSessionTicket,-KTLS, +Compression",
            b"\x12-ALL,TLSv1.2",
            b"\x2aRSA+SHA256:rsa_pss_rsae_sha256:?x",
        ])
    },
    words: &[
        b":",
        b"+",
        b"-",
        b"!",
        b"@STRENGTH",
        b"@SECLEVEL=",
        b",",
        b" ",
        b"ALL",
        b"HIGH",
        b"ECDHE",
        b"kRSA",
        b"aNULL",
        b"AES256",
        b"AESGCM",
        b"SHA384",
        b"DEFAULT",
        b"COMPLEMENTOFDEFAULT",
        b"ECDHE-RSA-AES128-GCM-SHA256",
    ],
};

/// Runs [`acme_state::acme_state`].
pub static ACME_STATE: Target = Target {
    name: "acme_state",
    body: acme_state::acme_state,
    seeds: acme_state::seeds,
    words: &[
        b"freerun-acme 1\n",
        b"uri ",
        b"identifiers ",
        b"key ",
        b"sha256 ",
        b"\n",
        b"-----BEGIN PRIVATE KEY-----\n",
        b"-----END PRIVATE KEY-----\n",
        b"-----BEGIN CERTIFICATE-----\n",
        b"-----END CERTIFICATE-----\n",
    ],
};

/// Runs [`certificates::certificates`].
pub static CERTIFICATES: Target = Target {
    name: "certificates",
    body: certificates::certificates,
    seeds: certificates_and_the_like,
    words: &[
        b"\x30\x00",
        b"\x31\x00",
        b"\x30\x80",
        b"\x30\x84\xff\xff\xff\xff",
        b"\x05\x00",
        b"\x02\x01\x00",
        b"\x02\x01\x80",
        b"\x06\x03\x55\x04\x03",
        b"\x06\x03\x55\x1d\x11",
        b"\x0c\x01/",
        b"\x82\x01*",
        b"\x01\x01\xff",
        b"\x17\x0d210101000000Z",
        b"\x18\x0f21200101000000Z",
        b"\xa0\x03\x02\x01\x02",
        b"-----BEGIN CERTIFICATE-----\n",
        b"-----END CERTIFICATE-----\n",
        b"-----BEGIN X509 CRL-----\n",
        b"-----BEGIN TRUSTED CERTIFICATE-----\n",
    ],
};

/// Certificates, texts, lists and responses, each with the byte that says what it is.
fn certificates_and_the_like() -> Vec<Vec<u8>> {
    let mut seeds = owned(&[b"\x06\x30\x06\x02\x01\x17\x02\x01\x05"]);
    let mut add = |option: u8, bytes: &[u8]| seeds.push([&[option], bytes].concat());
    let names = [
        "leaf of root",
        "int1",
        "leaf of int1",
        "root",
        "self signing with ids",
        "names good",
        "server only",
        "v1 leaf",
    ];
    for der in certificates::ders(&names) {
        add(0x20, &der);
        add(0xc2, &der);
    }
    for name in ["root", "crl int1 leaf", "root trusted any", "crl root url leaf"] {
        add(1, certificates::block(name).as_bytes());
    }
    for response in certificates::responses() {
        add(5, &response);
    }
    seeds
}

/// Runs [`hpack::blocks`]. Each block of an input begins with a byte that says how long it is; the first examples come
/// from RFC 7541, appendix C.
pub static HPACK: Target = Target {
    name: "hpack",
    body: hpack::blocks,
    seeds: || {
        owned(&[
            b"\x47\x11\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x0c\x82\x86\x84\xbe\x58\x86\xa8\xeb\
              \x10\x64\x9c\xbf\x18\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\
              \xbf",
            b"\x44\x36\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\
              \x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3\x08\
              \x48\x83\x64\x0e\xff\xc1\xc0\xbf",
            b"\xa2\x14\x3f\x45\x40\x01a\x01b\x10\x08password\x06secret\x09\x20\x3f\x09\x04\x0c/sample/path\xbe",
            // A long value, and one byte for each time that it comes again.
            b"\xff\x70\x44\x7f\x2100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
              00000000000000000000000000000000000000000000000000\x10\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbe\xbe",
        ])
    },
    words: &[
        b"\x82",
        b"\xbe",
        b"\xbf\xbe",
        b"\xff\x00",
        b"\x20",
        b"\x3f\xe1\x1f",
        b"\x3f\x45",
        b"\x40\x01a\x01b",
        b"\x44\x83\x60\x7f\xff",
        b"\x0f\x10\x02de",
        b"\x7e\x01c",
        b"\x8a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x7f\x80\x80\x80\x00",
    ],
};

/// Every target.
pub static ALL: [&Target; 32] = [
    &expressions::EXPRESSION,
    &log_lines::LOG_LINE,
    &field_heads::FIELD_HEAD,
    &REQUEST_HEAD,
    &CHUNKED,
    &REQUESTS,
    &URI,
    &RANGE,
    &CONFIGURATION,
    &PROXY_HEADER,
    &RESPONSE,
    &FASTCGI,
    &UWSGI,
    &SCGI,
    &MEMCACHED,
    &RECORD,
    &CACHE_CONTROL,
    &CLIENT_HELLO,
    &CIPHER_STRING,
    &HANDED_OVER,
    &MESSAGE_BOX,
    &SESSION,
    &CERTIFICATES,
    &ACME_STATE,
    &telemetry::TELEMETRY,
    &CONVERSATION,
    &HPACK,
    &http1::HTTP1,
    &http2::HTTP2,
    &qpack::QPACK,
    &quic::QUIC,
    &http3::HTTP3,
];
