//! The engine: has one request answered by an upstream server.

use freerun_http::content::response::LocalBoxFuture;
use freerun_http::module::Outcome;
use freerun_http::request::Request;

use crate::proxy::exchange::Family;

/// Passes the request on: the content handler of a location of the family.
pub fn pass<'r>(request: &'r mut Request, family: &'static dyn Family) -> LocalBoxFuture<'r, Outcome> {
    Box::pin(async move {
        let _ = (request, family);
        Outcome::Status(502)
    })
}
