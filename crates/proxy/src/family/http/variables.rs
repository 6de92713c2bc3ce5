//! The variables that show the target of requests.

use std::borrow::Cow;
use std::io::Write;

use bytes::Bytes;
use freerun_http::request::Request;
use freerun_http::variables;
use freerun_http::variables::Variable;
use freerun_proto::HeaderId;

use super::settings::HttpSettings;
use crate::exchange::target::UpstreamTarget;
use crate::state::record::Record;

/// The variables that show the target of requests.
pub const VARIABLES: &[Variable] = &[
    Variable::named(
        "proxy_add_x_forwarded_for",
        "The request's field `X-Forwarded-For` with `$remote_addr` appended; `$remote_addr` alone if there is \
         no such field.",
        |request, _| {
            let mut out = Vec::new();
            for value in request.head.values(HeaderId::XForwardedFor) {
                out.extend_from_slice(value);
                out.extend_from_slice(b", ");
            }
            let _ = write!(out, "{}", freerun_http::log::Peer(request.peer()));
            Some(Cow::Owned(out))
        },
    ),
    Variable::named(
        "proxy_host",
        "The host, with its port if that is not the protocol's own, that `proxy_pass` names.",
        |request, _| passed_to(request, |upstream| &upstream.host, |both| both.0),
    )
    .changeable(),
    Variable::named("proxy_port", "The port that `proxy_pass` names, or the protocol's own one.", |request, _| {
        passed_to(request, |upstream| &upstream.port, |both| both.1)
    })
    .changeable(),
];

/// Selects the host or the port.
type Choose = for<'t> fn((&'t Bytes, &'t Bytes)) -> &'t Bytes;

fn passed_to<'r>(
    request: &'r Request,
    which: fn(&UpstreamTarget) -> &Bytes,
    fixed: Choose,
) -> variables::VariableValue<'r> {
    let Some(target) = request.own.find::<Record>().and_then(|record| record.target()) else {
        // The request was not passed on: a key may use the variable, and the log line of an answer from a cache.
        let pass = request.settings().get::<HttpSettings>().proxy_pass.as_ref()?;
        return pass.fixed_host().map(|both| Cow::Borrowed(&fixed(both)[..]));
    };
    matches!(target.upstream().scheme, "http://" | "https://").then(|| Cow::Owned(which(target.upstream()).to_vec()))
}
