//! Static files: the plain cases, so that they are checked where there is no nginx to compare with.

use freerun_testkit::{Setup, Site, require};

const MTIME: u64 = 784_111_777;

#[test]
fn a_file() {
    let site = Site::new();
    site.dated("a.html", "hello, world", MTIME);
    let server = Setup::server(&site, "").run();
    let response = server.get("/a.html");
    assert_eq!(response.line, "HTTP/1.1 200 OK");
    assert_eq!(response.text(), "hello, world");
    assert_eq!(response.header("content-type"), Some("text/html"));
    assert_eq!(response.header("content-length"), Some("12"));
    assert_eq!(response.header("last-modified"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(response.header("etag"), Some("\"2ebc98a1-c\""));
    assert_eq!(response.header("accept-ranges"), Some("bytes"));
    assert_eq!(response.header("connection"), Some("keep-alive"));
    assert!(response.header("server").is_some() && response.header("date").is_some());
    let head = server.send("HEAD /a.html HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(head.header("content-length"), Some("12"));
}

#[test]
fn files_of_many_sizes_arrive_whole() {
    let site = Site::new();
    let content = |size: usize| -> Vec<u8> { (0..size).map(|at| (at * 7 + at / 251) as u8).collect() };
    let sizes =
        [0, 1, 511, 512, 4095, 4096, 4097, 16_383, 32_768, 65_535, 65_536, 65_537, 131_072, 1_000_003, 5_000_000];
    for size in sizes {
        site.file(&format!("f{size}"), content(size));
    }
    for lines in [
        "sendfile off;",
        "sendfile on;",
        "sendfile on; tcp_nopush on;",
        "sendfile on; sendfile_max_chunk 64k;",
        "sendfile on; sendfile_max_chunk 0;",
        "aio threads;",
        "sendfile on; aio threads;",
        "sendfile on; tcp_nodelay off;",
    ] {
        let server = Setup::server(&site, lines).run();
        let mut client = server.connect();
        for size in sizes {
            let response = client.get(&format!("/f{size}"));
            assert!(response.body == content(size), "{lines} {size}: {} bytes came", response.body.len());
        }
    }
}

#[test]
fn parts_of_a_large_file() {
    let site = Site::new();
    let content: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    site.file("f", &content);
    for lines in ["sendfile off;", "sendfile on;", "sendfile on; aio threads;"] {
        let server = Setup::server(&site, lines).run();
        let response = server.get_with("/f", "Range: bytes=1000000-1999999\r\n");
        assert_eq!(response.status, 206);
        assert_eq!(response.header("content-range"), Some("bytes 1000000-1999999/3000000"));
        assert!(response.body == content[1_000_000..2_000_000]);
        let response = server.get_with("/f", "Range: bytes=0-9,2000000-2500000,-5\r\n");
        assert_eq!(response.status, 206);
        let kind = response.header("content-type").expect("a type").to_owned();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("a boundary");
        let mut expected = Vec::new();
        for (start, end) in [(0, 9), (2_000_000, 2_500_000), (2_999_995, 2_999_999)] {
            let head = format!(
                "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {start}-{end}/3000000\r\n\r\n"
            );
            expected.extend_from_slice(head.as_bytes());
            expected.extend_from_slice(&content[start..=end]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert!(response.body == expected);
        let response = server.get_with("/f", "Range: bytes=3000000-\r\n");
        assert_eq!((response.status, response.header("content-range")), (416, Some("bytes */3000000")));
    }
}

#[test]
fn conditions() {
    let site = Site::new();
    site.dated("a", "0123456789", MTIME);
    let server = Setup::server(&site, "").run();
    let status = |fields: &str| server.get_with("/a", fields).status;
    assert_eq!(status("If-None-Match: \"2ebc98a1-a\"\r\n"), 304);
    assert_eq!(status("If-None-Match: \"x\", W/\"2ebc98a1-a\"\r\n"), 304);
    assert_eq!(status("If-None-Match: \"x\"\r\n"), 200);
    assert_eq!(status("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), 304);
    assert_eq!(status("If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n"), 200);
    assert_eq!(status("If-Match: \"x\"\r\n"), 412);
    assert_eq!(status("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n"), 412);
    assert_eq!(status("Range: bytes=0-1\r\nIf-Range: \"2ebc98a1-a\"\r\n"), 206);
    assert_eq!(status("Range: bytes=0-1\r\nIf-Range: \"x\"\r\n"), 200);
    let response = server.get_with("/a", "If-None-Match: *\r\n");
    assert_eq!((response.status, response.header("etag")), (304, Some("\"2ebc98a1-a\"")));
    assert_eq!(response.header("content-length"), None);
}

#[test]
fn folders() {
    let site = Site::new();
    site.file("d/index.html", "index").folder("e");
    let server = Setup::server(&site, "").run();
    let response = server.get("/d?x=y");
    assert_eq!(response.status, 301);
    assert_eq!(response.header("location"), Some(format!("http://localhost:{}/d/?x=y", server.port()).as_str()));
    assert_eq!(server.get("/d/").text(), "index");
    assert_eq!(server.get("/e/").status, 403);
    server.logs("directory index of");
    assert_eq!(server.get("/none").status, 404);
    server.logs("failed (2: No such file or directory)");
}

#[test]
fn no_way_out_of_the_root() {
    let site = Site::new();
    site.file("in/a", "inside").file("secret", "outside");
    let server = Setup::new()
        .root_path(&site.at("in"))
        .http("server { listen 127.0.0.1:@PORT@; root @ROOT@; location /al/ { alias @ROOT@/; } }")
        .run();
    for target in [
        "/../secret",
        "/a/../../secret",
        "/%2e%2e/secret",
        "/%2e%2e%2fsecret",
        "/..%2fsecret",
        "/.%2e/secret",
        "/al/../../secret",
        "/al/%2e%2e/%2e%2e/secret",
        "/al../secret",
        "/al/..%2fsecret",
        "/%252e%252e/secret",
        "/..%00/secret",
        "/a%00/../secret",
        "/../../../../../../../../../../etc/passwd",
        "/..\\secret",
        "/%5c..%5csecret",
        "//../secret",
        "/./../secret",
        "http://localhost/../secret",
    ] {
        let response = server.get(target);
        assert!(matches!(response.status, 400 | 404 | 403), "{target}: {}", response.line);
        assert!(!response.text().contains("outside"), "{target}");
    }
}

#[test]
fn no_permission_is_403() {
    if !require::root() {
        return;
    }
    let site = Site::new();
    site.file("a", "x").mode("a", 0o600).file("d/b", "x").mode("d", 0o700);
    let server = Setup::server(&site, "").main("user nobody nogroup;").run();
    assert_eq!(server.get("/a").status, 403);
    server.logs("failed (13: Permission denied)");
    assert_eq!(server.get("/d/b").status, 403);
}

#[test]
fn what_is_no_file_is_not_sent() {
    let site = Site::new();
    site.link("pipe-free", "/dev/null");
    let made = std::process::Command::new("mkfifo").arg(site.at("fifo")).status();
    let server = Setup::server(&site, "").run();
    // Opening a pipe for reading waits for a writer; a server must not.
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(server.get("/fifo").status, 404);
    }
    assert_eq!(server.get("/pipe-free").status, 404);
}

#[test]
fn files_are_read_past_the_page_cache() {
    let site = Site::new();
    let content: Vec<u8> = (0..3_000_001_u32).map(|at| ((at * 31) >> 7) as u8).collect();
    site.file("large.html", &content).file("small.html", "small");
    let path = site.at("large.html");
    let file = std::fs::File::open(&path).expect("the file");
    file.sync_all().expect("syncing");
    let lines = "directio 1m; location /4k/ { directio_alignment 4k; alias @ROOT@/; }
        location /on/ { aio on; output_buffers 1 1m; alias @ROOT@/; }
        location /changed/ { sub_filter_types *; sub_filter @@never@@ x; alias @ROOT@/; }
        location /off/ { directio off; alias @ROOT@/; }";
    let server = Setup::server(&site, lines).run();
    let mut client = server.connect();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("emptying the cache");
    for place in ["/", "/4k/", "/on/", "/changed/"] {
        let response = client.get(&format!("{place}large.html"));
        assert!(response.body == content, "{place}: {} bytes came", response.body.len());
        let ranged = server.get_with(&format!("{place}large.html"), "Range: bytes=511-70000,2999999-\r\n");
        match place {
            "/changed/" => assert_eq!(ranged.status, 200),
            _ => {
                assert_eq!(ranged.status, 206);
                let has = |part: &[u8]| ranged.body.windows(part.len()).any(|window| window == part);
                assert!(has(&content[511..=70_000]) && has(&content[2_999_999..]), "{place}");
            }
        }
        assert_eq!(client.get(&format!("{place}small.html")).text(), "small");
    }
    if let Some(pages) = cached_pages(&path) {
        assert_eq!(pages, 0);
        assert!(client.get("/off/large.html").body == content);
        assert!(cached_pages(&path).is_some_and(|pages| pages > 0), "without it, the file is in the cache");
    }
}

/// How many pages of a file are in memory, where somebody can tell.
fn cached_pages(path: &std::path::Path) -> Option<u64> {
    let program = require::program("fincore")?;
    let told = std::process::Command::new(program).args(["-n", "-o", "PAGES"]).arg(path).output().ok()?;
    String::from_utf8(told.stdout).ok()?.trim().parse().ok()
}

/// As in nginx, a time before 1970 is shown as the beginning of that year, and is negative in the tag.
#[test]
fn a_file_from_before_1970() {
    let site = Site::new();
    site.file("old", "ab");
    let time = std::time::SystemTime::UNIX_EPOCH - std::time::Duration::from_hours(1);
    let file = std::fs::File::options().write(true).open(site.at("old"));
    file.and_then(|file| file.set_modified(time)).expect("setting the time");
    let server = Setup::server(&site, "").run();
    let response = server.get("/old");
    assert_eq!(response.header("last-modified"), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
    assert_eq!(response.header("etag"), Some("\"-e10-2\""));
    assert_eq!(server.get_with("/old", "If-None-Match: \"-e10-2\"\r\n").status, 304);
}
