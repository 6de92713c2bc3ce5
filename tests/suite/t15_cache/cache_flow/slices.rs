//! `slice` with a cache: parts of a response that become stale, and servers that answer with something else.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use freerun_testkit::http2::Http2;
use freerun_testkit::{AnsweringUpstream, ReceivedRequest, TestServer, TestUpstream, eventually, require};

use super::{said, serve, settled};

const SLICE: usize = 1024;
const WHOLE: usize = 100 * SLICE;

/// The asked part of a body, or all of it if `refuses` says so.
fn answer(request: &ReceivedRequest, fields: &str, refuses: bool) -> Vec<u8> {
    let body = vec![b'x'; WHOLE];
    let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let part = range.filter(|_| !refuses).map(|(begin, last)| {
        let (begin, last): (usize, usize) = (begin.parse().expect("a number"), last.parse().expect("a number"));
        (begin, last.min(WHOLE - 1))
    });
    let head = match part {
        Some((begin, last)) => format!("206 Partial Content\r\nContent-Range: bytes {begin}-{last}/{WHOLE}"),
        None => "200 OK".to_owned(),
    };
    let body = part.map_or(&body[..], |(begin, last)| &body[begin..=last]);
    let head = format!("HTTP/1.1 {head}\r\n{fields}\r\nETag: \"a\"\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn sliced(origin: &AnsweringUpstream, lines: &str) -> TestServer {
    sliced_by(SLICE, origin, lines, "")
}

/// A server whose responses come in slices of this size; `more` are further lines of it.
fn sliced_by(slice: usize, origin: &AnsweringUpstream, lines: &str, more: &str) -> TestServer {
    serve(
        &format!(
            "location / {{ slice {slice}; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; {lines}
             proxy_pass http://{}; }} {more}",
            origin.address()
        ),
        "",
    )
}

fn stored(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(stored(&path)),
            path if entry.file_name().len() == 32 => found.push(path),
            _ => {}
        }
    }
    found
}

#[test]
fn a_stale_slice_is_asked_for_as_a_slice() {
    if !require::freerun() {
        return;
    }
    let (refuses, fields) = (Arc::new(AtomicBool::new(false)), "Cache-Control: max-age=1, stale-while-revalidate=1000");
    let refusal = refuses.clone();
    let origin = TestUpstream::answering(move |request| answer(request, fields, refusal.load(SeqCst)));
    for lines in [
        "proxy_cache_background_update on; proxy_cache_use_stale updating;",
        "proxy_cache_background_update on;",
        "proxy_cache_use_stale updating;",
    ] {
        refuses.store(false, SeqCst);
        let server = sliced(&origin, lines);
        let get = || {
            let response = server.get_with("/f", "Range: bytes=1000-1100\r\n");
            assert_eq!((response.status, response.body.len()), (206, 101), "{lines}");
            said(&response).0
        };
        get();
        settled(&server);
        eventually("a slice is stale", || ["STALE", "EXPIRED"].contains(&get().as_str()));
        settled(&server);
        let asked = origin.take_requests();
        for request in &asked {
            let range = request.header("range").unwrap_or("none").to_owned();
            assert!(["bytes=0-1023", "bytes=1024-2047"].contains(&range.as_str()), "{range} with {lines}");
        }
        assert!(asked.len() > 2, "{lines}");
        let longest =
            stored(&server.path("cache")).iter().map(|path| fs::metadata(path).map_or(0, |file| file.len())).max();
        assert!(longest.is_some_and(|longest| longest < 2 * SLICE as u64), "{longest:?} with {lines}");

        // A server that sends the whole response now does not put it in the place of a slice.
        refuses.store(true, SeqCst);
        eventually("the server is asked in vain", || {
            // Without background updates the client's response may end before the slice that is another one.
            let mut client = server.connect();
            client.send("GET /f HTTP/1.1\r\nHost: a\r\nRange: bytes=1000-1100\r\nConnection: close\r\n\r\n");
            client.rest();
            !origin.take_requests().is_empty()
        });
        settled(&server);
        let longest =
            stored(&server.path("cache")).iter().map(|path| fs::metadata(path).map_or(0, |file| file.len())).max();
        assert!(longest.is_some_and(|longest| longest < 2 * SLICE as u64), "{longest:?} with {lines}");
    }
}

