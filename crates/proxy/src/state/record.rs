//! The record of a request's tries at upstream servers: the servers, the results and the times.

use std::cell::RefCell;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::request::response::Field;
use freerun_runtime::loops;
use freerun_upstream::{Lease, Peer};
use smallvec::SmallVec;

use crate::exchange::UpstreamHead;
use crate::exchange::target::PassTarget;

/// One try.
#[derive(Debug)]
pub struct Try {
    /// The server of the try.
    pub whom: ChosenServer,
    /// The response's status, or the status that stands for its absence (502, 504); 0: not known.
    pub status: u16,
    /// When the try began, in [`loops::nanos`].
    pub began: u64,
    /// How long the request waited in the group's `queue`; none if it did not.
    pub queue: Took,
    /// How long connecting took; none if no connection was made.
    pub connect: Took,
    /// How long it took until the response's head came.
    pub header: Took,
    /// How long it took until the response had ended, or was given up.
    pub response: Took,
    /// The number of bytes of the response's body.
    pub length: u64,
    /// The number of bytes received.
    pub received: u64,
    /// The number of bytes sent.
    pub sent: u64,
    /// Whether it is the first try after an internal redirect.
    pub(super) redirected: bool,
}

/// The server of a try.
#[derive(Debug)]
pub enum ChosenServer {
    /// This server.
    Server(Arc<Peer>),
    /// No server was available in the group with this name.
    None(Box<str>),
}

impl ChosenServer {
    /// The server's address, or the group's name: `$upstream_addr`.
    pub(super) fn name(&self) -> &str {
        match self {
            ChosenServer::Server(peer) => &peer.name,
            ChosenServer::None(group) => group,
        }
    }

    pub(super) fn server(&self) -> Option<&Peer> {
        match self {
            ChosenServer::Server(peer) => Some(peer),
            ChosenServer::None(_) => None,
        }
    }
}

impl From<Arc<Peer>> for ChosenServer {
    fn from(peer: Arc<Peer>) -> ChosenServer {
        ChosenServer::Server(peer)
    }
}

impl From<&str> for ChosenServer {
    fn from(group: &str) -> ChosenServer {
        ChosenServer::None(group.into())
    }
}

impl Try {
    /// Records that the response's head has come; only the first call counts.
    pub fn head_came(&mut self, now: u64) {
        if self.header.0.is_none() {
            self.header = Took::between(self.began, now);
        }
    }
}

/// A duration that was measured, or none: half the size of an `Option<Duration>`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Took(Option<NonZeroU64>);

impl Took {
    /// The duration.
    pub fn get(self) -> Option<Duration> {
        Some(Duration::from_nanos(self.0?.get() - 1))
    }

    /// The duration between two times of [`loops::nanos`].
    pub fn between(began: u64, now: u64) -> Took {
        Took(NonZeroU64::new(now.saturating_sub(began).saturating_add(1)))
    }
}

impl From<Duration> for Took {
    fn from(time: Duration) -> Took {
        Took(NonZeroU64::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_add(1)))
    }
}

impl Inner {
    /// The tries that variables show.
    pub(super) fn shown(&self) -> &[Try] {
        if self.hidden { &self.tries[..self.before] } else { &self.tries }
    }
}

/// The record of a request's tries. It is kept with the request, and with the source of its response.
#[derive(Debug, Default)]
pub struct Record(pub(super) RefCell<Inner>);

#[derive(Debug, Default)]
pub(super) struct Inner {
    tries: SmallVec<[Try; 1]>,
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
    pub fn aim(&self, target: &PassTarget) {
        let mut inner = self.0.borrow_mut();
        inner.redirected = !inner.tries.is_empty();
        inner.before = inner.tries.len();
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
        self.0.borrow().target.clone()
    }

    /// Begins a try, after a wait of `queue` in the group's queue.
    pub fn begin(&self, whom: impl Into<ChosenServer>, now: u64, queue: Took) {
        let mut inner = self.0.borrow_mut();
        let redirected = std::mem::take(&mut inner.redirected);
        inner.tries.push(Try {
            whom: whom.into(),
            status: 0,
            began: now,
            queue,
            connect: Took::default(),
            header: Took::default(),
            response: Took::default(),
            length: 0,
            received: 0,
            sent: 0,
            redirected,
        });
    }

    /// Leaves the tries with the present target out of the variables, or shows them again: one request is made for all
    /// of its servers, before one is chosen (`proxy_request_dynamic off`).
    pub fn hide(&self, hidden: bool) {
        self.0.borrow_mut().hidden = hidden;
    }

