//! Responses of files and of upstream servers.

use super::{connect, content, plain, secure};
use crate::worker::InProcess;
use freerun_testkit::http2::{Frame, FrameHeader, Http2, StreamEnd, kind, setting};
use freerun_testkit::{ConnectionEnd, Kind, Site, TestUpstream, Tls, ok, require};

#[test]
fn files_of_all_sizes_arrive_whole() {
    let site = Site::new();
    let sizes = [0, 1, 1000, 8192, 8193, 16_384, 65_535, 65_536, 1_000_000, 4 << 20];
    for size in sizes {
        site.file(&format!("{size}"), content(size));
    }
    for (over, sendfile) in [("plain", "on"), ("plain", "off"), ("tls", "on")] {
        let lines = format!("sendfile {sendfile};");
        let server = if over == "tls" { secure(&site, &lines) } else { plain(&site, &lines) }.run_in_process();
        let mut http2 = match over {
            "tls" => Http2::tls(server.connect(), &Tls::new(), &[]),
            _ => connect(&server),
        };
        for size in sizes {
            let answer = http2.get(&format!("/{size}"));
            assert_eq!((answer.status, answer.end), (200, StreamEnd::Whole));
            assert_eq!(answer.header("content-length"), Some(size.to_string().as_str()));
            assert!(answer.body() == content(size), "{over}, sendfile {sendfile}: {size} bytes");
        }
        // All of them at the same time.
        let streams: Vec<u32> = sizes.iter().map(|size| http2.ask_for(&format!("/{size}"))).collect();
        for (stream, size) in streams.into_iter().zip(sizes) {
            assert!(http2.answer(stream).body() == content(size), "{over}, sendfile {sendfile}: {size} bytes");
        }
    }
}

/// Without TLS the kernel copies files into the socket, between the heads of frames, as far as it has room.
#[test]
fn files_wait_for_a_client_that_reads_late() {
    let site = Site::new();
    let whole = content(3 << 20);
    site.file("file", &whole);
    for lines in ["sendfile_max_chunk 100k;", "aio threads;", "aio off;", "limit_rate 10m;", "directio 1m;"] {
        let server = plain(&site, lines).run_in_process();
        let mut http2 = connect(&server);
        http2.windows_by_hand().send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 8 << 20)]));
        http2.open_window(0, 64 << 20);
        let streams: Vec<u32> = (0..4).map(|_| http2.ask_for("/file")).collect();
        // The server fills the socket's buffers meanwhile: nothing is read before this answer has come on another connection.
        assert_eq!(connect(&server).get("/file").body().len(), whole.len());
        for stream in streams {
            assert!(http2.answer(stream).body() == whole, "{lines}");
        }
        let part = http2.get_with("/file", &[("range", "bytes=1000000-2999999")]);
        assert!(part.body() == &whole[1_000_000..3_000_000], "{lines}");
    }
}

/// A file that becomes shorter while it is sent is never taken for a whole one.
#[test]
fn a_file_that_is_cut_is_not_whole() {
    let site = Site::new();
    let whole = content(16 << 20);
    site.file("file", &whole);
    let server = plain(&site, "").run_in_process();
    let mut http2 = connect(&server);
    http2.windows_by_hand().send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 64 << 20)]));
    http2.open_window(0, 64 << 20);
    let stream = http2.ask_for("/file");
    assert_eq!(http2.head(stream), 200);
    let file = std::fs::File::options().write(true).open(site.path().join("file")).expect("the file");
    file.set_len(1 << 20).expect("a shorter file");
    while http2.message(stream).is_some_and(|message| !message.is_over()) && http2.try_frame().is_ok() {}
    let message = http2.message(stream).expect("a response");
    assert!(message.body.len() < whole.len());
    assert!(!message.whole, "{} bytes", message.body.len());
    assert_eq!(connect(&server).get("/file").body().len(), 1 << 20);
}

#[test]
fn heads_ranges_and_conditions() {
    let site = Site::new();
    site.file("file", content(100_000));
    let server = plain(&site, "").run_in_process();
    let mut http2 = connect(&server);
    let whole = http2.get("/file");
    let (tag, date) = (whole.header("etag").expect("a tag"), whole.header("last-modified").expect("a date"));
    let answer = http2.request("HEAD", "/file", &[]);
    assert_eq!((answer.status, answer.body(), answer.header("content-length")), (200, &b""[..], Some("100000")));
    let answer = http2.get_with("/file", &[("range", "bytes=20000-59999")]);
    assert_eq!((answer.status, answer.header("content-range")), (206, Some("bytes 20000-59999/100000")));
    assert!(answer.body() == &content(100_000)[20_000..60_000]);
    let answer = http2.get_with("/file", &[("range", "bytes=0-0,5-9")]);
    assert!(answer.header("content-type").is_some_and(|kind| kind.starts_with("multipart/byteranges")));
    assert_eq!(http2.get_with("/file", &[("range", "bytes=100000-")]).status, 416);
    for field in [("if-none-match", tag), ("if-modified-since", date)] {
        let answer = http2.get_with("/file", &[field]);
        assert_eq!((answer.status, answer.body(), answer.header("etag")), (304, &b""[..], Some(tag)), "{field:?}");
    }
    assert_eq!(http2.get_with("/file", &[("if-match", "\"other\"")]).status, 412);
}

