//! The rests of requests that were answered before they had come whole. Nobody reads them.
//!
//! A server may ask the client to stop sending (RFC 9114 section 4.1), but Chromium then never shows the response, although it
//! is complete. So the rest is read and thrown away, for the times of `lingering_close`, as over HTTP/1. After that, and when
//! too many rests come at once, the client is asked.

use std::time::Duration;

use freerun_proto::h3::StreamId;
use freerun_runtime::loops;

use crate::request::core_settings::{CoreSettings, LingeringClose};

/// The most rests that are read at the same time on one connection, as many as over HTTP/2. The oldest is given up for
/// another.
const MOST_RESTS: usize = 16;

/// The limits of reading the rest of a request, by the location that has answered it. Without them none is read. Each stream
/// has them, so they are short: times are in milliseconds, at most 49 days.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RestLimits {
    /// Whether it is read at all (`lingering_close`).
    is_read: bool,
    /// The time for all of it (`lingering_time`).
    total: u32,
    /// The time without a piece of it (`lingering_timeout`).
    silence: u32,
}

impl From<&CoreSettings> for RestLimits {
    fn from(core: &CoreSettings) -> RestLimits {
        let is_read = core.lingering_close != LingeringClose::Off;
        RestLimits { is_read, total: millis(core.lingering_time), silence: millis(core.lingering_timeout) }
    }
}

/// The rest of a request. Times are in milliseconds since the process began.
struct UnreadRest {
    id: StreamId,
    /// The time at which it is given up, whatever comes.
    last: u64,
    /// The time at which it is given up if nothing comes.
    silent: u64,
    limits: RestLimits,
}

impl UnreadRest {
    fn ends_at(&self) -> u64 {
        self.last.min(self.silent)
    }
}

/// The rests of a connection, those first that have come longest.
#[derive(Default)]
pub(super) struct UnreadRests(Vec<UnreadRest>);

impl UnreadRests {
    /// Adds the rest of a request. Returns the stream that is given up for it: the stream itself, if rests are not to be read.
    pub(super) fn add(&mut self, id: StreamId, limits: RestLimits) -> Option<StreamId> {
        debug_assert!(!self.contains(id), "a request is answered once");
        if !limits.is_read {
            return Some(id);
        }
        let oldest = if self.0.len() < MOST_RESTS { None } else { Some(self.0.remove(0).id) };
        self.0.push(UnreadRest { id, last: after(limits.total), silent: after(limits.silence), limits });
        oldest
    }

    /// Whether the bytes of this stream are a rest.
    pub(super) fn contains(&self, id: StreamId) -> bool {
        self.0.iter().any(|rest| rest.id == id)
    }

    /// Notes that bytes of a rest have come.
    pub(super) fn heard(&mut self, id: StreamId) {
        for rest in self.0.iter_mut().filter(|rest| rest.id == id) {
            rest.silent = after(rest.limits.silence);
        }
    }

    /// Forgets the rest of a stream that is over.
    pub(super) fn forget(&mut self, id: StreamId) {
        self.0.retain(|rest| rest.id != id);
    }

    /// Takes out a rest that has taken too long.
    pub(super) fn take_late(&mut self) -> Option<StreamId> {
        let now = loops::millis();
        let late = self.0.iter().position(|rest| rest.ends_at() <= now)?;
        Some(self.0.remove(late).id)
    }

    /// The time at which a rest has taken too long, in milliseconds since the process began.
    pub(super) fn next_end(&self) -> Option<u64> {
        self.0.iter().map(UnreadRest::ends_at).min()
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(loops::millis_of(time)).unwrap_or(u32::MAX)
}

fn after(millis: u32) -> u64 {
    loops::millis().saturating_add(millis.into())
}
