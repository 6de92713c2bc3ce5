//! OTLP/HTTP with bodies in protobuf.

use freerun_serve::http_client::{HttpClient, OutgoingRequest};
use freerun_upstream::UpstreamAddress;

use super::{AGENT, ExportError, Signal};
use crate::otlp::PartialSuccess;
use crate::settings::ExporterSettings;

/// Sends a message over a connection of its own.
pub(super) async fn export(
    client: &HttpClient<'_>,
    addresses: &[UpstreamAddress],
    settings: &ExporterSettings,
    signal: Signal,
    message: Vec<u8>,
) -> Result<PartialSuccess, ExportError> {
    let target = format!("{}{}", settings.endpoint.path, signal.http_path());
    let mut request = OutgoingRequest::new("POST", &target, &settings.endpoint.authority())?;
    request.add_field("User-Agent", AGENT.as_bytes())?;
    request.add_field("Content-Type", b"application/x-protobuf")?;
    for (name, value) in &settings.fields {
        request.add_field(name, value.as_bytes())?;
    }
    request.set_body(message);
    let answer = client.send(addresses, &request).await?.body().await?;
    match answer.head.status() {
        200..=299 => Ok(PartialSuccess::parse(&answer.body)),
        // The statuses that OTLP/HTTP counts as retryable.
        status @ (429 | 502 | 503 | 504) => Err(ExportError::Unavailable(format!("status {status}"))),
        status => Err(ExportError::Refused(format!("status {status}"))),
    }
}
