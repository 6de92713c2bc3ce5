//! Purges: of a key, of all keys that begin alike, and of tags.

use freerun_testkit::{TestUpstream, require};

use super::{before, counting, ok, said, serve, settled};

const PURGE: &str = "set $purge 0; if ($request_method = PURGE) { set $purge 1; } proxy_cache_purge $purge;
    proxy_cache_key $uri;";

fn purge(server: &freerun_testkit::TestServer, target: &str, fields: &str) -> u16 {
    server.send(format!("PURGE {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).status
}

#[test]
fn a_key_is_purged_and_no_other_one() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000");
    let server = before(&origin, PURGE);
    for target in ["/a", "/b"] {
        server.get(target);
    }
    settled(&server);
    assert_eq!(purge(&server, "/a", ""), 204);
    assert_eq!(said(&server.get("/a")), ("MISS".into(), "/a 3".into()));
    assert_eq!(said(&server.get("/b")), ("HIT".into(), "/b 2".into()));
    assert_eq!(purge(&server, "/never", ""), 404);
    assert_eq!(origin.take_requests().len(), 3, "purges are not passed on");
}

#[test]
fn keys_that_begin_alike_are_purged_at_once() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000");
    let server = before(&origin, PURGE);
    for target in ["/img/a", "/img/b", "/css/a"] {
        server.get(target);
    }
    // What is fetched while a purge is going on is not used any more, whether it was meant or not.
    settled(&server);
    assert_eq!(purge(&server, "/img/*", ""), 204);
    let told = ["/img/a", "/img/b", "/css/a"].map(|target| said(&server.get(target)).0);
    assert_eq!(told, ["MISS", "MISS", "HIT"]);
    // What was fetched since is newer than the purge.
    assert_eq!(said(&server.get("/img/a")).0, "HIT");
}

#[test]
fn what_has_a_tag_is_purged_whatever_its_key() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| {
        let tags = match request.target() {
            "/a" => "Cache-Control: max-age=1000|Surrogate-Key: red blue",
            "/b" => "Cache-Control: max-age=1000|Cache-Tag: blue, green",
            _ => "Cache-Control: max-age=1000",
        };
        ok(tags, request.target())
    });
    let server = before(&origin, PURGE);
    let all = || {
        let told = ["/a", "/b", "/c"].map(|target| said(&server.get(target)).0);
        settled(&server);
        told
    };
    assert_eq!(all(), ["MISS", "MISS", "MISS"]);
    assert_eq!(purge(&server, "/", "Surrogate-Key: red\r\n"), 204);
    assert_eq!(all(), ["MISS", "HIT", "HIT"]);
    assert_eq!(purge(&server, "/", "Cache-Tag: blue\r\n"), 204);
    assert_eq!(all(), ["MISS", "MISS", "HIT"]);
    assert_eq!(purge(&server, "/", "Surrogate-Key: none of them\r\n"), 204);
    assert_eq!(all(), ["HIT", "HIT", "HIT"]);
    let many: String = (0..100).map(|number| format!("t{number} ")).collect();
    assert_eq!(purge(&server, "/", &format!("Surrogate-Key: {many}\r\n")), 400);
}

#[test]
fn all_variants_of_a_key_are_purged() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000|Vary: X-Lang");
    let server = before(&origin, PURGE);
    let all = || {
        let told = ["de", "en"].map(|lang| said(&server.get_with("/a", &format!("X-Lang: {lang}\r\n"))).0);
        settled(&server);
        told
    };
    assert_eq!((all(), all()), (["MISS".into(), "MISS".into()], ["HIT".into(), "HIT".into()]));
    assert_eq!(purge(&server, "/a", ""), 204);
    assert_eq!(all(), ["MISS", "MISS"]);
}

