//! The count of requests that are there, in the zone of a server.

use freerun_serve::loops::figures::zones::{SubjectEnd, ZoneFigures};
use freerun_serve::loops::local::LoopLocal;

/// Subjects that may have a zone (`status_zone`).
pub(crate) trait WithZone {
    /// The zone, if there is one.
    fn zone(&self) -> Option<&ZoneFigures>;
}

/// The server in whose zone a request is counted as being processed, if that has one. A request that ends without
/// [`ProcessingCount::end`], by a panic or with its loop, is counted as one without a response when this is dropped.
pub(crate) struct ProcessingCount<Z: WithZone>(Option<LoopLocal<Z>>);

impl<Z: WithZone> Default for ProcessingCount<Z> {
    #[inline(always)]
    fn default() -> ProcessingCount<Z> {
        ProcessingCount(None)
    }
}

impl<Z: WithZone> ProcessingCount<Z> {
    /// Counts a request in the zone of this server.
    #[inline]
    pub(crate) fn begin(server: &LoopLocal<Z>) -> ProcessingCount<Z> {
        let Some(zone) = server.zone() else { return ProcessingCount(None) };
        zone.begin();
        ProcessingCount(Some(server.clone()))
    }

    /// Whether a request is counted.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.0.is_some()
    }

    /// Counts the end of the request, if it is counted.
    #[inline]
    pub(crate) fn end(&mut self, how: &SubjectEnd) {
        if let Some(server) = self.0.take()
            && let Some(zone) = server.zone()
        {
            zone.end(how);
        }
    }

    #[cold]
    fn end_without_response(&mut self) {
        self.end(&SubjectEnd { status: None, received: 0, sent: 0, took: Default::default() });
    }
}

impl<Z: WithZone> Drop for ProcessingCount<Z> {
    #[inline]
    fn drop(&mut self) {
        if self.is_counted() {
            self.end_without_response();
        }
    }
}
