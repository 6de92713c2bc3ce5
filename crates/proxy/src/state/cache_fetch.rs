//! How a server is asked for what is to be cached: for the whole of it, whatever part or change the client wants; and, for
//! what is cached and stale, whether it has changed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use freerun_http::request::Request;
use freerun_proto::HeaderId;

/// Kept with a request while a server is asked for the cache.
#[derive(Debug, Default)]
pub struct CacheFetch {
    active: Cell<bool>,
    /// HEAD is passed on as GET.
    pub as_get: Cell<bool>,
    validators: RefCell<Validators>,
}

/// What a stale response is known by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// `Last-Modified`
    pub last_modified: Option<Bytes>,
    /// `ETag`
    pub etag: Option<Bytes>,
}

impl Validators {
    /// Of the fields of a response.
    pub fn of(fields: &[(Bytes, Bytes)]) -> Validators {
        let find = |id| {
            let found = fields.iter().find(|(name, _)| HeaderId::of(name) == id);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        Validators { last_modified: find(HeaderId::LastModified), etag: find(HeaderId::Etag) }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.last_modified.is_none() && self.etag.is_none()
    }
}

impl CacheFetch {
    /// How the request is passed on, if it is for the cache.
    pub fn of(request: &Request) -> Option<Rc<CacheFetch>> {
        request.own.find::<CacheFetch>().filter(|asking| asking.active.get())
    }

    /// From now on the request is passed on for the cache.
    pub fn begin(request: &Request, as_get: bool, validators: Validators) {
        let asking = request.own.get::<CacheFetch>();
        asking.active.set(true);
        asking.as_get.set(as_get);
        *asking.validators.borrow_mut() = validators;
    }

    /// What the stale response was known by, whether or not the request is still passed on.
    pub fn validators(request: &Request) -> Option<Validators> {
        Some(request.own.find::<CacheFetch>()?.validators.borrow().clone())
    }

    /// It is not any more.
    pub fn end(request: &Request) {
        if let Some(asking) = request.own.find::<CacheFetch>() {
            asking.active.set(false);
        }
    }

    /// Gives the conditions to `add`.
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

/// Fields that make a response one for this client alone: they ask for a part of it, or for it only if it has changed.
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
