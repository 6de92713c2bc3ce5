//! A body that is put together of other bodies and the answers to subrequests.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use freerun_http::phases::subrequest::subrequest;
use freerun_http::phases::subrequest_body::SubrequestBody;
use freerun_http::request::Request;
use freerun_http::request::response::{BodySource, LocalBoxFuture, SourceError};

/// A part of a body.
pub enum SequencePart {
    /// The answer to a subrequest for this URI.
    Uri(Vec<u8>),
    /// Another body.
    Body(Box<dyn BodySource>),
}

/// A body of several parts. Its length is not told.
pub struct Sequence {
    request: Box<Request>,
    parts: VecDeque<SequencePart>,
}

impl Sequence {
    /// A body of these parts, in their order.
    pub fn new(request: &Request, parts: VecDeque<SequencePart>) -> Sequence {
        Sequence { request: request.fork(), parts }
    }
}

impl BodySource for Sequence {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            loop {
                match self.parts.front_mut() {
                    None => return Ok(None),
                    Some(SequencePart::Body(source)) => match source.next().await? {
                        Some(piece) => return Ok(Some(piece)),
                        None => drop(self.parts.pop_front()),
                    },
                    Some(SequencePart::Uri(uri)) => {
                        let running = subrequest(&self.request, std::mem::take(uri), None).map_err(io::Error::other)?;
                        self.parts[0] = SequencePart::Body(Box::new(SubrequestBody::new(running)));
                    }
                }
            }
        })
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        match self.parts.front_mut() {
            Some(SequencePart::Body(source)) => source.ahead(),
            _ => Box::pin(std::future::pending()),
        }
    }

    fn is_urgent(&self) -> bool {
        matches!(self.parts.front(), Some(SequencePart::Body(source)) if source.is_urgent())
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}
