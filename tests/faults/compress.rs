//! What is packed while its source stands still.

use crate::Disk;
use freerun_testkit::fuse::Op;
use freerun_testkit::{Setup, eventually, require};
use std::io::Read;

#[test]
fn what_is_there_reaches_the_client_while_the_rest_hangs() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    disk.site.file("page.html", "the beginning of a page\n".repeat(10));
    let lines = "types { text/html html; } gzip on; brotli on; zstd on;
                 location /identity/ { alias @ROOT@/; add_after_body /slow/f1; } location /gzip/ { alias @ROOT@/; add_after_body /slow/f2; }
                 location /br/ { alias @ROOT@/; add_after_body /slow/f3; } location /zstd/ { alias @ROOT@/; add_after_body /slow/f4; }";
    let server = Setup::server(&disk.site, lines).freerun();
    for coding in ["identity", "gzip", "br", "zstd"] {
        disk.fixture.control().hang(Op::Open, "");
        let mut client = server.connect();
        client.send(format!("GET /{coding}/page.html HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {coding}\r\n\r\n"));
        eventually("the file hangs", || disk.fixture.control().waiting() > 0);
        // All of the beginning can be unpacked from what comes before the rest.
        let wanted = "the beginning of a page\n".repeat(10);
        client.until(|bytes| begins(coding, bytes, wanted.len()) == wanted.as_bytes());
        disk.fixture.control().clear();
        let response = client.response();
        assert_eq!(response.status, 200);
        assert_eq!(begins(coding, &response.body, 10_000 + wanted.len()).len(), 10_000 + wanted.len(), "{coding}");
    }
}

/// The first bytes of a body, of which a part may be there: with the head and the sizes of chunks before it, or without.
fn begins(coding: &str, bytes: &[u8], len: usize) -> Vec<u8> {
    let body = match bytes.windows(4).position(|end| end == b"\r\n\r\n") {
        Some(end) if bytes.starts_with(b"HTTP/") => unchunked(&bytes[end + 4..]),
        _ => bytes.to_vec(),
    };
    let mut reader: Box<dyn Read> = match coding {
        "gzip" => Box::new(flate2::read::GzDecoder::new(&body[..])),
        "br" => Box::new(brotli_decompressor::Decompressor::new(&body[..], 4096)),
        "zstd" => match zstd::Decoder::new(&body[..]) {
            Ok(decoder) => Box::new(decoder),
            Err(_) => return Vec::new(),
        },
        _ => Box::new(&body[..]),
    };
    let mut out = Vec::new();
    let mut byte = [0];
    while out.len() < len && reader.read_exact(&mut byte).is_ok() {
        out.push(byte[0]);
    }
    out
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|end| end == b"\r\n") {
        let size =
            std::str::from_utf8(&bytes[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok()).unwrap_or(0);
        bytes = &bytes[end + 2..];
        body.extend_from_slice(&bytes[..size.min(bytes.len())]);
        bytes = bytes.get(size + 2..).unwrap_or_default();
    }
    body
}
