//! Requests and their responses.

use super::{PAIR, connect, content, quic, quic_with};
use freerun_testkit::http2::{ServerReply, answering};
use freerun_testkit::http3::{H3End, Http3, Http3Options};
use freerun_testkit::{Setup, Site, TestUpstream, ok, require};

#[test]
fn files_are_served_whole_in_parts_and_by_their_heads() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("small", "hello").file("large", content(2_000_000)).file("empty", "");
    let server = quic(&site, "").freerun();
    let mut http3 = connect(&server);
    let answer = http3.get("/small");
    assert_eq!((answer.status, answer.text().as_str(), answer.end.clone()), (200, "hello", H3End::Whole));
    assert_eq!(answer.header("content-length"), Some("5"));
    assert!(answer.header("connection").is_none() && answer.header("keep-alive").is_none());
    let answer = http3.get("/large");
    assert!(answer.body() == content(2_000_000), "{} bytes", answer.body().len());
    let answer = http3.get("/empty");
    assert_eq!((answer.status, answer.body(), &answer.end), (200, &[][..], &H3End::Whole));
    let answer = http3.request("GET", "/large", &[("range", "bytes=1000000-1000009")]);
    assert_eq!((answer.status, answer.body()), (206, &content(2_000_000)[1_000_000..1_000_010]));
    assert_eq!(answer.header("content-range"), Some("bytes 1000000-1000009/2000000"));
    let answer = http3.request("HEAD", "/large", &[]);
    let length = answer.header("content-length").map(str::to_owned);
    assert_eq!((answer.status, length.as_deref(), answer.body().len()), (200, Some("2000000"), 0));
    assert_eq!(http3.get("/nothing").status, 404);
    let modified = http3.get("/small").header("last-modified").expect("a date").to_owned();
    let answer = http3.request("GET", "/small", &[("if-modified-since", &modified)]);
    assert_eq!((answer.status, answer.body().len()), (304, 0));
    assert_eq!(http3.link().end(), None);
}

#[test]
fn a_hundred_requests_at_once_each_get_their_own_answer() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    (0..100).for_each(|number| {
        site.file(&format!("f{number}"), content(1000 + 500 * number));
    });
    let server = quic(&site, "location /t { return 200 $uri; }").freerun();
    let mut http3 = connect(&server);
    let files: Vec<u64> = (0..50).map(|number| http3.ask_for(&format!("/f{}", 2 * number))).collect();
    let texts: Vec<u64> = (0..50).map(|number| http3.ask_for(&format!("/t{number}"))).collect();
    for (number, stream) in texts.into_iter().enumerate() {
        assert_eq!(http3.answer(stream).text(), format!("/t{number}"));
    }
    for (number, stream) in files.into_iter().enumerate() {
        assert!(http3.answer(stream).body() == content(1000 + 1000 * number), "{number}");
    }
    // More than may be at once: the client waits for the server's limit.
    let more: Vec<u64> = (0..300).map(|number| http3.ask_for(&format!("/t{number}"))).collect();
    for (number, stream) in more.into_iter().enumerate() {
        assert_eq!(http3.answer(stream).text(), format!("/t{number}"));
    }
}

#[test]
fn servers_are_chosen_by_name_and_strangers_misdirected() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .http(&format!(
            "server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ quic; server_name localhost; {PAIR}
                       return 200 first; }}
             server {{ listen 127.0.0.1:@PORT2@ quic; server_name a.example.com; {PAIR} return 200 second; }}
             server {{ listen 127.0.0.1:@PORT2@ quic; server_name other.example.com;
                       ssl_certificate @CERTS@/other.crt; ssl_certificate_key @CERTS@/other.key;
                       ssl_verify_client optional_no_ca; return 200 third; }}"
        ))
        .freerun();
    let to = server.address_number(2);
    for (name, text) in [("localhost", "first"), ("a.example.com", "second"), ("other.example.com", "third")] {
        assert_eq!(Http3::with(to, &Http3Options::new().name(name)).get("/").text(), text);
    }
    let mut http3 = Http3::with(to, &Http3Options::new().tls(freerun_testkit::Tls::nameless));
    assert_eq!(http3.get("/").text(), "first");
    // Within a connection, another server with the same rules for clients may be asked.
    assert_eq!(http3.set_authority("a.example.com").get("/").text(), "second");
    assert_eq!(http3.set_authority("other.example.com").get("/").status, 421);
    assert_eq!(http3.set_authority("localhost").get("/").text(), "first");
}

