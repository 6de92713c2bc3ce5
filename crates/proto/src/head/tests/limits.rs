//! Tests of limits on lines and heads, at the lengths at which nginx changes its answer.

use super::*;

fn rules(first_buffer: usize, large_buffers: u32, large_buffer_size: usize) -> HeadRules {
    HeadRules { first_buffer, large_buffers, large_buffer_size, ..HeadRules::default() }
}

/// The status of a head, which has to be the same for the whole head and for single bytes.
fn status(text: &str, rules: &HeadRules) -> u16 {
    let whole = parse_request(text.as_bytes(), rules);
    let mut parser = HeadParser::new();
    let mut slow = Ok(Progress::Partial);
    for end in 0..=text.len() {
        slow = parser.advance(&text.as_bytes()[..end], rules);
        assert!(slow != Ok(Progress::Partial) || end < rules.max_len());
        if slow != Ok(Progress::Partial) {
            break;
        }
    }
    match (whole, slow) {
        (Ok(Some(_)), Ok(Progress::Complete)) => 200,
        (Err(a), Err(b)) if a.status() == b.status() => a.status().code(),
        other => panic!("{other:?}"),
    }
}

/// Checks that `f(n)` is answered 200 up to `last` and with `code` from there on.
#[track_caller]
fn changes(f: impl Fn(usize) -> String, last: usize, code: u16, rules: &HeadRules) {
    assert_eq!(status(&f(last), rules), 200);
    assert_eq!(status(&f(last + 1), rules), code);
}

const REST: &str = "Host: a\r\nConnection: close\r\n";

fn long_line(n: usize) -> String {
    format!("GET /{} HTTP/1.1\r\n{REST}\r\n", "x".repeat(n))
}

fn long_field(line: usize, n: usize) -> String {
    format!("GET /{} HTTP/1.1\r\n{REST}X: {}\r\n\r\n", "x".repeat(line), "x".repeat(n))
}

fn many_fields(line: usize, len: usize, n: usize) -> String {
    let field = format!("X: {}\r\n", "x".repeat(len - 5));
    format!("GET /{} HTTP/1.1\r\n{REST}{}\r\n", "x".repeat(line), field.repeat(n))
}

#[test]
fn small_first_buffer() {
    let rules = rules(256, 2, 512);
    changes(long_line, 496, 414, &rules);
    changes(|n| long_field(0, n), 507, 494, &rules);
    changes(|n| long_field(100, n), 507, 494, &rules);
    changes(|n| many_fields(0, 100, n), 12, 494, &rules);
    changes(|n| many_fields(0, 300, n), 2, 494, &rules);
    changes(|n| many_fields(386, 100, n), 5, 494, &rules);
}

#[test]
fn large_first_buffer() {
    let rules = rules(1024, 4, 512);
    changes(long_line, 1008, 414, &rules);
    changes(|n| long_field(0, n), 975, 494, &rules);
    changes(|n| long_field(100, n), 875, 494, &rules);
    changes(|n| many_fields(0, 100, n), 29, 494, &rules);
    changes(|n| many_fields(0, 300, n), 7, 494, &rules);
    changes(|n| many_fields(386, 100, n), 25, 494, &rules);
}

#[test]
fn number_of_fields() {
    let rules = HeadRules { max_headers: 5, ..HeadRules::default() };
    changes(|n| many_fields(0, 10, n), 3, 400, &rules);
    let text = many_fields(0, 10, 4);
    assert_eq!(bad(text.as_bytes(), &rules), RequestError::TooManyHeaders);
    let ignored = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X_Y: 1\r\n".repeat(5));
    assert_eq!(bad(ignored.as_bytes(), &rules), RequestError::TooManyHeaders);
    let none = HeadRules { max_headers: 0, ..HeadRules::default() };
    assert_eq!(status(&many_fields(0, 10, 400), &none), 200);
}

#[test]
fn empty_lines_do_not_go_on_for_ever() {
    let rules = rules(64, 2, 512);
    assert_eq!(status(&format!("{}{}", "\r\n".repeat(20), long_line(1)), &rules), 200);
    assert_eq!(status(&format!("{}{}", "\r\n".repeat(40), long_line(1)), &rules), 400);
}

#[test]
fn what_is_wrong_within_the_limit_counts_first() {
    let rules = rules(64, 1, 128);
    let text = format!("GET /\x01{}", "x".repeat(500));
    assert_eq!(bad(text.as_bytes(), &rules), RequestError::RequestLine);
    let text = format!("GET /{}\x01", "x".repeat(500));
    assert_eq!(bad(text.as_bytes(), &rules), RequestError::UriTooLong);
    assert_eq!(status(&long_line(200), &rules), 414);
}

/// Without large buffers the first one is the limit, and bytes behind it are not parsed.
#[test]
fn without_large_buffers_the_first_one_is_the_limit() {
    let rules = rules(64, 0, 512);
    assert_eq!(status(&format!("GET /{}\x01\r\n", "x".repeat(70)), &rules), 414);
    assert_eq!(status(&format!("GET /{}\x01", "x".repeat(70)), &rules), 414);
    assert_eq!(status(&format!("GET /\x01{}", "x".repeat(70)), &rules), 400);
}
