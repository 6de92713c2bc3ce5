//! Header syntax and body framing: what is refused, and what is read.

use crate::harness::{Case, compare, get, raw, request};
use crate::site::site;
use freerun_testkit::Setup;

const BARE_LF: &str = "since 1.29.4 a bare LF as line end inside a chunked body is an error";
const REFUSED: &str = "HTTP/1.1 400 Bad Request";

fn post(fields: &str, body: &str) -> Case {
    raw(format!("POST /body HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{body}"))
}

#[test]
fn header_syntax() {
    let site = site();
    let with = |line: &str| raw(format!("GET /h HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n"));
    let lines = "location /h { return 200 \"[$http_x] [$http_x_y]\\n\"; }";
    compare(
        &Setup::server(&site, lines),
        vec![
            with("X: y"),
            with("X:y"),
            with("X:    y   "),
            with("X:\ty"),
            with("X:"),
            with("X: "),
            with("x: lower"),
            with("X-Y: dash"),
            with("X_Y: underscore"),
            with("X: a\r\nX: b").differs("since 1.23.0 repeated fields are joined", "HTTP/1.1 200 OK"),
            with("X : y"),
            with("X y"),
            with("X"),
            with(": y"),
            with(" X: y"),
            with("X: a\r\n folded"),
            with("X@: y"),
            with("X(: y"),
            with("X.Z: y"),
            with("X: a\tb"),
            with("X: \u{e9}"),
            with("X: a\u{1}b"),
            with("X: a\u{7f}b"),
            raw(b"GET /h HTTP/1.1\r\nHost: localhost\r\nX: \xff\xfe\r\n\r\n"),
            raw(b"GET /h HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n"),
            raw(b"GET /h HTTP/1.1\r\nHost: localhost\r\nX\x00: b\r\n\r\n"),
            raw("GET /h HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n"),
            raw("GET /h HTTP/1.1\r\nHost: localhost\r\nX: y\n\r\n"),
            raw("GET /h HTTP/1.1\r\nHost: localhost\r\nX: y\n\n"),
            raw("GET /h HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\r"),
            with("X: \"quoted, value\""),
            with("Accept: */*\r\nAccept-Language: en\r\nCookie: a=b; c=d\r\nX: z"),
        ]
        .into_iter()
        .enumerate()
        .map(|(index, case)| if index == 29 { case.eof() } else { case })
        .collect(),
    );
}

#[test]
fn lengths() {
    let site = site();
    let lines = "location /body { return 200 \"[$content_length]\\n\"; }";
    compare(
        &Setup::server(&site, lines),
        vec![
            post("Content-Length: 3\r\n", "abc"),
            post("Content-Length: 0\r\n", ""),
            post("Content-Length:3\r\n", "abc"),
            post("Content-Length: 003\r\n", "abc"),
            post("Content-Length: 3 \r\n", "abc"),
            post("Content-Length: +3\r\n", "abc"),
            post("Content-Length: -3\r\n", "abc"),
            post("Content-Length: 3x\r\n", "abc"),
            post("Content-Length: 0x3\r\n", "abc"),
            post("Content-Length: 3, 3\r\n", "abc"),
            post("Content-Length: \r\n", ""),
            post("Content-Length: 99999999999999999999\r\n", "abc"),
            post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
            post("Content-Length: 3\r\nContent-Length: 4\r\n", "abc"),
            post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"),
            post("Content-Length : 3\r\n", "abc"),
            post("", ""),
            get("/body").field("Content-Length: 3").body("abc"),
            request("HEAD", "/body").field("Content-Length: 3").body("abc"),
            post("Content-Length: 10\r\n", "abc").eof(),
        ],
    );
}

#[test]
fn chunked_bodies() {
    let site = site();
    let lines = "location /body { return 200 \"ok\\n\"; }";
    let chunked = |body: &str| post("Transfer-Encoding: chunked\r\n", body);
    compare(
        &Setup::server(&site, lines),
        vec![
            chunked("0\r\n\r\n"),
            chunked("3\r\nabc\r\n0\r\n\r\n"),
            chunked("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"),
            chunked("03\r\nabc\r\n00\r\n\r\n"),
            chunked("3;ext=1\r\nabc\r\n0\r\n\r\n"),
            chunked("3 ; ext\r\nabc\r\n0\r\n\r\n"),
            chunked("3;ext=\"a\"\r\nabc\r\n0;last\r\n\r\n"),
            chunked("0\r\nTrailer: x\r\n\r\n"),
            chunked("3\r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\n"),
            post("Transfer-Encoding: CHUNKED\r\n", "0\r\n\r\n"),
            post("Transfer-Encoding: Chunked\r\n", "0\r\n\r\n"),
            post("Transfer-Encoding: identity\r\n", ""),
            post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
            post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            post("Transfer-Encoding: gzip\r\n", ""),
            post("Transfer-Encoding: \r\n", ""),
            post("Transfer-Encoding: xchunked\r\n", ""),
            post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
            raw("POST /body HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            request("GET", "/body").field("Transfer-Encoding: chunked").body("3\r\nabc\r\n0\r\n\r\n"),
        ],
    );
}

#[test]
fn bad_chunks() {
    let site = site();
    let lines = "location /body { return 200 \"ok\\n\"; }";
    let chunked = |body: &str| post("Transfer-Encoding: chunked\r\n", body);
    compare(
        &Setup::server(&site, lines),
        vec![
            chunked("x\r\n"),
            chunked("-1\r\n"),
            chunked("0x3\r\nabc\r\n0\r\n\r\n"),
            chunked(" 3\r\nabc\r\n0\r\n\r\n"),
            chunked("\r\n"),
            chunked(";ext\r\n"),
            chunked("3\r\nabcd\r\n0\r\n\r\n"),
            chunked("3\r\nabX"),
            chunked("3\r\nabcXX0\r\n\r\n"),
            chunked("fffffffffffffffff\r\nabc"),
            chunked("8000000000000000\r\nabc"),
            chunked("3\rXabc\r\n0\r\n\r\n"),
            chunked("3\nabc\n0\n\n").differs(BARE_LF, REFUSED),
            chunked("3\r\nabc\n0\r\n\r\n").differs(BARE_LF, REFUSED),
            chunked("3\r\nabc\r\n0\n\n").differs(BARE_LF, REFUSED),
            chunked("3\r\nabc\r\n").eof(),
        ],
    );
}

#[test]
fn expectations() {
    let site = site();
    let lines = "location /body { return 200 \"[$content_length]\\n\"; }";
    compare(
        &Setup::server(&site, lines),
        vec![
            request("GET", "/a.txt").field("Expect: 100-continue"),
            request("GET", "/a.txt").field("Expect: something"),
            request("POST", "/body").field("Content-Length: 3").field("Expect: 100-continue").body("abc"),
            request("POST", "/none").field("Content-Length: 3").field("Expect: 100-continue").body("abc"),
            raw("POST /body HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"),
        ],
    );
}

#[test]
fn bad_chunks_that_nobody_asked_for() {
    let site = site();
    let none =
        |body: &str| raw(format!("POST /none HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{body}"));
    compare(
        &Setup::server(&site, ""),
        vec![none("3\r\nabc\r\n0\r\n\r\n"), none("zz\r\n"), none("3\r\nabcd\r\n0\r\n\r\n")],
    );
}
