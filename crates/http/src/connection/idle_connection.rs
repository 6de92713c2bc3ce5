//! A connection without a request, as the loop's list of idle connections knows it.

use std::cell::Cell;
use std::time::Duration;

use freerun_runtime::loops;
use freerun_serve::Address;

use super::Connection;
use super::close_request::CloseRequest;
use super::facts::Facts;

/// A connection that can be listed among the idle ones of its loop, and closed there. It need not be a byte stream.
///
/// The driver of its protocol enters it when it has no request ([`IdleConnections::enter`]), and takes it out before the
/// next request begins, and at its end.
///
/// [`IdleConnections::enter`]: super::idle::IdleConnections::enter
pub trait IdleConnection<C> {
    /// The facts about the connection.
    fn facts(&self) -> &Facts<C>;

    /// The address that the client connected to.
    fn local(&self) -> Address;

    /// The moment at which it became idle.
    fn idle_since(&self) -> &IdleSince;

    /// The request to close, if it was made.
    fn close_request(&self) -> &CloseRequest;

    /// Wakes the task of the connection, because it was asked to close. The task looks at the
    /// [request](IdleConnection::close_request); a connection that has got a request meanwhile closes after it.
    fn wake_to_close(&self);

    /// Asks the connection to close as soon as it has no request.
    fn close_when_idle(&self) {
        self.close_request().make();
        self.wake_to_close();
    }
}

/// The moment at which a connection became idle the last time.
#[derive(Debug, Default)]
pub struct IdleSince {
    /// In nanoseconds since the process began; 0 if it never was.
    nanos: Cell<u64>,
}

impl IdleSince {
    /// Notes that the connection is idle from now on, in nanoseconds since the process began.
    #[inline]
    pub(super) fn begin(&self, now: u64) {
        debug_assert!(self.nanos.get() <= now, "the clock goes back");
        self.nanos.set(now);
    }

    /// The moment in nanoseconds since the process began; 0 if the connection never was idle.
    #[inline]
    pub fn nanos(&self) -> u64 {
        self.nanos.get()
    }

    /// The time since then; zero if the connection never was idle.
    pub fn elapsed(&self) -> Duration {
        match self.nanos.get() {
            0 => Duration::ZERO,
            since => Duration::from_nanos(loops::nanos().saturating_sub(since)),
        }
    }
}

impl<C> IdleConnection<C> for Connection<C> {
    fn facts(&self) -> &Facts<C> {
        self
    }

    fn local(&self) -> Address {
        Connection::local(self)
    }

    fn idle_since(&self) -> &IdleSince {
        &self.idle_since
    }

    fn close_request(&self) -> &CloseRequest {
        &self.closing.request
    }

    fn wake_to_close(&self) {
        self.wake_for_close();
    }
}
