//! `Alt-Svc` by itself (`listen … quic alt_svc`): clients on TCP hear that the server speaks HTTP/3, and on which port.

use bytes::Bytes;
use freerun_proto::Status;

use crate::request::Request;
use crate::request::handler::{Filter, Slot};
use crate::request::response::Response;

/// Whether the server that is being read tells clients of HTTP/3. Only its locations have the filter then.
#[derive(Debug, Clone, Copy, Default)]
pub struct TellsOfHttp3(pub bool);

/// The filter, which comes behind `add_header`.
pub static FILTER: Filter = Filter { slot: Slot::Headers, wanted: |_| true, run };

const NAME: Bytes = Bytes::from_static(b"Alt-Svc");

/// Adds the field, unless the response has one: what `add_header`, a handler or an upstream server says counts. An answer that
/// sends the client away from this connection (421) has none, because it would be ignored (RFC 7838 section 6).
fn run(request: &mut Request, response: &mut Response) {
    let is_on_tcp = request.client.tls().is_some() && !request.client.listen.quic;
    if !is_on_tcp || request.is_subrequest() || request.sent.status == Some(Status::MISDIRECTED_REQUEST) {
        return;
    }
    let Some(value) = request.place.server.alt_svc.clone() else { return };
    if response.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(&NAME)) {
        return;
    }
    response.fields.push((NAME, value));
}
