//! The directives about OCSP, as they are written.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_upstream::resolve::Resolver;

use crate::tls::values::{FileName, Ocsp, OcspCache, Spot};

/// The directives about OCSP of one virtual server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OcspSpec {
    /// `ssl_stapling`
    pub stapling: bool,
    /// `ssl_stapling_file`
    pub stapling_file: Option<FileName>,
    /// `ssl_stapling_responder`
    pub stapling_responder: Option<Url>,
    /// `ssl_stapling_verify`
    pub stapling_verify: bool,
    /// `ssl_ocsp`
    pub clients: Ocsp,
    /// `ssl_ocsp_responder`
    pub responder: Option<Url>,
    /// `ssl_ocsp_cache`
    pub cache: OcspCache,
    /// `resolver` and `resolver_timeout`
    pub resolving: Option<OcspResolver>,
}

/// The URL of a responder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    /// The URL as it is written. An empty one is none.
    pub text: String,
    /// Place in the configuration.
    pub spot: Spot,
}

impl Value for Url {
    const SHAPE: Shape = Shape::exactly(1, "url");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Url, Problem> {
        let word = &directive.args[0];
        Ok(Url { text: word.text.clone(), spot: Spot::of(word, directive) })
    }
}

/// The URL, unless there is none or it is empty.
pub(super) fn written(url: &Option<Url>) -> Option<&Url> {
    url.as_ref().filter(|url| !url.text.is_empty())
}

/// The resolver that looks up names while the server runs.
#[derive(Clone)]
pub struct OcspResolver {
    /// `resolver`
    pub resolver: Arc<Resolver>,
    /// `resolver_timeout`
    pub timeout: Duration,
}

impl PartialEq for OcspResolver {
    fn eq(&self, other: &OcspResolver) -> bool {
        self.resolver.id() == other.resolver.id() && self.timeout == other.timeout
    }
}

impl Eq for OcspResolver {}

impl Hash for OcspResolver {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.resolver.id().hash(state);
        self.timeout.hash(state);
    }
}

impl fmt::Debug for OcspResolver {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} within {:?}", self.resolver.spec(), self.timeout)
    }
}
