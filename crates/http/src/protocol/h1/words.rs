//! The error log's messages about a head that could not be read, in nginx's words.

use std::fmt::Write;
use std::io;

use freerun_conf::text_of;
use freerun_proto::{HeaderId, RequestError};
use freerun_runtime::log::Errno;

use crate::request::Head;

/// The part that was being read when the error occurred. Of a `pipelined` request some bytes came with the request
/// before.
fn reading(head: &Head, pipelined: bool) -> &'static str {
    // The request line is parsed as soon as its end has come.
    if !head.parsed.version_text.is_empty() || !head.parsed.method_text.is_empty() {
        "client request headers"
    } else if pipelined {
        "client pipelined request line"
    } else {
        "client request line"
    }
}

/// The message for a wrong head.
pub fn bad(head: &Head, pipelined: bool, error: RequestError) -> String {
    let mut text = error.to_string();
    match error {
        RequestError::HeaderLine(span) => {
            // The last byte is the wrong one.
            if let Some((last, line)) = head.text(span).split_last() {
                let _ = write!(text, ": \"{}\\x{last:02x}...\"", text_of(line));
            }
        }
        RequestError::DuplicateHeader(span) => {
            let (name, value) = split(head.text(span));
            if name.eq_ignore_ascii_case(b"Host") {
                "client sent duplicate host header".clone_into(&mut text);
            }
            let _ = write!(text, ": \"{}\"", shown(name, value));
            if let Some(field) = head.parsed.find(HeaderId::of(name)) {
                let previous = shown(head.text(field.name()), head.text(field.value()));
                let _ = write!(text, ", previous value: \"{previous}\"");
            }
        }
        RequestError::TransferEncoding => {
            let value = head.value(HeaderId::TransferEncoding).unwrap_or_default();
            let _ = write!(text, ": \"{}\"", text_of(value));
        }
        error => {
            if let Some(span) = error.span() {
                let line = text_of(head.text(span).trim_ascii_end()).into_owned();
                let _ = write!(text, ": \"{line}\"");
            }
        }
    }
    if !text.contains("while reading") {
        let _ = write!(text, " while reading {}", reading(head, pipelined));
    }
    if pipelined { text.replacen("client request line", "client pipelined request line", 1) } else { text }
}

/// The message for a header line, without blanks around it, that is ignored because of its name.
pub fn ignored(line: &[u8]) -> String {
    let text = text_of(line);
    format!("client sent invalid header line: \"{text}\" while reading client request headers")
}

/// The name and the value of a header line.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let colon = memchr::memchr(b':', line).unwrap_or(line.len());
    (&line[..colon], line.get(colon + 1..).unwrap_or_default().trim_ascii())
}

/// A field as the log has it.
fn shown(name: &[u8], value: &[u8]) -> String {
    format!("{}: {}", text_of(name), text_of(value))
}

/// The message for a head that did not come in time.
pub fn timed_out(head: &Head, pipelined: bool) -> String {
    format!("client timed out (110: Connection timed out) while reading {}", reading(head, pipelined))
}

/// The message for a connection that ended before the head was complete.
pub fn broken(head: &Head, pipelined: bool, error: Option<&io::Error>) -> String {
    match error {
        None => format!("client prematurely closed connection while reading {}", reading(head, pipelined)),
        Some(error) => format!("recv() failed ({}) while reading {}", Errno(error), reading(head, pipelined)),
    }
}