/// The head of a response without a body ends the stream itself.
#[test]
fn a_response_without_a_body_is_one_frame() {
    let site = Site::new();
    site.file("file", "content").file("empty", "");
    let server = plain(&site, "location /204 { return 204; }").run_in_process();
    let mut http2 = connect(&server);
    for (method, path) in [("HEAD", "/file"), ("GET", "/204"), ("GET", "/empty")] {
        let answer = http2.request(method, path, &[]);
        let frames: Vec<&FrameHeader> = http2.seen().iter().filter(|seen| seen.stream == answer.stream).collect();
        assert_eq!(frames.len(), 1, "{method} {path}: {frames:?}");
    }
}

#[test]
fn fields_of_responses() {
    let lines = "location / { add_header X-Mixed-Case Value; add_header X-Two 1; add_header X-Two 2; return 200 ok; }
                 location /moved { return 301 /other; }";
    let server = plain(&Site::new(), lines).run_in_process();
    let mut http2 = connect(&server);
    let answer = http2.get("/");
    assert_eq!(answer.header("x-mixed-case"), Some("Value"));
    assert_eq!(answer.message.all("x-two"), ["1", "2"]);
    assert!(answer.header("date").is_some() && answer.header("connection").is_none());
    let moved = http2.get("/moved");
    let location = format!("http://localhost:{}/other", server.port());
    assert_eq!((moved.status, moved.header("location")), (301, Some(location.as_str())));
    assert!(moved.text().contains("301 Moved Permanently"));
}

#[test]
fn what_belongs_to_the_upstream_s_connection_stays_there() {
    let upstream = TestUpstream::answering(|_| {
        let fields = "Connection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-End: yes\r\nContent-Length: 2";
        format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok").into_bytes()
    });
    let server =
        plain(&Site::new(), &format!("location / {{ proxy_pass http://{}; }}", upstream.address())).run_in_process();
    let answer = connect(&server).get("/");
    // The harness would complain of fields that HTTP/2 does not have.
    assert_eq!((answer.text().as_str(), answer.header("x-end")), ("ok", Some("yes")));
}

#[test]
fn responses_of_an_upstream_in_every_framing() {
    let body = content(300_000);
    let sent = body.clone();
    let upstream = TestUpstream::answering(move |request| match request.target() {
        "/length" => ok(&sent),
        "/chunks" => {
            let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for piece in sent.chunks(7777) {
                bytes.extend(format!("{:x}\r\n", piece.len()).bytes());
                bytes.extend(piece);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            bytes
        }
        "/close" => [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", &sent[..]].concat(),
        _ => [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n", &sent[..1000]].concat(),
    });
    for buffering in ["on", "off"] {
        let lines = format!(
            "location / {{ proxy_http_version 1.1; proxy_buffering {buffering}; proxy_pass http://{}; }}",
            upstream.address()
        );
        let server = plain(&Site::new(), &lines).run_in_process();
        let mut http2 = connect(&server);
        for path in ["/length", "/chunks", "/close"] {
            let answer = http2.get(path);
            assert_eq!((answer.status, answer.end), (200, StreamEnd::Whole), "{path}, {buffering}");
            assert!(answer.body() == body, "{path}, {buffering}");
        }
        // What is cut does not look whole, and does not end the connection.
        let answer = http2.get("/cut");
        assert!(matches!(answer.end, StreamEnd::Reset(_)), "{buffering}: {:?}", answer.end);
        assert!(http2.get("/length").is_whole());
    }
}

#[test]
fn trailers_of_our_own() {
    let site = Site::new();
    site.file("file", content(20_000)).file("empty", "");
    let server = plain(&site, "add_trailer X-Sum 1; add_trailer X-Path $uri;").run_in_process();
    let mut http2 = connect(&server);
    for path in ["/file", "/empty"] {
        let answer = http2.get(path);
        assert!(answer.is_whole());
        assert_eq!((answer.trailer("x-sum"), answer.trailer("x-path")), (Some("1"), Some(path)));
    }
    // Where no body may be, there are no trailers.
    let answer = http2.request("HEAD", "/file", &[]);
    assert!(answer.is_whole() && answer.message.trailers.is_empty());
}

#[test]
fn trailers_of_an_upstream() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"
            .to_vec()
    });
    for (passed, expected) in [("on", Some("1")), ("off", None)] {
        let lines = format!(
            "location / {{ proxy_http_version 1.1; proxy_pass_trailers {passed}; proxy_pass http://{}; }}",
            upstream.address()
        );
        let answer = connect(&plain(&Site::new(), &lines).run_in_process()).get_with("/", &[("te", "trailers")]);
        assert_eq!((answer.text().as_str(), answer.trailer("x-sum")), ("ok", expected), "{passed}");
    }
}

