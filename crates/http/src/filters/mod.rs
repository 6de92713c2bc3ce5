//! Filters: modules that change a response between its handler and the writer.

use std::ops::RangeBounds;

use crate::request::Request;
use crate::request::handler::Slot;
use crate::request::response::Response;

/// Sends a response through the filters of the request's location in these slots, in their order. Behind the head that
/// opens a tunnel for CONNECT there is no content: only fields are added to it.
pub fn run(request: &mut Request, response: &mut Response, slots: impl RangeBounds<Slot>) {
    let location = request.place.location.clone();
    let has_content = response.takeover.is_none() || response.status == 101;
    let runs = |slot| slots.contains(slot) && (has_content || matches!(slot, Slot::Headers | Slot::UserId));
    for filter in location.filters.iter().filter(|filter| runs(&filter.slot)) {
        (filter.run)(request, response);
    }
}
