//! A Python application under uWSGI: by its own protocol, by SCGI, by FastCGI.

use freerun_testkit::{Application, Kind, Setup, TestClient, TestServer};

use super::{crc32, events_come_one_by_one, noise, numbered_lines, peers};

/// The protocols, and whether over a Unix socket.
const PROTOCOLS: [(&str, bool); 4] = [("uwsgi", true), ("uwsgi", false), ("scgi", false), ("fastcgi", true)];

fn server(application: &Application, name: &str, lines: &str) -> TestServer {
    Setup::new()
        .http(&format!(
            "client_max_body_size 64m;
            server {{
                listen 127.0.0.1:@PORT@;
                location / {{
                    {name}_pass {address};
                    {name}_param QUERY_STRING $query_string;
                    {name}_param REQUEST_METHOD $request_method;
                    {name}_param CONTENT_TYPE $content_type;
                    {name}_param CONTENT_LENGTH $content_length;
                    {name}_param REQUEST_URI $request_uri;
                    {name}_param PATH_INFO $document_uri;
                    {name}_param SERVER_PROTOCOL $server_protocol;
                    {name}_param REMOTE_ADDR $remote_addr;
                    {name}_param SERVER_NAME $server_name;
                    {name}_param SERVER_PORT $server_port;
                    {lines}
                }}
            }}",
            address = application.address(),
        ))
        .run()
}

fn with_each(test: impl Fn(&str, &Application)) {
    for (name, unix) in PROTOCOLS {
        let Some(application) = peers::uwsgi(name, unix) else { return };
        test(name, &application);
    }
}

#[test]
fn an_application_is_told_about_its_request() {
    with_each(|name, application| {
        let server = server(application, name, "");
        let response = server.get_with("/a%20b/tell?x=y", "X-Twice: 1\r\nX-Twice: 2\r\nCookie: a=1\r\n");
        assert_eq!((response.status, response.header("x-own")), (200, Some("one")), "{name}");
        let text = response.text();
        for line in [
            "REQUEST_METHOD=GET",
            "PATH_INFO=/a b/tell",
            "QUERY_STRING=x=y",
            "HTTP_COOKIE=a=1",
            "REMOTE_ADDR=127.0.0.1",
        ] {
            assert!(text.lines().any(|known| known == line), "{name}: {line} is not in\n{text}");
        }
        if Kind::under_test() == Kind::Freerun {
            assert!(text.contains("HTTP_X_TWICE=1, 2\n"), "{name}: {text}");
        }
    });
}

#[test]
fn long_uploads() {
    let body = noise(3_000_000);
    let expected = format!("3000000 {}", crc32(&body));
    let request = |fields: &str| format!("POST /sum HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n").into_bytes();
    with_each(|name, application| {
        for lines in [String::new(), format!("{name}_request_buffering off;")] {
            let server = server(application, name, &lines);
            let whole = [request("Content-Length: 3000000"), body.clone()].concat();
            assert_eq!(server.send(&whole).text(), expected, "{name} {lines}");
            if Kind::under_test() == Kind::Nginx && name == "fastcgi" && !lines.is_empty() {
                // It passes the body on without its length, and uWSGI reads nothing then.
                continue;
            }
            let pieces = body.chunks(100_000).flat_map(|piece| [b"186a0\r\n", piece, b"\r\n"].concat());
            let chunks = [request("Transfer-Encoding: chunked"), pieces.collect(), b"0\r\n\r\n".to_vec()].concat();
            assert_eq!(server.send(&chunks).text(), expected, "{name} {lines} in chunks");
        }
    });
}

#[test]
fn long_downloads_to_slow_clients() {
    let expected = numbered_lines(30_000);
    with_each(|name, application| {
        for lines in [String::new(), format!("{name}_buffering off;")] {
            let server = server(application, name, &lines);
            let mut slow = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
            slow.send("GET /long?lines=30000 HTTP/1.1\r\nHost: h\r\n\r\n");
            slow.at_least(1000);
            assert_eq!(server.get("/known").text(), "known", "{name} {lines}");
            let response = slow.response();
            assert!(response.body == expected, "{name} {lines}: {} bytes", response.body.len());
        }
    });
}

#[test]
fn statuses_redirects_and_heads() {
    with_each(|name, application| {
        let server = server(application, name, "");
        let mut client = server.connect();
        for code in [201, 404, 500] {
            let response = client.get(&format!("/status?code={code}"));
            assert_eq!((response.status, response.text()), (code, format!("the body of {code}")), "{name}");
            assert!(response.line.ends_with("Of Choice"), "{name}: {}", response.line);
        }
        let response = client.get("/redirect?to=http://example.com/");
        assert_eq!((response.status, response.header("location")), (302, Some("http://example.com/")), "{name}");
        client.send("HEAD /known HTTP/1.1\r\nHost: h\r\n\r\n");
        let response = client.response_to("HEAD");
        assert_eq!((response.status, response.header("content-length")), (200, Some("5")), "{name}");
        assert_eq!(client.get("/known").text(), "known", "{name}");
    });
}

#[test]
fn a_response_that_is_too_short() {
    with_each(|name, application| {
        let server = server(application, name, "");
        let mut client = server.connect();
        client.send("GET /short HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(client.try_response("GET").is_err(), "{name}");
        server.logs("upstream prematurely closed");
        assert_eq!(server.get("/known").text(), "known", "{name}");
    });
}

#[test]
fn output_comes_as_it_is_made() {
    with_each(|name, application| {
        let server = server(application, name, "");
        events_come_one_by_one(&mut server.connect(), "/events");
    });
}
