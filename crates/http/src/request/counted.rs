//! The places of a request in the counts of limits: they become free before the client can see that its response has ended.

use std::cell::Cell;

use freerun_serve::limits::Places;

use super::Request;

/// The places of a request that shares its connection with others; those of other requests are kept by the connection,
/// which also learns that the client has ended its side.
#[derive(Default)]
struct Counted(Cell<Places>);

impl Request {
    /// Keeps places in the counts of limits, until the end of the response is sent, or until the client of a connection
    /// that carries one request at a time ends its sending side: a browser that stops or reloads a page does so, and the
    /// response may take long to find out.
    pub fn keep_places(&self, places: Places) {
        if let Some(places) = self.client.keep_places(places) {
            self.shared().get::<Counted>().0.set(places);
        }
    }

    /// Frees the places of a request that shares its connection with others.
    #[inline]
    pub(crate) fn free_places(&self) {
        if let Some(counted) = self.find_shared::<Counted>() {
            drop(counted.0.take());
        }
    }
}
