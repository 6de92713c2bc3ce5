//! The error log's messages about a head that could not be read, in nginx's words.

use std::fmt::Write;
use std::io;

use freerun_proto::Error;
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
pub fn bad(head: &Head, pipelined: bool, error: Error) -> String {
    let mut text = error.to_string();
    if let Some(span) = error.span() {
        let line = String::from_utf8_lossy(head.text(span).trim_ascii_end()).into_owned();
        let _ = write!(text, ": \"{line}\"");
    }
    if !text.contains("while reading") {
        let _ = write!(text, " while reading {}", reading(head, pipelined));
    }
    if pipelined { text.replacen("client request line", "client pipelined request line", 1) } else { text }
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
