//! `proxy_pass` of stream: the servers that sessions are passed to.

use std::sync::{Arc, OnceLock};

use freerun_conf::{Cx, Node, Problem, Shape, Value, text_of};
use freerun_serve::tls::upstream::UpstreamTls;
use freerun_serve::upstream::{NotFound, refer};
use freerun_serve::values::Template;

use crate::session::Session;
use crate::upstream::{self, StreamUpstream, UpstreamRef};

/// The value of `proxy_pass`.
#[derive(Debug, Clone)]
pub struct ProxyPass {
    to: PassTo,
    /// The TLS of connections to the server (`proxy_ssl`); set when its directives are known.
    pub tls: Arc<OnceLock<Arc<UpstreamTls>>>,
}

#[derive(Debug, Clone)]
enum PassTo {
    /// A server or group that is known when the configuration is read, and how it is written.
    Fixed(UpstreamRef, Arc<str>),
    /// A text with variables.
    Computed(Template<Session>),
}

/// The servers of a session.
pub struct SessionTarget {
    /// The servers.
    pub(super) upstream: Arc<StreamUpstream>,
    /// Host and port, or the name of a group, as `proxy_pass` has given it.
    pub(super) text: Arc<str>,
}

impl Value for ProxyPass {
    const SHAPE: Shape = Shape::exactly(1, "address");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ProxyPass, Problem> {
        let word = &directive.args[0];
        let to = if word.text.contains('$') {
            PassTo::Computed(Template::parse(word, cx)?)
        } else {
            PassTo::Fixed(refer(&word.text, None, directive, word, cx)?, word.text.as_str().into())
        };
        Ok(ProxyPass { to, tls: Arc::default() })
    }
}

impl ProxyPass {
    /// The group that is named without variables, for what is not about a session.
    pub fn fixed_group(&self) -> Option<&UpstreamRef> {
        match &self.to {
            PassTo::Fixed(group, _) => Some(group),
            PassTo::Computed(_) => None,
        }
    }

    /// The servers as they are written, if they are named without variables.
    pub(super) fn written(&self) -> &str {
        match &self.to {
            PassTo::Fixed(_, text) => text,
            PassTo::Computed(_) => "",
        }
    }

    /// The server or group that the session would be passed to, as the directive gives it.
    pub fn text(&self, session: &Session) -> String {
        match &self.to {
            PassTo::Fixed(_, text) => text.to_string(),
            PassTo::Computed(template) => text_of(&template.render(session)).into_owned(),
        }
    }

    /// The servers, if they need no look-up. `None`: [`ProxyPass::look_up`] has to find them.
    pub(super) fn known(&self) -> Option<SessionTarget> {
        let PassTo::Fixed(group, text) = &self.to else { return None };
        Some(SessionTarget { upstream: group.get()?.clone(), text: text.clone() })
    }

    /// The servers that variables of the session name.
    ///
    /// # Errors
    /// There are none.
    pub(super) async fn look_up(&self, session: &Session) -> Result<SessionTarget, NotFound> {
        let text = match &self.to {
            PassTo::Fixed(_, text) => text.clone(),
            PassTo::Computed(template) => text_of(&template.render(session)).into(),
        };
        Ok(SessionTarget { upstream: upstream::find(session, &text).await?, text })
    }
}
