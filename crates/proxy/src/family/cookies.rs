//! `proxy_cookie_domain`, `proxy_cookie_path` and `proxy_cookie_flags`: changes to `Set-Cookie` of an upstream server.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape};
use freerun_http::regex::Pattern;
use freerun_http::request::Request;
use freerun_http::template::Template;

use crate::family::redirect;

/// The pattern of a rule.
#[derive(Debug, Clone)]
enum RulePattern {
    Text(Template),
    Regex(Pattern),
}

impl RulePattern {
    /// Parses the pattern; a text that begins with `~` is an expression. `caseless`: whether it always ignores case.
    fn parse(directive: &Node, caseless: bool, cx: &mut Cx) -> Result<RulePattern, Problem> {
        let word = &directive.args[0];
        match word.text.strip_prefix('~') {
            Some(text) => {
                let (text, star) = text.strip_prefix('*').map_or((text, false), |text| (text, true));
                Ok(RulePattern::Regex(redirect::pattern(text, caseless || star, word, cx)?))
            }
            None => Template::parse(word, cx).map(RulePattern::Text),
        }
    }
}

/// `proxy_cookie_domain` or `proxy_cookie_path`: the rules of one level; the first match counts.
#[derive(Debug, Clone, Default)]
pub struct Attribute(Arc<[(RulePattern, Template)]>);

/// `proxy_cookie_flags`: the rules of one level; the first match counts.
#[derive(Debug, Clone, Default)]
pub struct FlagRules(Arc<[(RulePattern, Box<[Template]>)]>);

/// Adds one more rule to a level, or none at all (`off`).
fn one_more<R: Clone>(
    previous: Option<&Arc<[R]>>,
    directive: &Node,
    rule: impl FnOnce() -> Result<R, Problem>,
) -> Result<Arc<[R]>, Problem> {
    match (directive.args.as_slice(), previous) {
        (_, Some(rules)) if rules.is_empty() => Err(Problem::duplicate(directive)),
        ([word], Some(_)) if word.text == "off" => Err(Problem::duplicate(directive)),
        ([word], None) if word.text == "off" => Ok(Arc::new([])),
        ([word], _) => Err(Problem::invalid_parameter(directive, word)),
        (_, previous) => {
            let mut rules = previous.map(|rules| rules.to_vec()).unwrap_or_default();
            rules.push(rule()?);
            Ok(rules.into())
        }
    }
}

impl Setting for Attribute {
    const SHAPE: Shape = Shape::between(1, 2, "off | text replacement");

    fn set(previous: Option<Attribute>, directive: &Node, cx: &mut Cx) -> Result<Attribute, Problem> {
        let of_domain = directive.name.text.ends_with("domain");
        let rule = || Ok((RulePattern::parse(directive, of_domain, cx)?, Template::parse(&directive.args[1], cx)?));
        one_more(previous.as_ref().map(|attribute| &attribute.0), directive, rule).map(Attribute)
    }
}

impl Setting for FlagRules {
    const SHAPE: Shape = Shape::between(1, 4, "off | cookie [flag …]");

    fn set(previous: Option<FlagRules>, directive: &Node, cx: &mut Cx) -> Result<FlagRules, Problem> {
        let rule = || {
            let cookie = RulePattern::parse(directive, true, cx)?;
            let flags: Result<Vec<Template>, Problem> =
                directive.args[1..].iter().map(|word| Template::parse(word, cx)).collect();
            Ok((cookie, flags?.into()))
        };
        one_more(previous.as_ref().map(|rules| &rules.0), directive, rule).map(FlagRules)
    }
}

/// The flags that are set or removed; `None` leaves a flag as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FlagChanges {
    secure: Option<bool>,
    http_only: Option<bool>,
    /// The value; `Some(None)` removes it.
    same_site: Option<Option<&'static str>>,
}

impl FlagChanges {
    fn add(&mut self, flag: &[u8]) {
        match flag.to_ascii_lowercase().as_slice() {
            b"secure" => self.secure = Some(true),
            b"nosecure" => self.secure = Some(false),
            b"httponly" => self.http_only = Some(true),
            b"nohttponly" => self.http_only = Some(false),
            b"samesite=strict" => self.same_site = Some(Some("Strict")),
            b"samesite=lax" => self.same_site = Some(Some("Lax")),
            b"samesite=none" => self.same_site = Some(Some("None")),
            b"nosamesite" => self.same_site = Some(None),
            // Variables may give any text.
            _ => {}
        }
    }
}

