//! How much a cache keeps.

use freerun_testkit::{Kind, Setup, TestServer, TestUpstream, eventually, ok, require};

use super::stored;
use crate::runner::both;
use crate::t13_proxy::proxied::TODAY;

/// A server whose cache has these parameters.
fn server(kind: Kind, behind: &str, parameters: &str) -> TestServer {
    Setup::new()
        .http(&format!(
            "{TODAY} proxy_cache_path @DIR@/cache {parameters}; add_header X-Cache $upstream_cache_status;
             server {{ listen 127.0.0.1:@PORT@; proxy_cache z; proxy_cache_valid any 1h;
                 location / {{ proxy_pass http://{behind}; }} }}"
        ))
        .start(kind)
}

fn files(server: &TestServer) -> usize {
    stored(&server.path("cache")).len()
}

/// A server that was asked for so many different things.
fn asked(kind: Kind, behind: &str, parameters: &str, count: usize) -> TestServer {
    let server = server(kind, behind, parameters);
    eventually("something is stored", || {
        server.get("/first");
        files(&server) > 0
    });
    let mut client = server.connect();
    for number in 0..count {
        assert_eq!(client.get(&format!("/{number}")).status, 200);
    }
    server
}

#[test]
fn a_small_zone_keeps_no_more_than_with_nginx() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|_| ok("ok"));
    for zone in ["12k", "16k", "20k"] {
        let parameters = format!("keys_zone=z:{zone}");
        let Some(servers) = both(|kind| asked(kind, origin.address(), &parameters, 200)) else { return };
        // nginx stores one response after the other, so that all are when the last one is.
        eventually("the last response is stored", || servers.nginx.get("/199").header("x-cache") == Some("HIT"));
        let nginx = files(&servers.nginx);
        // freerun writes and removes files behind the answers. nginx removes a file a little before or after its entry.
        eventually(&format!("{zone}: freerun keeps about as much as nginx, {nginx}"), || {
            (nginx / 2 + 1..=nginx + 2).contains(&files(&servers.freerun))
        });
    }
}

#[test]
fn a_size_of_nothing_empties_a_cache() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|_| ok("ok"));
    both(|kind| {
        let server = server(kind, origin.address(), "keys_zone=z:1m levels=1 inactive=1h");
        // A request that follows another one of the same key is a hit before the file has its name.
        eventually(&format!("{kind:?} has stored it"), || {
            server.get("/a").header("x-cache") == Some("HIT") && files(&server) > 0
        });
        server.edit("inactive=1h", "inactive=1h max_size=0");
        server.reload();
        eventually("nothing is left", || files(&server) == 0);
        assert_eq!(server.get("/a").text(), "ok");
        eventually("nothing is left again", || files(&server) == 0);
    });
}
