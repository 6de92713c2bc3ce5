//! Statuses for what is too large.

use crate::harness::{compare, raw, request};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn heads() {
    let site = site();
    let lines = "client_header_buffer_size 256; large_client_header_buffers 2 512;";
    let target = |length: usize| raw(format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(length)));
    let field =
        |length: usize| raw(format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(length)));
    let fields = |count: usize, length: usize| {
        let line = format!("X: {}\r\n", "a".repeat(length));
        raw(format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n{}\r\n", line.repeat(count)))
    };
    compare(
        &Setup::server(&site, lines),
        vec![
            target(100),
            target(240),
            target(400),
            target(480),
            target(600),
            target(5000),
            field(100),
            field(300),
            field(480),
            field(600),
            field(5000),
            fields(3, 100),
            fields(4, 250),
            fields(30, 100),
            raw("a".repeat(5000)),
        ],
    );
}

#[test]
fn heads_with_the_default_buffers() {
    let site = site();
    let target = |length: usize| raw(format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(length)));
    let field =
        |length: usize| raw(format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(length)));
    compare(
        &Setup::server(&site, ""),
        vec![
            target(3000),
            target(8000),
            target(8200),
            target(40_000),
            field(3000),
            field(8000),
            field(8200),
            field(40_000),
        ],
    );
}

#[test]
fn bodies() {
    let site = site();
    let lines = "
        client_max_body_size 10;
        location /big/ { client_max_body_size 1m; return 200 big; }
        location /any/ { client_max_body_size 0; return 200 any; }
        location /ret { return 200 ret; }
    ";
    let post = |target: &str, length: usize| {
        request("POST", target).field(&format!("Content-Length: {length}")).body("x".repeat(length))
    };
    compare(
        &Setup::server(&site, lines),
        vec![
            post("/ret", 10),
            post("/ret", 11),
            post("/none", 10),
            post("/none", 11),
            post("/a.txt", 11),
            post("/big/", 100_000),
            post("/any/", 100_000),
            request("GET", "/a.txt").field("Content-Length: 11").body("x".repeat(11)),
        ],
    );
}
