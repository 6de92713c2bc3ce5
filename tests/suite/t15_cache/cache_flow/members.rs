//! What holds for each member of the family that has a cache, and for the fragments of a page.

use std::path::{Path, PathBuf};
use std::time::Duration;

use freerun_cache::key::{Key, Levels};
use freerun_testkit::{Peer, Setup, Site, TestServer, TestUpstream, fastcgi_record, require};

use super::{counting, said, settled, until_open};

/// Members whose applications are told about a request in a form of their own.
const MEMBERS: [&str; 3] = ["fastcgi", "uwsgi", "scgi"];

/// Reads a request without a body. `None`: the connection has ended.
fn read_request(member: &str, peer: &mut Peer) -> Option<()> {
    match member {
        "fastcgi" => loop {
            let head = peer.try_bytes(8)?;
            let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
            peer.try_bytes(length + usize::from(head[6]))?;
            if head[1] == 5 && length == 0 {
                return Some(());
            }
        },
        "uwsgi" => {
            let head = peer.try_bytes(4)?;
            peer.try_bytes(usize::from(u16::from_le_bytes([head[1], head[2]]))).map(drop)
        }
        _ => {
            let mut length = 0;
            loop {
                match peer.try_bytes(1)?[0] {
                    b':' => return peer.try_bytes(length + 1).map(drop),
                    digit => length = length * 10 + usize::from(digit - b'0'),
                }
            }
        }
    }
}

/// The address of an application whose every answer has another number, and may be kept for long.
fn application(member: &'static str) -> String {
    let upstream = TestUpstream::new();
    let address = upstream.address();
    std::thread::spawn(move || {
        for number in 1.. {
            let Some(mut peer) = upstream.try_accept(Duration::from_secs(3600)) else { return };
            if read_request(member, &mut peer).is_none() {
                return;
            }
            let number = format!("answer {number}");
            let length = number.len();
            let text =
                format!("Status: 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: {length}\r\n\r\n{number}");
            let answer = match member {
                "fastcgi" => {
                    [fastcgi_record(6, text.as_bytes()), fastcgi_record(6, b""), fastcgi_record(3, &[0; 8])].concat()
                }
                _ => text.into_bytes(),
            };
            peer.send(answer);
        }
    });
    address
}

/// A server whose cache has these keys, with these lines.
fn cached(member: &str, lines: &str, site: &Site) -> TestServer {
    let lines = format!("location = /status {{ status; }} {lines}");
    let server = Setup::server(site, &lines)
        .http(&format!(
            "{member}_cache_path @DIR@/cache keys_zone=z:1m; {member}_cache_key $uri;
             add_header X-Cache $upstream_cache_status;"
        ))
        .freerun();
    until_open(&server);
    server
}

fn stored_file(server: &TestServer, key: &str) -> PathBuf {
    let levels = Levels::parse("").expect("levels");
    server.path("cache").join(levels.file_name(Key::of(key.as_bytes())))
}

#[track_caller]
fn remove(path: &Path) {
    std::fs::remove_file(path).expect("a stored file");
}

#[test]
fn a_removed_file_is_no_hit_for_any_member() {
    if !require::freerun() {
        return;
    }
    for member in MEMBERS {
        let address = application(member);
        let lines = format!("location / {{ {member}_param A b; {member}_pass {address}; {member}_cache z; }}");
        let server = cached(member, &lines, &Site::new());
        let get = || said(&server.get("/a"));
        assert_eq!(get(), ("MISS".into(), "answer 1".into()), "{member}");
        settled(&server);
        for _ in 0..2 {
            assert_eq!(get(), ("HIT".into(), "answer 1".into()), "{member}");
        }
        remove(&stored_file(&server, "/a"));
        assert_eq!(get(), ("MISS".into(), "answer 2".into()), "{member}");
        settled(&server);
        assert_eq!(get(), ("HIT".into(), "answer 2".into()), "{member}");
    }
}

#[test]
fn a_removed_file_is_no_hit_for_a_fragment() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000");
    let site = Site::new();
    site.file("page.html", "[<!--# include virtual=\"/fragment/a\" -->]");
    let address = origin.address();
    let lines = format!("ssi on; location /fragment/ {{ proxy_pass http://{address}; proxy_cache z; }}");
    let server = cached("proxy", &lines, &site);
    let page = || {
        let text = server.get("/page.html").text();
        settled(&server);
        text
    };
    for number in 1..=2 {
        for _ in 0..3 {
            assert_eq!(page(), format!("[/fragment/a {number}]"));
        }
        remove(&stored_file(&server, "/fragment/a"));
    }
}

#[test]
fn a_method_and_a_location_purge_for_any_member() {
    if !require::freerun() {
        return;
    }
    for member in MEMBERS {
        let address = application(member);
        let lines = format!(
            "location / {{ {member}_param A b; {member}_pass {address}; {member}_cache z;
                           {member}_cache_purge PURGE from 127.0.0.1; }}
             location ~ ^/purge(/.*)$ {{ {member}_cache_purge z $1; }}"
        );
        let server = cached(member, &lines, &Site::new());
        let ask = |line: &str| server.send(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n")).status;
        for purge in ["PURGE /a", "GET /purge/a"] {
            assert_eq!(said(&server.get("/a")).0, "MISS", "{member}");
            settled(&server);
            assert_eq!(said(&server.get("/a")).0, "HIT", "{member}");
            assert_eq!((ask(purge), ask(purge)), (200, 404), "{member}: {purge}");
        }
        assert_eq!(said(&server.get("/a")).0, "MISS", "{member}");
    }
}