#[test]
fn variables_and_the_log_say_what_was_spoken() {
    if !require::freerun() {
        return;
    }
    let lines = "access_log @DIR@/access.log t;
        location / { return 200 \"$server_protocol $http3 $ssl_protocol $scheme $https $server_port\"; }
        location /none { return 204; }";
    let format = "log_format t '$http3|$server_protocol|$request|$status|$body_bytes_sent|$ssl_protocol|$connection_requests|\
        $request_length|$bytes_sent';";
    let server = quic_with(&Site::new(), format, lines).freerun();
    let mut http3 = connect(&server);
    let port = server.port_number(2);
    assert_eq!(http3.get("/a").text(), format!("HTTP/3.0 h3 TLSv1.3 https on {port}"));
    assert_eq!(http3.get("/none").status, 204);
    let log = server.access_lines(2);
    let fields: Vec<Vec<&str>> = log.iter().map(|line| line.split('|').collect()).collect();
    assert_eq!(fields[0][..4], ["h3", "HTTP/3.0", "GET /a HTTP/3.0", "200"]);
    assert_eq!(fields[0][5..7], ["TLSv1.3", "1"]);
    assert_eq!((fields[1][3], fields[1][4], fields[1][6]), ("204", "0", "2"));
    let number = |line: usize, field: usize| fields[line][field].parse::<usize>().expect("a number");
    assert!((10..200).contains(&number(0, 7)), "the head's length: {}", log[0]);
    let (body, all) = (number(0, 4), number(0, 8));
    assert!(all > body && all < body + 300, "what was sent is the head and the body: {}", log[0]);
}

#[test]
fn requests_go_to_upstream_servers_and_answers_back() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|request| match request.target() {
        "/hints" => [b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".as_slice(), &ok("after hints")].concat(),
        "/trailers" => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n";
            format!("{head}3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n").into_bytes()
        }
        target => ok(format!("{target} {} {}", request.header("host").unwrap_or("none"), request.body.len())),
    });
    let address = upstream.address();
    let lines = format!(
        "early_hints $http3; client_max_body_size 0;
         location / {{ proxy_pass http://{address}; }}
         location /trailers {{ proxy_pass http://{address}; proxy_pass_trailers on; proxy_http_version 1.1; }}
         location /unbuffered {{ proxy_pass http://{address}; proxy_request_buffering off; proxy_buffering off;
                                 proxy_http_version 1.1; }}"
    );
    let server = quic(&Site::new(), &lines).freerun();
    let mut http3 = connect(&server);
    assert_eq!(http3.get("/plain").text(), format!("/plain {address} 0"));
    for path in ["/post", "/unbuffered"] {
        for length in [0, 1, 70_000, 1_500_000] {
            assert_eq!(http3.post(path, content(length)).text(), format!("{path} {address} {length}"));
        }
        // Without a length, the end of the stream is the end of the body.
        let stream = http3.start("POST", path, &[]);
        http3.upload(stream, b"12345");
        http3.upload(stream, b"678");
        http3.finish(stream);
        assert_eq!(http3.answer(stream).text(), format!("{path} {address} 8"));
    }
    let answer = http3.get("/hints");
    assert_eq!((answer.text().as_str(), answer.message.interim.len()), ("after hints", 1));
    let hint = &answer.message.interim[0];
    assert!(hint.contains(&(":status".into(), "103".into())) && hint.contains(&("link".into(), "</a.css>".into())));
    let answer = http3.get("/trailers");
    assert_eq!((answer.text().as_str(), answer.trailer("x-sum")), ("abc", Some("7")));
}

#[test]
fn grpc_comes_through_with_its_trailers() {
    if !require::freerun() {
        return;
    }
    let upstream = answering(TestUpstream::new(), |request| {
        ServerReply::ok(&request.message.body).trailer("grpc-status", "0").trailer("grpc-message", "fine")
    });
    let lines = format!("location / {{ grpc_pass grpc://{}; }}", upstream.address());
    let server = quic(&Site::new(), &lines).freerun();
    let mut http3 = connect(&server);
    let fields = [("content-type", "application/grpc"), ("te", "trailers")];
    let stream = http3.start("POST", "/service/method", &fields);
    http3.upload(stream, b"\0\0\0\0\x02ab");
    http3.finish(stream);
    let answer = http3.answer(stream);
    assert_eq!((answer.status, answer.body()), (200, &b"\0\0\0\0\x02ab"[..]));
    assert_eq!((answer.trailer("grpc-status"), answer.trailer("grpc-message")), (Some("0"), Some("fine")));
}

#[test]
fn limits_count_requests_as_those_of_other_protocols() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!(
        "location /slow {{ limit_conn c 1; proxy_pass http://{}; }} location /rare {{ limit_req zone=r; }}",
        upstream.address()
    );
    let zones =
        "limit_conn_zone $binary_remote_addr zone=c:1m; limit_req_zone $binary_remote_addr zone=r:1m rate=1r/m;";
    let site = Site::new();
    site.file("rare", "rare");
    let server = quic_with(&site, zones, &lines).freerun();
    let mut http3 = connect(&server);
    let slow = http3.ask_for("/slow");
    let mut peer = upstream.accept();
    peer.head();
    assert_eq!(http3.get("/slow").status, 503);
    peer.send(ok("slow"));
    assert_eq!(http3.answer(slow).text(), "slow");
    // The requests of one connection count each.
    assert_eq!((http3.get("/rare").status, http3.get("/rare").status), (200, 503));
}

#[test]
fn malformed_requests_end_their_streams_or_are_answered() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "location / { return 200 ok; }").freerun();
    let mut http3 = connect(&server);
    // Fields of HTTP/1 make a request malformed (RFC 9114 section 4.2).
    for fields in [[("connection", "close")], [("transfer-encoding", "chunked")], [("te", "gzip")]] {
        assert_eq!(http3.request("GET", "/", &fields).status, 400, "{fields:?}");
    }
    // A body that is longer, or shorter, than it was announced.
    let stream = http3.start("POST", "/", &[("content-length", "3")]);
    http3.upload(stream, b"12345");
    http3.finish(stream);
    let answer = http3.answer(stream);
    assert!(matches!(answer.status, 0 | 200 | 400), "{answer:?}");
    assert_eq!(http3.get("/").text(), "ok");
}

#[test]
fn a_head_that_is_too_large_is_answered() {
    if !require::freerun() {
        return;
    }
    let lines = "large_client_header_buffers 2 1k; location / { return 200 ok; }";
    let server = quic(&Site::new(), lines).freerun();
    let mut http3 = connect(&server);
    let (long, sum) = ("x".repeat(1500), "x".repeat(700));
    let all = [("a", sum.as_str()), ("b", &sum), ("c", &sum)];
    for fields in [&[("a", long.as_str())], &all[..]] {
        let answer = http3.request("GET", "/", fields);
        assert_eq!(answer.status, 400, "{answer:?}");
        // The response comes before the rest of the body, which nobody wants.
        let stream = http3.start("POST", "/", fields);
        http3.upload(stream, b"a part");
        assert_eq!(http3.answer(stream).status, 400);
    }
    assert_eq!(http3.get("/").text(), "ok");
}