/// A parsed `Set-Cookie`.
struct Cookie<'c> {
    /// The part `name=value`.
    pair: &'c [u8],
    attributes: Vec<(CookiePart<'c>, Option<CookiePart<'c>>)>,
    changed: bool,
}

type CookiePart<'c> = std::borrow::Cow<'c, [u8]>;

impl<'c> Cookie<'c> {
    fn parse(text: &'c [u8]) -> Cookie<'c> {
        let mut parts = text.split(|byte| *byte == b';');
        let pair = parts.next().unwrap_or_default().trim_ascii();
        let attributes = parts.map(|part| match part.iter().position(|byte| *byte == b'=') {
            Some(at) => {
                (CookiePart::Borrowed(part[..at].trim_ascii()), Some(CookiePart::Borrowed(part[at + 1..].trim_ascii())))
            }
            None => (CookiePart::Borrowed(part.trim_ascii()), None),
        });
        Cookie { pair, attributes: attributes.collect(), changed: false }
    }

    /// The cookie's name; `None` if there is no `=`.
    fn name(&self) -> Option<&'c [u8]> {
        let at = self.pair.iter().position(|byte| *byte == b'=')?;
        Some(self.pair[..at].trim_ascii())
    }

    /// Changes the values of all attributes with this name.
    fn change(&mut self, name: &[u8], mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>) {
        for (key, value) in &mut self.attributes {
            if let Some(value) = value.as_mut().filter(|_| key.eq_ignore_ascii_case(name))
                && let Some(new) = change(value)
            {
                *value = CookiePart::Owned(new);
                self.changed = true;
            }
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        self.attributes.iter().any(|(key, _)| key.eq_ignore_ascii_case(name))
    }

    fn remove(&mut self, name: &[u8]) {
        self.attributes.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
    }

    fn switch(&mut self, name: &'static str, wanted: Option<bool>) {
        match wanted {
            Some(true) if !self.has(name.as_bytes()) => {
                self.attributes.push((CookiePart::Borrowed(name.as_bytes()), None));
            }
            Some(false) => self.remove(name.as_bytes()),
            _ => {}
        }
    }

    fn set_flags(&mut self, wanted: FlagChanges) {
        // As in nginx it is written anew even if it has the flags already.
        self.changed = true;
        self.switch("Secure", wanted.secure);
        self.switch("HttpOnly", wanted.http_only);
        match wanted.same_site {
            None => {}
            Some(None) => self.remove(b"SameSite"),
            Some(Some(value)) => {
                let new = (CookiePart::Borrowed(&b"SameSite"[..]), Some(CookiePart::Borrowed(value.as_bytes())));
                match self.attributes.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case(b"SameSite")) {
                    Some(attribute) => *attribute = new,
                    None => self.attributes.push(new),
                }
            }
        }
    }

    fn text(&self) -> Vec<u8> {
        let mut out = self.pair.to_vec();
        for (key, value) in &self.attributes {
            out.extend_from_slice(b"; ");
            out.extend_from_slice(key);
            if let Some(value) = value {
                out.push(b'=');
                out.extend_from_slice(value);
            }
        }
        out
    }
}

fn without_dot(domain: &[u8]) -> &[u8] {
    domain.strip_prefix(b".").unwrap_or(domain)
}

/// The new value of a `Set-Cookie`; `None`: it is not changed.
pub fn rewrite(
    text: &[u8],
    domain: &Attribute,
    path: &Attribute,
    flags: &FlagRules,
    request: &Request,
) -> Option<Vec<u8>> {
    if domain.0.is_empty() && path.0.is_empty() && flags.0.is_empty() {
        return None;
    }
    let mut cookie = Cookie::parse(text);
    let name = cookie.name()?;
    if !domain.0.is_empty() {
        cookie.change(b"domain", |value| new_domain(domain, value, request));
    }
    if !path.0.is_empty() {
        cookie.change(b"path", |value| new_path(path, value, request));
    }
    if let Some(wanted) = wanted(flags, name, request) {
        cookie.set_flags(wanted);
    }
    cookie.changed.then(|| cookie.text())
}

