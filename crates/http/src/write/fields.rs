//! The fields of a response's head, in nginx's order, for any protocol that encodes them.

use freerun_conf::bytes_of;
use freerun_proto::Status;
use freerun_proto::encode;

use crate::content::error_page::server_name;
use crate::files::known_files::DescribedFile;
use crate::message::fields::{FieldValue, Member};
use crate::request::core_settings::CoreSettings;
use crate::request::response::Response;
use crate::request::{Address, Request};
use crate::settings::server::ServerSettings;
use crate::write::decide::ResponseDecision;

/// The receiver of a head, which encodes it for a protocol. A value may come in pieces, between [`HeadSink::begin`] and
/// [`HeadSink::end`].
pub trait HeadSink {
    /// Prints the status, and `Server` and `Date` if the response has none of its own ([`own_start`]).
    fn start(&mut self, request: &Request, response: &Response, core: &CoreSettings);

    /// Prints the fields that only an HTTP/1 connection has, if the protocol is HTTP/1.
    fn connection(
        &mut self,
        _request: &Request,
        _response: &Response,
        _decided: &ResponseDecision,
        _core: &CoreSettings,
    ) {
    }

    /// Prints whole fields that are kept as lines of HTTP/1, each with its line end.
    fn lines(&mut self, lines: &[u8]);

    /// Begins a field.
    fn begin(&mut self, name: &[u8]);

    /// Adds to the value of the current field.
    fn push(&mut self, value: &[u8]);

    /// Adds text to the value of the current field that is certain to have no line end in it.
    #[inline]
    fn push_clean(&mut self, value: &[u8]) {
        self.push(value);
    }

    /// Ends the current field.
    fn end(&mut self);

    /// Prints a field whose value is certain to have no line end in it.
    #[inline]
    fn clean_field(&mut self, name: &[u8], value: &[u8]) {
        self.begin(name);
        self.push_clean(value);
        self.end();
    }

    /// Prints a field.
    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.begin(name);
        self.push(value);
        self.end();
    }
}

/// Prints `Server` and `Date`, unless the response has them from another server.
#[inline]
pub fn own_start(request: &Request, response: &Response, core: &CoreSettings, sink: &mut impl HeadSink) {
    let written = response.as_written.as_deref();
    if !written.is_some_and(|written| written.server) {
        sink.field(b"Server", server_name(core.server_tokens).as_bytes());
    }
    if !written.is_some_and(|written| written.date) {
        request.client.loop_state.clock.date(|date| sink.clean_field(b"Date", date));
    }
}

/// Prints the whole head.
#[inline]
pub fn print(request: &mut Request, response: &Response, decided: &ResponseDecision, sink: &mut impl HeadSink) {
    if request.generation.http.keeps_sent_head {
        request.answered.location.clone_from(&response.location);
    }
    let location = request.place.location.clone();
    let core = &*location.core;
    sink.start(request, response, core);
    let placed = PlacedMembers::of(response);
    let described = response.described.as_deref();
    let usual = !decided.is_chunked() && !decided.upgrades;
    match described.filter(|_| usual).and_then(|described| described_lines(response, described)) {
        Some(text) => sink.lines(text),
        None => describe(request, response, decided, &placed, sink),
    }
    let mut late_location = None;
    if let Some(location) = response.location.as_ref().filter(|_| !placed.location) {
        if location.starts_with(b"/") && core.absolute_redirect {
            sink.begin(b"Location");
            absolute(request, core, location, sink);
            sink.end();
        } else {
            late_location = Some(location);
        }
    }
    sink.connection(request, response, decided, core);
    if response.vary {
        sink.lines(b"Vary: Accept-Encoding\r\n");
    }
    if let Some(location) = late_location {
        sink.field(b"Location", location);
    }
    if let Some(etag) = response.etag.as_ref().filter(|_| !placed.etag) {
        match described.and_then(|described| described.tag_for(etag)) {
            Some(tag) => sink.lines(tag),
            None => sink.field(b"ETag", etag),
        }
    }
    match response.fields.made_for(response.etag.as_ref(), response.last_modified) {
        Some(([made, offer], added)) => {
            sink.lines(made);
            sink.lines(offer);
            added.iter().for_each(|(name, value)| sink.field(name, value));
        }
        None if response.fields.is_empty() => {}
        None => further(request, response, sink),
    }
}

