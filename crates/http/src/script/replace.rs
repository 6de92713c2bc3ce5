//! `rewrite`, as it is written: a new path for a path that matches a regular expression.

use freerun_conf::{Cx, Node, Problem, Word};
use freerun_proto::Status;
use freerun_serve::Subject;
use freerun_serve::values::{Pattern, Template, VariableTable};

/// The next step of the script after a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// The script goes on.
    None,
    /// The script ends, and a location is chosen for the new path.
    Last,
    /// The script ends.
    Break,
    /// The script ends with a redirect of this status.
    Redirect(Status),
}

/// A `rewrite` directive.
pub struct Replace<S> {
    /// The expression that the path has to match.
    pub pattern: Pattern,
    /// The expression as written, for the log.
    pub text: Box<str>,
    /// The part of the replacement before the first question mark.
    pub path: Template<S>,
    /// The part of the replacement after the first question mark.
    pub args: Option<Template<S>>,
    /// Whether the request's own arguments are added.
    pub add_args: bool,
    /// The next step of the script.
    pub flag: Flag,
}

impl<S: Subject> Replace<S> {
    /// Reads a `rewrite`.
    ///
    /// # Errors
    /// The replacement is empty, the flag unknown, or the expression invalid.
    pub fn parse(directive: &Node, cx: &mut Cx) -> Result<Replace<S>, Problem> {
        let [regex, replacement, rest @ ..] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        let text = replacement.text.as_str();
        if text.is_empty() {
            return Err(Problem::new("empty replacement").at(replacement.place));
        }
        let is_url = ["http://", "https://", "$scheme"].iter().any(|start| text.starts_with(start));
        let flag = match rest.first().map(|word| (word, word.as_str())) {
            Some((_, "redirect")) => Flag::Redirect(Status::FOUND),
            Some((_, "permanent")) => Flag::Redirect(Status::MOVED_PERMANENTLY),
            Some((_, "last" | "break")) | None if is_url => Flag::Redirect(Status::FOUND),
            Some((_, "last")) => Flag::Last,
            Some((_, "break")) => Flag::Break,
            Some((word, _)) => return Err(Problem::invalid_parameter(directive, word)),
            None => Flag::None,
        };
        let (text, add_args) = match text.strip_suffix('?') {
            Some(text) => (text, false),
            None => (text, true),
        };
        let mut part = |text: &str| Template::parse(&Word { text: text.to_owned(), ..replacement.clone() }, cx);
        let (path, args) = match text.split_once('?') {
            Some((path, args)) => (part(path)?, Some(part(args)?)),
            None => (part(text)?, None),
        };
        let pattern = Pattern::new(&regex.text, false, cx.extensions.get_or_default::<VariableTable<S>>())
            .map_err(|why| Problem::new(why).at(regex.place))?;
        Ok(Replace { pattern, text: regex.text.as_str().into(), path, args, add_args, flag })
    }

    /// Whether it is a redirect.
    pub fn redirects(&self) -> bool {
        matches!(self.flag, Flag::Redirect(_))
    }
}
