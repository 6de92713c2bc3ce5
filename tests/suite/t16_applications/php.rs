//! A PHP application under php-fpm.

use freerun_testkit::{Application, Kind, Setup, TestClient, TestServer};
use std::collections::HashSet;

use super::{crc32, events_come_one_by_one, noise, numbered_lines, peers};

/// What a usual configuration has for PHP, with further lines for the location.
fn server(php: &Application, lines: &str) -> TestServer {
    Setup::new()
        .http(&format!(
            "client_max_body_size 64m;
            upstream php {{ server {address}; keepalive 4; }}
            server {{
                listen 127.0.0.1:@PORT@;
                root {scripts};
                location = /told.txt {{ internal; return 200 told; }}
                location = /error.html {{ internal; return 200 \"our own page\"; }}
                location ~ \\.php(/|$) {{
                    fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
                    fastcgi_pass php;
                    fastcgi_index app.php;
                    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                    fastcgi_param PATH_INFO $fastcgi_path_info;
                    fastcgi_param QUERY_STRING $query_string;
                    fastcgi_param REQUEST_METHOD $request_method;
                    fastcgi_param CONTENT_TYPE $content_type;
                    fastcgi_param CONTENT_LENGTH $content_length;
                    fastcgi_param SCRIPT_NAME $fastcgi_script_name;
                    fastcgi_param REQUEST_URI $request_uri;
                    fastcgi_param DOCUMENT_URI $document_uri;
                    fastcgi_param DOCUMENT_ROOT $document_root;
                    fastcgi_param SERVER_PROTOCOL $server_protocol;
                    fastcgi_param REMOTE_ADDR $remote_addr;
                    fastcgi_param HTTPS $https if_not_empty;
                    fastcgi_param REDIRECT_STATUS 200;
                    {lines}
                }}
            }}",
            address = php.address(),
            scripts = peers::scripts(),
        ))
        .run()
}

#[test]
fn an_application_is_told_about_its_request() {
    for unix in [true, false] {
        let Some(php) = peers::php(unix) else { return };
        let server = server(&php, "");
        let response =
            server.get_with("/app.php/more/of%20it?do=tell&x=y", "X-Twice: 1\r\nX-Twice: 2\r\nCookie: a=1\r\n");
        assert_eq!(response.status, 200);
        assert_eq!(response.header("x-own"), Some("one"));
        assert!(response.header("content-type").is_some_and(|value| value.starts_with("text/plain")));
        let text = response.text();
        for line in [
            "REQUEST_METHOD=GET",
            "SCRIPT_NAME=/app.php",
            "PATH_INFO=/more/of it",
            "QUERY_STRING=do=tell&x=y",
            "DOCUMENT_URI=/app.php/more/of it",
            "CONTENT_LENGTH=",
            "HTTP_COOKIE=a=1",
            "HTTPS=(none)",
            "SERVER_PROTOCOL=HTTP/1.1",
            "REMOTE_ADDR=127.0.0.1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
        if Kind::under_test() == Kind::Freerun {
            assert!(text.contains("HTTP_X_TWICE=1, 2\n"), "{text}");
        }
    }
}

#[test]
fn forms_and_uploads() {
    let Some(php) = peers::php(true) else { return };
    let server = server(&php, "");
    let form = "POST /app.php?do=form HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    assert_eq!(server.send(format!("{form}Content-Length: 11\r\n\r\nname=a+name")).text(), "name=a name file=(none)");
    let file = noise(3_000_000);
    let mut body = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n".to_vec();
    body.extend_from_slice(&file);
    body.extend_from_slice(b"\r\n--B--\r\n");
    let mut request =
        format!("POST /app.php?do=form HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: {}\r\n\r\n", body.len())
            .into_bytes();
    request.extend_from_slice(&body);
    assert_eq!(server.send(&request).text(), "name=(none) file=3000000");
}

/// A request with a body in chunks.
fn chunked(target: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!("POST {target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.chunks(50_000) {
        request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

#[test]
fn long_uploads() {
    let Some(php) = peers::php(true) else { return };
    for lines in ["", "fastcgi_request_buffering off;"] {
        let server = server(&php, lines);
        let body = noise(8_000_000);
        let expected = format!("8000000 {}", crc32(&body));
        let mut request =
            format!("POST /app.php?do=sum HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        request.extend_from_slice(&body);
        assert_eq!(server.send(&request).text(), expected, "{lines}");
        if Kind::under_test() == Kind::Nginx && !lines.is_empty() {
            // It passes the body on without its length, and PHP reads nothing then.
            continue;
        }
        assert_eq!(server.send(chunked("/app.php?do=sum", &body)).text(), expected, "{lines}");
        assert_eq!(server.send(chunked("/app.php?do=sum", b"")).text(), "0 0", "{lines}");
    }
}

#[test]
fn long_downloads_to_slow_clients() {
    let Some(php) = peers::php(true) else { return };
    let expected = numbered_lines(60_000);
    for lines in
        ["", "fastcgi_buffering off;", "fastcgi_max_temp_file_size 0;", "fastcgi_buffers 4 8k; fastcgi_keep_conn on;"]
    {
        let server = server(&php, lines);
        let mut slow = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
        slow.send("GET /app.php?do=long&lines=60000 HTTP/1.1\r\nHost: h\r\n\r\n");
        slow.at_least(1000);
        // While this one does not read, others are served.
        assert_eq!(server.get("/app.php?do=known").text(), "known", "{lines}");
        let response = slow.response();
        assert!(response.body == expected, "{lines}: {} bytes", response.body.len());
    }
}

#[test]
fn statuses_and_redirects() {
    let Some(php) = peers::php(true) else { return };
    let server = server(&php, "");
    for code in [200, 201, 404, 500, 503] {
        let response = server.get(&format!("/app.php?do=status&code={code}"));
        assert_eq!((response.status, response.text()), (code, format!("the body of {code}")));
    }
    assert_eq!(server.get("/app.php?do=status&code=204").status, 204);
    let response = server.get("/app.php?do=redirect&to=http://example.com/x");
    assert_eq!((response.status, response.header("location")), (302, Some("http://example.com/x")));
    let response = server.get("/app.php?do=accel&to=/told.txt");
    assert_eq!((response.status, response.text().as_str()), (200, "told"));
    assert_eq!(server.get("/app.php?do=cookies").all("set-cookie").len(), 2);
    assert_eq!(server.get("/missing.php").status, 404);
    server.logs("FastCGI sent in stderr: \"Primary script unknown\" while reading response header from upstream");
}

#[test]
fn errors_can_be_intercepted() {
    let Some(php) = peers::php(true) else { return };
    let server = server(&php, "fastcgi_intercept_errors on; error_page 404 /error.html;");
    assert_eq!(server.get("/app.php?do=status&code=404").text(), "our own page");
    assert_eq!(server.get("/app.php?do=status&code=403").status, 403);
}

#[test]
fn heads_alone() {
    let Some(php) = peers::php(true) else { return };
    let server = server(&php, "fastcgi_keep_conn on;");
    let mut client = server.connect();
    for (target, status) in
        [("/app.php?do=tell", 200), ("/app.php?do=known", 200), ("/app.php?do=status&code=404", 404)]
    {
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(client.response_to("HEAD").status, status);
    }
    assert_eq!(client.get("/app.php?do=known").text(), "known");
}

#[test]
fn error_output_is_logged() {
    let Some(php) = peers::php(true) else { return };
    let server = server(&php, "");
    assert_eq!(server.get("/app.php?do=stderr").text(), "answered");
    server.logs(
        "FastCGI sent in stderr: \"PHP message: something to remember\" while reading response header from upstream",
    );
    let server = self::server(&php, "fastcgi_catch_stderr \"to remember\";");
    assert_eq!(server.get("/app.php?do=stderr").status, 502);
}

#[test]
fn connections_are_kept() {
    let Some(php) = peers::php(true) else { return };
    let server = server(&php, "fastcgi_keep_conn on;");
    // Each process of php-fpm serves one connection at a time, so the same connection is the same process.
    let pids: HashSet<String> = (0..20).map(|_| server.get("/app.php?do=pid").text()).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
}

#[test]
fn an_application_that_dies_is_no_whole_response() {
    let Some(php) = peers::php(true) else { return };
    let server = server(&php, "");
    assert_eq!(server.get("/app.php?do=die-first").status, 502);
    // Whether it is closed or reset depends on what was read of the request.
    server.logs("while reading response header from upstream");
    if Kind::under_test() == Kind::Freerun {
        // nginx takes the end of the connection for the end of the response.
        let mut client = server.connect();
        client.send("GET /app.php?do=die HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(client.try_response("GET").is_err());
        server.logs("while reading upstream");
    }
    assert_eq!(server.get("/app.php?do=known").text(), "known");
}

#[test]
fn output_comes_as_it_is_made() {
    let Some(php) = peers::php(true) else { return };
    let server = server(&php, "");
    events_come_one_by_one(&mut server.connect(), "/app.php?do=events");
    let server =
        self::server(&php, "fastcgi_buffering off; fastcgi_keep_conn on; fastcgi_ignore_headers X-Accel-Buffering;");
    events_come_one_by_one(&mut server.connect(), "/app.php?do=events");
}

#[test]
fn responses_go_through_the_filters() {
    let Some(php) = peers::php(true) else { return };
    let server =
        server(&php, "gzip on; gzip_types text/html; sub_filter '000' 'ooo'; sub_filter_once off; sub_filter_types *;");
    let response = server.get_with("/app.php?do=long&lines=1000", "Accept-Encoding: gzip\r\n");
    assert_eq!(response.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&response.body[..]), &mut text).expect("gzip");
    let plain = String::from_utf8(numbered_lines(1000)).expect("text").replace("000", "ooo");
    assert_eq!(text, plain);
}
