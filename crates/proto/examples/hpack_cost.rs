//! Prints what HPACK costs for usual requests and responses: nanoseconds, bytes on the wire, and bytes of memory that a
//! connection keeps. `cargo run --release -p freerun-proto --example hpack_cost`.
//!
//! With the name of a case and a number, only that case is run, so many times: for a program that counts instructions.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use freerun_proto::h2::hpack::{BlockLimits, DecodedField, Decoder, Encoder, FieldSink, Indexing};

const LIMITS: BlockLimits = BlockLimits { most_string: 8192, most_total: 32768, most_fields: 1000 };

const CURL: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "www.example.com"),
    (":path", "/assets/app.5f2c1e.js"),
    ("user-agent", "curl/7.88.1"),
    ("accept", "*/*"),
];

const CHROME: &[(&str, &str)] = &[
    (":method", "GET"),
    (":authority", "www.example.com"),
    (":scheme", "https"),
    (":path", "/assets/app.5f2c1e.js?v=20261121"),
    ("sec-ch-ua", "\"Chromium\";v=\"131\", \"Google Chrome\";v=\"131\", \"Not?A_Brand\";v=\"99\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("upgrade-insecure-requests", "1"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
    ),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-user", "?1"),
    ("sec-fetch-dest", "document"),
    ("referer", "https://www.example.com/some/page?with=args"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-US,en;q=0.9"),
    ("cookie", "session=0123456789abcdef0123456789abcdef"),
    ("cookie", "_ga=GA1.2.1234567890.1234567890"),
    ("priority", "u=0, i"),
];

/// A response of a file, without its status.
const RESPONSE: [(&str, &str); 7] = [
    ("Server", "freerun/0.1.0"),
    ("Date", "Tue, 14 Nov 2023 22:13:20 GMT"),
    ("Content-Type", "application/javascript"),
    ("Content-Length", "10240"),
    ("Last-Modified", "Mon, 13 Nov 2023 21:12:19 GMT"),
    ("ETag", "\"65529133-2800\""),
    ("Accept-Ranges", "bytes"),
];

/// Takes fields as a server would, which looks at each of them.
#[derive(Default)]
struct Sum(usize);

impl FieldSink for Sum {
    #[inline]
    fn field(&mut self, field: DecodedField<'_>) {
        self.0 += field.name.len() + field.value.len() + field.id as usize + usize::from(field.pseudo.is_some());
    }
}

/// A request as clients encode it: everything goes into the table but, with some clients, the path.
fn request(encoder: &mut Encoder, fields: &[(&str, &str)], path: Indexing) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        let static_index = match (*name, *value) {
            (":method", "GET") => 0x82,
            (":scheme", "https") => 0x87,
            _ => {
                let indexing = if *name == ":path" { path } else { Indexing::Incremental };
                encoder.field_as(name.as_bytes(), value.as_bytes(), indexing, &mut out);
                continue;
            }
        };
        out.push(static_index);
    }
    out
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> usize {
    let mut sum = Sum::default();
    match decoder.decode(block, &LIMITS, &mut sum) {
        Ok(()) => sum.0,
        Err(error) => panic!("{error}"),
    }
}

fn response(encoder: &mut Encoder, fields: &[(&str, &str)], out: &mut Vec<u8>) {
    out.clear();
    encoder.begin(out);
    encoder.status(200, out);
    for (name, value) in fields {
        encoder.field(name.as_bytes(), value.as_bytes(), out);
    }
}

/// What is measured: its name, how many bytes a block has, and what is done each time.
type Case = (String, usize, Box<dyn FnMut()>);

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (name, fields, path) in [
        ("curl", CURL, Indexing::Without),
        ("chrome", CHROME, Indexing::Without),
        ("chrome-path", CHROME, Indexing::Incremental),
    ] {
        let mut encoder = Encoder::new();
        let first = request(&mut encoder, fields, path);
        let again = request(&mut encoder, fields, path);
        let mut decoder = Decoder::new(4096);
        decode(&mut decoder, &first);
        decode(&mut decoder, &again);
        println!("{name}: {} bytes of memory", decoder.heap_bytes() + size_of::<Decoder>());
        let block = first.clone();
        cases.push((
            format!("{name}-first"),
            first.len(),
            Box::new(move || {
                black_box(decode(&mut Decoder::new(4096), black_box(&block)));
            }),
        ));
        cases.push((
            format!("{name}-again"),
            again.len(),
            Box::new(move || {
                black_box(decode(&mut decoder, black_box(&again)));
            }),
        ));
    }
    let mut out = Vec::with_capacity(1024);
    response(&mut Encoder::new(), &RESPONSE, &mut out);
    cases.push((
        "response-first".into(),
        out.len(),
        Box::new(move || {
            response(&mut Encoder::new(), black_box(&RESPONSE), &mut out);
            black_box(&out);
        }),
    ));
    for (name, changing) in [("response-again", false), ("response-other-file", true)] {
        let mut out = Vec::with_capacity(1024);
        let mut encoder = Encoder::new();
        (0..3).for_each(|_| response(&mut encoder, &RESPONSE, &mut out));
        let mut number = 0u32;
        let mut tag = *b"\"65529133-2800\"";
        let mut run = move |len: &mut usize| {
            if changing {
                number += 1;
                tag[1..5].copy_from_slice(&[0, 4, 8, 12].map(|shift| b'a' + (number >> shift & 15) as u8));
            }
            let mut fields = RESPONSE;
            fields[5].1 = std::str::from_utf8(&tag).unwrap_or("");
            response(&mut encoder, black_box(&fields), &mut out);
            *len = out.len();
            black_box(&out);
            encoder.heap_bytes()
        };
        let mut len = 0;
        let memory = run(&mut len) + size_of::<Encoder>();
        println!("{name}: {memory} bytes of memory");
        cases.push((
            name.into(),
            len,
            Box::new(move || {
                black_box(run(&mut 0));
            }),
        ));
    }
    cases
}

/// Times a call: the best of several rounds, since other work on the machine only adds.
fn measure(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 50_000;
    (0..9).fold(f64::MAX, |best, _| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS))
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for (name, len, mut call) in cases() {
        match arguments.as_slice() {
            [only, times] if *only == name => (0..times.parse().unwrap_or(0u64)).for_each(|_| call()),
            [_, _] => {}
            _ => println!("{name:<24} {len:5} bytes {:8.1} ns", measure(call)),
        }
    }
}
