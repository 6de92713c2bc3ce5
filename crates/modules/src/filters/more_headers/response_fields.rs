//! Changing the fields of a response, those included that it keeps as members of its own.

use std::sync::Arc;

use bytes::Bytes;
use freerun_http::request::Request;
use freerun_http::request::response::{AsWritten, Response};
use freerun_http::write::text;
use freerun_proto::{HeaderId, Status};

use super::MoreHeadersSettings;
use super::rules::{FieldChange, HeaderRule};
use crate::filters::unknown_length::UnknownLengthSource;

/// The filter.
pub(super) fn run(request: &mut Request, response: &mut Response) {
    if request.is_subrequest() {
        return;
    }
    text::preview(request, response);
    let location = request.place.location.clone();
    for rule in location.settings.get::<MoreHeadersSettings>().more_set_headers.iter() {
        if rule.takes_status(request.sent.code()) && rule.takes_type(Some(&response.content_type)) {
            for change in &rule.changes {
                apply(change, rule, request, response);
                // The changes behind it may use the field in variables.
                text::preview(request, response);
            }
        }
    }
}

fn apply(change: &FieldChange, rule: &HeaderRule, request: &Request, response: &mut Response) {
    let value = Bytes::copy_from_slice(&change.value.render(request));
    if change.prefix().is_some() {
        return set_all(change, value, response);
    }
    let is_removed = value.is_empty();
    match HeaderId::of(&change.name) {
        HeaderId::Connection | HeaderId::TransferEncoding => {}
        HeaderId::ContentLength if is_removed => forget_length(request, response),
        HeaderId::ContentLength => {}
        HeaderId::ContentType => set_content_type(value, response),
        HeaderId::Server => {
            as_written(response).server = true;
            set_field(change, value, response);
        }
        HeaderId::Date => {
            as_written(response).date = true;
            set_field(change, value, response);
        }
        HeaderId::Location => {
            response.remove(&change.name);
            response.location = Some(value).filter(|value| !value.is_empty());
        }
        HeaderId::Etag => {
            response.remove(&change.name);
            response.etag = Some(value).filter(|value| !value.is_empty());
        }
        HeaderId::LastModified => {
            response.last_modified = None;
            response.remove(&change.name);
            set_field(change, value, response);
        }
        HeaderId::AcceptRanges if is_removed => {
            response.ranges = false;
            response.remove(&change.name);
        }
        HeaderId::AcceptRanges => {
            // A filter that changes the body takes the offer back.
            as_written(response).accept_ranges = true;
            set_field(change, value, response);
        }
        _ if rule.appends && !is_removed => response.fields.push((change.name.clone(), value)),
        _ => set_field(change, value, response),
    }
}

/// Gives the first field of this name the value and removes the others, or adds the field. An empty value removes all.
fn set_field(change: &FieldChange, value: Bytes, response: &mut Response) {
    let mut is_placed = value.is_empty();
    let leaves_none = is_placed;
    if response.fields.iter().any(|(name, _)| change.is_for(name)) {
        response.fields.retain(|(name, old)| {
            if !change.is_for(name) {
                return true;
            }
            let is_first = !leaves_none && !std::mem::replace(&mut is_placed, true);
            if is_first {
                old.clone_from(&value);
            }
            is_first
        });
    }
    if !is_placed {
        response.fields.push((change.name.clone(), value));
    }
}

/// Sets or removes all fields whose names begin in the same way.
fn set_all(change: &FieldChange, value: Bytes, response: &mut Response) {
    let kept = Some(value.clone()).filter(|value| !value.is_empty());
    let mut is_member = false;
    if response.etag.is_some() && change.is_for(b"ETag") {
        response.etag.clone_from(&kept);
        is_member = true;
    }
    if response.location.is_some() && change.is_for(b"Location") {
        response.location.clone_from(&kept);
        is_member = true;
    }
    let is_upstream = response.as_written.as_ref().is_some_and(|written| !written.content_type.is_empty());
    if is_upstream && change.is_for(b"Last-Modified") {
        response.last_modified = None;
    }
    if kept.is_none() || !is_member {
        set_field(change, value, response);
    }
}

fn set_content_type(value: Bytes, response: &mut Response) {
    let Some(end) = memchr::memchr(b';', &value) else {
        if response.status == Status::NO_CONTENT {
            return;
        }
        // The character set stays.
        response.content_type = value;
        return;
    };
    let media_type = value.slice_ref(value[..end].trim_ascii_end());
    let charset = charset_of(&value[end + 1..]).map(|charset| value.slice_ref(charset));
    (response.content_type, response.charset) = (media_type.clone(), charset.clone());
    let written = as_written(response);
    (written.content_type, written.read_as) = (value, (media_type, charset));
}

/// The value of the parameter `charset`, without quotes.
fn charset_of(parameters: &[u8]) -> Option<&[u8]> {
    parameters.split(|byte| *byte == b';').find_map(|parameter| {
        let parameter = parameter.trim_ascii();
        let (name, value) = parameter.split_at_checked(b"charset=".len())?;
        let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
        name.eq_ignore_ascii_case(b"charset=").then_some(value)
    })
}

/// The notes on how the head is to be written, empty at first.
fn as_written(response: &mut Response) -> &mut AsWritten {
    if response.as_written.is_none() && response.status == Status::NO_CONTENT {
        response.content_type = Bytes::new();
    }
    let written = response.as_written.get_or_insert_default();
    Arc::make_mut(written)
}

/// Makes the length of the body unknown.
fn forget_length(request: &Request, response: &mut Response) {
    response.remove(b"Content-Length");
    response.ranges = false;
    if !response.body.is_empty() {
        UnknownLengthSource::make(request, response);
    }
}
