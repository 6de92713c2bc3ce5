//! Response heads that an upstream sends, and the framing of the body behind them. The rules are RFC 9112 sections 4 to
//! 6, and RFC 3875 (CGI) section 6 for the protocols that carry a CGI script's output.
//!
//! Like the request's, this parser is about lines. A head that comes in pieces costs no more than a whole one, and an
//! error names the place in the line as nginx's log does. Ambiguous framing is refused, never guessed, since a cache or
//! another client of the same connection must not take anything else for a response.
//!
//! The parser accepts, as nginx does, because it is safe: LF alone as line end in a head, several spaces before the
//! status, no reason, and a status like `401.1`. It also accepts later versions of HTTP/1 and HTTP/2.0 in the status
//! line, a field line without a colon, and control characters in values other than NUL and CR. `ICY 200 OK` of
//! SHOUTcast is read as a status line of HTTP/1.0.
//!
//! It refuses, though nginx 1.22 accepted it: answers without a head (HTTP/0.9), statuses below 100, and NUL and CR in
//! a reason. It also refuses `Transfer-Encoding` other than `chunked`, and `Content-Length` twice, or not a number, or
//! beside `Transfer-Encoding`.

mod body;
mod error;
mod fields;
mod parser;
mod status_line;
#[cfg(test)]
mod tests;

pub use body::{Framing, RequestKind};
pub use error::ReplyError;
pub(crate) use error::shown;
pub use parser::{Before, HeadKind, MAX_RESPONSE_FIELDS, ResponseField, ResponseHead, ResponseParser};
