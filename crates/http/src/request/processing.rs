//! A request in the zone of its server (`status_zone`): from the choice of the server to the end of the request.

use std::cell::Cell;

use freerun_serve::loop_local::LoopLocal;
use freerun_serve::status_zones::Ended;

use super::Request;
use super::location::Server;

/// The server in whose zone the request is counted as being processed, if that has one. A request that ends without
/// [`Request::count_end`], by a panic or with its loop, is counted as one without a response when this is dropped.
#[derive(Default)]
pub(crate) struct Processing(Option<LoopLocal<Server>>);

impl Drop for Processing {
    fn drop(&mut self) {
        if let Some(zone) = self.0.as_ref().and_then(|server| server.zone.as_ref()) {
            zone.end(&Ended { status: None, received: 0, sent: 0, took: Default::default() });
        }
    }
}

/// Where it is while the request is packed for its log line.
#[derive(Default)]
struct Packed(Cell<Processing>);

impl Request {
    /// Counts the request in the zone of its server, which has been chosen.
    #[inline]
    pub(crate) fn count_begin(&mut self) {
        if let Some(zone) = &self.place.server.zone {
            zone.begin();
            self.processing = Processing(Some(self.place.server.clone()));
        }
    }

    /// Counts the end of the request in the zones of its server and its location. Subrequests are parts of it.
    #[inline]
    pub(crate) fn count_end(&mut self) {
        if self.processing.0.is_some() || self.place.location.zone.is_some() {
            self.count_end_in_zones();
        }
    }

    fn count_end_in_zones(&mut self) {
        if self.is_subrequest() {
            return;
        }
        let ended = Ended {
            status: (self.sent.bytes > 0).then_some(self.sent.status),
            received: u64::from(self.head.told_len()) + self.body.length(),
            sent: self.sent.bytes,
            took: self.arrival.started.elapsed(),
        };
        if let Some(zone) = self.processing.0.take().as_ref().and_then(|server| server.zone.as_ref()) {
            zone.end(&ended);
        }
        if let Some(zone) = &self.place.location.zone {
            zone.pass(&ended);
        }
    }

    /// Keeps what counts the request among its states, because the request is packed.
    pub(crate) fn pack_processing(&mut self) {
        if self.processing.0.is_some() {
            self.own.get::<Packed>().0.set(std::mem::take(&mut self.processing));
        }
    }

    /// Takes it back.
    pub(crate) fn unpack_processing(&mut self) {
        if let Some(packed) = self.own.find::<Packed>() {
            self.processing = packed.0.take();
        }
    }
}
