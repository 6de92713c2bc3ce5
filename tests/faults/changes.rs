//! Files that change while they are being sent: what comes is right or cut short, never padded, never mixed.

use crate::BIG;
use freerun_testkit::fuse::Fixture;
use freerun_testkit::http2::{FieldBlock, Frame, PREFACE};
use freerun_testkit::{Setup, Site, TestClient, TestServer, eventually, require};
use rustix::net::{RecvFlags, recv};
use std::fs;

const SIZE: usize = 30_000_000;
/// What is left of a file of that size when it is cut.
const LEFT: u64 = 25_000_000;
const WAYS: [&str; 4] = ["sendfile on;", "sendfile off;", "sendfile on; aio threads;", "sendfile off; aio threads;"];

fn site() -> Site {
    let site = Site::new();
    site.file("big", vec![b'a'; SIZE]).file("small", "small");
    site
}

/// A client that has begun to read and then stands still, so that the server is in the middle of the file.
fn begun(server: &TestServer, target: &str) -> TestClient {
    let mut client = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
    client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).at_least(1);
    client
}

fn body(mut client: TestClient) -> Vec<u8> {
    let (bytes, _) = client.half_close().rest();
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    bytes[head..].to_vec()
}

#[test]
fn a_file_that_shrinks() {
    for way in WAYS {
        let site = site();
        let server = Setup::server(&site, way).run();
        let client = begun(&server, "/big");
        // Far behind what the sockets hold: pages that are on their way by `sendfile` and get cut show zeros, which nobody can help.
        let file = fs::File::options().write(true).open(site.at("big"));
        file.and_then(|file| file.set_len(LEFT)).expect("cutting");
        let body = body(client);
        assert!(body.len() <= LEFT as usize, "{way}: {} bytes", body.len());
        assert!(body.iter().all(|byte| *byte == b'a'), "{way}: nothing else came");
        assert_eq!(server.get("/small").text(), "small");
        // An open file may be kept for a moment, and with it the size it had.
        eventually("the new size", || {
            let mut client = server.connect();
            client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
            client.try_response("GET").is_ok_and(|response| response.body.len() as u64 == LEFT)
        });
    }
}

/// With `sendfile off`, the default, a client gets no byte that was not read from the file: neither zeros in place of what was
/// cut off, nor what was written to it later.
#[test]
fn without_sendfile_only_bytes_that_were_read_arrive() {
    for way in ["", "sendfile off;", "sendfile off; aio threads;", "open_file_cache max=10;"] {
        let site = site();
        let server = Setup::server(&site, way).run();
        let client = begun(&server, "/big");
        let file = fs::File::options().write(true).open(site.at("big"));
        file.and_then(|file| file.set_len(1000)).expect("cutting");
        let (mut client, mut bytes) = (client, Vec::new());
        bytes.extend(client.half_close().rest().0);
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        let strange = bytes[head..].iter().filter(|byte| **byte != b'a').count();
        assert_eq!(strange, 0, "{way}: of {} bytes", bytes.len() - head);
        assert!(!bytes.is_empty() && bytes.len() < SIZE, "{way}: the response is cut short");
        server.logs("file was truncated while it was sent to the client");
    }
}

/// What has been sent with `sendfile off` was read before: a file that is written anew in its place changes nothing of it.
#[test]
fn without_sendfile_what_was_sent_stays_as_it_was() {
    for way in ["", "sendfile off;", "sendfile off; aio threads;", "sendfile off; aio off;", "open_file_cache max=10;"]
    {
        for over_http2 in [false, true] {
            let site = site();
            let server = Setup::server(&site, &format!("http2 on; {way}")).run();
            let mut client = server.connect();
            if over_http2 {
                let settings = Frame::settings(&[]).bytes();
                client.send([PREFACE, &settings, &Frame::headers(1, FieldBlock::get("/big")).end().bytes()].concat());
            } else {
                client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
            }
            let mut sent = Vec::new();
            eventually("the file is on its way", || {
                sent = peek(&client);
                sent.iter().filter(|byte| **byte == b'a').count() > 30_000
            });
            fs::File::options()
                .write(true)
                .open(site.at("big"))
                .and_then(|mut file| std::io::Write::write_all(&mut file, &vec![b'b'; SIZE]))
                .expect("writing");
            let received = client.at_least(sent.len());
            assert!(received[..sent.len()] == sent, "{way}, HTTP/2: {over_http2}");
        }
    }
}

