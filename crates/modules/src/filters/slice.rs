//! `slice`: a large response in parts of one size, each requested when it is needed.
//!
//! The handler of the response puts `$slice_range` into its request to the origin, and gets a part of the whole. This
//! filter puts the whole together again, with a subrequest for each further part.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{Size, group, settings};
use freerun_http::content::error_page;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::phases::subrequest::{Subrequest, content};
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::response::{Body, BodySource, LocalBoxFuture, Response, SourceError};
use freerun_http::request::slice_begin::SliceBegin;
use freerun_http::variables::{Variable, VariableValue};
use freerun_proto::{HeaderId, Status};

settings! {
    /// Large responses in slices.
    #[module = "slice"]
    pub struct SliceSettings {
        /// The size of a slice; 0 turns slicing off.
        ///
        /// It applies to responses that are made with `$slice_range`. If the server's answer is not the requested
        /// slice, the client gets 502. If a later slice fails in this way, when a part of the response was sent, the
        /// response ends there.
        slice: Size = "0", in HTTP | SERVER | LOCATION,
            fidelity = Differs("nginx closes the connection without an answer where this answers 502; a stale slice is updated in the background as a slice");
    }
}

/// The module `slice`.
pub static MODULE: Module = Module {
    name: "slice",
    groups: &[group::<SliceSettings>()],
    filters: &[Filter { slot: Slot::Slice, wanted: |settings| settings.get::<SliceSettings>().slice.0 > 0, run }],
    variables: &[Variable::named(
        "slice_range",
        "The range of bytes of the current slice, as the field `Range` writes it: `bytes=0-1048575`.",
        slice_range,
    )],
    ..Module::EMPTY
};

fn slice_range<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    let size = request.settings().get::<SliceSettings>().slice.0;
    let known = request.own.find::<SliceBegin>().and_then(|begin| begin.0.get());
    let begin = match known {
        Some(begin) => begin,
        None if size == 0 || request.is_subrequest() || request.sent.code() != 0 => return None,
        None => {
            let begin = match request.head.value(HeaderId::IfRange) {
                None => first_byte(request.head.value(HeaderId::Range).unwrap_or_default()),
                Some(_) => 0,
            };
            let begin = begin / size * size;
            request.own.get::<SliceBegin>().0.set(Some(begin));
            begin
        }
    };
    let end = begin.saturating_add(size.max(1)) - 1;
    Some(Cow::Owned(format!("bytes={begin}-{end}").into_bytes()))
}

/// The first byte that `Range` asks for, if it is one range with a beginning.
fn first_byte(range: &[u8]) -> u64 {
    let Some((unit, range)) = range.split_at_checked(6) else { return 0 };
    if !unit.eq_ignore_ascii_case(b"bytes=") || range.contains(&b',') {
        return 0;
    }
    let digits = range.trim_ascii_start().split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The values of a `Content-Range`: the range, with an exclusive end, and the total length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SlicePart {
    begin: u64,
    end: u64,
    whole: u64,
}

/// The reason why an answer is not the requested slice.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum SliceFault {
    #[error("unexpected status code {0} in slice response")]
    Status(Status),
    #[error("invalid range in slice response")]
    Range,
    #[error("no complete length in slice response")]
    Length,
    #[error("unexpected range in slice response: {}-{}, expected: {}-{}", .0.start, .0.end, .1.start, .1.end)]
    Unexpected(Range<u64>, Range<u64>),
    #[error("etag mismatch in slice response")]
    Tag,
}

impl SlicePart {
    fn parse(value: &[u8]) -> Result<SlicePart, SliceFault> {
        let value =
            value.strip_prefix(b"bytes ").and_then(|rest| std::str::from_utf8(rest).ok()).ok_or(SliceFault::Range)?;
        let number = |text: &str| {
            let text = text.trim();
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u64>().ok()).flatten()
        };
        let (range, whole) = value.split_once('/').ok_or(SliceFault::Range)?;
        let (begin, last) = range.split_once('-').ok_or(SliceFault::Range)?;
        let (begin, last) = (number(begin).ok_or(SliceFault::Range)?, number(last).ok_or(SliceFault::Range)?);
        if whole.trim() == "*" {
            return Err(SliceFault::Length);
        }
        let whole = number(whole).ok_or(SliceFault::Range)?;
        let end = last.checked_add(1).ok_or(SliceFault::Range)?;
        Ok(SlicePart { begin, end, whole })
    }

    /// The range of an answer, if it is the slice that begins at `begin`.
    fn of(response: &Response, begin: u64, size: u64) -> Result<SlicePart, SliceFault> {
        if response.status != Status::PARTIAL_CONTENT {
            return Err(SliceFault::Status(response.status));
        }
        let part = SlicePart::parse(response.field(b"Content-Range").ok_or(SliceFault::Range)?)?;
        let expected = begin..begin.saturating_add(size).min(part.whole);
        if (part.begin..part.end) != expected {
            return Err(SliceFault::Unexpected(part.begin..part.end, expected));
        }
        Ok(part)
    }
}

