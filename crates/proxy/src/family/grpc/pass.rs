//! The argument of `grpc_pass`: a server or a group, named in the configuration or by variables.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Shape, Value, bytes_of, text_of};
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::template::Template;
use freerun_proto::Status;

use crate::exchange::target::{PassTarget, TargetLookup, UpstreamTarget};
use crate::family::cgi::TlsOnce;
use crate::family::proxy_pass::passes_on;
use crate::family::uri;
use crate::family::uri::{RequestUri, UriRule};
use crate::upstream;
use crate::upstream::{Upstream, UpstreamRef};

/// The value of `grpc_pass`.
#[derive(Debug, Clone)]
pub struct GrpcPass {
    to: GrpcTarget,
    /// TLS of the location, if its servers have or may have TLS; set when the location's directives are known.
    pub tls: Arc<TlsOnce>,
}

/// Destination of requests.
#[derive(Debug, Clone)]
enum GrpcTarget {
    /// A server or a group that is known when the configuration is read.
    Fixed(Arc<FixedTarget>),
    /// A text with variables.
    Computed(Template),
}

#[derive(Debug)]
struct FixedTarget {
    secure: bool,
    /// The text behind the scheme.
    authority: Bytes,
    group: UpstreamRef,
    /// The target of requests, which the first request makes.
    upstream: OnceLock<Arc<UpstreamTarget>>,
}

/// Takes the scheme off an address. Returns whether it stands for TLS, and the rest.
fn without_scheme(text: &str) -> (bool, &str) {
    let after = |scheme: &str| {
        text.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme)).map(|_| &text[scheme.len()..])
    };
    match (after("grpc://"), after("grpcs://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => (false, text),
    }
}

/// The name of the servers, as requests tell it: host and port as they were written.
fn authority(address: &str) -> Bytes {
    if address.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("unix:")) {
        Bytes::from_static(b"localhost")
    } else {
        Bytes::from(bytes_of(address).into_owned())
    }
}

/// The target of requests to this group.
fn upstream_target(secure: bool, authority: Bytes, group: Arc<Upstream>) -> Arc<UpstreamTarget> {
    let scheme = if secure { "grpcs://" } else { "grpc://" };
    Arc::new(UpstreamTarget { scheme, is_secure: secure, host: authority, port: Bytes::new(), servers: Some(group) })
}

impl Value for GrpcPass {
    const SHAPE: Shape = Shape::exactly(1, "address");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<GrpcPass, Problem> {
        let word = &directive.args[0];
        let computed = word.text.contains('$');
        passes_on(computed, cx);
        if computed {
            return Ok(GrpcPass { to: GrpcTarget::Computed(Template::parse(word, cx)?), tls: Arc::default() });
        }
        let (secure, address) = without_scheme(&word.text);
        let group = upstream::refer(address, None, directive, word, cx)?;
        let to = GrpcTarget::Fixed(Arc::new(FixedTarget {
            secure,
            authority: authority(address),
            group,
            upstream: OnceLock::new(),
        }));
        Ok(GrpcPass { to, tls: Arc::default() })
    }
}

impl GrpcPass {
    /// Whether requests may be passed on by TLS.
    pub fn may_be_secure(&self) -> bool {
        match &self.to {
            GrpcTarget::Fixed(fixed) => fixed.secure,
            GrpcTarget::Computed(_) => true,
        }
    }

    /// The group that requests are passed to, if it is named without variables.
    pub fn fixed_group(&self) -> Option<UpstreamRef> {
        match &self.to {
            GrpcTarget::Fixed(fixed) => Some(fixed.group.clone()),
            GrpcTarget::Computed(_) => None,
        }
    }

    /// The target of a request.
    pub fn resolve_target<'r>(&'r self, request: &'r Request) -> TargetLookup<'r> {
        match &self.to {
            GrpcTarget::Fixed(fixed) => {
                let Some(group) = fixed.group.get() else {
                    return TargetLookup::Now(Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR)));
                };
                let upstream = fixed
                    .upstream
                    .get_or_init(|| upstream_target(fixed.secure, fixed.authority.clone(), group.clone()));
                TargetLookup::Now(Ok(PassTarget::new(
                    upstream.clone(),
                    uri::kept(UriRule::AsAsked, RequestUri::of(request)),
                )))
            }
            GrpcTarget::Computed(template) => TargetLookup::Later(Box::pin(look_up(template, request))),
        }
    }
}

/// Looks up the target that variables give.
async fn look_up(template: &Template, request: &Request) -> Result<PassTarget, Outcome> {
    let text = template.render(request);
    let text = text_of(&text);
    let (secure, address) = without_scheme(&text);
    let group = upstream::find(request, address, None).await.map_err(|why| {
        log_error!(request, Error, "{why}");
        Outcome::Status(why.status())
    })?;
    let uri = uri::kept(UriRule::AsAsked, RequestUri::of(request));
    Ok(PassTarget::new(upstream_target(secure, authority(address), group), uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_may_stand_before_an_address() {
        for (text, secure, address, name) in [
            ("127.0.0.1:80", false, "127.0.0.1:80", "127.0.0.1:80"),
            ("grpc://back", false, "back", "back"),
            ("GRPCS://[::1]:443", true, "[::1]:443", "[::1]:443"),
            ("grpc://unix:/run/x", false, "unix:/run/x", "localhost"),
            ("Unix:/run/x", false, "Unix:/run/x", "localhost"),
            ("http://back", false, "http://back", "http://back"),
            ("grpc:/b", false, "grpc:/b", "grpc:/b"),
            ("", false, "", ""),
            ("\u{e4}\u{e4}\u{e4}\u{e4}", false, "\u{e4}\u{e4}\u{e4}\u{e4}", "\u{e4}\u{e4}\u{e4}\u{e4}"),
        ] {
            assert_eq!(without_scheme(text), (secure, address), "{text}");
            assert_eq!(authority(address), name.as_bytes(), "{text}");
        }
    }
}
