//! The own fetch of a request that follows somebody else's. When the followed response gets no more bytes or breaks
//! off, the server is asked once more, and the client gets the rest from the new response.
//!
//! The client has the head already, and perhaps a part of the body. So the new response has to be the same one: status,
//! length, type and validators are equal, and its body begins with the bytes that the client has. Where these are too
//! many to be kept, the same strong `ETag` stands for them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freerun_cache::record::Head;
use freerun_cache::rules::{Field, values};
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Body, BodySource, SourceError};
use freerun_proto::Method;

use crate::cached::clientless::fork_of;
use crate::client::{Terms, reach};
use crate::exchange::UpstreamHead;
use crate::exchange::family::Family;
use crate::state::cache_fetch::{CacheFetch, Validators};

/// Number of bytes that are kept to compare them with a new response.
const MOST_COMPARED: usize = 64 * 1024;

/// The fields in which a response that goes on with another one may not differ from it.
const SAME: [&[u8]; 4] = [b"etag", b"last-modified", b"content-type", b"content-encoding"];

/// A request for a response that the client has the beginning of, and the facts to compare it with.
pub struct OwnFetch {
    request: Box<Request>,
    family: &'static dyn Family,
    as_get: bool,
    head: Arc<Head>,
    /// The bytes that were taken so far, while they are few.
    taken: Vec<Bytes>,
    count: u64,
}

/// The rest of a body.
pub struct BodyRest {
    source: Box<dyn BodySource>,
    /// The bytes that came in the same piece as the last skipped byte.
    first: Option<Bytes>,
    left: Option<u64>,
    /// The request that was made for it.
    _request: Box<Request>,
}

impl OwnFetch {
    /// The fetch for a request that follows a response with this head. `None`: the request cannot be made again.
    pub fn new(request: &Request, family: &'static dyn Family, head: Arc<Head>) -> Option<OwnFetch> {
        if !matches!(request.asked.method, Method::Get | Method::Head) || request.body.received() > 0 {
            return None;
        }
        let as_get = request.asked.method == Method::Head && family.converts_head(request);
        let request = fork_of(request);
        Some(OwnFetch { request, family, as_get, head, taken: Vec::new(), count: 0 })
    }

    /// Time for which a response may come to a halt before the server is asked: `cache_lock_age`.
    pub fn patience(&self) -> Duration {
        let age = self.family.shared(self.request.settings()).map(|shared| shared.proxy_cache_lock_age);
        age.unwrap_or_default().max(Duration::from_millis(1))
    }

    /// Notes bytes that were taken for the client.
    pub fn note(&mut self, piece: &Bytes) {
        self.count += piece.len() as u64;
        if self.count <= MOST_COMPARED as u64 {
            self.taken.push(piece.clone());
        }
    }

    /// Asks the server, and returns the body from where the client has it. `begin`: the first byte that was wanted;
    /// `until`: the end of the wanted bytes; `length`: the length of the whole body, if it is known.
    ///
    /// # Errors
    /// There is no such response.
    pub async fn run(mut self, begin: u64, until: u64, length: Option<u64>) -> Result<BodyRest, SourceError> {
        let refused = || SourceError::BrokenOff;
        log_error!(
            self.request,
            Warn,
            "the response that this request follows has come to a halt: the server is asked again"
        );
        CacheFetch::begin(&self.request, self.as_get, Validators::default());
        let terms = Terms { watched: false, head_at_once: true };
        let reached = reach(&mut self.request, self.family, terms).await;
        CacheFetch::end(&self.request);
        let reached = reached.map_err(|_| refused())?;
        if !self.is_same(reached.head(), length) {
            log_error!(self.request, Error, "the server has another response now: the client's is cut");
            reached.dismiss(&self.request);
            return Err(refused());
        }
        let Outcome::Response(mut response) = reached.answer(&mut self.request) else { return Err(refused()) };
        let mut source = std::mem::replace(&mut response.body, Body::Empty).into_source(&self.request);
        let known = if self.count <= MOST_COMPARED as u64 { self.taken.concat() } else { Vec::new() };
        let mut skipped = 0;
        let mut first = None;
        while skipped < begin + self.count {
            let mut piece = source.next().await?.ok_or_else(refused)?;
            let here = (begin + self.count - skipped).min(piece.len() as u64);
            first = Some(piece.split_off(here as usize)).filter(|rest| !rest.is_empty());
            // Bytes before those that the client wanted were not sent to it.
            let unsent = begin.saturating_sub(skipped).min(here);
            let at = (skipped + unsent).saturating_sub(begin) as usize;
            let sent = &piece[unsent as usize..];
            if !known.is_empty() && !known.get(at..).is_some_and(|known| known.starts_with(sent)) {
                log_error!(self.request, Error, "the server has another response now: the client's is cut");
                return Err(refused());
            }
            skipped += here;
        }
        let left = length.map(|length| length.min(until).saturating_sub(skipped));
        let left = left.or((until < u64::MAX).then(|| until.saturating_sub(skipped)));
        Ok(BodyRest { source, first, left, _request: self.request })
    }

    /// Whether a response can go on where the client's stopped, as far as the heads tell.
    fn is_same(&self, head: &UpstreamHead, length: Option<u64>) -> bool {
        let fields = head.fields.to_list();
        let is_strong = |fields: &[Field]| values(fields, b"etag").any(|tag| tag.starts_with(b"\""));
        let lengths_differ = length.zip(head.length).is_some_and(|(one, other)| one != other);
        let same = |name: &&[u8]| values(&fields, name).eq(values(&self.head.fields, name));
        head.status == self.head.status
            && !lengths_differ
            && SAME.iter().all(same)
            && (self.count <= MOST_COMPARED as u64 || is_strong(&self.head.fields))
    }
}

impl BodyRest {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// The body broke off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let piece = match self.first.take() {
            Some(first) => Some(first),
            None => self.source.next().await?,
        };
        let Some(mut piece) = piece else {
            return if self.left.is_some() { Err(SourceError::BrokenOff) } else { Ok(None) };
        };
        if let Some(left) = &mut self.left {
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
        }
        Ok(Some(piece))
    }

    /// The number of bytes still to come, if it is known.
    pub fn remaining(&self) -> Option<u64> {
        self.left
    }
}
