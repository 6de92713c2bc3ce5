//! `freerun explain --request`: it says what the running server does.

use freerun_testkit::{Kind, ProgramOutput, RefusingAddress, Setup, Site, TestServer, require, run};
use serde_json::Value;
use std::time::Duration;

const TIME: Duration = Duration::from_secs(60);

/// The explanation of a request to a server's configuration, with further arguments.
fn explain(server: &TestServer, request: &str, further: &[&str]) -> ProgramOutput {
    let (conf, prefix) = (server.path("nginx.conf"), server.path(""));
    let (conf, prefix) = (conf.display().to_string(), prefix.display().to_string());
    let mut arguments = vec!["explain", "--request", request, "-c", &conf, "-p", &prefix];
    arguments.extend(further);
    run(Kind::Freerun, &arguments, TIME).expect("the program starts")
}

fn json(done: &ProgramOutput) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{}{}", done.stdout, done.stderr))
}

/// The steps of a kind, each with text and result.
fn steps(explained: &Value, kind: &str) -> Vec<String> {
    let all = explained["steps"].as_array().expect("steps");
    let line =
        |step: &Value| format!("{}: {}", step["text"].as_str().unwrap_or(""), step["result"].as_str().unwrap_or(""));
    all.iter().filter(|step| step["kind"] == kind).map(line).collect()
}

