//! The head and body that the server behind gets.

use crate::harness::{Case, get, raw, request};
use crate::t13_proxy::proxied::{Proxied, answered, compare_proxied, passed};

/// A request in the ways that a client can send it.
fn ways(path: &str) -> Vec<Case> {
    let fields = |case: Case| {
        case.field("X-A: 1")
            .field("x-a: 2")
            .field("X-B: v")
            .field("x-Empty: 1")
            .field("Accept: */*")
            .field("Cookie: a=b")
    };
    let target = format!("{path}?m=FOO");
    vec![
        fields(get(&target)),
        fields(request("POST", &target)).field("Content-Length: 3").body("abc"),
        fields(request("POST", &target)).field("Transfer-Encoding: chunked").body("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
        fields(request("POST", &target)).field("Content-Length: 0"),
    ]
}

fn compare_ways(lines: &[(&str, &str)]) {
    let mut server = String::new();
    let mut cases: Vec<Proxied> = Vec::new();
    for (path, inside) in lines {
        server += &format!("location {path} {{ {inside} proxy_pass http://@UP@; }}\n");
        cases.extend(ways(path).into_iter().map(passed));
    }
    compare_proxied("", &server, cases);
}

#[test]
fn fields_that_are_set() {
    compare_ways(&[
        ("/none", ""),
        (
            "/some",
            "proxy_set_header X-1 $remote_addr; proxy_set_header x-empty \"\"; proxy_set_header X-A new; proxy_set_header \
             Connection close; proxy_set_header X-2 \"a $uri\";",
        ),
        ("/host", "proxy_set_header Host $http_host; proxy_set_header Connection \"\";"),
        ("/nohost", "proxy_set_header Host \"\"; proxy_set_header Connection \"\";"),
        ("/host2", "proxy_set_header host $host; proxy_set_header connection \"\";"),
        ("/twice", "proxy_set_header X-A a; proxy_set_header X-A b; proxy_set_header Connection \"\";"),
        ("/vars", "proxy_set_header Connection \"\"; proxy_set_header X-V $proxy_host:$proxy_port/$arg_m$arg_none;"),
        ("/gone", "proxy_set_header Connection \"\"; proxy_set_header X-A $arg_none; proxy_set_header Cookie \"\";"),
        ("/spaces", "proxy_set_header Connection \"\"; proxy_set_header X-S \"  a  b  \";"),
        (
            "/usual",
            "proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For \
             $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header Connection \"\";",
        ),
    ]);
}

/// A client that waits for leave to send a body that is empty gets it.
#[test]
fn bodies_that_wait_for_leave() {
    let lines = "location / { proxy_pass http://@UP@; } location /unbuffered { proxy_request_buffering off; proxy_pass http://@UP@; }";
    let mut cases = Vec::new();
    for path in ["/", "/unbuffered"] {
        for fields in ["", "Content-Length: 0\r\n", "Content-Length: 2\r\n"] {
            for version in ["1.0", "1.1"] {
                let body = if fields.contains('2') { "ab" } else { "" };
                let head =
                    format!("POST {path} HTTP/{version}\r\nHost: a\r\nExpect: 100-Continue\r\n{fields}\r\n{body}");
                cases.push(passed(raw(head)));
            }
        }
    }
    compare_proxied("", lines, cases);
}

/// A body that has come whole with its head has a length, and is there for an error page, though it is not waited for.
#[test]
fn bodies_in_chunks_that_come_with_their_heads() {
    let lines = "
        proxy_request_buffering off;
        location /passed { proxy_pass http://@UP@; add_header X-Body <$request_body> always; }
        location /dead { proxy_pass http://127.0.0.1:1; error_page 502 = /page; }
        location /refused { proxy_pass http://@UP@; proxy_intercept_errors on; error_page 404 = /page; }
        location /elsewhere { proxy_pass http://127.0.0.1:1; error_page 502 = /passed; }
        location /page { return 200 \"<$request_body>\"; }
    ";
    let bodies = ["3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "0\r\n\r\n", "1;x=y\r\na\r\n0\r\nT: v\r\n\r\n"];
    let mut cases = Vec::new();
    for path in ["/passed", "/dead", "/refused", "/elsewhere"] {
        for body in bodies {
            let case = request("POST", path).field("Transfer-Encoding: chunked").body(body);
            cases.push(match path {
                "/refused" => answered(case, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
                _ => passed(case),
            });
        }
    }
    compare_proxied("", lines, cases);
}

#[test]
fn methods_and_bodies() {
    compare_ways(&[
        ("/purge", "proxy_method PURGE;"),
        ("/lower", "proxy_method get;"),
        ("/var", "proxy_method $arg_m;"),
        ("/body", "proxy_set_body \"x$request_uri\";"),
        ("/nobody", "proxy_set_body \"\";"),
        ("/nofields", "proxy_pass_request_headers off;"),
        ("/unbuffered", "proxy_set_body abc; proxy_request_buffering off;"),
        ("/both", "proxy_pass_request_headers off; proxy_set_header X-Q 1; proxy_set_header Connection \"\";"),
    ]);
}

#[test]
fn no_body() {
    // Here nginx announces a body that it does not send.
    let lines = "
        location /off { proxy_pass_request_body off; proxy_pass http://@UP@; }
        location /usual { proxy_pass_request_body off; proxy_set_header Content-Length \"\"; proxy_set_header Connection \"\"; \
             proxy_pass http://@UP@; }
    ";
    let mut cases = vec![passed(get("/off")), passed(request("POST", "/off").field("Content-Length: 0"))];
    cases.extend(ways("/usual").into_iter().map(passed));
    compare_proxied("", lines, cases);
}

#[test]
fn the_clients_body_is_read_where_another_one_is_sent() {
    let lines = "
        client_max_body_size 30; proxy_set_header Connection \"\";
        location /set { proxy_set_body \"<$request_body>\"; proxy_pass http://@UP@; }
        location /unbuffered { proxy_request_buffering off; proxy_set_body \"<$request_body>\"; proxy_pass http://@UP@; }
        location /off { proxy_pass_request_body off; proxy_set_header Content-Length \"\"; proxy_set_header X-Body \"<$request_body>\"; \
             proxy_set_header Connection \"\"; proxy_pass http://@UP@; }
        location /small { client_max_body_size 3; proxy_set_body set; proxy_pass http://@UP@; }
        location /page { error_page 502 /set; proxy_set_body set; proxy_pass http://127.0.0.1:1; }
    ";
    let mut cases = Vec::new();
    for path in ["/set", "/unbuffered", "/off", "/small", "/page"] {
        let post = || request("POST", path);
        let chunked = |body: &str| post().field("Transfer-Encoding: chunked").body(body);
        cases.extend(
            [
                post().field("Content-Length: 3").body("abc"),
                post().field("Content-Length: 0"),
                post().field("Content-Length: 4").body("abcd"),
                chunked("3\r\nabc\r\n0\r\n\r\n"),
                chunked("1\r\na\r\n3\r\nbcd\r\n0\r\n\r\n"),
                chunked("zz\r\nabc\r\n0\r\n\r\n"),
                post().field("Content-Length: 3").field("Expect: 100-continue").body("abc"),
                get(path),
            ]
            .map(passed),
        );
    }
    compare_proxied("", lines, cases);
}

#[test]
fn pages_for_requests_whose_body_was_refused() {
    let lines = "
        client_max_body_size 3; proxy_set_header Connection \"\";
        location / { error_page 413 @e; proxy_pass http://@UP@; }
        location /uri { error_page 413 /page; proxy_pass http://@UP@; }
        location = /page { proxy_pass http://@UP@; }
        location /denied { error_page 403 @e; deny all; client_max_body_size 100; }
        location /set { error_page 413 @s; proxy_pass http://@UP@; }
        location @s { proxy_set_body \"<$request_body>\"; proxy_pass http://@UP@; }
        location @e { proxy_pass http://@UP@; }
    ";
    let mut cases = Vec::new();
    for path in ["/", "/uri", "/denied", "/set"] {
        cases.push(passed(request("POST", path).field("Content-Length: 5").body("abcde")));
        let chunked = request("POST", path).field("Transfer-Encoding: chunked");
        cases.push(passed(chunked.body("5\r\nabcde\r\n0\r\n\r\n")));
    }
    compare_proxied("", lines, cases);
}

#[test]
fn inheritance() {
    let http = "proxy_set_header X-Http 1; proxy_set_header Connection \"\"; proxy_method PUT;";
    let lines = "
        location /all { proxy_pass http://@UP@; }
        location /own { proxy_set_header X-Own 1; proxy_set_header Connection \"\"; proxy_pass http://@UP@; }
        location /outer/ { proxy_set_header X-Outer 1; proxy_set_header Connection \"\"; proxy_set_body outer;
            location /outer/a { proxy_pass http://@UP@; }
            location /outer/b { proxy_set_header X-Inner 1; proxy_set_header Connection \"\"; proxy_method GET; proxy_pass http://@UP@; }
        }
        location /if { if ($arg_x) { set $x 1; } proxy_set_header X-If \"<$x>\"; proxy_set_header Connection \"\"; proxy_pass http://@UP@; }
    ";
    let cases = ["/all", "/own", "/outer/a", "/outer/b", "/if", "/if?x=1"].map(|target| passed(get(target)));
    // The harness's own proxy_set_header would be a second one at this level; both are of the same level.
    compare_proxied(http, lines, cases.into());
}

#[test]
fn hop_by_hop() {
    let fields = |case: Case| {
        case.field("Keep-Alive: 3")
            .field("TE: trailers")
            .field("Upgrade: h2c")
            .field("Trailer: a")
            .field("Proxy-Authorization: p")
            .field("Date: x")
            .field("Via: v")
            .field("Content-Type: t")
            .field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT")
            .field("If-None-Match: \"a\"")
            .field("Range: bytes=0-1")
            .field("X-Forwarded-For: 1.1.1.1")
            .field("X-Forwarded-For: 2.2.2.2")
    };
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /ws { proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection \"upgrade\"; proxy_pass http://@UP@; }
        location /xff { proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header Connection \"\"; proxy_pass http://@UP@; }
    ";
    let mut cases = Vec::new();
    for path in ["/a", "/ws", "/xff"] {
        cases.push(passed(fields(get(path))));
        cases.push(passed(fields(get(path)).field("Connection: close")));
        cases.push(passed(fields(request("POST", path)).field("Content-Length: 3").body("abc")));
    }
    cases.push(passed(get("/a").field("Connection: keep-alive, X-A").field("X-A: 1")));
    cases.push(passed(raw("GET /a HTTP/1.0\r\n\r\n")));
    cases.push(passed(raw("GET /a HTTP/1.0\r\nHost: h\r\nX-A: 1\r\n\r\n")));
    cases.push(passed(raw("GET /a\r\n")));
    cases.push(passed(request("HEAD", "/a")));
    cases.push(passed(request("OPTIONS", "/a")));
    cases.push(passed(request("DELETE", "/a")));
    cases.push(passed(request("FOO", "/a")));
    cases.push(passed(request("PUT", "/a").field("Content-Length: 3").body("abc")));
    cases.push(passed(request("PATCH", "/a").field("Transfer-Encoding: chunked").body("0\r\n\r\n")));
    compare_proxied("", lines, cases);
}

#[test]
fn old_protocol() {
    let lines = "
        location /a { proxy_http_version 1.0; proxy_pass http://@UP@; }
        location /b { proxy_http_version 1.0; proxy_request_buffering off; proxy_pass http://@UP@; }
        location /c { proxy_http_version 1.0; proxy_set_body abc; proxy_pass http://@UP@; }
    ";
    let cases = ["/a", "/b", "/c"].iter().flat_map(|path| ways(path)).map(passed).collect();
    compare_proxied("", lines, cases);
}

#[test]
fn bodies_of_all_sizes() {
    let lines = "
        client_body_buffer_size 1k;
        location /a { proxy_pass http://@UP@; }
        location /u { proxy_request_buffering off; proxy_pass http://@UP@; }
        location /small { client_max_body_size 2k; proxy_pass http://@UP@; }
    ";
    let mut cases = Vec::new();
    for path in ["/a", "/u"] {
        for size in [1, 1000, 1024, 1025, 5000, 100_000] {
            let body = "x".repeat(size);
            cases.push(passed(request("PUT", path).field(&format!("Content-Length: {size}")).body(&body)));
        }
    }
    for size in [1, 5000, 100_000] {
        let body = format!("{size:x}\r\n{}\r\n0\r\n\r\n", "y".repeat(size));
        cases.push(passed(request("PUT", "/a").field("Transfer-Encoding: chunked").body(body)));
    }
    cases.push(passed(request("PUT", "/small").field("Content-Length: 2049").body("z".repeat(2049))));
    cases.push(passed(request("PUT", "/small").field("Content-Length: 2048").body("z".repeat(2048))));
    compare_proxied("", lines, cases);
}

#[test]
fn subrequests() {
    let lines = "
        location /auth/ { auth_request /check; auth_request_set $who $upstream_http_x_who; proxy_set_header X-Who \"<$who>\"; \
            proxy_set_header Connection \"\"; proxy_pass http://@UP@/app/; }
        location = /check { internal; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; proxy_set_header X-Original-URI \
            $request_uri; proxy_set_header Connection \"\"; proxy_pass http://@UP@/is%20it?ok; }
        location /page { ssi on; ssi_types *; proxy_pass http://@UP@; }
        location /part { proxy_pass http://@UP@; }
    ";
    let who = "HTTP/1.1 200 OK\r\nX-Who: ann\r\nContent-Length: 2\r\n\r\nok";
    let no = "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno";
    let cases = vec![
        answered(get("/auth/a%20b?c"), who),
        answered(request("POST", "/auth/x").field("Content-Length: 3").body("abc"), who),
        answered(get("/auth/x"), no),
        answered(get("/auth/x"), "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno"),
        answered(
            get("/page?a=b"),
            "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n<!--#include virtual=\"/part/a%20b?x=y\" -->",
        ),
    ];
    compare_proxied("", lines, cases);
}

#[test]
fn what_is_known_of_servers_that_were_asked() {
    // The request is made before a server is chosen for it, and only once for all of them.
    let asked = "proxy_set_header X-Asked \"$upstream_addr|$upstream_status|$upstream_http_x_up\"; proxy_set_header X-None \
                 $upstream_addr; proxy_set_header Connection \"\"; proxy_ignore_headers X-Accel-Redirect;";
    let http = "upstream tried { server 127.0.0.1:1 max_fails=0; server @UP@ max_fails=0; }";
    let lines = format!(
        "
        location /once {{ {asked} proxy_pass http://@UP@; }}
        location /body {{ proxy_set_body \"$upstream_addr.\"; proxy_pass http://@UP@; }}
        location /tried {{ {asked} proxy_pass http://tried; }}
        location /first {{ {asked} proxy_intercept_errors on; error_page 404 /once; proxy_pass http://@UP@; }}
        location /inside {{ proxy_pass http://@UP@; }}
        location /named {{ proxy_intercept_errors on; error_page 404 = @next; proxy_pass http://tried; }}
        location @next {{ {asked} proxy_pass http://tried; }}
        "
    );
    let missing = "HTTP/1.1 404 Not Found\r\nX-Up: one\r\nContent-Length: 2\r\n\r\nno";
    let elsewhere = "HTTP/1.1 200 OK\r\nX-Up: one\r\nX-Accel-Redirect: /once\r\nContent-Length: 2\r\n\r\nok";
    let mut cases: Vec<Proxied> = ["/once", "/body", "/tried", "/tried", "/tried"].map(|path| passed(get(path))).into();
    cases.extend(["/first", "/named", "/named"].map(|path| answered(get(path), missing)));
    cases.push(answered(get("/inside"), elsewhere));
    compare_proxied(http, &lines, cases);
}
