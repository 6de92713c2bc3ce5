//! What is only shown: what there is, thread pools, mounts, and the description of the API.

use std::collections::BTreeSet;

use super::table::ENDPOINTS;
use super::{Answer, Answered, Asked, openapi};
use crate::content::status::figures::{Mount, Pool};

/// The names of what is below.
pub(super) fn index(_: Asked<'_>) -> Answered<'_> {
    Box::pin(async {
        let names = ENDPOINTS.iter().filter_map(|endpoint| endpoint.path.split('/').nth(1));
        let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
        Answer::value(&names)
    })
}

/// The thread pools.
pub(super) fn pools(asked: Asked<'_>) -> Answered<'_> {
    Box::pin(async move { Answer::value(&Pool::all(&asked.source.generation)) })
}

/// The mounts.
pub(super) fn mounts(asked: Asked<'_>) -> Answered<'_> {
    Box::pin(async move { Answer::value(&Mount::all(&asked.source.generation)) })
}

/// The description of the API, whose paths begin with what this request's path began with.
pub(super) fn description(asked: Asked<'_>) -> Answered<'_> {
    Box::pin(async move {
        let path = String::from_utf8_lossy(&asked.request.asked.path).into_owned();
        let base = path.rfind("/openapi.json").map_or("", |end| &path[..end]);
        Answer::value(&openapi::document(base))
    })
}
