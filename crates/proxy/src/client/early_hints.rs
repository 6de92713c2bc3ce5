//! Passes `103 Early Hints` of an upstream server on before the response (RFC 8297).

use bytes::Bytes;
use freerun_http::connection::stream::ResponseHead;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::settings::transfer::TransferSettings;
use freerun_http::write::interim;
use freerun_proto::Version;

use crate::client::error::UpstreamError;
use crate::exchange::UpstreamHead;
use crate::exchange::family::Family;
use crate::exchange::fields::HeadField;

/// The fields that describe the connection to the upstream server.
const OURS: [&[u8]; 5] = [b"Connection", b"Keep-Alive", b"Transfer-Encoding", b"Content-Length", b"Upgrade"];

/// Passes an interim response on, if it is 103 and `early_hints` allows it; all others are for this server alone.
/// Hidden fields are left out, as in the final response.
pub async fn pass_on(request: &mut Request, family: &dyn Family, head: &UpstreamHead) -> Result<(), UpstreamError> {
    let knows_them = request.head.version() >= Version::Http11;
    if head.status != 103 || request.is_subrequest() || !knows_them || !is_wanted(request) {
        return Ok(());
    }
    let hides = |one: &HeadField<'_>| family.hides(request, one.id, one.name());
    let passed =
        head.fields.iter().filter(|one| !OURS.iter().any(|ours| one.name().eq_ignore_ascii_case(ours)) && !hides(one));
    let fields = passed.map(|one| (Bytes::copy_from_slice(one.name()), Bytes::copy_from_slice(one.value())));
    let early = ResponseHead { status: head.status, fields: fields.collect() };
    let wait = request.settings().get::<CoreSettings>().send_timeout;
    interim::send(request, &early, wait).await.map_err(|_| UpstreamError::ClientGone)
}

/// Whether one of the conditions of `early_hints` holds.
fn is_wanted(request: &Request) -> bool {
    request.settings().get::<TransferSettings>().early_hints.hold(request)
}