fn run(request: &mut Request, response: &mut Response) {
    // The parts are put together only for the request that asks for the whole.
    if request.is_subrequest() {
        return;
    }
    let Some(begin) = request.own.find::<SliceBegin>().and_then(|begin| begin.0.take()) else { return };
    if response.status != Status::PARTIAL_CONTENT {
        return;
    }
    let size = request.settings().get::<SliceSettings>().slice.0;
    let part = match SlicePart::of(response, begin, size) {
        Ok(part) => part,
        Err(fault) => {
            log_error!(request, Error, "{fault}");
            *response = *error_page::built_in(request, Status::BAD_GATEWAY);
            return;
        }
    };
    let body = std::mem::replace(&mut response.body, Body::Empty).into_source(request);
    response.status = Status::OK;
    response.ranges = true;
    // What the other server says of a part is not about the whole.
    response.content_is_cut();
    response.remove(b"Accept-Ranges");
    if let Some(written) = response.as_written.as_mut().map(Arc::make_mut) {
        (written.status, written.reason) = (200, Bytes::from_static(b"OK"));
        written.accept_ranges = false;
    }
    response.body = Body::Source(Box::new(Slices {
        request: request.fork(),
        size,
        etag: response.etag.clone(),
        at: 0,
        end: part.whole,
        slice: Some((part.begin, part.end, Slice { body, subrequest: None })),
        whole: part.whole,
    }));
}

/// A slice that is being received.
struct Slice {
    body: Box<dyn BodySource>,
    subrequest: Option<Subrequest>,
}

/// A body that is put together from slices.
struct Slices {
    request: Box<Request>,
    size: u64,
    etag: Option<Bytes>,
    /// The offset of the next byte that is wanted.
    at: u64,
    /// The offset after the last byte that is wanted.
    end: u64,
    /// The current slice: the offset of its next byte, its exclusive end, and its body.
    slice: Option<(u64, u64, Slice)>,
    whole: u64,
}

impl Slices {
    /// Requests the slice with the next byte.
    async fn ask(&mut self) -> Result<(), SourceError> {
        let begin = self.at / self.size * self.size;
        let asking = content(&self.request, |request| request.own.get::<SliceBegin>().0.set(Some(begin)));
        let mut subrequest = asking.map_err(io::Error::other)?.await;
        let Some(response) = &mut subrequest.response else { return Err(SourceError::BrokenOff) };
        let part = SlicePart::of(response, begin, self.size).and_then(|part| {
            let same = part.whole == self.whole && response.etag == self.etag;
            if same { Ok(part) } else { Err(SliceFault::Tag) }
        });
        let part = match part {
            Ok(part) => part,
            Err(fault) => {
                log_error!(subrequest.request, Error, "{fault}");
                // What was sent of the slices before it stays, as when another server breaks off.
                return Err(SourceError::Replaced(Status::BAD_GATEWAY));
            }
        };
        let body = std::mem::replace(&mut response.body, Body::Empty).into_source(&subrequest.request);
        self.slice = Some((part.begin, part.end, Slice { body, subrequest: Some(subrequest) }));
        Ok(())
    }

    fn done(&mut self) {
        if let Some((_, _, Slice { subrequest: Some(subrequest), .. })) = self.slice.take() {
            subrequest.finish();
        }
    }
}

