//! Counts of what became of spans.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters, which live as long as the worker.
#[derive(Debug, Default)]
pub struct TelemetryFigures {
    /// Spans that a collector has taken.
    pub(crate) exported: AtomicU64,
    /// Spans that found the queue full.
    pub(crate) dropped: AtomicU64,
    /// Spans that a collector has refused, or that were given up after failures.
    pub(crate) failed: AtomicU64,
    /// Exports that have failed, those that were tried again included.
    pub(crate) errors: AtomicU64,
}

/// The counts of one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Spans that a collector has taken.
    pub exported: u64,
    /// Spans that found the queue full.
    pub dropped: u64,
    /// Spans that a collector has refused, or that were given up after failures.
    pub failed: u64,
    /// Exports that have failed, those that were tried again included.
    pub errors: u64,
    /// Spans that wait for their export.
    pub waiting: u64,
}

impl TelemetryFigures {
    /// The counts of this moment; `waiting` spans are in the queue.
    pub(crate) fn counts(&self, waiting: usize) -> SpanCounts {
        SpanCounts {
            exported: self.exported.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            failed: self.failed.load(Relaxed),
            errors: self.errors.load(Relaxed),
            waiting: waiting as u64,
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Relaxed);
}
