//! Byte ranges: 206 and 416 (RFC 9110 section 14).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use freerun_http::content::error_page;
use freerun_http::filters;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::response::{Body, BodySource, FileRange, LocalBoxFuture, Part, Response, SourceError};
use freerun_proto::range::{self, ByteRange, Multipart, Ranges};
use freerun_proto::{HeaderId, Status, Version, conditional, date};

/// The module `range`.
pub static MODULE: Module =
    Module { name: "range", filters: &[Filter { slot: Slot::Range, wanted: |_| true, run }], ..Module::EMPTY };

fn run(request: &mut Request, response: &mut Response) {
    let max_ranges = request.core().max_ranges;
    if !response.ranges
        || response.status != Status::OK
        || request.is_subrequest()
        || request.head.version() < Version::Http10
        || max_ranges == Some(0)
    {
        return;
    }
    let Some(size) = response.length() else { return };
    let Some(asked) = request.head.value(HeaderId::Range).filter(|_| usable(request, response)) else {
        response.fields.accept_ranges();
        return;
    };
    let max_ranges = if response.single_range { Some(1) } else { max_ranges };
    match range::parse(asked, size, max_ranges) {
        Ranges::Whole => {
            response.fields.accept_ranges();
        }
        Ranges::Unsatisfiable => {
            let mut refusal = error_page::built_in(request, Status::RANGE_NOT_SATISFIABLE);
            // As in nginx the page passes through the filters once more, with the fields that they added to the
            // response before.
            response.replace_content(&mut refusal);
            refusal.add(&b"Content-Range"[..], range::content_range_unsatisfied(size));
            *response = *refusal;
            filters::run(request, response, Slot::Headers..Slot::Range);
        }
        // A `Content-Range` of another server is not about this part.
        Ranges::Parts(parts) => match parts.as_slice() {
            [only] => single(request, response, *only, size),
            // A body that is pulled can be read only once, from beginning to end.
            _ if !matches!(response.body, Body::Bytes(_) | Body::File(_)) => response.fields.accept_ranges(),
            parts => several(response, parts, size),
        },
    }
}

/// Whether `If-Range` allows ranges.
fn usable(request: &Request, response: &Response) -> bool {
    match request.head.value(HeaderId::IfRange) {
        None => true,
        Some(value) => {
            // `add_header` may have put a time of its own there.
            let written = || date::parse_http_date(response.field(b"Last-Modified")?);
            let modified = response.last_modified.or_else(written);
            conditional::if_range(value, response.etag.as_deref(), modified)
        }
    }
}

fn single(request: &Request, response: &mut Response, part: ByteRange, size: u64) {
    response.status = Status::PARTIAL_CONTENT;
    response.content_is_cut();
    response.add(&b"Content-Range"[..], range::content_range(part, size));
    let body = std::mem::replace(&mut response.body, Body::Empty);
    if let Body::Parts(parts) = body {
        response.body = Body::Parts(window(parts, part));
        return;
    }
    response.body = match cut(&body, part) {
        Some(Part::Bytes(bytes)) => Body::Bytes(bytes),
        Some(Part::File(range)) => Body::File(range),
        None => {
            let mut source = body.into_source(request);
            if source.narrow(part.start, part.end) {
                response.body = Body::Source(source);
                return;
            }
            Body::Source(Box::new(RangeSource { source, skip: part.start, left: part.len() }))
        }
    };
}

/// The pieces, or parts of them, that are in a range.
fn window(parts: Vec<Part>, range: ByteRange) -> Vec<Part> {
    let mut at = 0;
    let mut out = Vec::new();
    for part in parts {
        let len = part.len();
        let (start, end) = (range.start.max(at), range.end.min(at + len));
        if start < end {
            let (start, end) = (start - at, end - at);
            out.push(match part {
                // Both are at most the length.
                Part::Bytes(bytes) => Part::Bytes(bytes.slice(start as usize..end as usize)),
                Part::File(file) => Part::File(FileRange { offset: file.offset + start, len: end - start, ..file }),
            });
        }
        at += len;
    }
    out
}

/// A part of a body that is pulled.
struct RangeSource {
    source: Box<dyn BodySource>,
    /// The bytes before the part that are still to come.
    skip: u64,
    /// The bytes of the part that are still to come.
    left: u64,
}

impl BodySource for RangeSource {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            while self.left > 0 {
                let Some(mut piece) = self.source.next().await? else {
                    return Err(SourceError::Short);
                };
                let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(piece.len());
                self.skip -= skipped as u64;
                let rest = piece.split_off(skipped);
                let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                self.left -= taken as u64;
                if taken > 0 {
                    return Ok(Some(rest.slice(..taken)));
                }
                freerun_runtime::loops::consume_budget().await;
            }
            Ok(None)
        })
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        self.source.ahead()
    }

    fn is_urgent(&self) -> bool {
        self.source.is_urgent()
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.left)
    }
}

/// The part of a body whose bytes are available at once.
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
    // The character set belongs to the parts, not to the whole.
    let mut of_parts = response.content_type.to_vec();
    if let Some(charset) = response.charset.as_ref().filter(|_| !of_parts.is_empty()) {
        of_parts.extend_from_slice(b"; charset=");
        of_parts.extend_from_slice(charset);
    }
    let content_type = std::str::from_utf8(&of_parts).ok().filter(|text| !text.is_empty());
    let multipart = Multipart::new(BOUNDARY.fetch_add(1, Relaxed), content_type, size, parts);
    let mut body = Vec::with_capacity(parts.len() * 2 + 1);
    for (index, part) in parts.iter().enumerate() {
        let Some(cut) = cut(&response.body, *part) else { return };
        body.push(Part::Bytes(Bytes::copy_from_slice(multipart.head(index))));
        body.push(cut);
    }
    body.push(Part::Bytes(Bytes::copy_from_slice(multipart.tail())));
    response.status = Status::PARTIAL_CONTENT;
    response.content_is_cut();
    response.content_type = multipart.content_type().into();
    response.charset = None;
    response.body = Body::Parts(body);
}