/// The new domain. A dot at the beginning is ignored, on either side; the attribute keeps its own.
fn new_domain(rules: &Attribute, value: &[u8], request: &Request) -> Option<Vec<u8>> {
    let bare = without_dot(value);
    let (_, to) = rules.0.iter().find(|(from, _)| match from {
        RulePattern::Text(text) => without_dot(&text.render(request)).eq_ignore_ascii_case(bare),
        RulePattern::Regex(pattern) => redirect::matches(pattern, bare, request),
    })?;
    let dot = &value[..value.len() - bare.len()];
    Some([dot, without_dot(&to.render(request))].concat())
}

/// The new path. A text matches the beginning of the path, which is replaced; an expression replaces the whole path.
fn new_path(rules: &Attribute, value: &[u8], request: &Request) -> Option<Vec<u8>> {
    rules.0.iter().find_map(|(from, to)| match from {
        RulePattern::Text(text) => {
            let rest = value.strip_prefix(&*text.render(request))?;
            Some([&to.render(request), rest].concat())
        }
        RulePattern::Regex(pattern) => {
            redirect::matches(pattern, value, request).then(|| to.render(request).into_owned())
        }
    })
}

fn wanted(rules: &FlagRules, name: &[u8], request: &Request) -> Option<FlagChanges> {
    let (_, flags) = rules.0.iter().find(|(cookie, _)| match cookie {
        RulePattern::Text(text) => text.render(request).eq_ignore_ascii_case(name),
        RulePattern::Regex(pattern) => redirect::matches(pattern, name, request),
    })?;
    let mut wanted = FlagChanges::default();
    flags.iter().for_each(|flag| wanted.add(&flag.render(request)));
    Some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flagged(text: &str, flags: &[&str]) -> String {
        let mut wanted = FlagChanges::default();
        flags.iter().for_each(|flag| wanted.add(flag.as_bytes()));
        let mut cookie = Cookie::parse(text.as_bytes());
        cookie.set_flags(wanted);
        String::from_utf8(cookie.text()).unwrap()
    }

    #[test]
    fn flags_are_set_and_taken_away() {
        for (text, flags, want) in [
            ("one=b", &["httponly"][..], "one=b; HttpOnly"),
            ("one=b;HttpOnly", &["httponly"], "one=b; HttpOnly"),
            ("x=1; SameSite=None", &["secure", "samesite=strict"], "x=1; SameSite=Strict; Secure"),
            ("x=1; secure; path=/", &["secure", "samesite=strict"], "x=1; secure; path=/; SameSite=Strict"),
            (
                "t=1; Secure; HttpOnly; SameSite=Lax; Path=/x; secure",
                &["nosecure", "nohttponly", "nosamesite"],
                "t=1; Path=/x",
            ),
            ("f=1; samesite=strict", &["samesite=lax"], "f=1; SameSite=Lax"),
            ("t=1;Secure;x=y; HttpOnly", &["nosecure", "nohttponly"], "t=1; x=y"),
            ("t=1", &["nonsense"], "t=1"),
        ] {
            assert_eq!(flagged(text, flags), want, "{text}");
        }
    }

    #[test]
    fn attributes_are_changed_where_they_have_a_value() {
        let changed = |text: &'static str| {
            let mut cookie = Cookie::parse(text.as_bytes());
            cookie.change(b"domain", |_| Some(b"new".to_vec()));
            String::from_utf8(cookie.text()).unwrap()
        };
        assert_eq!(changed("a=b;domain = x;path=/"), "a=b; domain=new; path=/");
        assert_eq!(changed("a=b; Domain"), "a=b; Domain");
        assert_eq!(changed("a=b;; ; domain=x;"), "a=b; ; ; domain=new; ");
        assert_eq!(changed("domain=x"), "domain=x");
        assert_eq!(Cookie::parse(b"").name(), None);
        assert_eq!(Cookie::parse(b"=x").name(), Some(&b""[..]));
    }
}
