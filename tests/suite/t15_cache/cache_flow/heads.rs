//! Heads of hits: what is made once is used again, and only where the next client gets the same.

use freerun_testkit::{Response, TestServer, TestUpstream, require};

use super::{before, ok, serve, settled};

/// Some fields of a response, as they were sent.
fn shown(response: &Response) -> String {
    let names = [
        "x-cache",
        "content-type",
        "x-one",
        "x-two",
        "etag",
        "last-modified",
        "accept-ranges",
        "location",
        "set-cookie",
    ];
    let fields = names.iter().filter_map(|name| Some(format!("{name}: {}", response.header(name)?)));
    format!("{} {}", response.status, fields.collect::<Vec<_>>().join("|"))
}

/// What this target gives, three times, of which the last two must be the same: a head that was made, and one made again.
fn thrice(server: &TestServer, target: &str, fields: &str) -> String {
    server.get_with(target, fields);
    let (second, third) = (shown(&server.get_with(target, fields)), shown(&server.get_with(target, fields)));
    assert_eq!(second, third, "{target} {fields}");
    third
}

#[test]
fn each_location_has_its_own_head_of_a_stored_response() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|_| {
        ok(
            "Cache-Control: max-age=1000|Content-Type: text/plain; charset=utf-8|X-One: 1|X-Two: 2|ETag: \"e\"",
            "the body",
        )
    });
    let pass = format!("proxy_pass http://{}/;", origin.address());
    let server = serve(
        &format!(
            "proxy_cache_key one; location /a/ {{ {pass} proxy_hide_header X-One; }}
             location /b/ {{ {pass} proxy_hide_header X-Two; }} location /c/ {{ {pass} proxy_force_ranges on; }}"
        ),
        "",
    );
    server.get("/a/");
    let rest = |fields: &str| format!("200 x-cache: HIT|content-type: text/plain; charset=utf-8|{fields}");
    for _ in 0..2 {
        assert_eq!(thrice(&server, "/a/", ""), rest("x-two: 2|etag: \"e\""));
        assert_eq!(thrice(&server, "/b/", ""), rest("x-one: 1|etag: \"e\""));
        assert_eq!(thrice(&server, "/c/", ""), rest("x-one: 1|x-two: 2|etag: \"e\"|accept-ranges: bytes"));
    }
    assert!(thrice(&server, "/a/", "If-None-Match: \"e\"\r\n").starts_with("304 x-cache: HIT"));
    assert!(thrice(&server, "/c/", "Range: bytes=0-1\r\n").starts_with("206 x-cache: HIT"));
    assert_eq!(server.get("/c/").text(), "the body");
    let head = server.send("HEAD /a/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!((head.header("content-length"), head.text().as_str()), (Some("8"), ""));

    server.edit("proxy_hide_header X-One", "proxy_hide_header X-None");
    server.reload();
    assert_eq!(thrice(&server, "/a/", ""), rest("x-one: 1|x-two: 2|etag: \"e\""));
}

#[test]
fn what_depends_on_the_request_is_made_for_each() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|_| {
        ok("Cache-Control: max-age=1000|Set-Cookie: a=1; Path=/|Location: /to|X-Accel-Limit-Rate: 100000", "the body")
    });
    let server = before(
        &origin,
        "proxy_cache_key one; proxy_ignore_headers Set-Cookie; proxy_cookie_path / /$arg_way; proxy_redirect /to /$arg_way/to;
         absolute_redirect off;",
    );
    server.get("/");
    for way in ["x", "y", "x"] {
        let shown = thrice(&server, &format!("/?way={way}"), "");
        assert_eq!(shown, format!("200 x-cache: HIT|location: /{way}/to|set-cookie: a=1; Path=/{way}"));
    }
}

/// HEAD that is passed on as such is answered by what is stored for GET, and by what is just being stored, at any moment of that.
#[test]
fn head_finds_what_is_becoming_a_stored_response() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|_| ok("Cache-Control: max-age=1000", "the body"));
    let server = before(&origin, "proxy_cache_convert_head off; keepalive_requests 100000;");
    let mut client = server.connect();
    for number in 0..1000 {
        client.get(&format!("/{number}"));
        client.send(format!("HEAD /{number} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(4));
        let said: Vec<_> = (0..4).map(|_| client.response_to("HEAD").header("x-cache").map(str::to_owned)).collect();
        assert_eq!(said, ["HIT"; 4].map(|hit| Some(hit.to_owned())), "{number}");
    }
}

/// What the stored answer to HEAD does not say of the length of GET's, nobody knows; an empty body that is stored has one.
#[test]
fn head_has_the_length_that_is_known() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| {
        let length = if request.target() == "/said" { "Content-Length: 8\r\n" } else { "" };
        // Without a length the body of GET ends with the connection.
        let body = if request.target() == "/said" && request.line().starts_with("GET") { "the body" } else { "" };
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nConnection: close\r\n{length}\r\n{body}")
            .into_bytes()
    });
    for key in ["proxy_cache_key $request_method$uri;", "proxy_cache_key $uri;"] {
        let server = before(&origin, &format!("proxy_cache_convert_head off; {key}"));
        let ask = |method: &str, target: &str| {
            let mut client = server.connect();
            client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
            let response = client.response_to(method);
            (response.header("x-cache").map(str::to_owned), response.header("content-length").map(str::to_owned))
        };
        let hit = |length: Option<&str>| (Some("HIT".to_owned()), length.map(str::to_owned));
        for target in ["/said", "/unsaid"] {
            ask("HEAD", target);
            settled(&server);
            assert_eq!(ask("HEAD", target), hit((target == "/said").then_some("8")), "HEAD {target} {key}");
        }
        ask("GET", "/empty");
        settled(&server);
        assert_eq!(ask("GET", "/empty"), hit(Some("0")), "{key}");
        if key.contains("method") {
            ask("HEAD", "/empty");
            settled(&server);
            assert_eq!(ask("HEAD", "/empty"), hit(None));
        } else {
            assert_eq!(ask("HEAD", "/empty"), hit(Some("0")), "what GET has stored is known");
        }
    }
}
