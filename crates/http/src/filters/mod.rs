//! Filters: modules that change a response between its handler and the writer.

use crate::content::response::Response;
use crate::request::Request;

/// Sends a response through the filters of the request's location, in the order of their slots.
pub fn run(request: &mut Request, response: &mut Response) {
    for index in 0..request.location.filters.len() {
        let filter = request.location.filters[index];
        (filter.run)(request, response);
    }
}