/// Prints `Content-Type`, `Content-Length` and `Last-Modified`.
fn describe(
    request: &Request,
    response: &Response,
    decided: &ResponseDecision,
    placed: &PlacedMembers,
    sink: &mut impl HeadSink,
) {
    if !response.content_type.is_empty() && (response.status != Status::NO_CONTENT || response.as_written.is_some()) {
        sink.begin(b"Content-Type");
        let (content_type, charset) = response.media_type();
        sink.push(content_type);
        if let Some(charset) = charset {
            sink.push(b"; charset=");
            sink.push(charset);
        }
        sink.end();
    }
    let no_length = response.no_length || response.status == Status::NO_CONTENT || decided.upgrades;
    if let Some(length) = response.length().filter(|_| !no_length && !decided.is_chunked()) {
        sink.clean_field(b"Content-Length", encode::digits(length, &mut [0; 20]));
    }
    if let Some(modified) = response.last_modified.filter(|_| !placed.last_modified) {
        request.client.loop_state.clock.http_date(modified, |date| sink.clean_field(b"Last-Modified", date));
    }
}

/// Prints the further fields.
#[inline]
pub fn further(request: &Request, response: &Response, sink: &mut impl HeadSink) {
    for field in &response.fields {
        match FieldValue::of(field) {
            FieldValue::Text(value) => sink.field(&field.0, value),
            FieldValue::OfResponse(member) => own(request, response, member, &field.0, sink),
        }
    }
}

/// The response's own members that stand among its further fields.
#[derive(Default)]
struct PlacedMembers {
    last_modified: bool,
    etag: bool,
    location: bool,
}

impl PlacedMembers {
    fn of(response: &Response) -> PlacedMembers {
        let mut placed = PlacedMembers::default();
        if response.as_written.is_some() {
            for field in &response.fields {
                match FieldValue::of(field) {
                    FieldValue::Text(_) => {}
                    FieldValue::OfResponse(Member::Etag) => placed.etag = true,
                    FieldValue::OfResponse(Member::Location) => placed.location = true,
                    FieldValue::OfResponse(Member::LastModified) => placed.last_modified = true,
                }
            }
        }
        placed
    }
}

/// Prints the member that this field stands for, if the response still has it.
fn own(request: &Request, response: &Response, member: Member, name: &[u8], sink: &mut impl HeadSink) {
    match member {
        Member::Etag => response.etag.iter().for_each(|etag| sink.field(name, etag)),
        Member::Location => response.location.iter().for_each(|location| sink.field(name, location)),
        Member::LastModified => response.last_modified.iter().for_each(|modified| {
            request.client.loop_state.clock.http_date(*modified, |date| sink.field(name, date));
        }),
    }
}

/// Adds `scheme://host[:port]/path` to the value, by `server_name_in_redirect` and `port_in_redirect`.
fn absolute(request: &Request, core: &CoreSettings, path: &[u8], sink: &mut impl HeadSink) {
    sink.push(request.client.scheme().as_bytes());
    sink.push(b"://");
    let local = request.client.local();
    let name = &request.place.server.entry.settings.get::<ServerSettings>().server_name.first;
    match &request.asked.host {
        _ if core.server_name_in_redirect && !name.is_empty() => sink.push(&bytes_of(name)),
        Some(host) if !core.server_name_in_redirect => sink.push(host.as_bytes()),
        _ => match &local {
            Address::Ip(address) => match address.ip() {
                std::net::IpAddr::V4(ip) => sink.push(ip.to_string().as_bytes()),
                std::net::IpAddr::V6(ip) => sink.push(format!("[{ip}]").as_bytes()),
            },
            Address::Unix(_) => {}
        },
    }
    if let Address::Ip(address) = local
        && core.port_in_redirect
        && address.port() != 80
    {
        sink.push(b":");
        sink.push(encode::digits(address.port().into(), &mut [0; 20]));
    }
    sink.push(path);
}

/// The prepared lines `Content-Type`, `Content-Length` and `Last-Modified` of a file, if the response has exactly
/// these.
fn described_lines<'d>(response: &Response, described: &'d DescribedFile) -> Option<&'d [u8]> {
    let is_whole = response.status == Status::OK
        && response.charset.is_none()
        && response.as_written.is_none()
        && !response.no_length;
    if !is_whole {
        return None;
    }
    described.text_for(&response.content_type, response.length(), response.last_modified)
}
