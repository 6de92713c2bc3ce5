//! `103 Early Hints` of an upstream server, passed on before the response (RFC 8297).

use std::io::{self, IoSlice};

use freerun_http::request::Request;
use freerun_http::settings::core::CoreSettings;
use freerun_http::settings::knobs::TransferSettings;
use freerun_http::write::head::field;
use freerun_runtime::timer::Timer;

use super::trouble::Trouble;
use crate::proxy::exchange::{Family, UpstreamHead};
use crate::proxy::fields::HeadField;

/// Fields that speak of the connection between us and the upstream server.
const OURS: [&[u8]; 5] = [b"Connection", b"Keep-Alive", b"Transfer-Encoding", b"Content-Length", b"Upgrade"];

/// Passes an interim response on, if it is 103 and `early_hints` says so; all others are for us alone. Fields that are
/// hidden are left out, as of the response itself.
pub async fn pass_on(request: &mut Request, family: &dyn Family, head: &UpstreamHead) -> Result<(), Trouble> {
    if head.status != 103 || request.is_subrequest() || !request.is_http11() || !is_wanted(request) {
        return Ok(());
    }
    let hides = |one: &HeadField<'_>| family.hides(request, one.id, one.name());
    let mut out = b"HTTP/1.1 103 Early Hints\r\n".to_vec();
    for one in head.fields.iter() {
        if !OURS.iter().any(|ours| one.name().eq_ignore_ascii_case(ours)) && !hides(&one) {
            field(&mut out, one.name(), one.value());
        }
    }
    out.extend_from_slice(b"\r\n");
    let wait = request.settings().get::<CoreSettings>().send_timeout;
    let (mut timer, mut rest) = (Timer::default(), &out[..]);
    let transport = &request.connection.transport;
    while !rest.is_empty() {
        match transport.try_write(&[IoSlice::new(rest)], false) {
            Ok(n) => rest = &rest[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match timer.within(wait, transport.writable_after_full()).await {
                    Some(Ok(())) => {}
                    _ => return Err(Trouble::ClientGone),
                }
            }
            Err(_) => return Err(Trouble::ClientGone),
        }
    }
    request.sent.bytes += out.len() as u64;
    Ok(())
}

/// Any value that is neither empty nor `0`.
fn is_wanted(request: &Request) -> bool {
    let conditions = request.settings().get::<TransferSettings>().early_hints.as_slice();
    conditions.iter().flat_map(|hints| &hints.0).any(|condition| {
        let value = condition.render(request);
        !value.is_empty() && *value != *b"0"
    })
}
