//! Event loops: their figures, and whether they take new connections.

use std::time::Duration;

use freerun_runtime::timer;
use freerun_serve::accept::drain;
use serde_json::{Value, json};

use super::endpoint_call::{EndpointAnswer, EndpointCall, EndpointFuture};
use super::refusal::{Code, Refusal};
use crate::content::api::change_log;
use crate::content::described::schema::Schemas;
use crate::content::status::figures::{LoopFigures, SERVING};

/// The longest time to wait until every loop has learned of a change. A late loop learns of it before it accepts again.
const HEARD: Duration = Duration::from_secs(1);

/// All loops.
pub(super) fn all(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move { EndpointAnswer::value(&LoopFigures::all(&asked.source.shared)) })
}

/// A loop.
pub(super) fn one(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move { EndpointAnswer::value(&found(&asked)?) })
}

/// The loop that the path names.
fn found(asked: &EndpointCall<'_>) -> Result<LoopFigures, Refusal> {
    let index = asked.name().parse().ok();
    index.and_then(|index| LoopFigures::of(&asked.source.shared, index)).ok_or_else(|| Code::LoopNotFound.into())
}

/// The schema of a change.
pub fn change_schema(_: &mut Schemas) -> Value {
    json!({
        "type": "object",
        "properties": { "drain": { "type": "boolean", "description": "Whether it takes no new connections." } },
        "required": ["drain"],
        "additionalProperties": false,
    })
}

/// Changes a loop.
pub(super) fn change(mut asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        let LoopFigures { index, state, .. } = found(&asked)?;
        // Only these can be chosen; others take no connections anyway.
        if state != SERVING {
            return Err(Code::LoopNotFound.into());
        }
        let drain = drain_of(&asked.body().await?)?;
        let hears = drain::set(&asked.source.shared, index, drain).map_err(|_| Code::LastLoop)?;
        let what = if drain { "no new connections" } else { "new connections" };
        change_log::note(asked.request, format_args!("event loop {index} takes {what} from now on"));
        let _ = timer::timeout(HEARD, hears).await;
        EndpointAnswer::value(&found(&asked)?)
    })
}

/// Whether a body requests a drain.
fn drain_of(body: &Value) -> Result<bool, Refusal> {
    let members = body.as_object().filter(|members| members.len() == 1);
    let drain = members.and_then(|members| members.get("drain")?.as_bool());
    drain.ok_or_else(|| Refusal::new(Code::BadBody, "{\"drain\": true} or {\"drain\": false} is expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drain_is_changed() {
        assert_eq!((drain_of(&json!({"drain": true})), drain_of(&json!({"drain": false}))), (Ok(true), Ok(false)));
        for body in [
            json!(null),
            json!([true]),
            json!({}),
            json!({"drain": 1}),
            json!({"drain": "true"}),
            json!({"drian": true}),
            json!({"drain": true, "index": 0}),
        ] {
            assert_eq!(drain_of(&body).map_err(|refusal| refusal.code), Err(Code::BadBody), "{body}");
        }
    }
}
