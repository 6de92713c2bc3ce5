//! Byte ranges: 206 and 416 (RFC 9110 section 14).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use freerun_http::content::error_page;
use freerun_http::content::response::{Body, FileRange, Part, Response};
use freerun_http::filters;
use freerun_http::module::{Filter, Module, Slot};
use freerun_http::request::Request;
use freerun_http::settings::core::CoreSettings;
use freerun_proto::range::{self, ByteRange, Multipart, Ranges};
use freerun_proto::{HeaderId, Version, conditional};

/// The module.
pub static MODULE: Module =
    Module { name: "range", filters: &[Filter { slot: Slot::Range, wanted: |_| true, run }], ..Module::EMPTY };

fn run(request: &mut Request, response: &mut Response) {
    let max_ranges = request.settings().get::<CoreSettings>().max_ranges;
    if !response.ranges
        || response.status != 200
        || request.is_subrequest()
        || request.head.parsed.version < Version::Http10
        || max_ranges == Some(0)
    {
        return;
    }
    let Some(size) = response.length() else { return };
    let Some(asked) = request.head.value(HeaderId::Range).filter(|_| usable(request, response)) else {
        response.add(&b"Accept-Ranges"[..], &b"bytes"[..]);
        return;
    };
    match range::parse(asked, size, max_ranges) {
        Ranges::Whole => {
            response.add(&b"Accept-Ranges"[..], &b"bytes"[..]);
        }
        Ranges::Unsatisfiable => {
            let mut refusal = error_page::built_in(request, 416);
            // As in nginx the page goes through the filters once more, with what they added to the response before.
            refusal.fields = std::mem::take(&mut response.fields);
            refusal.late_trailers = response.late_trailers;
            refusal.add(&b"Content-Range"[..], range::content_range_unsatisfied(size));
            *response = refusal;
            filters::run(request, response, Slot::Headers..Slot::Range);
        }
        Ranges::Parts(parts) => match parts.as_slice() {
            [only] => single(response, *only, size),
            parts => several(response, parts, size),
        },
    }
}

/// Whether `If-Range` allows ranges.
fn usable(request: &Request, response: &Response) -> bool {
    match request.head.value(HeaderId::IfRange) {
        None => true,
        Some(value) => conditional::if_range(value, response.etag.as_deref(), response.last_modified),
    }
}

fn single(response: &mut Response, part: ByteRange, size: u64) {
    response.status = 206;
    response.add(&b"Content-Range"[..], range::content_range(part, size));
    response.body = match cut(&response.body, part) {
        Some(Part::Bytes(bytes)) => Body::Bytes(bytes),
        Some(Part::File(range)) => Body::File(range),
        None => return,
    };
}

/// The part of a body that has its bytes at hand. Bodies that are pulled, and pieces, are never given ranges.
fn cut(body: &Body, part: ByteRange) -> Option<Part> {
    match body {
        Body::Bytes(bytes) => {
            let start = usize::try_from(part.start).ok()?;
            let end = usize::try_from(part.end).ok()?;
            Some(Part::Bytes(bytes.slice(start..end)))
        }
        Body::File(FileRange { file, offset, .. }) => {
            Some(Part::File(FileRange { file: file.clone(), offset: offset + part.start, len: part.len() }))
        }
        _ => None,
    }
}

fn several(response: &mut Response, parts: &[ByteRange], size: u64) {
    static BOUNDARY: AtomicU64 = AtomicU64::new(1);
    let content_type = std::str::from_utf8(&response.content_type).ok().filter(|text| !text.is_empty());
    let multipart = Multipart::new(BOUNDARY.fetch_add(1, Relaxed), content_type, size, parts);
    let mut body = Vec::with_capacity(parts.len() * 2 + 1);
    for (index, part) in parts.iter().enumerate() {
        let Some(cut) = cut(&response.body, *part) else { return };
        body.push(Part::Bytes(Bytes::copy_from_slice(multipart.head(index))));
        body.push(cut);
    }
    body.push(Part::Bytes(Bytes::copy_from_slice(multipart.tail())));
    response.status = 206;
    response.content_type = multipart.content_type().into();
    response.body = Body::Parts(body);
}
