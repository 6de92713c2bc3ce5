//! `rewrite`: another path for one that matches an expression.

use freerun_conf::{Cx, Node, Problem, Word};
use freerun_proto::uri::{EscapeSet, escape_into};

use crate::log_error;
use crate::regex::Pattern;
use crate::request::Request;
use crate::request::handler::Outcome;
use crate::rewrite::returns::redirect;
use crate::template::Template;
use crate::variables::VariableTable;

/// What happens to the script when the path matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flag {
    None,
    Last,
    Break,
    Redirect(u16),
}

/// The directive.
#[derive(Debug)]
pub(crate) struct Replace {
    pub(super) pattern: Pattern,
    /// The expression as written, for the log.
    pub(super) text: Box<str>,
    path: Template,
    /// What follows the first question mark.
    args: Option<Template>,
    /// Whether the request's own arguments are added.
    add_args: bool,
    flag: Flag,
}

/// How the script goes on.
pub(super) enum Next {
    /// With the next directive.
    Goes,
    /// It has ended; whether a location has to be found for the new path.
    Ended { find: bool },
    /// With this answer.
    Answer(Outcome),
}

impl Replace {
    pub(super) fn parse(directive: &Node, cx: &mut Cx) -> Result<Replace, Problem> {
        let [regex, replacement, rest @ ..] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        let text = replacement.text.as_str();
        if text.is_empty() {
            return Err(Problem::new("empty replacement").at(replacement.place));
        }
        let is_url = ["http://", "https://", "$scheme"].iter().any(|start| text.starts_with(start));
        let flag = match rest.first().map(|word| (word, word.as_str())) {
            Some((_, "redirect")) => Flag::Redirect(302),
            Some((_, "permanent")) => Flag::Redirect(301),
            Some((_, "last" | "break")) | None if is_url => Flag::Redirect(302),
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
        let pattern = Pattern::new(&regex.text, false, cx.extensions.get_or_default::<VariableTable>())
            .map_err(|why| Problem::new(why).at(regex.place))?;
        Ok(Replace { pattern, text: regex.text.as_str().into(), path, args, add_args, flag })
    }

    /// Whether it is a redirect.
    pub(super) fn redirects(&self) -> bool {
        matches!(self.flag, Flag::Redirect(_))
    }

    /// Does what has to be done after a match. `escapes`: the client's path had something escaped in it.
    pub(super) fn apply(&self, request: &mut Request, escapes: bool, logs: bool) -> Next {
        let redirects = self.redirects();
        let mut path = Vec::with_capacity(request.asked.path.len() + 16);
        self.path.render_with(request, &mut path, |capture, out| match escapes && redirects {
            true => escape_into(EscapeSet::Args, capture, out),
            false => out.extend_from_slice(capture),
        });
        let mut args = None;
        if let Some(template) = &self.args {
            let mut text = Vec::new();
            template.render_with(request, &mut text, |capture, out| match escapes {
                true => escape_into(EscapeSet::Args, capture, out),
                false => out.extend_from_slice(capture),
            });
            args = Some(text);
        }
        if self.add_args
            && let Some(own) = request.asked.args.as_ref().filter(|own| !own.is_empty())
        {
            match &mut args {
                Some(args) => {
                    args.push(b'&');
                    args.extend_from_slice(own);
                }
                None => args = Some(own.clone()),
            }
        }
        request.place.rewritten_here = true;
        if let Flag::Redirect(status) = self.flag {
            path = unescape_redirect(&path);
            if let Some(args) = args.filter(|args| self.args.is_some() || !args.is_empty()) {
                path.push(b'?');
                path.extend_from_slice(&args);
            }
            if logs {
                log_error!(request, Notice, "rewritten redirect: \"{}\"", String::from_utf8_lossy(&path));
            }
            return Next::Answer(redirect(request, status, path.into()));
        }
        if logs {
            let (path, args) = (String::from_utf8_lossy(&path), args.as_deref().unwrap_or_default());
            log_error!(request, Notice, "rewritten data: \"{path}\", args: \"{}\"", String::from_utf8_lossy(args));
        }
        request.asked.path = path;
        if request.asked.path.is_empty() {
            log_error!(request, Error, "the rewritten URI has a zero length");
            return Next::Answer(Outcome::Status(500));
        }
        request.asked.args = args;
        request.place.internal = true;
        request.asked.uri_kept = false;
        match self.flag {
            Flag::Break => Next::Ended { find: false },
            Flag::Last => Next::Ended { find: true },
            _ => Next::Goes,
        }
    }
}

/// Takes away the escapes in the path of a redirect that a URI does not need, as nginx does: those of `&` to `~`, up to the
/// first question mark. What begins as an escape and is none is lost.
fn unescape_redirect(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'?' => {
                out.push(b'?');
                break;
            }
            b'%' => {
                let Some((high, after)) = rest.split_first() else { break };
                rest = after;
                let Some(value) = hex(*high) else {
                    out.push(*high);
                    continue;
                };
                let Some((low, after)) = rest.split_first() else { break };
                rest = after;
                match hex(*low).map(|low| value << 4 | low) {
                    None => {}
                    Some(b'?') => {
                        out.push(b'?');
                        break;
                    }
                    Some(plain @ b'&'..=b'~') => out.push(plain),
                    Some(_) => out.extend_from_slice(&[b'%', *high, *low]),
                }
            }
            byte => out.push(*byte),
        }
    }
    out.extend_from_slice(rest);
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lose_escapes_that_they_do_not_need() {
        for (path, wanted) in [
            ("/a%41%20%2f%26%25%3cb", "/aA%20/&%25<b"),
            ("%zz%4z%5", "zz"),
            ("%%41", "%41"),
            ("%4%41", "41"),
            ("a%3fb%41", "a?b%41"),
            ("a?b%41%", "a?b%41%"),
            ("%00%7e%7F%ff", "%00~%7F%ff"),
            ("%", ""),
        ] {
            assert_eq!(unescape_redirect(path.as_bytes()), wanted.as_bytes(), "{path}");
        }
    }
}
