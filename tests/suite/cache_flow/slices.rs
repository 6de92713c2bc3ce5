//! `slice` with a cache: parts of a response that become stale, and servers that answer with something else.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use freerun_testkit::{Answering, Received, Server, Upstream, eventually, require};

use super::{said, serve, settled};

const SLICE: usize = 1024;
const WHOLE: usize = 100 * SLICE;

/// The asked part of a body, or all of it if `refuses` says so.
fn answer(request: &Received, fields: &str, refuses: bool) -> Vec<u8> {
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

fn sliced(origin: &Answering, lines: &str) -> Server {
    serve(
        &format!(
            "location / {{ slice {SLICE}; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; {lines}
             proxy_pass http://{}; }}",
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
    let origin = Upstream::answering(move |request| answer(request, fields, refusal.load(SeqCst)));
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

#[test]
fn a_slice_that_is_another_one_is_an_error_that_the_client_sees() {
    if !require::freerun() {
        return;
    }
    // Each slice of `/first` is the second one, and each of `/later` the first one.
    let origin = Upstream::answering(|request| {
        let begin = if request.target() == "/first" { SLICE } else { 0 };
        let (last, body) = (begin + SLICE - 1, "x".repeat(SLICE));
        let head = format!("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {begin}-{last}/{WHOLE}");
        format!("{head}\r\nETag: \"a\"\r\nContent-Length: {SLICE}\r\n\r\n{body}").into_bytes()
    });
    let server = sliced(&origin, "");
    assert_eq!(server.get("/first").status, 502);
    server.logs("unexpected range in slice response: 1024-2048, expected: 0-1024");

    let mut client = server.connect();
    client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    let (answer, _) = client.rest();
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains(&format!("Content-Length: {WHOLE}\r\n")),
        "{text}"
    );
    assert!(text.ends_with(&"x".repeat(SLICE)), "the first slice is passed on");
    server.logs("unexpected range in slice response: 0-1024, expected: 1024-2048");
}

#[test]
fn files_about_the_cache_are_private() {
    if !require::freerun() {
        return;
    }
    let origin = Upstream::answering(|request| answer(request, "Cache-Control: max-age=1000|Cache-Tag: a", false));
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
