//! `return`, as it is written: an answer given in the configuration.

use freerun_conf::{Cx, Node, Problem};
use freerun_proto::Status;
use freerun_serve::Subject;
use freerun_serve::values::Template;

/// A `return` directive.
pub struct Return<S> {
    /// The status.
    pub status: Status,
    /// The text of the answer, or the target of a redirect.
    pub text: Option<Template<S>>,
}

impl<S> Clone for Return<S> {
    fn clone(&self) -> Return<S> {
        Return { status: self.status, text: self.text.clone() }
    }
}

impl<S: Subject> Return<S> {
    /// Reads a `return`.
    ///
    /// # Errors
    /// nginx's `invalid return code "x"`.
    pub fn parse(directive: &Node, cx: &mut Cx) -> Result<Return<S>, Problem> {
        let first = &directive.args[0];
        let invalid = || Problem::new(format!("invalid return code \"{}\"", first.text)).at(first.place);
        let Ok(status) = first.text.parse::<u16>() else {
            let is_url = ["http://", "https://", "$scheme"].iter().any(|start| first.text.starts_with(start));
            if directive.args.len() > 1 || !is_url {
                return Err(invalid());
            }
            return Ok(Return { status: Status::FOUND, text: Some(Template::parse(first, cx)?) });
        };
        if status > 999 {
            return Err(invalid());
        }
        let text = match directive.args.get(1) {
            // An empty text is none; a text with variables that comes out empty is one.
            Some(word) if word.text.is_empty() => None,
            Some(word) => Some(Template::parse(word, cx)?),
            None => None,
        };
        Ok(Return { status: Status::new(status), text })
    }
}