/// The first slice, or a later one that is wrong in the way that the target names.
fn answer_wrong_later(request: &ReceivedRequest) -> Vec<u8> {
    let is_first = request.header("range").is_some_and(|range| range.starts_with("bytes=0-"));
    let answer = |refuses| String::from_utf8(answer(request, "X: y", refuses)).expect("text");
    let text = match request.target() {
        _ if is_first => answer(false),
        "/etag" => answer(false).replace("\"a\"", "\"b\""),
        "/total" => answer(false).replace(&format!("/{WHOLE}"), &format!("/{}", WHOLE + 1)),
        "/shifted" => answer(false).replace("bytes ", "bytes 1"),
        _ => answer(true),
    };
    text.into_bytes()
}

/// Targets of [`answer_wrong_later`], and what the log says of them.
const WRONG: [(&str, &str); 4] = [
    ("/etag", "etag mismatch in slice response"),
    ("/total", "etag mismatch in slice response"),
    ("/shifted", "unexpected range in slice response"),
    ("/whole", "unexpected status code 200 in slice response"),
];

#[test]
fn a_first_slice_that_is_another_one_is_an_error() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| {
        let head = format!("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {SLICE}-{}/{WHOLE}", 2 * SLICE - 1);
        let body = "x".repeat(if request.line().starts_with("HEAD") { 0 } else { SLICE });
        format!("{head}\r\nETag: \"a\"\r\nContent-Length: {SLICE}\r\n\r\n{body}").into_bytes()
    });
    let server = sliced(&origin, "");
    assert_eq!(server.get("/first").status, 502);
    server.logs("unexpected range in slice response: 1024-2048, expected: 0-1024");
}

/// The first slice is asked for because of the validator or the ranges; the client wants bytes of a later one alone.
#[test]
fn a_later_slice_that_is_another_one_is_an_error_if_nothing_was_sent() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(answer_wrong_later);
    let more = "http2 on; error_page 502 =503 /sorry; location = /sorry { return 200 sorry; }";
    let server = sliced_by(SLICE, &origin, "", more);
    for (target, line) in WRONG {
        for fields in [&[("range", "bytes=-100")][..], &[("range", "bytes=5000-5099"), ("if-range", "\"a\"")]] {
            let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let response = server.get_with(target, &lines);
            assert_eq!((response.status, response.text().as_str()), (503, "sorry"), "{target} {lines}");
            let answer = Http2::new(server.connect()).get_with(target, fields);
            assert_eq!((answer.status, answer.text().as_str()), (503, "sorry"), "{target} {lines}");
        }
        server.logs(line);
    }
    let mut client = server.connect();
    client.send("HEAD /etag HTTP/1.1\r\nHost: a\r\nRange: bytes=-100\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 206, "no later slice is asked for");
}

#[test]
fn a_later_slice_that_is_another_one_cuts_what_was_sent() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(answer_wrong_later);
    for slice in [4 * SLICE, SLICE] {
        let server = sliced_by(slice, &origin, "", "http2 on;");
        for (target, line) in WRONG {
            let mut client = server.connect();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
            let (bytes, _) = client.rest();
            let text = String::from_utf8(bytes).expect("text");
            // The smaller slice may still be held back.
            if slice > SLICE || !text.starts_with("HTTP/1.1 502 ") {
                assert!(text.contains(&format!("Content-Length: {WHOLE}\r\n")), "{target}: {text}");
                assert!(text.ends_with(&format!("\r\n\r\n{}", "x".repeat(slice))), "{target}: {text}");
            }
            server.logs(line);
            let answer = Http2::new(server.connect()).get(target);
            assert_eq!((answer.status, answer.body().len()), (200, slice), "{target}");
            assert!(!answer.is_whole(), "{target}");
        }
    }
}

#[test]
fn files_about_the_cache_are_private() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| answer(request, "Cache-Control: max-age=1000|Cache-Tag: a", false));
    let server = sliced(&origin, "proxy_cache_purge $arg_purge;");
    server.get_with("/f", "Range: bytes=0-1\r\n");
    settled(&server);
    server.send("GET /f*?purge=1 HTTP/1.1\r\nHost: a\r\nCache-Tag: a\r\n\r\n");
    let folder = server.path("cache");
    for entry in fs::read_dir(&folder).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().expect("a file").permissions()) & 0o777;
        assert!(!name.starts_with(".freerun-") || mode == 0o600, "{name} has {mode:o}");
    }
}
