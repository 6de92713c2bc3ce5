//! Settings about the rate at which responses are sent.

use std::cell::Cell;

use freerun_conf::settings;
use freerun_serve::values::ComputedBytes;

use crate::request::Request;

settings! {
    /// The rate at which responses are sent.
    #[module = "rate"]
    pub struct RateSettings {
        /// The most bytes a second that a response is sent with; 0 is no limit.
        ///
        /// The limit holds for each response, so a client with two connections gets twice as much. The bytes of the first
        /// second are sent at once. Where `$limit_rate` is set, its value counts instead.
        limit_rate: Bytes = "0", in HTTP | SERVER | LOCATION | LOCATION_IF,
            fidelity = Differs("up to four pieces a second instead of one");
        /// Number of bytes of a response that are sent before `limit_rate` counts.
        limit_rate_after: Bytes = "0", in HTTP | SERVER | LOCATION | LOCATION_IF;
    }
}

/// A number of bytes that may come from variables of the request.
pub type Bytes = ComputedBytes<Request>;

/// The rate that `set $limit_rate` has asked for or, once a response is being written, the rate that it is written
/// with: bytes a second, 0 for no limit.
#[derive(Debug, Default)]
pub struct LimitRate(Cell<Option<u64>>);

impl LimitRate {
    /// The rate, if it was set.
    pub fn get(&self) -> Option<u64> {
        self.0.get()
    }

    /// Sets the rate.
    pub fn set(&self, rate: u64) {
        self.0.set(Some(rate));
    }
}
