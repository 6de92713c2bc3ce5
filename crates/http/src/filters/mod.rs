//! Filters: modules that change a response between its handler and the writer.

pub mod alt_svc;

use std::ops::RangeBounds;

use freerun_proto::Status;

use crate::request::Request;
use crate::request::handler::Slot;
use crate::request::response::Response;

/// Sends a response through the filters of the request's location in these slots, in their order. Behind the head that
/// opens a tunnel for CONNECT there is no content: only fields are added to it.
#[inline]
pub fn run(request: &mut Request, response: &mut Response, slots: impl RangeBounds<Slot>) {
    let location = request.place.location.clone();
    let is_tunnel = response.takeover.is_some() && response.status != Status::SWITCHING_PROTOCOLS;
    for filter in location.filters.iter().filter(|filter| slots.contains(&filter.slot)) {
        if is_tunnel && !matches!(filter.slot, Slot::MoreHeaders | Slot::Headers | Slot::UserId) {
            continue;
        }
        (filter.run)(request, response);
    }
}