impl BodySource for Slices {
    fn prepare(&mut self) -> Option<LocalBoxFuture<'_, Result<(), Status>>> {
        let has_first_byte = self.slice.as_ref().is_some_and(|(from, to, _)| (*from..*to).contains(&self.at));
        if has_first_byte || self.at >= self.end {
            return None;
        }
        self.done();
        Some(Box::pin(async {
            self.ask().await.map_err(|error| match error {
                SourceError::Replaced(status) => status,
                _ => Status::BAD_GATEWAY,
            })
        }))
    }

    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            while self.at < self.end {
                let at = self.at;
                match &mut self.slice {
                    Some((from, to, slice)) if *from <= at && at < *to => {
                        let Some(mut piece) = slice.body.next().await? else {
                            return Err(SourceError::Short);
                        };
                        let here = (*from, (*from + piece.len() as u64).min(*to));
                        *from = here.1;
                        // Bytes before the wanted range, and after it, are left out.
                        let skip = at.clamp(here.0, here.1) - here.0;
                        let keep = self.end.clamp(here.0, here.1) - here.0;
                        piece.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
                        let piece = piece.split_off(usize::try_from(skip).unwrap_or(usize::MAX).min(piece.len()));
                        if !piece.is_empty() {
                            self.at += piece.len() as u64;
                            if self.at == self.end {
                                self.done();
                            }
                            return Ok(Some(piece));
                        }
                    }
                    Some(_) => self.done(),
                    None => self.ask().await?,
                }
            }
            self.done();
            Ok(None)
        })
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        match &mut self.slice {
            Some((_, _, slice)) => slice.body.ahead(),
            None => Box::pin(std::future::pending()),
        }
    }

    fn is_urgent(&self) -> bool {
        self.slice.as_ref().is_some_and(|(_, _, slice)| slice.body.is_urgent())
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.end - self.at)
    }

    fn narrow(&mut self, begin: u64, end: u64) -> bool {
        (self.at, self.end) = (begin, end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_of_a_range() {
        for (range, first) in [
            ("bytes=5-", 5),
            ("bytes=5-9", 5),
            ("Bytes= 5-9", 5),
            ("bytes=-5", 0),
            ("bytes=5-6,8-9", 0),
            ("bytes=", 0),
            ("byte=5-", 0),
            ("", 0),
            ("bytes=99999999999999999999-", 0),
            ("bytes=18446744073709551615-", u64::MAX),
        ] {
            assert_eq!(first_byte(range.as_bytes()), first, "{range}");
        }
    }

    #[test]
    fn content_ranges() {
        for (value, part) in [
            ("bytes 0-3/10", Ok(SlicePart { begin: 0, end: 4, whole: 10 })),
            ("bytes 8-9/10", Ok(SlicePart { begin: 8, end: 10, whole: 10 })),
            ("bytes 0-3/*", Err(SliceFault::Length)),
            ("bytes */10", Err(SliceFault::Range)),
            ("bytes 0-3", Err(SliceFault::Range)),
            ("bytes x-3/10", Err(SliceFault::Range)),
            ("bytes 0-18446744073709551615/10", Err(SliceFault::Range)),
            ("bytes +0-3/10", Err(SliceFault::Range)),
            ("items 0-3/10", Err(SliceFault::Range)),
            ("", Err(SliceFault::Range)),
        ] {
            assert_eq!(SlicePart::parse(value.as_bytes()), part, "{value}");
        }
    }

    #[test]
    fn a_slice_has_to_be_the_one_that_was_asked_for() {
        let response = |status, range: &'static str| {
            let mut response = Response::new(status, "", Body::Empty);
            response.add("Content-Range", range);
            response
        };
        let part = |status, range, begin| SlicePart::of(&response(status, range), begin, 4);
        assert_eq!(part(Status::PARTIAL_CONTENT, "bytes 4-7/10", 4), Ok(SlicePart { begin: 4, end: 8, whole: 10 }));
        assert_eq!(part(Status::PARTIAL_CONTENT, "bytes 8-9/10", 8), Ok(SlicePart { begin: 8, end: 10, whole: 10 }));
        assert_eq!(part(Status::PARTIAL_CONTENT, "bytes 4-6/10", 4), Err(SliceFault::Unexpected(4..7, 4..8)));
        assert_eq!(part(Status::PARTIAL_CONTENT, "bytes 5-8/10", 4), Err(SliceFault::Unexpected(5..9, 4..8)));
        assert_eq!(part(Status::OK, "bytes 4-7/10", 4), Err(SliceFault::Status(Status::OK)));
        assert_eq!(
            SlicePart::of(&Response::new(Status::PARTIAL_CONTENT, "", Body::Empty), 0, 4),
            Err(SliceFault::Range)
        );
    }
}
