//! The realm of a challenge (RFC 9110 section 11.5).

use std::borrow::Cow;

use freerun_http::request::Request;
use freerun_http::template::Template;

/// The realm of a challenge, for between quotes; `None`: the module is off. In a value with variables, which may have come from
/// a client, quotes and backslashes are escaped (RFC 9110 section 5.6.4); a constant one stays as it is written.
pub(super) fn realm<'r>(template: &'r Template, request: &'r Request) -> Option<Cow<'r, [u8]>> {
    let text = template.render(request);
    if *text == *b"off" {
        return None;
    }
    if template.constant().is_some() || memchr::memchr2(b'"', b'\\', &text).is_none() {
        return Some(text);
    }
    let escaped = |byte: &u8| if matches!(byte, b'"' | b'\\') { vec![b'\\', *byte] } else { vec![*byte] };
    Some(text.iter().flat_map(escaped).collect())
}
