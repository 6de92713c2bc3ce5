//! `gzip`, `brotli`, `zstd`, packed files and `gunzip`: what `-t` says to broken ones, and what nginx cannot be compared in.

use brotli_decompressor::Decompressor as Unbrotli;
use freerun_testkit::{Kind, Response, Setup, Site, TestServer, check, require};
use std::io::{Read, Write};

/// The line, and what is said of it.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    ("gzip maybe;", "invalid value \"maybe\" in \"gzip\" directive, it must be \"on\" or \"off\""),
    ("gzip;", "invalid number of arguments in \"gzip\" directive"),
    ("gzip on off;", "invalid number of arguments in \"gzip\" directive"),
    ("gzip on; gzip off;", "\"gzip\" directive is duplicate"),
    ("gzip_comp_level 0;", "value must be between 1 and 9"),
    ("gzip_comp_level 10;", "value must be between 1 and 9"),
    ("gzip_comp_level x;", "\"gzip_comp_level\" directive invalid number"),
    ("gzip_min_length x;", "\"gzip_min_length\" directive invalid value"),
    ("gzip_min_length 1g;", "\"gzip_min_length\" directive invalid value"),
    ("gzip_min_length -1;", "\"gzip_min_length\" directive invalid value"),
    ("gzip_types;", "invalid number of arguments in \"gzip_types\" directive"),
    ("gzip_proxied;", "invalid number of arguments in \"gzip_proxied\" directive"),
    ("gzip_proxied maybe;", "invalid value \"maybe\""),
    ("gzip_vary x;", "invalid value \"x\" in \"gzip_vary\" directive, it must be \"on\" or \"off\""),
    ("gzip_disable;", "invalid number of arguments in \"gzip_disable\" directive"),
    ("gzip_disable \"(\";", "pcre2_compile() failed: missing closing parenthesis in \"(\""),
    ("gzip_http_version 1.2;", "invalid value \"1.2\""),
    ("gzip_http_version;", "invalid number of arguments in \"gzip_http_version\" directive"),
    ("gzip_buffers 4;", "invalid number of arguments in \"gzip_buffers\" directive"),
    ("gzip_buffers 0 4k;", "\"gzip_buffers\" directive invalid value"),
    ("gzip_buffers 4 x;", "\"gzip_buffers\" directive invalid value"),
    ("gzip_buffers 4 0;", "\"gzip_buffers\" directive invalid value"),
    ("gzip_window 3;", "\"gzip_window\" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k"),
    ("gzip_window 64k;", "\"gzip_window\" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k"),
    ("gzip_hash 256k;", "\"gzip_hash\" directive must be 512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k"),
    ("gzip_no_buffer x;", "invalid value \"x\" in \"gzip_no_buffer\" directive, it must be \"on\" or \"off\""),
    ("postpone_gzipping x;", "\"postpone_gzipping\" directive invalid value"),
    ("server { if ($host) { gzip on; } }", "\"gzip\" directive is not allowed here"),
    ("server { location / { if ($host) { gzip_types a; } } }", "\"gzip_types\" directive is not allowed here"),
];

/// The same for directives that Debian's nginx does not have of itself.
#[rustfmt::skip]
const REFUSED_HERE: &[(&str, &str)] = &[
    ("brotli x;", "invalid value \"x\" in \"brotli\" directive, it must be \"on\" or \"off\""),
    ("brotli_comp_level 12;", "value must be between 0 and 11"),
    ("brotli_comp_level -1;", "\"brotli_comp_level\" directive invalid number"),
    ("brotli_window 3k;", "\"brotli_window\" directive must be 1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 256k, 512k, 1m, 2m, 4m, 8m or 16m"),
    ("brotli_window 32m;", "\"brotli_window\" directive must be 1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 256k, 512k, 1m, 2m, 4m, 8m or 16m"),
    ("brotli_min_length x;", "\"brotli_min_length\" directive invalid value"),
    ("brotli_buffers 4;", "invalid number of arguments in \"brotli_buffers\" directive"),
    ("server { if ($host) { brotli on; } }", "\"brotli\" directive is not allowed here"),
    ("zstd x;", "invalid value \"x\" in \"zstd\" directive, it must be \"on\" or \"off\""),
    ("zstd_comp_level 0;", "value must be between 1 and 22"),
    ("zstd_comp_level 23;", "value must be between 1 and 22"),
    ("zstd_min_length x;", "\"zstd_min_length\" directive invalid value"),
    ("zstd_buffers 4;", "invalid number of arguments in \"zstd_buffers\" directive"),
    ("zstd_dict_file /tmp/d;", "\"zstd_dict_file\" directive is not supported"),
];

