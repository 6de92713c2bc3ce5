//! `client_body_early_read`: the body is read before anything else is done with a request.

use freerun_proto::Status;

use super::body_limit::judge_length;
use crate::body;
use crate::request::Request;
use crate::settings::server::ServerSettings;

/// Whether the body of a request is read early.
#[inline]
pub(super) fn is_wanted(request: &Request) -> bool {
    if request.body.is_done() || request.is_subrequest() {
        return false;
    }
    let conditions = &request.place.server.entry.settings.get::<ServerSettings>().client_body_early_read;
    !conditions.is_empty() && conditions.hold(request)
}

/// Reads the body by the settings of the server.
///
/// # Errors
/// The status of the response.
pub(super) async fn read(request: &mut Request) -> Result<(), Status> {
    judge_length(request)?;
    body::collect_early(request).await.map_err(|error| error.status())?;
    Ok(())
}