#[test]
fn early_hints_of_an_upstream() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|_| {
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let lines = format!("location / {{ early_hints 1; proxy_pass http://{}; }}", upstream.address());
    let answer = connect(&plain(&Site::new(), &lines).run_in_process()).get("/");
    let hints: Vec<&str> = answer
        .message
        .interim
        .iter()
        .flatten()
        .filter(|(name, _)| name == "link")
        .map(|(_, link)| link.as_str())
        .collect();
    assert_eq!((hints, answer.text().as_str()), (vec!["</a.css>"], "ok"));
}

#[test]
fn compressed_and_included_and_substituted() {
    let site = Site::new();
    site.file("page.txt", "text ".repeat(10_000)).file("page.shtml", "<!--#include virtual=\"/part.txt\" -->, after");
    site.file("part.txt", "a part");
    let lines = "ssi on; ssi_types text/plain; gzip on; gzip_types *;";
    let server = plain(&site, lines).run_in_process();
    let mut http2 = connect(&server);
    let answer = http2.get_with("/page.txt", &[("accept-encoding", "gzip")]);
    assert_eq!((answer.header("content-encoding"), answer.is_whole()), (Some("gzip"), true));
    assert!(answer.body().len() < 5000);
    assert_eq!(http2.get("/page.shtml").text(), "a part, after");
}

#[test]
fn return_444_ends_the_stream_without_an_answer() {
    let lines = "location /none { return 444; } location / { return 200 ok; }";
    let server = plain(&Site::new(), lines).run_in_process();
    let mut http2 = connect(&server);
    let answer = http2.get("/none");
    assert_eq!(answer.status, 0);
    match server.kind() {
        // nginx 1.22 ends the connection.
        Kind::Nginx => assert!(answer.end != StreamEnd::Whole, "{answer:?}"),
        Kind::Freerun => {
            assert!(matches!(answer.end, StreamEnd::Reset(_)), "{answer:?}");
            assert_eq!(http2.get("/").text(), "ok");
        }
    }
}

#[test]
fn error_pages_and_inner_redirects() {
    let site = Site::new();
    site.file("sorry.html", "sorry");
    let lines = "error_page 404 /sorry.html; location /in { internal; return 200 in; }
                 location /to { rewrite ^ /in last; } location /auth { return 403; error_page 403 = @named; }
                 location @named { return 200 named; }";
    let server = plain(&site, lines).run_in_process();
    let mut http2 = connect(&server);
    let answer = http2.get("/missing");
    assert_eq!((answer.status, answer.text().as_str()), (404, "sorry"));
    assert_eq!((http2.get("/to").text(), http2.get("/in").status), ("in".to_owned(), 404));
    assert_eq!(http2.get("/auth").text(), "named");
}

#[test]
fn limit_rate_holds_for_each_stream() {
    let site = Site::new();
    site.file("file", content(100_000));
    let server = plain(&site, "location /file { limit_rate 50k; } location / { return 200 ok; }").run_in_process();
    let mut http2 = connect(&server);
    let begun = std::time::Instant::now();
    let streams = [(); 3].map(|()| http2.next_stream());
    let asked = ["/file", "/file", "/"].map(|path| http2.block("GET", path));
    let frames: Vec<Frame> =
        streams.iter().zip(asked).map(|(stream, block)| Frame::headers(*stream, block).end()).collect();
    http2.send_all(&frames);
    for stream in &streams[..2] {
        assert!(http2.answer(*stream).body() == content(100_000));
    }
    assert_eq!(http2.answer(streams[2]).text(), "ok");
    // Whoever is not limited does not wait for them.
    let lines = server.access_lines(3);
    assert!(lines[0].contains("GET / HTTP/2.0"), "{lines:?}");
    // 100,000 bytes take longer than a second at 51,200 bytes a second, whatever the burst at the beginning.
    assert!(begun.elapsed().as_millis() > 900, "{:?}", begun.elapsed());
}

#[test]
fn a_connection_that_ends_within_responses_is_survived() {
    let site = Site::new();
    site.file("big", content(4 << 20));
    let server = plain(&site, "").run_in_process();
    for _ in 0..20 {
        let mut http2 = connect(&server);
        for _ in 0..10 {
            http2.ask_for("/big");
        }
        http2.body_of(1, 1);
        http2.drop_with_reset();
    }
    let mut http2 = connect(&server);
    assert!(http2.get("/big").is_whole());
    http2.client().half_close();
    let (_, ending) = http2.end();
    assert_ne!(ending, ConnectionEnd::Silent);
    assert!(http2.count(kind::GOAWAY) <= 1);
}