fn check_all(kind: Kind, table: &[(&str, &str)]) {
    let mut wrong = String::new();
    for (line, message) in table {
        let checked = check(kind, &format!("events {{ }}\nhttp {{\n{line}\n}}\n")).expect("it starts");
        let first = checked.stderr.lines().find(|line| line.contains("[emerg]")).unwrap_or_default();
        if !first.contains(&format!("{message} in ")) || !first.contains("nginx.conf:3") {
            wrong += &format!("{line}\n  wanted {message}\n  got    {first}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn broken_directives_are_refused() {
    if require::freerun() {
        check_all(Kind::under_test(), REFUSED);
        check_all(Kind::Freerun, REFUSED_HERE);
    }
}

/// The line, and what is said of it, where Debian's nginx has the module.
#[rustfmt::skip]
const REFUSED_FILES: &[(&str, &str)] = &[
    ("gunzip x;", "invalid value \"x\" in \"gunzip\" directive, it must be \"on\" or \"off\""),
    ("gunzip_buffers 1;", "invalid number of arguments in \"gunzip_buffers\" directive"),
    ("gzip_static maybe;", "invalid value \"maybe\""),
    ("gzip_static;", "invalid number of arguments in \"gzip_static\" directive"),
    ("server { location / { if ($host) { gunzip on; } } }", "\"gunzip\" directive is not allowed here"),
    ("server { location / { if ($host) { gzip_static on; } } }", "\"gzip_static\" directive is not allowed here"),
];

#[test]
fn broken_directives_about_packed_files_are_refused() {
    if require::freerun() {
        check_all(Kind::under_test(), REFUSED_FILES);
        check_all(
            Kind::Freerun,
            &[("brotli_static x;", "invalid value \"x\""), ("zstd_static x;", "invalid value \"x\"")],
        );
    }
}

fn text(len: usize) -> String {
    let lines = (0..).map(|number: u64| format!("line {} of a text\n", number * 7919 % 10_007));
    let mut text = String::new();
    for line in lines {
        text += &line;
        if text.len() >= len {
            break;
        }
    }
    text.truncate(len);
    text
}

fn unpacked(response: &Response) -> Vec<u8> {
    let mut out = Vec::new();
    let body = &response.body[..];
    match response.header("Content-Encoding") {
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut out).expect("it is gzip")),
        Some("br") => drop(Unbrotli::new(body, 4096).read_to_end(&mut out).expect("it is brotli")),
        Some("zstd") => drop(zstd::Decoder::new(body).expect("it is zstd").read_to_end(&mut out).expect("it is zstd")),
        _ => out.extend_from_slice(body),
    }
    out
}

fn ask(server: &TestServer, target: &str, accept: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {accept}\r\n\r\n"));
    client.response()
}

#[test]
fn the_client_chooses_the_coding_and_the_server_among_equals() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("t.html", text(3000))
        .file("p.html", "p")
        .file("p.html.zst", "zst")
        .file("p.html.br", "br")
        .file("p.html.gz", "gz");
    let server = Setup::server(
        &site,
        "types { text/html html; } gzip_vary on; zstd on; brotli on; gzip on; zstd_static on; brotli_static on; gzip_static on;
         location /nozstd/ { zstd off; zstd_static off; alias @ROOT@/; }
         location /levels/ { alias @ROOT@/; zstd_comp_level 22; zstd_types *; zstd_buffers 4 4k; }
         location /always/ { alias @ROOT@/; zstd_static always; }",
    )
    .run();
    for (accept, coding) in [
        ("gzip, br, zstd", "zstd"),
        ("zstd;q=0.5, br, gzip", "br"),
        ("zstd;q=0.5, br;q=0.4, gzip;q=0.6", "gzip"),
        ("zstd;q=0, br;q=0, gzip;q=0.1", "gzip"),
        ("zstd;q=0.001", "zstd"),
        ("gzip, br", "br"),
        ("gzip", "gzip"),
    ] {
        let response = ask(&server, "/t.html", accept);
        assert_eq!(response.header("Content-Encoding"), Some(coding), "{accept}");
        assert_eq!(response.header("Vary"), Some("Accept-Encoding"));
        assert_eq!(unpacked(&response), text(3000).as_bytes(), "{accept}");
        let file = ask(&server, "/p.html", accept);
        assert_eq!(file.header("Content-Encoding"), Some(coding), "{accept}");
        assert_eq!(file.header("Vary"), Some("Accept-Encoding"));
        assert_eq!(
            file.text(),
            if coding == "zstd" {
                "zst"
            } else if coding == "br" {
                "br"
            } else {
                "gz"
            }
        );
    }
    assert_eq!(ask(&server, "/nozstd/t.html", "zstd, gzip").header("Content-Encoding"), Some("gzip"));
    assert_eq!(unpacked(&ask(&server, "/levels/t.html", "zstd")), text(3000).as_bytes());
    assert_eq!(ask(&server, "/t.html", "identity").header("Content-Encoding"), None);
    assert_eq!(ask(&server, "/always/p.html", "identity").header("Content-Encoding"), Some("zstd"));
    assert_eq!(ask(&server, "/always/p.html", "br").header("Content-Encoding"), Some("br"), "rather what is accepted");
}

