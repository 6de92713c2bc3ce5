//! Counts of a request while it exists. Its places in the counts of limits become free before the client can see that
//! its response has ended. The zone of its server (`status_zone`) counts it from the choice of the server to the end of
//! the request.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use freerun_proto::trace_context::{SpanId, TraceId};
use freerun_runtime::loops;
use freerun_serve::limits::ConnPlaces;
use freerun_serve::loops::figures::zones::{Exemplar, SubjectEnd};

use super::Request;
use super::location::Server;
use super::processing_count::ProcessingCount;

/// The places of a request that shares its connection with others. Otherwise the connection keeps them, which also
/// learns that the client has ended its side.
#[derive(Default)]
struct CountedRequest(Cell<ConnPlaces>);

impl Request {
    /// Keeps places in the counts of limits until the end of the response is sent. On a connection with one request at
    /// a time, the end of the client's sending side frees them, too. A browser that stops or reloads a page ends it,
    /// and the response may take long to find out.
    pub fn keep_places(&self, places: ConnPlaces) {
        if let Some(places) = self.client.keep_places(places) {
            self.shared().get::<CountedRequest>().0.set(places);
        }
    }

    /// Frees the places of a request that shares its connection with others.
    #[inline]
    pub(crate) fn free_places(&self) {
        if let Some(counted) = self.find_shared::<CountedRequest>() {
            drop(counted.0.take());
        }
    }
}

/// The count of a request as being processed, while it is packed for its log line.
#[derive(Default)]
struct PackedCount(Cell<ProcessingCount<Server>>);

impl Request {
    /// Counts the request in the zone of its server, which has been chosen.
    #[inline(always)]
    pub(crate) fn count_begin(&mut self) {
        if self.place.server.zone.is_some() {
            self.processing = ProcessingCount::begin(&self.place.server);
        }
    }

    /// Counts the end of the request in the zones of its server and its location. Subrequests are parts of it.
    #[inline]
    pub(crate) fn count_end(&mut self) {
        if self.processing.is_counted() || self.place.location.zone.is_some() {
            self.count_end_in_zones();
        }
    }

    fn count_end_in_zones(&mut self) {
        if self.is_subrequest() {
            return;
        }
        let ended = SubjectEnd {
            status: (self.sent.bytes > 0).then_some(self.sent.code()),
            received: u64::from(self.head.told_len()) + self.body.length(),
            sent: self.sent.bytes,
            took: self.age(),
        };
        self.processing.end(&ended);
        if let Some(zone) = &self.place.location.zone {
            zone.pass(&ended);
        }
    }

    /// Keeps the request as an example of its duration in its zones, by its trace. It is called when the response is
    /// complete, with the time at which the span ends. The zones have counted the same duration.
    pub fn note_exemplar(&self, trace_id: TraceId, span_id: SpanId, at: SystemTime) {
        let exemplar = Exemplar { trace_id, span_id, took: self.age(), at };
        let zones = [&self.place.server.zone, &self.place.location.zone];
        zones.into_iter().flatten().for_each(|zone| zone.note_exemplar(exemplar));
    }

    /// The time since the request began, to the accuracy of a step of the loop. Most requests end in the step in which they
    /// began, and then nothing is computed.
    #[inline]
    fn age(&self) -> Duration {
        let (now, started) = (loops::now(), self.arrival.started);
        if now == started { Duration::ZERO } else { now.saturating_duration_since(started) }
    }

    /// Keeps what counts the request among its states, because the request is packed.
    pub(crate) fn pack_processing(&mut self) {
        if self.processing.is_counted() {
            self.own.get::<PackedCount>().0.set(std::mem::take(&mut self.processing));
        }
    }

    /// Takes it back.
    pub(crate) fn unpack_processing(&mut self) {
        if let Some(packed) = self.own.find::<PackedCount>() {
            self.processing = packed.0.take();
        }
    }
}
