//! Endpoints that are only read: thread pools, mounts, the history, problems, and the description of the API.

use std::collections::BTreeSet;

use freerun_conf::text_of;

use super::endpoint_call::{EndpointAnswer, EndpointCall, EndpointFuture};
use super::openapi;
use super::table::ENDPOINTS;
use crate::content::status::figures::{Mount, Pool};
use crate::content::status::problem::ProblemLists;
use crate::content::status::{history, routes};

/// The names of what is below.
pub(super) fn index(_: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async {
        let names = ENDPOINTS.iter().filter_map(|endpoint| endpoint.path.split('/').nth(1));
        let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
        EndpointAnswer::value(&names)
    })
}

/// The thread pools.
pub(super) fn pools(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move { EndpointAnswer::value(&Pool::all(&asked.source.generation)) })
}

/// The mounts.
pub(super) fn mounts(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(asked.made(|source| Mount::all(&source.generation)))
}

/// The history of the last fifteen minutes.
pub(super) fn history(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(asked.made(|source| history::show(&source.generation)))
}

/// The problems.
pub(super) fn problems(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(asked.made(|source| {
        let figures = history::judged_figures(&source.shared);
        ProblemLists { now: figures.problems, past: figures.past_problems }
    }))
}

/// The servers and locations of the configuration.
pub(super) fn routes(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(asked.made(|source| routes::collect(&source.generation)))
}

/// The description of the API, whose paths begin with what this request's path began with.
pub(super) fn description(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    let path = text_of(&asked.request.asked.path);
    let base = path.rfind("/openapi.json").map_or("", |end| &path[..end]).to_owned();
    Box::pin(asked.made(move |_| openapi::document(&base)))
}
