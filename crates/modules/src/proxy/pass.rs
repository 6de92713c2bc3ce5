//! What `fastcgi_pass` and its likes pass requests to: a server or a group, named in the configuration or by variables.

use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Word};
use freerun_http::log_error;
use freerun_http::module::Outcome;
use freerun_http::request::Request;
use freerun_http::template::Template;

use crate::proxy::exchange::{Aim, Target};
use crate::proxy::target::passes_on;
use crate::upstream::{self, Upstream, UpstreamRef};

/// The argument of `fastcgi_pass`, `uwsgi_pass`, `scgi_pass` or `memcached_pass`.
#[derive(Debug, Clone)]
pub enum Pass {
    /// A group, or a server that is a group of itself.
    Group(UpstreamRef),
    /// The text names one.
    Computed(Template),
}

impl Pass {
    /// Reads `address`; with variables in it, where these may be, it is computed for each request.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn parse(directive: &Node, address: &Word, variables: bool, cx: &mut Cx) -> Result<Pass, Problem> {
        let computed = variables && address.text.contains('$');
        passes_on(computed, cx);
        if computed {
            return Template::parse(address, cx).map(Pass::Computed);
        }
        upstream::refer(&address.text, None, directive, address, cx).map(Pass::Group)
    }

    /// The servers for this request. `scheme` is what the log writes before an address: `fastcgi://`.
    pub fn aim<'r>(&self, request: &'r Request, scheme: &'static str) -> Aim<'r> {
        match self {
            Pass::Group(group) => Aim::Now(group.get().map(|group| target(group, scheme)).ok_or(Outcome::Status(500))),
            Pass::Computed(text) => {
                let text = String::from_utf8_lossy(&text.render(request)).into_owned();
                Aim::Later(Box::pin(async move {
                    match upstream::find(request, &text, None).await {
                        Ok(group) => Ok(target(&group, scheme)),
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

fn target(group: &Arc<Upstream>, scheme: &'static str) -> Target {
    Target {
        scheme,
        host: Bytes::copy_from_slice(group.name().as_bytes()),
        servers: Some(group.clone()),
        ..Target::default()
    }
}