const LINES: &str = r#"
    error_page 404 /missing.html;
    add_header X-Level server;
    rewrite ^/old/(.*)$ /new/$1?from=old permanent;
    rewrite ^/moved/(.*)$ /files/$1;
    location / { try_files $uri $uri/ @none; }
    location @none { return 404; }
    location = /exact { return 200 "exact $arg_a"; }
    location ~ \.(php|cgi)$ { return 403; }
    location ~* \.GIF$ { add_header X-Level gif; expires 1h; }
    location ^~ /static/ { alias @ROOT@/files/; }
    location /nested/ { location ~ /in/ { return 204; } location /nested/deep/ { return 206; } return 205; }
    location /closed/ { deny all; }
    location /half/ { satisfy any; allow 127.0.0.1; deny all; auth_basic x; auth_basic_user_file users; return 200 "half"; }
    location /secret/ { auth_basic "who"; auth_basic_user_file users; return 200 "secret"; }
    location /small/ { client_max_body_size 10; return 200 "small"; }
    location /if/ { set $x 1; if ($arg_b) { set $x 2; } if ($x = 2) { return 302 /elsewhere$is_args$args; } break; return 200; }
    location /file-if/ { if (-f @ROOT@/a.txt) { return 201; } return 202; }
    location /inner/ { internal; return 200 "inner"; }
    location /to-inner/ { rewrite ^ /inner/; }
    location /loop/ { rewrite ^/loop/(.*)$ /loop/x$1; }
    location /only-get/ { limit_except GET { deny all; } return 200 "got"; }
    location /gone/ { return 444; }
    location /list/ { autoindex on; }
    location /error/ { error_page 403 =200 /exact; deny all; }
    location /folder/ { proxy_pass http://group/under/; }
    location /pass/ { proxy_pass http://group; proxy_set_header X-Path $uri; add_header X-Passed yes; }
    location /vars/ { proxy_pass http://$arg_to/x; }
"#;

/// Whatever is said of the status and of where a client is redirected is what the server does.
#[test]
fn what_is_said_is_what_the_server_does() {
    let site = Site::new();
    site.file("a.txt", "a").file("index.html", "index").file("d/index.html", "d").file("files/f.txt", "f");
    site.file("files/g.gif", "gif").file("missing.html", "missing").file("list/x.txt", "x");
    let nobody = RefusingAddress::new();
    let server = Setup::server(&site, LINES)
        .http(&format!("upstream group {{ server {}; }}", nobody.address()))
        .http("server { listen 127.0.0.1:@PORT@; server_name other.example *.wild.example ~^re\\d+$; return 200 \"$server_name $host\"; }")
        .freerun();
    std::fs::write(server.path("users"), "me:{PLAIN}word\n").expect("writing");
    let port = server.port();
    let basic = "Authorization: Basic bWU6d29yZA==";
    let paths = [
        "/",
        "/a.txt",
        "/d",
        "/d/",
        "/none",
        "/old/x?y=1",
        "/old/",
        "/moved/f.txt",
        "/moved/none",
        "/exact?a=b",
        "/exact/",
        "/x.php",
        "/static/x.php",
        "/static/f.txt",
        "/static/",
        "/files/g.gif",
        "/files/G.GIF",
        "/nested/",
        "/nested/in/x",
        "/nested/deep/in/",
        "/nested/deep/",
        "/closed/x",
        "/half/",
        "/secret/",
        "/small/",
        "/if/",
        "/if/?b=1",
        "/file-if/",
        "/inner/",
        "/to-inner/x",
        "/loop/",
        "/only-get/",
        "/gone/",
        "/list/",
        "/list",
        "/error/",
        "/folder",
        "/folder?q",
        "/folder/a",
        "/pass/%41b",
        "/vars/",
        "/vars/?to=127.0.0.1:1",
        "/%2e%2e/a.txt",
        "/a%00b",
        "//a.txt",
        "/a.txt/",
    ];
    let hosts = ["localhost", "OTHER.example", "a.wild.example", "re7", "nobody.example"];
    let methods = ["GET", "HEAD", "POST", "OPTIONS"];
    let mut asked = Vec::new();
    for path in paths {
        asked.push(("GET", "localhost", path, ""));
        asked.push(("GET", "localhost", path, basic));
    }
    asked.extend(hosts.map(|host| ("GET", host, "/exact", "")));
    for method in methods {
        asked.extend(
            ["/exact", "/only-get/", "/a.txt", "/small/", "/pass/"].map(|path| (method, "localhost", path, "")),
        );
    }
    asked.push(("POST", "localhost", "/small/", "Content-Length: 11"));
    asked.push(("GET", "localhost", "/a.txt", "If-None-Match: *"));
    asked.push(("GET", "localhost", "/a.txt", "Range: bytes=5-"));
    asked.push(("TRACE", "localhost", "/", ""));
    for (method, host, path, field) in &asked {
        let url = format!("http://{host}:{port}{path}");
        // The address of the test is the only one that is listened at.
        let to = format!("127.0.0.1:{port}");
        let mut further = vec!["--json", "--to", &to];
        if !field.is_empty() {
            further.extend(["-H", field]);
        }
        let about = format!("{method} {url} {field}");
        let done = explain(&server, &format!("{method} {url}"), &further);
        let explained = json(&done);
        let lines = if field.is_empty() { String::new() } else { format!("{field}\r\n") };
        let text = format!("{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{lines}Connection: close\r\n\r\n");
        let mut client = server.connect();
        client.send(text);
        if explained["is_passed_on"] == true {
            // Nobody answers there.
            assert_eq!(client.response_to(method).status, 502, "{about}: {explained}");
            continue;
        }
        let Some(status) = explained["status"].as_u64() else {
            assert!(client.rest().0.is_empty(), "{about}: {explained}");
            continue;
        };
        let response = client.response_to(method);
        assert_eq!(u64::from(response.status), status, "{about}: {explained}");
        let fields = explained["fields"].as_array().map(Vec::as_slice).unwrap_or_default();
        for name in ["Location", "X-Level", "Content-Type", "Content-Length", "Cache-Control", "WWW-Authenticate"] {
            let said: Vec<&str> = fields
                .iter()
                .filter_map(|field| field.as_str()?.split_once(": ").filter(|(known, _)| *known == name))
                .map(|(_, value)| value)
                .collect();
            assert_eq!(said, response.all(name), "{about}: {name}: {explained}");
        }
    }
}

#[test]
fn each_step_has_its_place_and_its_result() {
    let site = Site::new();
    site.file("a.txt", "a");
    let server = Setup::server(&site, LINES)
        .http("upstream group { server 127.0.0.1:1 weight=2; server 127.0.0.1:2; }")
        .freerun();
    let port = server.port();
    let explained = json(&explain(&server, &format!("GET http://localhost:{port}/moved/a.GIF"), &["--json"]));
    // The page of the error comes behind it, and begins at the server again.
    assert_eq!(
        steps(&explained, "rewrite")[..2],
        [
            "rewrite ^/old/(.*)$ /new/$1?from=old permanent: does not match",
            "rewrite ^/moved/(.*)$ /files/$1: matches; the URI is now /files/a.GIF",
        ],
        "{explained}"
    );
    let location = explained["steps"].as_array().expect("steps").iter().find(|step| step["kind"] == "location");
    let location = location.expect("a location");
    assert_eq!(location["text"], "location ~* \\.GIF$");
    let tried = location["details"].to_string();
    assert!(tried.contains("is the longest prefix") && tried.contains("(php|cgi)$"), "{tried}");
    let place = location["place"].as_str().expect("a place");
    assert!(place.contains("nginx.conf:"), "{place}");
    // The missing file is answered with the page of the server.
    assert_eq!(steps(&explained, "error_page").len(), 1, "{explained}");
    let explained = json(&explain(&server, &format!("http://localhost:{port}/pass/a?b"), &["--json", "-H", "X-A: c"]));
    let sent: Vec<&str> = explained["sent"].as_array().expect("a request").iter().filter_map(Value::as_str).collect();
    assert_eq!(sent[0], "GET /pass/a?b HTTP/1.1");
    assert!(sent.contains(&"X-Path: /pass/a") && sent.contains(&"X-A: c") && sent.contains(&"Host: group"), "{sent:?}");
    assert_eq!((&explained["upstream"], &explained["status"]), (&"group".into(), &Value::Null));
    assert!(explained["fields"].to_string().contains("X-Passed: yes"), "{explained}");
    let refused = explain(&server, &format!("http://localhost:{port}/closed/"), &["--from", "192.0.2.7"]);
    assert!(
        refused.stdout.contains("refused: 403") && refused.stdout.contains("access forbidden by rule"),
        "{}",
        refused.stdout
    );
}

#[test]
fn sessions_of_stream_are_explained() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .http("server { listen 127.0.0.1:@PORT@; }")
        .stream(
            "map $ssl_preread_server_name $to { a.example 127.0.0.1:1; default group; }
             upstream group { server 127.0.0.1:2; }
             server { listen 127.0.0.1:@PORT2@; ssl_preread on; proxy_pass $to; }
             server { listen 127.0.0.1:@PORT3@; deny 127.0.0.1; proxy_pass group; }",
        )
        .freerun();
    let of = |session: String| json(&explain(&server, &session, &["--json"]));
    let (second, third) = (server.port_number(2), server.port_number(3));
    assert_eq!(of(format!("tls a.example:{second}"))["upstream"], "127.0.0.1:1");
    assert_eq!(of(format!("tls b.example:{second}"))["upstream"], "group");
    let refused = of(format!("tcp 127.0.0.1:{third}"));
    assert_eq!((&refused["status"], refused["upstream"].as_str()), (&403.into(), None));
}

#[test]
fn what_cannot_be_explained_is_refused_with_advice() {
    if !require::freerun() {
        return;
    }
    let server = Setup::server(&Site::new(), "").freerun();
    let port = server.port();
    for (request, further, told) in [
        ("GET nowhere", &[][..], "\"nowhere\" is no URL: write a request as 'GET https://"),
        ("GET http://localhost:1/", &[], "nothing listens at port 1; the addresses are 127.0.0.1:"),
        ("tcp 127.0.0.1:1", &[], "the configuration has no address for such a request"),
        (&format!("https://localhost:{port}/"), &[], "has no TLS (\"listen … ssl\")"),
        (&format!("http://localhost:{port}/"), &["-H", "a"], "\"-H a\" is no field: write -H 'Name: value'"),
        (&format!("http://localhost:{port}/"), &["--to", "x"], "is no address, such as 192.0.2.1:443"),
    ] {
        let done = explain(&server, request, further);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{request}: {}", done.stderr);
        assert!(done.stderr.contains(told), "{request}: {}", done.stderr);
    }
    std::fs::write(server.path("wrong.conf"), "events {}\nhttp { nonsense; }\n").expect("writing");
    let wrong = server.path("wrong.conf").display().to_string();
    let done = run(Kind::Freerun, &["explain", "--request", "/", "-c", &wrong], TIME).expect("the program starts");
    assert!(done.code == Some(1) && done.stderr.contains("unknown directive \"nonsense\""), "{}", done.stderr);
}