#[test]
fn what_was_answered_to_head_goes_with_the_rest() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| {
        let whole = ok("Cache-Control: max-age=1000", "the body");
        if request.line().starts_with("HEAD") { whole[..whole.len() - 8].to_vec() } else { whole }
    });
    let server = before(&origin, &format!("proxy_cache_convert_head off; {PURGE}"));
    let head = || {
        let mut client = server.connect();
        client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
        said(&client.response_to("HEAD")).0
    };
    assert_eq!((head(), head()), ("MISS".into(), "HIT".into()));
    purge(&server, "/a", "");
    assert_eq!(head(), "MISS");
    assert_eq!(purge(&server, "/*", ""), 204);
    assert_eq!(head(), "MISS");
}

#[test]
fn a_method_purges_from_the_clients_that_may_use_it() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000");
    let address = origin.address();
    let location = |path: &str, purge: &str| {
        format!("location {path} {{ proxy_cache_key $uri; proxy_cache_purge {purge}; proxy_pass http://{address}; }}")
    };
    let lines = [
        location("/on/", "on"),
        location("/method/", "PURGE from 10.0.0.0/8 127.0.0.1"),
        location("/other/", "DELETE from all"),
        location("/others/", "PURGE from 10.0.0.0/8"),
        location("/all/", "PURGE purge_all from all"),
        location("/uncached/", "PURGE from all; proxy_cache off"),
    ];
    let server = serve(&lines.join("\n"), "");
    let ask = |method: &str, target: &str| server.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n")).status;
    for (method, target, status, then) in [
        ("PURGE", "/on/a", 200, "MISS"),
        ("PURGE", "/method/a", 200, "MISS"),
        ("DELETE", "/other/a", 200, "MISS"),
        ("PURGE", "/others/a", 403, "HIT"),
        ("PURGE", "/all/never", 200, "MISS"),
    ] {
        let stored = if target == "/all/never" { "/on/a" } else { target };
        server.get(stored);
        settled(&server);
        assert_eq!(said(&server.get(stored)).0, "HIT", "{target}: a GET is no purge");
        assert_eq!((ask(method, target), said(&server.get(stored)).0), (status, then.into()), "{method} {target}");
        settled(&server);
    }
    assert_eq!((ask("PURGE", "/on/never"), ask("PURGE", "/uncached/a")), (404, 404));
    assert!(
        origin.take_requests().iter().all(|request| request.line().starts_with("GET ")),
        "purges are not passed on"
    );
}

#[test]
fn the_error_page_of_a_purge_is_asked_for_and_not_purged() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000");
    let lines = format!(
        "proxy_cache_key $uri; proxy_cache_purge PURGE from 127.0.0.1; error_page 403 404 /page;
         location /others {{ proxy_cache_purge PURGE from 10.0.0.0/8; proxy_pass http://{}; }}",
        origin.address()
    );
    let server = before(&origin, &lines);
    for (target, status) in [("/never", 404), ("/others", 403)] {
        for _ in 0..2 {
            let response = server.send(format!("PURGE {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!((response.status, response.text().as_str()), (status, "/page 1"), "{target}");
            settled(&server);
        }
    }
    assert_eq!(said(&server.get("/page")), ("HIT".into(), "/page 1".into()));
}

#[test]
fn a_location_purges_a_key_of_a_zone() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000");
    let lines = "proxy_cache_key $scheme$request_method$host$uri;
        location ~ ^/purge(/.*)$ { allow 127.0.0.1; deny all; proxy_cache_purge z ${scheme}GET$host$1; }
        location ~ ^/denied(/.*)$ { deny all; proxy_cache_purge z ${scheme}GET$host$1; }";
    let server = before(&origin, lines);
    for target in ["/a", "/b"] {
        server.get(target);
    }
    settled(&server);
    assert_eq!((server.get("/denied/a").status, said(&server.get("/a")).0), (403, "HIT".into()));
    let purged = server.get("/purge/a");
    assert_eq!(purged.status, 200);
    assert!(purged.text().contains("Successful purge"));
    let told = ["/a", "/b"].map(|target| said(&server.get(target)).0);
    assert_eq!(told, ["MISS", "HIT"]);
    assert_eq!(server.get("/purge/never").status, 404);
}
