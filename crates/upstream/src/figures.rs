//! What is counted of each server; `status` shows it. All of it are atomics that any loop adds to.

use std::sync::atomic::AtomicU64;

use freerun_runtime::stats::Histogram;

use crate::lease::Failure;

/// What checks have found.
#[derive(Debug, Default)]
pub struct Checks {
    /// How many ended.
    pub done: AtomicU64,
    /// How many of them failed.
    pub failed: AtomicU64,
    /// How often one made the server unhealthy.
    pub unhealthy: AtomicU64,
}

/// What is counted of a server.
#[derive(Debug, Default)]
pub struct Figures {
    /// Times that the server was chosen.
    pub requests: AtomicU64,
    /// Responses by class: 1xx, 2xx, 3xx, 4xx, 5xx.
    pub responses: [AtomicU64; 5],
    /// Failures, by [`Failure`].
    pub failures: [AtomicU64; Failure::ALL.len()],
    /// New connections made.
    pub connects: AtomicU64,
    /// Requests that went over a connection that was there already.
    pub reused: AtomicU64,
    /// Times that it became unavailable.
    pub unavailable: AtomicU64,
    /// Times that the outlier detection ejected it.
    pub ejected: AtomicU64,
    /// What checks have found.
    pub checks: Checks,
    /// Bytes sent to it.
    pub sent: AtomicU64,
    /// Bytes received from it.
    pub received: AtomicU64,
    /// Connecting, new connections only.
    pub connect_times: Histogram,
    /// From the beginning of the attempt to the response's head.
    pub header_times: Histogram,
    /// From the beginning of the attempt to the end of the response.
    pub response_times: Histogram,
}
