//! `proxy_redirect`: changes to `Location` and `Refresh` of an upstream server.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Word, bytes_of, text_of};
use freerun_http::log_error;
use freerun_http::regex::Pattern;
use freerun_http::request::Request;
use freerun_http::request::location::Within;
use freerun_http::template::Template;
use freerun_http::variables::VariableTable;

use crate::family::proxy_pass::ProxyPass;

/// The rules of one level, in the order written; the first match counts. The default is `default`.
#[derive(Debug, Clone)]
pub struct Redirects(Arc<[Rule]>);

impl Default for Redirects {
    fn default() -> Redirects {
        Redirects(Arc::new([Rule::Default]))
    }
}

#[derive(Debug, Clone)]
enum Rule {
    /// The rule that follows from `proxy_pass` and the location.
    Default,
    /// The rule that replaces this beginning.
    Prefix(Template, Template),
    /// The rule that replaces the whole text if the expression matches.
    Regex(Pattern, Template),
}

/// Compiles an expression of the configuration, with nginx's error.
///
/// # Errors
/// PCRE's message.
pub fn pattern(text: &str, caseless: bool, word: &Word, cx: &mut Cx) -> Result<Pattern, Problem> {
    let variables = cx.extensions.get_or_default::<VariableTable>();
    Pattern::new(text, caseless, variables).map_err(|why| Problem::new(why).at(word.place))
}

impl Setting for Redirects {
    const SHAPE: Shape = Shape::between(1, 2, "default | off | redirect replacement");

    fn set(previous: Option<Redirects>, directive: &Node, cx: &mut Cx) -> Result<Redirects, Problem> {
        let mut rules = match &previous {
            None => Vec::new(),
            Some(Redirects(rules)) if rules.is_empty() => return Err(Problem::duplicate(directive)),
            Some(Redirects(rules)) => rules.to_vec(),
        };
        rules.push(match directive.args.as_slice() {
            [word] if word.text == "off" && rules.is_empty() => return Ok(Redirects(Arc::new([]))),
            [word] if word.text == "off" => return Err(Problem::duplicate(directive)),
            [word] if word.text == "default" => {
                let within = cx.extensions.get_or_default::<Within>();
                let message = if !within.passes_on {
                    "\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive"
                } else if within.with_variables {
                    "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables"
                } else {
                    rules.push(Rule::Default);
                    return Ok(Redirects(rules.into()));
                };
                return Err(Problem::new(message).at(word.place));
            }
            [word] => return Err(Problem::invalid_parameter(directive, word)),
            [from, to] => match from.text.strip_prefix('~') {
                Some(text) => {
                    let (text, caseless) = text.strip_prefix('*').map_or((text, false), |text| (text, true));
                    let pattern = pattern(text, caseless, from, cx)?;
                    Rule::Regex(pattern, Template::parse(to, cx)?)
                }
                None => Rule::Prefix(Template::parse(from, cx)?, Template::parse(to, cx)?),
            },
            _ => return Err(Problem::wrong_count(directive)),
        });
        Ok(Redirects(rules.into()))
    }
}

/// Whether an expression matches; the text's captures are in `captures` then. A match that is given up counts as none,
/// and is logged.
pub fn matches(pattern: &Pattern, text: &[u8], request: &Request) -> bool {
    pattern.matches(text, &request.captures).unwrap_or_else(|error| {
        log_error!(request, Alert, "{error} on \"{}\"", text_of(text));
        false
    })
}

/// `text` with `replacement` in place of `from` at its beginning.
fn replaced(text: &[u8], from: &[u8], to: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
    let rest = text.strip_prefix(from)?;
    let mut out = to();
    out.extend_from_slice(rest);
    Some(out)
}

impl Redirects {
    /// The new value of a `Location`; `None`: it is not changed.
    pub fn location(&self, text: &[u8], pass: Option<&ProxyPass>, request: &Request) -> Option<Vec<u8>> {
        self.0.iter().find_map(|rule| match rule {
            Rule::Default => {
                let (from, to) = pass?.default_redirect()?;
                replaced(text, &bytes_of(&from), || bytes_of(to).into_owned())
            }
            Rule::Prefix(from, to) => replaced(text, &from.render(request), || to.render(request).into_owned()),
            Rule::Regex(pattern, to) => matches(pattern, text, request).then(|| to.render(request).into_owned()),
        })
    }

    /// The new value of a `Refresh`: the URL after `url=` is changed.
    pub fn refresh(&self, text: &[u8], pass: Option<&ProxyPass>, request: &Request) -> Option<Vec<u8>> {
        let at = text.windows(4).position(|four| four.eq_ignore_ascii_case(b"url="))? + 4;
        let url = self.location(&text[at..], pass, request)?;
        Some([&text[..at], &url].concat())
    }

    /// Whether no value is ever changed.
    pub fn is_off(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_replaced() {
        let by = |text: &[u8], from: &[u8]| replaced(text, from, || b"/c/".to_vec());
        assert_eq!(by(b"http://a/b/x", b"http://a/b/").as_deref(), Some(&b"/c/x"[..]));
        assert_eq!(by(b"http://A/b/x", b"http://a/b/"), None);
        assert_eq!(by(b"x", b"").as_deref(), Some(&b"/c/x"[..]));
    }
}