#[test]
fn packed_files_have_ranges() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("a.txt", "plain").file("a.txt.gz", "0123456789");
    let server = Setup::server(&site, "gzip_static on;").run();
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\nRange: bytes=2-4\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.text()), (206, "234".to_owned()));
    assert_eq!(response.header("Content-Encoding"), Some("gzip"));
    assert_eq!(response.header("Content-Range"), Some("bytes 2-4/10"));
    assert_eq!(ask(&server, "/a.txt", "gzip").header("Accept-Ranges"), Some("bytes"));
}

#[test]
fn bodies_of_all_sizes_come_back_whole() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let sizes = [1, 100, 32 * 1024, 32 * 1024 + 1, 200_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000];
    for size in sizes {
        site.file(&format!("{size}.html"), text(size));
    }
    site.file("tail.txt", "the end\n");
    let server = Setup::server(
        &site,
        "types { text/html html; } gzip on; gzip_min_length 0; brotli on; brotli_min_length 0; brotli_comp_level 4; zstd on; zstd_min_length 0;
         location /hard/ { gzip_comp_level 9; zstd_comp_level 12; alias @ROOT@/; }
         location /added/ { alias @ROOT@/; add_after_body /tail.txt; }",
    )
    .run();
    for size in sizes {
        for accept in ["gzip", "br", "zstd"] {
            let response = ask(&server, &format!("/{size}.html"), accept);
            assert_eq!(response.header("Content-Encoding"), Some(accept));
            assert!(unpacked(&response) == text(size).as_bytes(), "{size} {accept}");
            let added = ask(&server, &format!("/added/{size}.html"), accept);
            assert!(
                unpacked(&added) == format!("{}the end\n", text(size)).as_bytes(),
                "{size} {accept}, length unknown"
            );
        }
        for accept in ["gzip", "zstd"] {
            assert!(
                unpacked(&ask(&server, &format!("/hard/{size}.html"), accept)) == text(size).as_bytes(),
                "{size} {accept} hard"
            );
        }
    }
}

#[test]
fn the_ratio_is_told() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("t.html", "0123456789".repeat(100));
    let server = Setup::server(&site, "gzip on; brotli on; types { text/html html; }")
        .http("log_format r '$uri $gzip_ratio $brotli_ratio $zstd_ratio'; access_log @DIR@/access.log r;")
        .run();
    for accept in ["gzip", "br", "identity"] {
        assert_eq!(ask(&server, "/t.html", accept).status, 200);
    }
    let lines = server.access_lines(3);
    let ratio = |line: usize, field: usize| lines[line].split(' ').nth(field).map(str::to_owned).unwrap_or_default();
    assert!(ratio(0, 1).parse::<f64>().is_ok_and(|ratio| ratio > 10.0), "{lines:?}");
    assert!(ratio(1, 2).parse::<f64>().is_ok_and(|ratio| ratio > 10.0), "{lines:?}");
    assert_eq!((ratio(0, 2), ratio(1, 1), ratio(2, 1)), ("-".into(), "-".into(), "-".into()));
}

#[test]
fn large_bodies_go_to_the_pool_for_it() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("large.html", text(500_000)).file("small.html", text(1000));
    let lines = "types { text/html html; } location / { gzip on; } location = /status { status; }";
    let server = Setup::server(&site, lines).run();
    let served = || {
        let status = server.status();
        let pools = status["pools"].as_array().expect("pools").clone();
        pools.iter().find(|pool| pool["name"] == "(cpu)").and_then(|pool| pool["served"].as_u64()).expect("it is told")
    };
    assert_eq!(unpacked(&ask(&server, "/small.html", "gzip")), text(1000).as_bytes());
    assert_eq!(served(), 0);
    assert_eq!(unpacked(&ask(&server, "/large.html", "gzip")), text(500_000).as_bytes());
    assert_eq!(served(), 1);
}

#[test]
fn a_bomb_is_unpacked_as_fast_as_it_is_read_and_others_are_served() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    // One gigabyte, of a thousand members.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
    encoder.write_all(&vec![0; 1 << 20]).expect("it is memory");
    site.file("bomb.gz", encoder.finish().expect("it is memory").repeat(1024)).file("a.txt", "file a");
    let server =
        Setup::server(&site, "location /bomb { gzip_static always; gunzip on; gzip on; } location / { }").run();
    let bombs: Vec<_> = (0..20)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /bomb HTTP/1.1\r\nHost: h\r\n\r\n");
            // It has begun; what follows stands in the socket's buffers, and the rest is still packed.
            client.at_least(100_000);
            client
        })
        .collect();
    for _ in 0..50 {
        assert_eq!(server.get("/a.txt").text(), "file a");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.worker())).expect("it runs");
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
    let resident = resident.expect("a process has memory");
    assert!(resident < 200 * 1024, "20 bombs of 1 GB take {resident} KiB");
    drop(bombs);
}
