//! `mp4` and `flv`: parts of movies, byte for byte.

use crate::harness::{compare, get, head, request};
use crate::site::{MTIME, site};
use freerun_testkit::{Movie, Setup, movie};

#[test]
fn parts_of_movies() {
    let site = site();
    let kinds =
        [("plain", Movie::default()), ("last", Movie { index_last: true, wide: true, extras: true, uniform: false })];
    for (name, kind) in kinds {
        site.dated(&format!("{name}.mp4"), movie(kind), MTIME);
    }
    let edited = movie(Movie { extras: true, ..Movie::default() });
    site.dated("short.mp4", &edited[..edited.len() - 100], MTIME);
    site.dated("trailed.mp4", [&edited[..], b"more"].concat(), MTIME).dated("edited.mp4", edited, MTIME);
    site.dated("broken.mp4", "this is no movie at all", MTIME).dated("empty.mp4", "", MTIME);
    let lines = "
        location / { mp4; }
        location /key/ { mp4; mp4_start_key_frame on; alias @ROOT@/; }
        location /small/ { mp4; mp4_max_buffer_size 1k; mp4_buffer_size 512; alias @ROOT@/; }
        location /off/ { alias @ROOT@/; }
    ";
    let mut cases = Vec::new();
    // nginx leaves data out where a track's part lies in a single chunk, takes too much where all samples have one size, and
    // writes a run of no samples where the part ends with a run: those parts are not compared.
    for name in ["plain", "last", "edited", "trailed", "short"] {
        for args in ["?start=0", "?start=0.0", "?start=0&end=0"] {
            cases.extend([get(&format!("/{name}.mp4{args}")), get(&format!("/small/{name}.mp4{args}"))]);
        }
        cases.push(get(&format!("/key/{name}.mp4?start=0")).field("Range: bytes=-100"));
        cases.push(head(&format!("/{name}.mp4?start=0")));
    }
    for name in ["plain", "last"] {
        for args in [
            "",
            "?",
            "?start=0",
            "?start=1.5",
            "?start=1.5&end=2.75",
            "?start=2",
            "?start=2&end=4",
            "?start=0.5",
            "?start=0&end=100",
            "?end=3",
            "?start=6",
            "?start=4.99",
            "?start=9.98",
            "?start=9.984",
            "?start=100",
            "?start=4&end=7",
            "?start=3&end=2",
            "?start=1&end=1",
            "?start=1.23456",
            "?start=1.5.5",
            "?start=x",
            "?start=",
            "?start=-1",
            "?start=1&end=x",
            "?start=.5",
            "?start=1.",
            "?end=0.95",
        ] {
            cases.push(get(&format!("/{name}.mp4{args}")));
        }
        for args in ["?start=1.5", "?start=1.5&end=3", "?start=2.0", "?start=0.3", "?start=4.95", "?start=0&end=2.1"] {
            cases.push(get(&format!("/key/{name}.mp4{args}")));
        }
    }
    cases.extend([
        head("/plain.mp4?start=1"),
        get("/plain.mp4?start=1").field("Range: bytes=0-9"),
        get("/plain.mp4?start=1").field("Range: bytes=2000-9999"),
        get("/plain.mp4?start=1").field("Range: bytes=-10"),
        get("/plain.mp4?start=1").field("Range: bytes=99999-"),
        get("/plain.mp4").field("Range: bytes=0-9"),
        get("/plain.mp4?start=1").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
        get("/small/plain.mp4?start=1"),
        get("/small/plain.mp4"),
        get("/off/plain.mp4?start=1"),
        get("/broken.mp4?start=1"),
        get("/empty.mp4?start=1"),
        get("/none.mp4?start=1"),
        get("/broken.mp4"),
        request("POST", "/plain.mp4?start=1").field("Content-Length: 0"),
    ]);
    compare(&Setup::server(&site, lines), cases);
}

/// The movie with these numbers in its table of key frames, which has as many.
fn with_keys(mut movie: Vec<u8>, keys: &[u32]) -> Vec<u8> {
    let name = movie.windows(4).position(|bytes| bytes == b"stss").expect("a table of key frames");
    let rows = name + 12;
    assert_eq!(movie[rows - 4..rows], (keys.len() as u32).to_be_bytes());
    for (at, key) in keys.iter().enumerate() {
        movie[rows + 4 * at..][..4].copy_from_slice(&key.to_be_bytes());
    }
    movie
}

/// Key frames that lie anywhere: none in the part, none before it, the first sample none.
#[test]
fn key_frames_of_parts() {
    let site = site();
    let kinds: [&[u32]; 5] =
        [&[1, 2, 3, 4, 5], &[2, 3, 4, 5, 6], &[11, 12, 13, 30, 45], &[46, 47, 48, 49, 50], &[1, 46, 47, 48, 49]];
    for (number, keys) in kinds.iter().enumerate() {
        site.dated(&format!("{number}.mp4"), with_keys(movie(Movie::default()), keys), MTIME);
    }
    let lines = "
        location / { mp4; }
        location /key/ { mp4; mp4_start_key_frame on; alias @ROOT@/; }
    ";
    let mut cases = Vec::new();
    for number in 0..kinds.len() {
        for args in [
            "?start=0.05",
            "?start=1.5",
            "?start=2&end=4",
            "?start=1.5&end=2.75",
            "?start=0.5",
            "?start=4.95",
            "?end=3",
        ] {
            cases.extend([get(&format!("/{number}.mp4{args}")), get(&format!("/key/{number}.mp4{args}"))]);
        }
    }
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn flash_videos() {
    let site = site();
    let rest: String = (0..500).map(|number| format!("{number:04}")).collect();
    site.dated("a.flv", format!("FLV\u{1}\u{5}\0\0\0\u{9}\0\0\0\0{rest}"), MTIME);
    site.dated("big.flv", rest.repeat(40), MTIME);
    let lines = "location ~ \\.flv$ { flv; }";
    let mut cases = Vec::new();
    for name in ["a", "big"] {
        for start in ["", "0", "1", "13", "50", "1999", "2012", "2013", "2014", "99999999999999999999", "x", "-1", "5x"]
        {
            cases.push(get(&format!("/{name}.flv?start={start}")));
        }
        cases.push(get(&format!("/{name}.flv")));
        cases.push(head(&format!("/{name}.flv?start=100")));
        cases.push(get(&format!("/{name}.flv?start=100")).field("Range: bytes=5-20"));
    }
    cases.push(get("/none.flv?start=1"));
    cases.push(request("POST", "/a.flv?start=1").field("Content-Length: 0"));
    compare(&Setup::server(&site, lines), cases);
}
