//! A body whose length is not told.

use bytes::Bytes;
use freerun_http::request::Request;
use freerun_http::request::response::{Body, BodySource, LocalBoxFuture, Response, SourceError};

/// A body whose length is not known from the outside, because something will be added to it, or because the length is not to
/// be announced.
pub struct UnknownLengthSource(Box<dyn BodySource>);

impl UnknownLengthSource {
    /// Makes the length of the response's body unknown.
    pub fn make(request: &Request, response: &mut Response) {
        let body = std::mem::replace(&mut response.body, Body::Empty).into_source(request);
        response.body = Body::Source(Box::new(UnknownLengthSource(body)));
    }
}

impl BodySource for UnknownLengthSource {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        self.0.next()
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        self.0.ahead()
    }

    fn is_urgent(&self) -> bool {
        self.0.is_urgent()
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}
