//! The record of a request's tries at upstream servers: the servers, the results and the times.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::request::response::Field;
use freerun_runtime::loops;
use freerun_serve::upstream::tries::{self, ChosenServer, Took, TryRecord};

use crate::exchange::UpstreamHead;
use crate::exchange::target::PassTarget;

/// The facts of a try that only requests have.
#[derive(Debug)]
pub struct RequestTry {
    /// The response's status, or the status that stands for its absence (502, 504); 0: not known.
    pub status: u16,
    /// Time that the request waited in the group's `queue`; none if it did not.
    pub queue: Took,
    /// The number of bytes of the response's body.
    pub length: u64,
    /// Whether it is the first try after an internal redirect.
    pub(super) redirected: bool,
}

/// A try to have the request answered by a server.
pub type Try = tries::Try<RequestTry>;

/// The record of a request's tries. It is kept with the request, and with the source of its response.
#[derive(Debug, Default)]
pub struct Record {
    tries: TryRecord<RequestTry>,
    pub(super) inner: RefCell<Inner>,
}

impl Deref for Record {
    type Target = TryRecord<RequestTry>;

    fn deref(&self) -> &TryRecord<RequestTry> {
        &self.tries
    }
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    /// The number of tries before the present target.
    before: usize,
    /// Whether the tries after them are left out of the variables.
    hidden: bool,
    redirected: bool,
    target: Option<PassTarget>,
    pub(super) fields: Box<[Field]>,
    pub(super) trailers: Box<[Field]>,
}

impl Record {
    /// Sets the target that the request is passed to from now on.
    pub fn set_target(&self, target: &PassTarget) {
        let mut inner = self.inner.borrow_mut();
        inner.before = self.tries.len();
        inner.redirected = inner.before > 0;
        inner.target = Some(target.clone());
        if !inner.fields.is_empty() {
            inner.fields = Box::default();
        }
        if !inner.trailers.is_empty() {
            inner.trailers = Box::default();
        }
    }

    /// The target of the request, if it has one.
    pub fn target(&self) -> Option<PassTarget> {
        self.inner.borrow().target.clone()
    }

    /// Begins a try, after a wait of `queue` in the group's queue.
    pub fn begin(&self, server: impl Into<ChosenServer>, now: u64, queue: Took) {
        let redirected = std::mem::take(&mut self.inner.borrow_mut().redirected);
        self.tries.begin(server, now, RequestTry { status: 0, queue, length: 0, redirected });
    }

    /// Sets the status of the last try.
    pub fn set_status(&self, status: u16) {
        self.tries.with(|last| last.own.status = status);
    }

    /// The number of tries that variables show: the first ones.
    pub(super) fn shown(&self) -> usize {
        let inner = self.inner.borrow();
        if inner.hidden { inner.before } else { usize::MAX }
    }

    /// Leaves the tries with the present target out of the variables, or shows them again: one request is made for all
    /// of its servers, before one is chosen (`proxy_request_dynamic off`).
    pub fn hide(&self, hidden: bool) {
        self.inner.borrow_mut().hidden = hidden;
    }

    /// Records the answer to the last try. Returns when the try began. The fields are kept only where they may be used
    /// (`keep`).
    pub fn answered(&self, head: &UpstreamHead, keep: bool) -> u64 {
        let now = loops::nanos();
        if keep {
            self.inner.borrow_mut().fields = head.fields.to_list().into();
        }
        let began = self.with(|last| {
            last.own.status = head.status;
            last.answered(now);
            last.began
        });
        began.unwrap_or(now)
    }

    /// Sets the fields of a response that came from no server.
    pub fn show(&self, fields: &[Field]) {
        self.inner.borrow_mut().fields = fields.into();
    }

    /// Copies the fields out of the buffer that they came in, because the request goes on for long.
    pub fn shrink(&self) {
        let mut inner = self.inner.borrow_mut();
        let whole: Vec<u8> = inner.fields.iter().flat_map(|(name, value)| [&name[..], &value[..]].concat()).collect();
        let mut rest = Bytes::from(whole.into_boxed_slice());
        for (name, value) in inner.fields.iter_mut() {
            *name = rest.split_to(name.len());
            *value = rest.split_to(value.len());
        }
    }

    /// Time that the last try took until its head came, or has taken so far.
    pub fn took(&self) -> Duration {
        let so_far = |last: &Try| Took::between(last.began, loops::nanos()).get();
        self.with(|last| last.answer.get().or_else(|| so_far(last))).flatten().unwrap_or_default()
    }

    /// Passes the fields of the response's head to `look`.
    pub fn with_fields(&self, look: impl FnOnce(&[Field])) {
        look(&self.inner.borrow().fields);
    }

    /// Sets the trailer fields of the response.
    pub fn set_trailers(&self, trailers: Vec<Field>) {
        let mut inner = self.inner.borrow_mut();
        if !(trailers.is_empty() && inner.trailers.is_empty()) {
            inner.trailers = trailers.into();
        }
    }

    /// Passes the trailer fields of the response to `look`.
    pub fn with_trailers<T>(&self, look: impl FnOnce(&[Field]) -> T) -> T {
        look(&self.inner.borrow().trailers)
    }
}

/// Prints the target as the error log has it after `upstream:`.
impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(inner) = self.inner.try_borrow() else { return Ok(()) };
        let Some(target) = &inner.target else { return Ok(()) };
        formatter.write_str(target.upstream().scheme)?;
        self.tries.look(|tries| {
            let last = tries.last().map(|last| last.server.name());
            match last.filter(|_| !inner.redirected) {
                Some(name) => formatter.write_str(name)?,
                None => write!(formatter, "{}", text_of(&target.upstream().host))?,
            }
            if last.is_some_and(|name| name.starts_with("unix:")) && !target.uri.is_empty() {
                formatter.write_str(":")?;
            }
            write!(formatter, "{}", text_of(&target.uri))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::exchange::target::UpstreamTarget;

    #[test]
    fn the_log_names_the_server_or_the_group() {
        let record = Record::default();
        let upstream =
            |scheme, host: &'static str| UpstreamTarget { scheme, host: host.into(), ..UpstreamTarget::default() };
        let target = |upstream, uri: &'static str| PassTarget::new(Arc::new(upstream), uri.as_bytes().into());
        let php = target(upstream("fastcgi://", "php"), "");
        let target = target(upstream("http://", "backend"), "/a?b");
        record.set_target(&target);
        assert_eq!(record.to_string(), "http://backend/a?b");
        record.begin("127.0.0.1:80", 0, Took::default());
        assert_eq!(record.to_string(), "http://127.0.0.1:80/a?b");
        record.set_target(&php);
        assert_eq!(record.to_string(), "fastcgi://php");
        record.begin("unix:/run/php.sock", 0, Took::default());
        assert_eq!(record.to_string(), "fastcgi://unix:/run/php.sock");
        record.set_target(&target);
        record.begin("unix:/s", 0, Took::default());
        assert_eq!(record.to_string(), "http://unix:/s:/a?b");
    }
}
