//! Requests over another protocol than HTTP/1: handlers and filters serve streams of a toy protocol unchanged, over a byte
//! stream and over datagrams.

mod client;
mod fields;
mod tls;
mod toy;
mod wire;

pub use self::toy::{ToyService, drive};
pub use self::wire::Wire;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use self::client::{Carrier, Client, Ended};
use crate::in_process::Server;

/// A window larger than any unread data of a client here.
const WIDE: usize = 1 << 24;

/// A folder of files that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &[u8])]) -> Folder {
        // Several tests use the same name.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("freerun-toy-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for (name, content) in files {
            std::fs::write(path.join(name), content).unwrap();
        }
        Folder(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An origin that hands each of its connections to the test.
fn origin() -> (u16, mpsc::Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            if send.send(stream).is_err() {
                return;
            }
        }
    });
    (port, receive)
}

/// Reads up to and including these bytes.
fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut got = Vec::new();
    let mut byte = [0];
    while !got.ends_with(end) {
        stream.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
    got
}

/// Makes two tests of each of these functions: one over a byte stream, one over datagrams.
macro_rules! over_each_carrier {
    ($($name:ident),* $(,)?) => {
        mod over_bytes {
            $(#[test] fn $name() { super::$name(super::Carrier::Bytes); })*
        }
        mod over_datagrams {
            $(#[test] fn $name() { super::$name(super::Carrier::Datagrams); })*
        }
    };
}

over_each_carrier!(
    files_come_whole_and_in_part_and_several_at_once,
    no_more_is_sent_than_the_window_allows_and_others_go_on,
    a_slow_upstream_server_holds_no_other_stream_up_and_bodies_go_both_ways,
    a_reset_gives_the_upstream_request_up_and_a_cut_response_is_reset,
    pages_are_put_together_and_responses_are_stored,
    a_stream_becomes_a_tunnel_and_others_go_on,
    connect_opens_a_tunnel_on_a_stream,
    a_connection_that_is_idle_is_closed_to_make_room,
    a_connection_that_is_idle_is_closed_when_the_worker_ends,
);

fn a_connection_that_is_idle_is_closed_to_make_room(carrier: Carrier) {
    let (port, origin) = origin();
    let (server, _logs) =
        Server::start(&format!("server {{ listen 8080; location / {{ proxy_pass http://127.0.0.1:{port}; }} }}"));
    let mut busy = Client::connect_over(carrier, &server, WIDE);
    busy.ask(1, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = origin.recv().unwrap();
    read_until(&mut upstream, b"\r\n\r\n");
    // No connection is idle; when its request has ended, this one is.
    server.look_for_room();
    upstream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    assert_eq!(busy.answer(1).status, 204, "the request goes on");
    busy.wait_for_end();
    server.stop();
}

fn a_connection_that_is_idle_is_closed_when_the_worker_ends(carrier: Carrier) {
    let (port, origin) = origin();
    let (mut server, _logs) = Server::start(&format!(
        "server {{ listen 8080; location / {{ return 204; }} location /slow {{ proxy_pass http://127.0.0.1:{port}; }} }}"
    ));
    let (mut idle, mut busy) =
        (Client::connect_over(carrier, &server, WIDE), Client::connect_over(carrier, &server, WIDE));
    idle.ask(1, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(idle.answer(1).status, 204);
    busy.ask(1, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = origin.recv().unwrap();
    read_until(&mut upstream, b"\r\n\r\n");
    server.drain();
    idle.wait_for_end();
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").unwrap();
    assert_eq!(&busy.answer(1).body[..], b"done", "a request that goes on has its response");
    busy.wait_for_end();
    server.stop();
}

fn files_come_whole_and_in_part_and_several_at_once(carrier: Carrier) {
    let large: Vec<u8> = (0..=250).cycle().take(300_000).collect();
    let folder = Folder::new("files", &[("large.bin", &large), ("small.txt", b"small\n")]);
    let (server, _logs) = Server::start(&format!("server {{ listen 8080; root {}; }}", folder.path()));
    let mut client = Client::connect_over(carrier, &server, WIDE);
    client.ask(1, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    client.ask(2, "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    client.ask(3, "GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=1000-1999\r\n\r\n");
    client.ask(4, "GET /missing HTTP/1.1\r\nHost: a\r\n\r\n");
    client.ask(5, "HEAD /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    let (whole, small, part) = (client.answer(1), client.answer(2), client.answer(3));
    assert_eq!((whole.status, whole.ended), (200, Ended::Whole));
    assert!(whole.body == large);
    assert_eq!(whole.field("content-length"), Some("300000"));
    assert_eq!((whole.field("connection"), whole.field("transfer-encoding")), (None, None));
    assert_eq!((small.status, &small.body[..]), (200, &b"small\n"[..]));
    assert_eq!(part.status, 206);
    assert!(part.body == large[1000..2000]);
    assert_eq!(part.field("content-range"), Some("bytes 1000-1999/300000"));
    assert_eq!(client.answer(4).status, 404);
    let head = client.answer(5);
    assert_eq!((head.field("content-length"), head.body.len(), head.ended), (Some("300000"), 0, Ended::Whole));
    server.stop();
}

fn no_more_is_sent_than_the_window_allows_and_others_go_on(carrier: Carrier) {
    let large: Vec<u8> = (0..=250).cycle().take(200_000).collect();
    let folder = Folder::new("window", &[("large.bin", &large), ("small.txt", b"small\n")]);
    let (server, _logs) = Server::start(&format!("server {{ listen 8080; root {}; }}", folder.path()));
    let mut client = Client::connect_over(carrier, &server, 1000);
    client.ask(1, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    client.ask(2, "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(&client.answer(2).body[..], b"small\n");
    // The driver panics at one byte more.
    client.wait_for(1, &large[..1000]);
    for _ in 0..199 {
        client.open(1, 1000);
    }
    let whole = client.answer(1);
    assert!(whole.body == large);
    server.stop();
}

fn a_slow_upstream_server_holds_no_other_stream_up_and_bodies_go_both_ways(carrier: Carrier) {
    let folder = Folder::new("proxy", &[("small.txt", b"small\n")]);
    let (port, origin) = origin();
    let (server, _logs) = Server::start(&format!(
        "server {{ listen 8080; root {}; location /app {{ proxy_pass http://127.0.0.1:{port}; }}
           location /through {{ proxy_pass http://127.0.0.1:{port}; proxy_request_buffering off; proxy_buffering off;
                                add_trailer Sum $bytes_sent; }} }}",
        folder.path()
    ));
    let mut client = Client::connect_over(carrier, &server, WIDE);
    client.ask(1, "POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    client.send(1, b"01234");
    client.ask(2, "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(&client.answer(2).body[..], b"small\n");
    client.send(1, b"56789");
    client.end(1);
    let mut upstream = origin.recv().unwrap();
    let asked = read_until(&mut upstream, b"0123456789");
    assert!(asked.starts_with(b"POST /app HTTP/1.1\r\n"), "{}", asked.escape_ascii());
    upstream.write_all(b"HTTP/1.1 201 Created\r\nX-From: there\r\nContent-Length: 4\r\n\r\nmade").unwrap();
    let made = client.answer(1);
    assert_eq!((made.status, made.field("x-from"), &made.body[..]), (201, Some("there"), &b"made"[..]));

    client.ask(3, "POST /through HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n");
    client.send(3, b"abc");
    let mut upstream = origin.recv().unwrap();
    read_until(&mut upstream, b"\r\n\r\nabc");
    client.send(3, b"def");
    client.end(3);
    read_until(&mut upstream, b"def");
    upstream.write_all(b"HTTP/1.1 200 OK\r\n\r\nfirst,").unwrap();
    client.wait_for(3, b"first,");
    upstream.write_all(b"second").unwrap();
    drop(upstream);
    let through = client.answer(3);
    assert_eq!((&through.body[..], through.ended), (&b"first,second"[..], Ended::Whole));
    assert!(through.trailers.starts_with("Sum: "), "{}", through.trailers);
    server.stop();
}

fn a_reset_gives_the_upstream_request_up_and_a_cut_response_is_reset(carrier: Carrier) {
    let (port, origin) = origin();
    let (server, mut logs) = Server::start(&format!(
        "log_format f '$uri $status'; access_log all f;
         server {{ listen 8080; location / {{ proxy_pass http://127.0.0.1:{port}; }} }}"
    ));
    let mut client = Client::connect_over(carrier, &server, WIDE);
    client.ask(1, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = origin.recv().unwrap();
    read_until(&mut upstream, b"\r\n\r\n");
    client.reset(1);
    assert_eq!(upstream.read(&mut [0; 16]).unwrap(), 0, "the request was given up");
    assert_eq!(logs[0].line(), "/slow 499");

    client.ask(2, "GET /cut HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = origin.recv().unwrap();
    read_until(&mut upstream, b"\r\n\r\n");
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all").unwrap();
    drop(upstream);
    let cut = client.answer(2);
    assert_eq!((cut.status, cut.ended), (200, Ended::Reset), "nobody may take it for whole");
    server.stop();
}

fn pages_are_put_together_and_responses_are_stored(carrier: Carrier) {
    let page = b"<!--#include virtual=\"/part\" -->, <!--#echo var=\"arg_x\" -->";
    let folder = Folder::new("cache", &[("page.shtml", page)]);
    let (port, origin) = origin();
    let (server, _logs) = Server::start(&format!(
        "proxy_cache_path {0}/cache keys_zone=z:1m;
         server {{ listen 8080; root {0}; ssi on; ssi_types *;
                   location /part {{ proxy_pass http://127.0.0.1:{port}; proxy_cache z; proxy_cache_valid 1h; }}
                   location /stored {{ proxy_pass http://127.0.0.1:{port}; proxy_cache z; proxy_cache_valid 1h;
                                       add_header X-Cache $upstream_cache_status; }} }}",
        folder.path()
    ));
    let mut client = Client::connect_over(carrier, &server, WIDE);
    client.ask(1, "GET /page.shtml?x=argument HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = origin.recv().unwrap();
    read_until(&mut upstream, b"\r\n\r\n");
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nincluded").unwrap();
    assert_eq!(&client.answer(1).body[..], b"included, argument");

    client.ask(2, "GET /stored HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = origin.recv().unwrap();
    read_until(&mut upstream, b"\r\n\r\n");
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstored").unwrap();
    let first = client.answer(2);
    assert_eq!((first.field("x-cache"), &first.body[..]), (Some("MISS"), &b"stored"[..]));
    client.ask(3, "GET /stored HTTP/1.1\r\nHost: a\r\n\r\n");
    client.ask(4, "GET /page.shtml?x=again HTTP/1.1\r\nHost: a\r\n\r\n");
    let second = client.answer(3);
    assert_eq!((second.field("x-cache"), &second.body[..]), (Some("HIT"), &b"stored"[..]));
    assert_eq!(&client.answer(4).body[..], b"included, again");
    assert!(origin.try_recv().is_err(), "the origin was asked once for each");
    server.stop();
}

fn a_stream_becomes_a_tunnel_and_others_go_on(carrier: Carrier) {
    let folder = Folder::new("tunnel", &[("small.txt", b"small\n")]);
    let (port, origin) = origin();
    let (server, mut logs) = Server::start(&format!(
        "log_format f '$uri $status $body_bytes_sent'; access_log all f;
         server {{ listen 8080; root {};
                   location /app {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1;
                                    proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}",
        folder.path()
    ));
    let mut client = Client::connect_over(carrier, &server, WIDE);
    let head = "GET /app HTTP/1.1\r\nHost: a\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\n";
    client.ask(1, head);
    let mut upstream = origin.recv().unwrap();
    read_until(&mut upstream, b"\r\n\r\n");
    upstream
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\nhello")
        .unwrap();
    client.wait_for(1, b"hello");
    // An empty frame is not the end.
    client.send(1, b"");
    client.send(1, b"question");
    read_until(&mut upstream, b"question");
    client.ask(2, "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(&client.answer(2).body[..], b"small\n");
    assert_eq!(logs[0].line(), "/small.txt 200 6");
    upstream.write_all(b", answer").unwrap();
    client.wait_for(1, b"hello, answer");
    client.end(1);
    assert_eq!(upstream.read(&mut [0; 16]).unwrap(), 0, "the end is passed on");
    drop(upstream);
    let tunnel = client.answer(1);
    assert_eq!((tunnel.status, tunnel.ended), (101, Ended::Whole));
    assert_eq!(logs[0].line(), "/app 101 13");

    // An upstream server that breaks off has the stream reset: it must not look like an end.
    client.ask(3, head);
    let mut upstream = origin.recv().unwrap();
    read_until(&mut upstream, b"\r\n\r\n");
    upstream
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\nhello")
        .unwrap();
    client.wait_for(3, b"hello");
    rustix::net::sockopt::set_socket_linger(&upstream, Some(std::time::Duration::ZERO)).unwrap();
    drop(upstream);
    assert_eq!(client.answer(3).ended, Ended::Reset);
    server.stop();
}

fn connect_opens_a_tunnel_on_a_stream(carrier: Carrier) {
    let folder = Folder::new("connect", &[("users", b"plain:{PLAIN}secret\n")]);
    let (port, origin) = origin();
    let (server, mut logs) = Server::start(&format!(
        "log_format f '$request_method $host:$request_port $status $body_bytes_sent $remote_user'; access_log all f;
         server {{ listen 8080; auth_basic closed; auth_basic_user_file {}/users; add_header X-Via here; tunnel_pass; }}",
        folder.path()
    ));
    let mut client = Client::connect_over(carrier, &server, WIDE);
    let head = |fields: &str| format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    client.ask(1, &head(""));
    let refused = client.answer(1);
    assert_eq!((refused.status, refused.field("proxy-authenticate")), (407, Some("Basic realm=\"closed\"")));
    assert_eq!(logs[0].line(), format!("CONNECT 127.0.0.1:{port} 407 {} -", refused.body.len()));

    let allowed = head("Proxy-Authorization: Basic cGxhaW46c2VjcmV0\r\n");
    client.ask(2, &allowed);
    // It need not wait for the answer.
    client.send(2, b"early, ");
    let mut upstream = origin.recv().unwrap();
    upstream.write_all(b"hello").unwrap();
    client.wait_for(2, b"hello");
    client.send(2, b"question");
    read_until(&mut upstream, b"early, question");
    client.end(2);
    assert_eq!(upstream.read(&mut [0; 16]).unwrap(), 0, "the end is passed on");
    // The server may still answer, and its end is the end of the tunnel.
    upstream.write_all(b", answer").unwrap();
    drop(upstream);
    let tunnel = client.answer(2);
    assert_eq!((tunnel.status, &tunnel.body[..], tunnel.ended), (200, &b"hello, answer"[..], Ended::Whole));
    assert_eq!((tunnel.field("x-via"), tunnel.field("content-length")), (Some("here"), None));
    assert_eq!(logs[0].line(), format!("CONNECT 127.0.0.1:{port} 200 13 plain"));

    // A server that breaks off has the stream reset, and a client that resets it ends the connection to the server.
    client.ask(3, &allowed);
    let mut upstream = origin.recv().unwrap();
    upstream.write_all(b"hello").unwrap();
    client.wait_for(3, b"hello");
    rustix::net::sockopt::set_socket_linger(&upstream, Some(std::time::Duration::ZERO)).unwrap();
    drop(upstream);
    assert_eq!(client.answer(3).ended, Ended::Reset);
    client.ask(4, &allowed);
    let mut upstream = origin.recv().unwrap();
    upstream.write_all(b"hello").unwrap();
    client.wait_for(4, b"hello");
    client.reset(4);
    assert_eq!(upstream.read(&mut [0; 16]).unwrap(), 0);
    server.stop();
}
