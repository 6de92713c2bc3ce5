//! Filters: modules that change a response between its handler and the writer.

use std::ops::RangeBounds;

use crate::request::Request;
use crate::request::handler::Slot;
use crate::request::response::Response;

/// Sends a response through the filters of the request's location in these slots, in their order.
pub fn run(request: &mut Request, response: &mut Response, slots: impl RangeBounds<Slot>) {
    let location = request.place.location.clone();
    for filter in location.filters.iter().filter(|filter| slots.contains(&filter.slot)) {
        (filter.run)(request, response);
    }
}
