//! The state of a request that is passed on for a cache. It wants the whole response, whatever part or change the
//! client wants; and for a stale response, whether it has changed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use freerun_http::request::Request;
use freerun_proto::HeaderId;

/// The state of a request that asks a server for the cache.
#[derive(Debug, Default)]
pub struct CacheFetch {
    active: Cell<bool>,
    /// Whether HEAD is passed on as GET.
    pub as_get: Cell<bool>,
    validators: RefCell<Validators>,
}

/// The validators of a stale response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// The value of `Last-Modified`.
    pub last_modified: Option<Bytes>,
    /// The value of `ETag`.
    pub etag: Option<Bytes>,
}

impl Validators {
    /// The validators among the fields of a response.
    pub fn of(fields: &[(Bytes, Bytes)]) -> Validators {
        let find = |id| {
            let found = fields.iter().find(|(name, _)| HeaderId::of(name) == id);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        Validators { last_modified: find(HeaderId::LastModified), etag: find(HeaderId::Etag) }
    }

    /// Whether there are no validators.
    pub fn is_empty(&self) -> bool {
        self.last_modified.is_none() && self.etag.is_none()
    }
}

impl CacheFetch {
    /// The state of the request, if it is passed on for the cache.
    pub fn of(request: &Request) -> Option<Rc<CacheFetch>> {
        request.own.find::<CacheFetch>().filter(|asking| asking.active.get())
    }

    /// Passes the request on for the cache from now on.
    pub fn begin(request: &Request, as_get: bool, validators: Validators) {
        let asking = request.own.get::<CacheFetch>();
        asking.active.set(true);
        asking.as_get.set(as_get);
        *asking.validators.borrow_mut() = validators;
    }

    /// The validators of the stale response, whether or not the request is still passed on.
    pub fn validators(request: &Request) -> Option<Validators> {
        Some(request.own.find::<CacheFetch>()?.validators.borrow().clone())
    }

    /// Ends passing the request on for the cache.
    pub fn end(request: &Request) {
        if let Some(asking) = request.own.find::<CacheFetch>() {
            asking.active.set(false);
        }
    }

    /// Passes the conditional fields to `add`.
    pub fn with_validators(&self, mut add: impl FnMut(HeaderId, &[u8])) {
        let validators = self.validators.borrow();
        if let Some(value) = &validators.last_modified {
            add(HeaderId::IfModifiedSince, value);
        }
        if let Some(value) = &validators.etag {
            add(HeaderId::IfNoneMatch, value);
        }
    }
}

/// Whether a field makes the response one for this client alone: it asks for a part, or only for a changed response.
pub fn is_about_parts(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::Range
            | HeaderId::IfRange
            | HeaderId::IfMatch
            | HeaderId::IfNoneMatch
            | HeaderId::IfModifiedSince
            | HeaderId::IfUnmodifiedSince
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validators_are_taken_from_the_fields() {
        let field = |name: &'static str, value: &'static str| (Bytes::from(name), Bytes::from(value));
        let found = Validators::of(&[field("etag", "\"a\""), field("ETag", "\"b\""), field("Last-Modified", "")]);
        assert_eq!(found, Validators { etag: Some("\"a\"".into()), last_modified: None });
        assert!(!found.is_empty() && Validators::of(&[field("Date", "x")]).is_empty());
    }
}
