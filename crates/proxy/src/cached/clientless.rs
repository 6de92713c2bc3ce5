//! Requests to a server that no client waits for: updates in the background, and followers that go on by themselves.

use freerun_http::request::slice_begin::SliceBegin;
use freerun_http::request::{Request, SentAmounts};
use freerun_proto::Method;

/// Makes a request that asks a server once more for the response to a request, without its client.
pub fn fork_of(request: &Request) -> Box<Request> {
    let mut fork = request.fork();
    fork.lineage.depth += 1;
    fork.lineage.main_method = Some(request.lineage.main_method.unwrap_or(request.asked.method));
    fork.asked.method = Method::Get;
    fork.client = fork.client.in_background();
    fork.lineage.without_body = true;
    fork.sent = SentAmounts::default();
    // Without this it would ask for the whole response, and store that under the key of the slice.
    if let Some(begin) = request.own.find::<SliceBegin>() {
        fork.own.get::<SliceBegin>().0.set(begin.0.get());
    }
    fork
}
