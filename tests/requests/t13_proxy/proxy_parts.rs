//! What other modules make of requests that are passed on: mirrors, slices, subrequests, filters over a slow client.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site, TestClient, TestUpstream, eventually, ok};

#[test]
fn a_mirrored_request_has_the_body_where_that_is_asked_for() {
    for (lines, mirrored) in [("", "the body"), ("mirror_request_body off;", "")] {
        let (real, mirror) =
            (TestUpstream::answering(|request| ok(&request.body)), TestUpstream::answering(|_| ok("")));
        let server = Setup::server(
            &Site::new(),
            &format!(
                "location / {{ mirror /copy; {lines} proxy_pass http://{}; }}
                 location /copy {{ internal; proxy_pass http://{}; }}",
                real.address(),
                mirror.address()
            ),
        )
        .run_in_process();
        let response = server.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nthe body");
        assert_eq!(response.text(), "the body");
        let mut seen = Vec::new();
        eventually("the mirrored request", || {
            seen.extend(mirror.take_requests());
            !seen.is_empty()
        });
        assert_eq!((seen[0].target(), String::from_utf8_lossy(&seen[0].body).as_ref()), ("/copy", mirrored), "{lines}");
        assert!(seen[0].line().starts_with("POST "));
    }
}

#[test]
fn a_mirrored_request_has_the_arguments() {
    let (real, mirror) = (TestUpstream::answering(|request| ok(request.target())), TestUpstream::answering(|_| ok("")));
    let server = Setup::server(
        &Site::new(),
        &format!(
            "location / {{ mirror /copy; mirror /uri; proxy_pass http://{0}; }}
             location /rewritten {{ rewrite ^ /new?x=1; }}
             location /copy {{ internal; proxy_pass http://{1}; }}
             location /uri {{ internal; proxy_pass http://{1}/with$is_args$args; }}",
            real.address(),
            mirror.address()
        ),
    )
    .run_in_process();
    for (asked, passed, mirrored) in [
        ("/a?b=c&d=%20", "/a?b=c&d=%20", ["/copy?b=c&d=%20", "/with?b=c&d=%20"]),
        ("/a", "/a", ["/copy", "/with"]),
        ("/rewritten?y=2", "/new?x=1&y=2", ["/copy?x=1&y=2", "/with?x=1&y=2"]),
    ] {
        assert_eq!(server.get(asked).text(), passed);
        let mut seen = Vec::new();
        eventually("the mirrored requests", || {
            seen.extend(mirror.take_requests().iter().map(|request| request.target().to_owned()));
            seen.len() == 2
        });
        seen.sort();
        assert_eq!(seen, mirrored, "{asked}");
    }
}

#[test]
fn a_mirror_that_never_answers_holds_nobody_up() {
    let (real, mirror) = (TestUpstream::answering(|request| ok(request.target())), TestUpstream::new());
    let lines = format!(
        "location / {{ mirror /copy; proxy_pass http://{}; }}
         location /copy {{ internal; proxy_pass http://{}; }}",
        real.address(),
        mirror.address()
    );
    let server = Setup::server(&Site::new(), &lines).in_process();
    for _ in 0..3 {
        assert_eq!(server.get("/a").text(), "/a");
    }
}

/// An origin that answers ranges of this.
fn origin(content: Vec<u8>) -> impl Fn(&freerun_testkit::ReceivedRequest) -> Vec<u8> + Send + Sync + 'static {
    move |request| {
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")).expect("a range");
        let (first, last) = range.split_once('-').expect("two ends");
        let first: usize = first.parse().expect("a number");
        let end = (last.parse::<usize>().expect("a number") + 1).min(content.len());
        let part = &content[first..end];
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nETag: \"a\"\r\nContent-Range: bytes {first}-{}/{}\r\n\r\n",
            part.len(),
            end - 1,
            content.len()
        );
        [head.as_bytes(), part].concat()
    }
}

#[test]
fn slices_of_an_origin_become_a_whole() {
    let content: Vec<u8> = (0..2_500_000).map(|at| (at % 251) as u8).collect();
    let upstream = TestUpstream::answering(origin(content.clone()));
    let lines = format!(
        "location / {{ slice 1m; proxy_set_header Range $slice_range; proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = Setup::server(&Site::new(), &lines).run_in_process();
    let whole = server.get("/file");
    assert_eq!((whole.status, whole.header("content-length")), (200, Some("2500000")));
    assert!(whole.body == content);
    let part = server.get_with("/file", "Range: bytes=1000000-1500000\r\n");
    assert_eq!(part.status, 206);
    assert!(part.body == content[1_000_000..=1_500_000]);
    assert_eq!(
        upstream.take_requests().iter().filter_map(|request| request.header("range")).collect::<Vec<_>>(),
        [
            "bytes=0-1048575",
            "bytes=1048576-2097151",
            "bytes=2097152-3145727",
            "bytes=0-1048575",
            "bytes=1048576-2097151"
        ]
    );
}

#[test]
fn pages_include_what_upstreams_answer() {
    let upstream = TestUpstream::answering(|request| ok(format!("<{}>", request.target())));
    let site = Site::new();
    site.file("page.html", "a <!--# include virtual=\"/in/1\" --> b <!--# include virtual=\"/in/2\" --> c");
    let lines =
        format!("ssi on; types {{ text/html html; }} location /in/ {{ proxy_pass http://{}; }}", upstream.address());
    let server = Setup::server(&site, &lines).run_in_process();
    assert_eq!(server.get("/page.html").text(), "a </in/1> b </in/2> c");
}

#[test]
fn a_slow_client_does_not_hold_the_upstream_up_behind_filters() {
    const SIZE: usize = 8_000_000;
    let body: Vec<u8> = (0..SIZE).map(|at| b'a' + (at % 23) as u8).collect();
    for lines in ["sub_filter nothing x; sub_filter_types *;", "add_after_body /none;"] {
        let upstream = TestUpstream::new();
        let lines = format!(
            "location = /none {{ return 200; }} location / {{ {lines} proxy_pass http://{}; }}",
            upstream.address()
        );
        let server = Setup::server(&Site::new(), &lines).in_process();
        let mut client = TestClient::try_connect_narrow(server.address(), 16 * 1024).expect("a client");
        client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut peer = upstream.accept();
        peer.request();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nConnection: close\r\n\r\n"));
        peer.send(&body);
        assert_eq!(peer.rest(), b"");
        let response = client.response();
        assert!(response.body == body, "{lines} {}", response.body.len());
    }
}

/// A request goes on when its response is over: the log line comes after that, and the client's next request.
#[test]
fn a_request_goes_on_after_its_response() {
    let counted = TestUpstream::answering(|_| ok("dropped"));
    let proxied = format!(
        "proxy_set_header X-Seen \"$status|$body_bytes_sent|$uri|$request_uri\"; proxy_pass http://{};",
        counted.address()
    );
    let lines = format!(
        "access_log @DIR@/access.log f;
         location / {{ post_action @count; }}
         location /path {{ post_action /count; return 200 text; }}
         location /page {{ post_action @count; error_page 418 = /other; return 418; }}
         location /other {{ return 200 other; }}
         location /lost {{ post_action /nowhere/file; return 200 text; }}
         location /nowhere/ {{ root /nowhere; }}
         location /chain {{ post_action /chained; return 200 text; }}
         location = /chained {{ post_action @count; return 200 more; }}
         location /closes {{ post_action @count; return 444; }}
         location /unknown {{ post_action @unknown; return 200 text; }}
         location @count {{ {proxied} }}
         location = /count {{ {proxied} }}"
    );
    let site = Site::new();
    site.file("file", "a file");
    let server = format!("server {{ listen 127.0.0.1:@PORT@; root @ROOT@; {lines} }}");
    let format = "log_format f '$uri|$request_uri|$status|$body_bytes_sent|$upstream_status';";
    let server = Setup::new().root(&site).http(format).http(&server).run_in_process();
    let mut client = server.connect();
    let seen = |wanted: &[&str]| {
        let got: Vec<String> = counted
            .take_requests()
            .iter()
            .map(|request| format!("{} {}", request.target(), request.header("x-seen").unwrap_or_default()))
            .collect();
        assert_eq!(got, wanted);
    };
    assert_eq!(client.get("/file").text(), "a file");
    // The connection is kept, and what was asked for has been done when the next answer is there.
    assert_eq!(client.get("/path").text(), "text");
    assert_eq!(client.get("/page").text(), "other");
    seen(&["/file 200|6|/file|/file", "/count 200|4|/count|/path"]);
    assert_eq!(client.get("/missing").status, 404);
    assert_eq!(client.get("/lost").text(), "text");
    assert_eq!(client.get("/chain").text(), "text");
    assert_eq!(server.get("/unknown").text(), "text");
    assert_eq!(client.get("/other").text(), "other");
    let lines = server.access_lines(8);
    let missing: Vec<&str> = lines[3].split('|').collect();
    assert_eq!((missing[0], missing[2], missing[4]), ("/missing", "404", "200"));
    assert_eq!(lines[0], "/file|/file|200|6|200");
    assert_eq!(lines[1], "/count|/path|200|4|200");
    assert_eq!(lines[2], "/other|/page|200|5|-");
    assert_eq!(lines[4], "/nowhere/file|/lost|404|4|-");
    assert!(lines.contains(&"/chained|/chain|200|4|200".to_owned()), "{lines:?}");
    server.logs("could not find named location \"@unknown\"");
    counted.take_requests();
    let mut other = server.connect();
    other.send("GET /closes HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(other.is_closed());
    assert_eq!(client.get("/other").text(), "other");
    seen(&[]);
}

/// What cannot be the beginning of a string that is searched for is not held back: each event comes before the next one is
/// sent.
#[test]
fn events_pass_through_substitutions_at_once() {
    let upstream = TestUpstream::new();
    let lines = format!(
        "location / {{ sub_filter needle thread; sub_filter 'a string that is longer than every event here' x;
            sub_filter_once off; sub_filter_types *; proxy_pass http://{}; proxy_http_version 1.1; }}",
        upstream.address()
    );
    let server = Setup::server(&Site::new(), &lines).run_in_process();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept();
    peer.request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut seen = |text: &str| {
        client.until(|bytes| String::from_utf8_lossy(bytes).contains(text));
    };
    for (sent, wanted) in [("data: one\n\n", "data: one\n\n"), ("data: two needle\n\n", "data: two thread\n\n")] {
        peer.send(format!("{:x}\r\n{sent}\r\n", sent.len()));
        seen(wanted);
    }
    // The beginning of a string waits for the rest, and what is before it does not.
    peer.send("d\r\ndata: six nee\r\n");
    seen("data: six ");
    peer.send("5\r\ndle\n\n\r\n0\r\n\r\n");
    seen("thread\n\n");
}
