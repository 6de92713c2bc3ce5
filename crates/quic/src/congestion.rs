//! Congestion control: CUBIC (RFC 9438) with a bound by the round trip.
//!
//! On a short way without losses the congestion window grows until the client's socket overflows. Everything on its way is
//! then copied out of memory instead of out of the processor's cache, and waits behind itself.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

use crate::cubic::{CubicWindow, FIRST_WINDOW};

/// The window that every way may have, in bytes.
const LEAST_BOUND: u64 = 256 << 10;

/// The most bytes for each microsecond of the shortest round trip: 10 Gbit/s.
const MOST_RATE: u64 = 1250;

/// Makes controllers for connections.
pub(crate) struct BoundedCubicConfig;

impl ControllerFactory for BoundedCubicConfig {
    fn build(self: Arc<Self>, _: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(BoundedCubic { inner: CubicWindow::new(mtu), bound: u64::MAX })
    }
}

/// The bound of the window of a way with this shortest round trip.
fn bound(round_trip: Duration) -> u64 {
    u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX).saturating_mul(MOST_RATE).max(LEAST_BOUND)
}

/// CUBIC whose window stays below the bound.
#[derive(Clone)]
struct BoundedCubic {
    inner: CubicWindow,
    /// The bound, once a round trip is known.
    bound: u64,
}

impl Controller for BoundedCubic {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.bound = bound(rtt.min());
        // A window that could not be used does not grow, so that a loss still shrinks the window in use.
        let was_used = !app_limited && self.inner.bytes() < self.bound;
        self.inner.acknowledged(now, sent, bytes, was_used, rtt.get());
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, _: u64) {
        self.inner.lost(now, sent, is_persistent_congestion);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.set_datagram(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.bytes().min(self.bound)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        FIRST_WINDOW
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_way_has_a_bound_and_a_long_one_has_hardly_any() {
        let bounds = [0, 100, 1_000, 100_000].map(|micros| bound(Duration::from_micros(micros)));
        assert_eq!(bounds, [LEAST_BOUND, LEAST_BOUND, 1_250_000, 125_000_000]);
        assert_eq!(bound(Duration::MAX), u64::MAX);
    }
}