/// The bytes that a client could read at once, without reading them.
fn peek(client: &TestClient) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    let count = recv(client.socket(), &mut bytes, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    bytes.truncate(count.map_or(0, |(_, count)| count));
    bytes
}

#[test]
fn a_hot_file_that_is_written_anew() {
    for way in WAYS {
        let site = Site::new();
        let server = Setup::server(&site, way).run();
        let mut client = server.connect();
        for length in [90_000, 1000, 200_000, 100_000] {
            let name = format!("{length}");
            site.file(&name, vec![b'a'; 100_000]);
            // What is answered now is kept for a moment.
            assert_eq!(client.get(&format!("/{name}")).body.len(), 100_000);
            // In place: it stays the same file.
            fs::write(site.at(&name), vec![b'b'; length]).expect("writing");
            let response = client.get(&format!("/{name}"));
            assert!(response.body == vec![b'b'; length], "{way}: {} bytes", response.body.len());
        }
    }
}

#[test]
fn a_file_that_grows() {
    for way in WAYS {
        let site = site();
        let server = Setup::server(&site, way).run();
        let mut client = begun(&server, "/big");
        let more = fs::File::options().append(true).open(site.at("big"));
        more.and_then(|mut file| std::io::Write::write_all(&mut file, &[b'b'; 100_000])).expect("appending");
        let response = client.response();
        assert!(response.body == vec![b'a'; SIZE], "{way}: exactly what was promised");
        assert_eq!(client.get("/small").text(), "small");
    }
}

#[test]
fn a_file_that_is_replaced_or_removed() {
    for way in WAYS {
        for replaced in [true, false] {
            let site = site();
            let server = Setup::server(&site, way).run();
            let mut client = begun(&server, "/big");
            if replaced {
                site.file("new", vec![b'b'; 1000]);
                fs::rename(site.at("new"), site.at("big")).expect("renaming");
            } else {
                fs::remove_file(site.at("big")).expect("removing");
            }
            let response = client.response();
            assert!(response.body == vec![b'a'; SIZE], "{way}: the file that was opened");
            let next = client.get("/big");
            if replaced {
                assert!(next.body == vec![b'b'; 1000] || next.body == vec![b'a'; SIZE], "{way}")
            } else {
                assert!(next.status == 404 || next.body == vec![b'a'; SIZE], "{way}: {}", next.line)
            }
        }
    }
}

#[test]
fn small_files_are_never_mixed() {
    // Rewritten in place all the time, always all of one letter and of one length per letter.
    let site = Site::new();
    site.file("f", "a".repeat(1000));
    let server = Setup::server(&site, "").run();
    let mut client = server.connect();
    for round in 0..200 {
        let letter = (b'a' + round % 26) as char;
        site.file("next", letter.to_string().repeat(1000 + usize::from(round)));
        fs::rename(site.at("next"), site.at("f")).expect("renaming");
        let response = client.get("/f");
        assert_eq!(response.status, 200);
        let first = response.body[0];
        assert!(response.body.iter().all(|byte| *byte == first));
    }
}

#[test]
fn a_mount_that_tells_too_large_a_size() {
    if !require::fuse() {
        return;
    }
    for way in WAYS {
        let site = Site::new();
        site.folder("slow").file("small", "small");
        let fixture = Fixture::mount(&site.at("slow"), false).expect("mounting");
        fixture.file("big", BIG);
        fixture.tree().shrink("big", 1_000_000).expect("the file is there");
        let server = Setup::server(&site, way).freerun();
        let mut client = server.connect();
        client.send("GET /slow/big HTTP/1.1\r\nHost: h\r\n\r\n");
        let body = body(client);
        assert!(
            body.len() <= 1_000_000 && body == Fixture::content("big", 0, body.len()),
            "{way}: {} bytes",
            body.len()
        );
        assert_eq!(server.get("/small").text(), "small");
    }
}
