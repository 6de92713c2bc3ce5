//! `proxy_ssl_alpn`: the protocols that upstream servers with TLS are offered.

use std::fmt;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word};

use crate::values::Template;
use crate::values::subject::Subject;

/// The longest name of a protocol (RFC 7301 section 3.1).
const LONGEST: usize = 255;

/// The protocols, best first.
pub struct Alpn<S>(Vec<Template<S>>);

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for Alpn<S> {
    fn clone(&self) -> Alpn<S> {
        Alpn(self.0.clone())
    }
}

impl<S> Default for Alpn<S> {
    fn default() -> Alpn<S> {
        Alpn(Vec::new())
    }
}

impl<S> fmt::Debug for Alpn<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.0).finish()
    }
}

impl<S: Subject> Alpn<S> {
    /// The protocols, as far as they have no variables.
    pub fn fixed(&self) -> Vec<Vec<u8>> {
        self.0.iter().filter_map(|name| name.constant().map(<[u8]>::to_vec)).collect()
    }

    /// The protocols for this subject, if any of them has variables. Those that are empty, or too long to be one, are left out.
    pub fn computed(&self, subject: &S) -> Option<Vec<Vec<u8>>> {
        if self.0.iter().all(|name| name.constant().is_some()) {
            return None;
        }
        let names = self.0.iter().map(|name| name.render(subject).into_owned());
        Some(names.filter(|name| (1..=LONGEST).contains(&name.len())).collect())
    }
}

impl<S: Subject> Value for Alpn<S> {
    const SHAPE: Shape = Shape::at_least(1, "protocol …");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Alpn<S>, Problem> {
        let name = |word: &Word| {
            if word.text.len() > LONGEST || word.text.is_empty() {
                return Err(Problem::invalid_value(directive, word));
            }
            Template::parse(word, cx)
        };
        directive.args.iter().map(name).collect::<Result<Vec<_>, _>>().map(Alpn)
    }
}