    /// Changes the last try.
    pub fn with<T>(&self, change: impl FnOnce(&mut Try) -> T) -> Option<T> {
        self.0.borrow_mut().tries.last_mut().map(change)
    }

    /// Ends the last try.
    pub fn end(&self, now: u64) {
        self.with(|last| {
            if last.response.0.is_none() {
                last.response = Took::between(last.began, now);
            }
        });
    }

    /// Adds the bytes of the last try to the counters of its server.
    pub fn count(&self, lease: &Lease) {
        let bytes = self.with(|last| (last.sent, last.received));
        let (sent, received) = bytes.unwrap_or_default();
        lease.bytes(sent, received);
    }

    /// Records the answer to the last try. Returns when the try began. The fields are kept only where they may be used
    /// (`keep`).
    pub fn answered(&self, head: &UpstreamHead, keep: bool) -> u64 {
        let now = loops::nanos();
        if keep {
            self.0.borrow_mut().fields = head.fields.to_list().into();
        }
        let began = self.with(|last| {
            last.status = head.status;
            last.head_came(now);
            last.began
        });
        began.unwrap_or(now)
    }

    /// Sets the fields of a response that came from no server.
    pub fn show(&self, fields: &[Field]) {
        self.0.borrow_mut().fields = fields.into();
    }

    /// Copies the fields out of the buffer that they came in, because the request goes on for long.
    pub fn shrink(&self) {
        let mut inner = self.0.borrow_mut();
        let whole: Vec<u8> = inner.fields.iter().flat_map(|(name, value)| [&name[..], &value[..]].concat()).collect();
        let mut rest = Bytes::from(whole.into_boxed_slice());
        for (name, value) in inner.fields.iter_mut() {
            *name = rest.split_to(name.len());
            *value = rest.split_to(value.len());
        }
    }

    /// How long the last try took until its head came, or has taken by now.
    pub fn took(&self) -> Duration {
        let so_far = |last: &Try| Took::between(last.began, loops::nanos()).get();
        self.with(|last| last.header.get().or_else(|| so_far(last))).flatten().unwrap_or_default()
    }

    /// Passes the fields of the response's head to `look`.
    pub fn with_fields(&self, look: impl FnOnce(&[Field])) {
        look(&self.0.borrow().fields);
    }

    /// Sets the trailer fields of the response.
    pub fn set_trailers(&self, trailers: Vec<Field>) {
        let mut inner = self.0.borrow_mut();
        if !(trailers.is_empty() && inner.trailers.is_empty()) {
            inner.trailers = trailers.into();
        }
    }

    /// Passes the trailer fields of the response to `look`.
    pub fn with_trailers<T>(&self, look: impl FnOnce(&[Field]) -> T) -> T {
        look(&self.0.borrow().trailers)
    }
}

/// Prints the target as the error log has it after `upstream:`.
impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(inner) = self.0.try_borrow() else { return Ok(()) };
        let Some(target) = &inner.target else { return Ok(()) };
        formatter.write_str(target.whom().scheme)?;
        match inner.tries.last().filter(|_| !inner.redirected) {
            Some(last) => formatter.write_str(last.whom.name())?,
            None => write!(formatter, "{}", text_of(&target.whom().host))?,
        }
        let is_unix = inner.tries.last().is_some_and(|last| last.whom.name().starts_with("unix:"));
        if is_unix && !target.uri.is_empty() {
            formatter.write_str(":")?;
        }
        write!(formatter, "{}", text_of(&target.uri))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::target::UpstreamTarget;

    #[test]
    fn the_log_names_the_server_or_the_group() {
        let record = Record::default();
        let whom =
            |scheme, host: &'static str| UpstreamTarget { scheme, host: host.into(), ..UpstreamTarget::default() };
        let target = |whom, uri: &'static str| PassTarget::new(Arc::new(whom), uri.as_bytes().into());
        let php = target(whom("fastcgi://", "php"), "");
        let target = target(whom("http://", "backend"), "/a?b");
        record.aim(&target);
        assert_eq!(record.to_string(), "http://backend/a?b");
        record.begin("127.0.0.1:80", 0, Took::default());
        assert_eq!(record.to_string(), "http://127.0.0.1:80/a?b");
        record.aim(&php);
        assert_eq!(record.to_string(), "fastcgi://php");
        record.begin("unix:/run/php.sock", 0, Took::default());
        assert_eq!(record.to_string(), "fastcgi://unix:/run/php.sock");
        record.aim(&target);
        record.begin("unix:/s", 0, Took::default());
        assert_eq!(record.to_string(), "http://unix:/s:/a?b");
    }
}
