//! Clients that go away while a response is fetched for the cache: it is fetched to its end, and the access log says
//! what the client got.

use freerun_testkit::{Server, Setup, Site, Upstream, require};

use super::{said, settled, until_open};

const NOTED: &str = "client prematurely closed connection while a response is fetched for the cache";

fn before(upstream: &Upstream, lines: &str) -> Server {
    let lines = format!(
        "location = /status {{ access_log off; status; }}
         location / {{ proxy_cache z; proxy_cache_valid any 1000s; add_header X-Cache $upstream_cache_status; {lines}
             proxy_pass http://{}; }}",
        upstream.address()
    );
    let setup = Setup::server(&Site::new(), &lines).http(
        "proxy_cache_path @DIR@/cache keys_zone=z:1m;
         log_format gone '$request_uri $status $body_bytes_sent rc=$request_completion';
         access_log @DIR@/access.log gone;",
    );
    let server = setup.freerun();
    until_open(&server);
    server
}

#[test]
fn who_has_gone_is_logged_with_what_it_got() {
    if !require::freerun() {
        return;
    }
    for lines in ["", "proxy_cache_lock on;", "limit_rate 100;"] {
        for is_reset in [false, true] {
            let upstream = Upstream::new();
            let server = before(&upstream, lines);
            for (number, target) in ["/closed", "/answered"].into_iter().enumerate() {
                let mut client = server.connect();
                client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
                let mut peer = upstream.accept();
                peer.head();
                match is_reset {
                    true => client.reset(),
                    false => drop(client),
                }
                freerun_testkit::eventually("the client has gone", || {
                    server.error_log().matches(NOTED).count() == number + 1
                });
                if target == "/answered" {
                    let body = "x".repeat(500);
                    peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{body}"));
                }
                drop(peer);
                let logged = server.access_lines(number + 1);
                let expected = if target == "/answered" { "200 0 rc=" } else { "499 0 rc=" };
                assert_eq!(logged[number], format!("{target} {expected}"), "{lines} reset: {is_reset}");
            }
            settled(&server);
            let stored = server.get("/answered");
            assert_eq!((said(&stored).0, stored.body.len()), ("HIT".into(), 500), "it was fetched to its end");
        }
    }
}
