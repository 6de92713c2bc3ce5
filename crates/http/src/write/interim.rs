//! Interim responses that are passed on before the response itself (RFC 9110 section 15.2).

use std::io::{self, IoSlice};
use std::time::Duration;

use freerun_proto::encode;
use freerun_runtime::timer::Timer;

use crate::connection::stream::ResponseHead;
use crate::request::Request;
use crate::write::WriteError;

/// Sends an interim response; a client that takes no bytes for `wait` counts as gone.
///
/// # Errors
/// The client has gone.
pub async fn send(request: &mut Request, head: &ResponseHead, wait: Duration) -> Result<(), WriteError> {
    if let Some(stream) = request.client.stream() {
        stream.send_interim(head);
        return Ok(());
    }
    let Some(transport) = request.client.transport() else { return Ok(()) };
    let mut out = Vec::new();
    match head.status {
        // No final response has this status, so the table of status lines does not have it.
        103 => out.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\n"),
        status => encode::status_line(status, &mut out),
    }
    for (name, value) in head.fields.iter() {
        encode::field(&mut out, name, value);
    }
    out.extend_from_slice(b"\r\n");
    let (mut timer, mut rest) = (Timer::default(), &out[..]);
    while !rest.is_empty() {
        match transport.try_write(&[IoSlice::new(rest)], false) {
            Ok(n) => rest = &rest[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                timer.within(wait, transport.writable_after_full()).await.ok_or(WriteError::TimedOut)??;
            }
            Err(error) => return Err(error.into()),
        }
    }
    request.sent.bytes += out.len() as u64;
    request.sent.body_bytes += out.len() as u64;
    Ok(())
}
