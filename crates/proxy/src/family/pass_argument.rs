//! The argument of `fastcgi_pass` and the corresponding directives: a server or a group, named in the configuration or
//! by variables.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Word, bytes_of, text_of};
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::template::Template;
use freerun_proto::Status;

use crate::exchange::target::{PassTarget, TargetLookup, UpstreamTarget, Uri};
use crate::family::proxy_pass::passes_on;
use crate::upstream;
use crate::upstream::{Upstream, UpstreamRef};

/// The argument of `fastcgi_pass`, `uwsgi_pass`, `scgi_pass` or `memcached_pass`.
#[derive(Debug, Clone)]
pub enum Pass {
    /// A group, or a server that is a group of its own; with its target after the first request.
    Group(UpstreamRef, Arc<OnceLock<Arc<UpstreamTarget>>>),
    /// A text with variables that gives the name.
    Computed(Template),
}

impl Pass {
    /// Parses `address`; an address with variables, where these are allowed, is computed for each request.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn parse(directive: &Node, address: &Word, variables: bool, cx: &mut Cx) -> Result<Pass, Problem> {
        let computed = variables && address.text.contains('$');
        passes_on(computed, cx);
        if computed {
            return Template::parse(address, cx).map(Pass::Computed);
        }
        upstream::refer(&address.text, None, directive, address, cx).map(|group| Pass::Group(group, Arc::default()))
    }

    /// The target for this request.
    pub fn resolve_target<'r>(&self, request: &'r Request, scheme: Scheme) -> TargetLookup<'r> {
        match self {
            Pass::Group(group, known) => {
                let target =
                    |group| PassTarget::new(known.get_or_init(|| upstream_target(group, scheme)).clone(), Uri::new());
                TargetLookup::Now(group.get().map(target).ok_or(Outcome::Status(Status::INTERNAL_SERVER_ERROR)))
            }
            Pass::Computed(text) => {
                let text = text_of(&text.render(request)).into_owned();
                TargetLookup::Later(Box::pin(async move {
                    match upstream::find(request, &text, None).await {
                        Ok(group) => Ok(PassTarget::new(upstream_target(&group, scheme), Uri::new())),
                        Err(error) => {
                            log_error!(request, Error, "{error}");
                            Err(Outcome::Status(error.status()))
                        }
                    }
                }))
            }
        }
    }
}

/// Scheme of the connections to the servers.
#[derive(Debug, Clone, Copy)]
pub struct Scheme {
    /// Prefix of an address in the log: `fastcgi://`.
    pub text: &'static str,
    /// Whether the connections have TLS.
    pub is_secure: bool,
}

fn upstream_target(group: &Arc<Upstream>, scheme: Scheme) -> Arc<UpstreamTarget> {
    let host = Bytes::from(bytes_of(group.name()).into_owned());
    let Scheme { text: scheme, is_secure } = scheme;
    Arc::new(UpstreamTarget { scheme, is_secure, host, port: Bytes::new(), servers: Some(group.clone()) })
}
