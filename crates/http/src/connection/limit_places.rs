//! The places of a connection's request in the counts of limits (`limit_conn`).

use std::cell::Cell;

use freerun_serve::limits::ConnPlaces;

use super::Connection;

/// Whether the request of a connection has places in the counts of limits. The places themselves are among the data that
/// few connections have; each response asks whether there are any.
#[derive(Debug, Default)]
pub(super) struct HeldPlaces {
    are_held: Cell<bool>,
}

impl<C> Connection<C> {
    /// Keeps the places that the connection's request has in the counts of limits, until [`Connection::free_places`].
    pub fn keep_places(&self, places: ConnPlaces) {
        self.places.are_held.set(true);
        self.extra.get_or_init(Box::default).places.set(places);
    }

    /// Takes the places back that [`Connection::keep_places`] was given.
    pub fn take_places(&self) -> ConnPlaces {
        self.places.are_held.set(false);
        self.extra.get().map_or_else(ConnPlaces::default, |extra| extra.places.take())
    }

    /// Whether the connection's request has places in the counts of limits.
    #[inline]
    pub fn has_places(&self) -> bool {
        self.places.are_held.get()
    }

    /// Frees the places of the connection's request in the counts of limits, if there are any.
    #[inline]
    pub fn free_places(&self) {
        if self.has_places() {
            drop(self.take_places());
        }
    }
}
