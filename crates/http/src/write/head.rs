//! The response head: status line and fields, in nginx's order.

use std::io::Write;

use freerun_proto::ascii::find_control;
use freerun_proto::status;

use crate::content::error_page::server_name;
use crate::content::response::{AsWritten, PLACE, Response};
use crate::request::{Address, Request};
use crate::settings::core::CoreSettings;
use crate::settings::server::ServerSettings;

/// How the body's end is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body (HEAD, 204, 304).
    None,
    /// By its length.
    Length,
    /// By a last chunk.
    Chunked,
    /// By closing the connection.
    Close,
}

/// Writes the head into `out` and decides framing and keep-alive. Says, too, where the fields begin that `$sent_http_…` shows: behind the
/// server's own `Server` and `Date`.
pub fn serialise(request: &mut Request, response: &Response, upgrades: bool, out: &mut Vec<u8>) -> (Framing, usize) {
    request.sent.status = if response.special { status::sent_code(response.status) } else { response.status };
    if response.close {
        request.keep_alive = false;
    }
    // `return 199 text` has its text, as in nginx.
    let bodiless = request.is_head() || matches!(response.status, 204 | 304) || upgrades;
    if request.generation.keeps_sent_head {
        request.sent_location.clone_from(&response.location);
    }
    let location = request.location.clone();
    let core = &*location.core;
    let may_chunk = request.is_http11() && core.chunked_transfer_encoding;
    let trailers = may_chunk && response.has_trailers();
    let framing = if bodiless {
        Framing::None
    } else if response.length().is_some() && !trailers {
        Framing::Length
    } else if may_chunk {
        Framing::Chunked
    } else {
        request.keep_alive = false;
        Framing::Close
    };
    if request.head.version() == freerun_proto::head::Version::Http09 {
        request.keep_alive = false;
        return (framing, out.len());
    }
    let written = response.as_written.as_deref();
    if request.sent.status == 200 && written.is_none_or(|written| written.begins_plainly() && !response.special) {
        request.connection.home.head_start(core.server_tokens, |start| out.extend_from_slice(start));
    } else {
        start(request, response, core, out);
    }
    let fields = out.len();
    let placed = Placed::of(response);
    let described = response.described.as_deref();
    let usual = framing != Framing::Chunked && !upgrades;
    match described.filter(|_| usual).and_then(|described| described.text_for(response)) {
        Some(text) => out.extend_from_slice(text),
        None => describe(request, response, framing, upgrades, &placed, out),
    }
    let mut late_location = None;
    if let Some(location) = response.location.as_ref().filter(|_| !placed.location) {
        if location.starts_with(b"/") && core.absolute_redirect {
            out.extend_from_slice(b"Location: ");
            absolute(request, core, location, out);
            out.extend_from_slice(b"\r\n");
        } else {
            late_location = Some(location);
        }
    }
    if framing == Framing::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    if upgrades || response.status == 101 {
        out.extend_from_slice(b"Connection: upgrade\r\n");
    } else if request.keep_alive {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
        if let Some(seconds) = core.keepalive_timeout.header.filter(|seconds| *seconds > 0) {
            out.extend_from_slice(b"Keep-Alive: timeout=");
            let _ = write!(out, "{seconds}");
            out.extend_from_slice(b"\r\n");
        }
    } else {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    if response.vary {
        out.extend_from_slice(b"Vary: Accept-Encoding\r\n");
    }
    if let Some(location) = late_location {
        field(out, b"Location", location);
    }
    if let Some(etag) = response.etag.as_ref().filter(|_| !placed.etag) {
        match described.and_then(|described| described.tag_for(etag)) {
            Some(tag) => out.extend_from_slice(tag),
            None => field(out, b"ETag", etag),
        }
    }
    match response.fields.made_for(response.etag.as_ref(), response.last_modified) {
        Some(([made, offer], added)) => {
            out.extend_from_slice(made);
            out.extend_from_slice(offer);
            added.iter().for_each(|(name, value)| field(out, name, value));
        }
        None if response.fields.is_empty() => {}
        None => further(request, response, out),
    }
    out.extend_from_slice(b"\r\n");
    (framing, fields)
}

/// Appends `Content-Type`, `Content-Length` and `Last-Modified`.
fn describe(
    request: &Request,
    response: &Response,
    framing: Framing,
    upgrades: bool,
    placed: &Placed,
    out: &mut Vec<u8>,
) {
    if !response.content_type.is_empty() && (response.status != 204 || response.as_written.is_some()) {
        out.extend_from_slice(b"Content-Type: ");
        let (content_type, charset) = response.media_type();
        push_value(content_type, out);
        if let Some(charset) = charset {
            out.extend_from_slice(b"; charset=");
            push_value(charset, out);
        }
        out.extend_from_slice(b"\r\n");
    }
    let no_length = response.no_length || response.status == 204 || upgrades;
    if let Some(length) = response.length().filter(|_| !no_length && framing != Framing::Chunked) {
        number_field(out, b"Content-Length", length);
    }
    if let Some(modified) = response.last_modified.filter(|_| !placed.last_modified) {
        out.extend_from_slice(b"Last-Modified: ");
        request.connection.home.http_date(modified, |date| out.extend_from_slice(date));
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the further fields.
pub fn further(request: &Request, response: &Response, out: &mut Vec<u8>) {
    for (name, value) in &response.fields {
        if *value == PLACE {
            place(request, response, name, out);
        } else {
            field(out, name, value);
        }
    }
}

/// Status line, `Server` and `Date`.
fn start(request: &Request, response: &Response, core: &CoreSettings, out: &mut Vec<u8>) {
    let written = response.as_written.as_deref();
    match written.filter(|written| written.status == request.sent.status && !response.special) {
        Some(written) => written_status_line(written, out),
        None => status_line(request.sent.status, out),
    }
    if !written.is_some_and(|written| written.server) {
        out.extend_from_slice(b"Server: ");
        out.extend_from_slice(server_name(core.server_tokens).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if !written.is_some_and(|written| written.date) {
        out.extend_from_slice(b"Date: ");
        request.connection.home.date(|date| out.extend_from_slice(date));
        out.extend_from_slice(b"\r\n");
    }
}

/// Which of the response's own members stand among its fields.
#[derive(Default)]
struct Placed {
    last_modified: bool,
    etag: bool,
    location: bool,
}

impl Placed {
    fn of(response: &Response) -> Placed {
        let mut placed = Placed::default();
        if response.as_written.is_some() {
            for (name, _) in response.fields.iter().filter(|(_, value)| *value == PLACE) {
                match name.len() {
                    4 => placed.etag = true,
                    8 => placed.location = true,
                    _ => placed.last_modified = true,
                }
            }
        }
        placed
    }
}

/// Appends the member that stands here, if it is still there.
fn place(request: &Request, response: &Response, name: &[u8], out: &mut Vec<u8>) {
    match name.len() {
        4 => response.etag.iter().for_each(|etag| field(out, name, etag)),
        8 => response.location.iter().for_each(|location| field(out, name, location)),
        _ => response.last_modified.iter().for_each(|modified| {
            request.connection.home.http_date(*modified, |date| field(out, name, date));
        }),
    }
}

fn written_status_line(written: &AsWritten, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_number(out, written.status.into());
    out.push(b' ');
    push_value(&written.reason, out);
    out.extend_from_slice(b"\r\n");
}

/// Keeps the head as it is so far in the request, for `$sent_http_…` and `$status` in what filters add to it.
pub fn preview(request: &mut Request, response: &Response) {
    let sent = if response.special { status::sent_code(response.status) } else { response.status };
    if !request.generation.keeps_sent_head {
        request.sent.status = sent;
        return;
    }
    let keep_alive = request.keep_alive;
    let mut head = std::mem::take(&mut request.sent_head);
    head.clear();
    let (_, fields) = serialise(request, response, response.takeover.is_some(), &mut head);
    head.drain(..fields);
    request.sent_head = head;
    request.keep_alive = keep_alive;
}

/// Adds a field to what [`preview`] has kept.
pub fn preview_field(request: &mut Request, name: &[u8], value: &[u8]) {
    if request.generation.keeps_sent_head {
        field(&mut request.sent_head, name, value);
    }
}

fn status_line(status: u16, out: &mut Vec<u8>) {
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
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    push_value(value, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends the value of a field. One with a line end (from a variable, say) must not become a second field.
fn push_value(value: &[u8], out: &mut Vec<u8>) {
    // Control characters are rare, and only some of them are bad.
    if find_control(value).is_some() {
        out.extend(value.iter().map(|byte| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte }));
    } else {
        out.extend_from_slice(value);
    }
}

/// Appends a field with a number.
pub fn number_field(out: &mut Vec<u8>, name: &[u8], value: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    push_number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a decimal number.
pub fn push_number(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// `http://host[:port]/path`, as `server_name_in_redirect` and `port_in_redirect` say.
fn absolute(request: &Request, core: &CoreSettings, path: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"http://");
    let local = request.connection.local();
    let name = &request.server.entry.settings.get::<ServerSettings>().server_name.first;
    match &request.host {
        _ if core.server_name_in_redirect && !name.is_empty() => out.extend_from_slice(name.as_bytes()),
        Some(host) if !core.server_name_in_redirect => out.extend_from_slice(host.as_bytes()),
        _ => match &local {
            Address::Ip(address) => match address.ip() {
                std::net::IpAddr::V4(ip) => drop(write!(out, "{ip}")),
                std::net::IpAddr::V6(ip) => drop(write!(out, "[{ip}]")),
            },
            Address::Unix(_) => {}
        },
    }
    if let Address::Ip(address) = local
        && core.port_in_redirect
        && address.port() != 80
    {
        let _ = write!(out, ":{}", address.port());
    }
    push_value(path, out);
}
