//! Writing the parts of an HTTP/1 head: status line, fields, numbers (RFC 9112 sections 4 and 5).

use std::io::Write;

use crate::ascii::find_control;
use crate::status;

/// The interim response that makes a client send its body (RFC 9110 section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Appends the status line, with the registered reason if there is one.
#[inline]
pub fn status_line(status: u16, out: &mut Vec<u8>) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    match status::status_text(status) {
        Some(text) => out.extend_from_slice(text.as_bytes()),
        None => {
            let _ = write!(out, "{status:03} ");
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a field.
#[inline]
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    push_value(value, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends the value of a field. A value with a line end (from a variable, for example) must not become a second field.
#[inline]
pub fn push_value(value: &[u8], out: &mut Vec<u8>) {
    // Control characters are rare, and only some of them are invalid.
    if find_control(value).is_some() {
        out.extend(value.iter().map(|byte| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte }));
    } else {
        out.extend_from_slice(value);
    }
}

/// Appends a field with a number.
#[inline]
pub fn number_field(out: &mut Vec<u8>, name: &[u8], value: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    push_number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a decimal number.
#[inline]
pub fn push_number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(digits(value, &mut [0; 20]));
}

/// The digits of a number, written into `digits`, which has room for the longest number.
#[inline]
pub fn digits(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    &digits[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_never_becomes_a_second_field() {
        let mut out = Vec::new();
        field(&mut out, b"Location", b"/a\r\nSet-Cookie: b\0\tc");
        assert_eq!(out, b"Location: /a  Set-Cookie: b \tc\r\n");
    }

    #[test]
    fn numbers_and_status_lines() {
        for number in [0, 9, 10, 12_345, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
        for (status, line) in [(200, "200 OK"), (404, "404 Not Found"), (599, "599 ")] {
            let mut out = Vec::new();
            status_line(status, &mut out);
            assert_eq!(out, format!("HTTP/1.1 {line}\r\n").as_bytes());
        }
    }
}
