//! Regular expressions in nginx's dialect (PCRE2), with a bound on the work of one match.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use freerun_conf::{Problem, byte_of};
use pcre2::bytes::{Regex, RegexBuilder};

use super::table::VariableTable;
use crate::values::captures::{Captures, Full, Groups};

/// Number of steps that one match may take before it is given up: a pattern that backtracks without end must not block a
/// loop. PCRE2's own default is ten times as much.
pub const MATCH_LIMIT: u32 = 1_000_000;

/// The name and the version of the library that compiles regular expressions, and whether it makes machine code of them.
pub fn regex_library() -> String {
    let (major, minor) = pcre2::version();
    format!("PCRE2 {major}.{minor}{}", if pcre2::is_jit_available() { " with JIT" } else { "" })
}

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    /// The number of groups, including the whole match.
    groups: usize,
    names: Box<[NamedGroup]>,
}

/// A named group, and the variable that it sets.
#[derive(Debug, Clone)]
struct NamedGroup {
    group: usize,
    slot: u32,
}

/// A match was given up, because of its steps or its memory. Whether the expression matches is not known; assuming that
/// it does not could grant access that an expression denies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GaveUp {
    /// The error of PCRE2.
    #[error("pcre2_match() failed: {0}")]
    Match(String),
    /// The captures cannot be kept.
    #[error(transparent)]
    Full(#[from] Full),
}

impl Pattern {
    /// Compiles a regular expression of the configuration; its named groups become variables.
    ///
    /// # Errors
    /// PCRE2's message with the offset, or nginx's about a group with the name of a variable that cannot be changed.
    pub fn new<S>(text: &str, caseless: bool, variables: &mut VariableTable<S>) -> Result<Pattern, String> {
        let text = &*with_escapes(text);
        let limited = format!("(*LIMIT_MATCH={MATCH_LIMIT}){text}");
        let regex = RegexBuilder::new().caseless(caseless).jit_if_available(true).build(&limited).map_err(|error| {
            let shift = limited.len() - text.len();
            let offset = error.offset().unwrap_or(0).saturating_sub(shift);
            let full = error.to_string();
            let reason = full.rsplit_once(": ").map_or(full.as_str(), |(_, reason)| reason);
            match text.get(offset..).filter(|rest| !rest.is_empty()) {
                Some(rest) => format!("pcre2_compile() failed: {reason} in \"{text}\" at \"{rest}\""),
                None => format!("pcre2_compile() failed: {reason} in \"{text}\""),
            }
        })?;
        let groups = regex.capture_names();
        let named = groups.iter().enumerate().filter_map(|(group, name)| Some((group, name.as_deref()?)));
        let names = named.map(|(group, name)| Ok(NamedGroup { group, slot: variables.add_capture(name)? }));
        let names = names.collect::<Result<_, Problem>>().map_err(|problem| problem.message)?;
        Ok(Pattern { groups: groups.len(), names, regex })
    }

    /// Whether it has any groups.
    pub fn has_groups(&self) -> bool {
        self.groups > 1
    }

    /// The number of groups, without the whole match.
    pub fn groups(&self) -> usize {
        self.groups - 1
    }

    /// Matches, and returns the positions of the first two groups; the subject's captures stay as they are. A group
    /// that took no part is empty.
    ///
    /// # Errors
    /// The errors of [`Pattern::matches`].
    pub fn split(&self, subject: &[u8]) -> Result<Option<[Range<usize>; 2]>, GaveUp> {
        let found = self.regex.captures(subject).map_err(|error| GaveUp::Match(error.to_string()))?;
        let span = |group: Option<pcre2::bytes::Match<'_>>| group.map_or(0..0, |group| group.start()..group.end());
        Ok(found.map(|found| [span(found.get(1)), span(found.get(2))]))
    }

    /// The positions of the whole match and of the groups, the first match at or behind `start`; the subject's captures stay
    /// as they are.
    ///
    /// # Errors
    /// The errors of [`Pattern::matches`].
    #[allow(clippy::type_complexity)]
    pub fn groups_at(&self, subject: &[u8], start: usize) -> Result<Option<Vec<Option<Range<usize>>>>, GaveUp> {
        let mut places = self.regex.capture_locations();
        let found = self.regex.captures_read_at(&mut places, subject, start);
        let found = found.map_err(|error| GaveUp::Match(error.to_string()))?;
        let place = |group| places.get(group).map(|(start, end)| start..end);
        Ok(found.map(|_| (0..self.groups).map(place).collect()))
    }

    /// Matches without captures.
    ///
    /// # Errors
    /// The errors of [`Pattern::matches`].
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, GaveUp> {
        self.regex.is_match(subject).map_err(|error| GaveUp::Match(error.to_string()))
    }

    /// Matches and, on success, replaces the subject's captures.
    ///
    /// # Errors
    /// The match hit [`MATCH_LIMIT`], or needed too much memory.
    pub fn matches(&self, subject: &[u8], captures: &Captures) -> Result<bool, GaveUp> {
        let gave_up = |error: pcre2::Error| GaveUp::Match(error.to_string());
        if !self.has_groups() {
            let found = self.regex.is_match(subject).map_err(gave_up)?;
            if found {
                captures.clear();
            }
            return Ok(found);
        }
        let Some(found) = self.regex.captures(subject).map_err(gave_up)? else { return Ok(false) };
        let values = captures.values();
        let mut groups = Groups { text: values.keep(subject)?, ..Groups::default() };
        for (number, span) in groups.spans.iter_mut().enumerate() {
            let group = found.get(number + 1);
            *span = group.and_then(|group| Some((group.start().try_into().ok()?, group.end().try_into().ok()?)));
        }
        for NamedGroup { group, slot } in &self.names {
            values.set(*slot, found.get(*group).map_or(&b""[..], |group| group.as_bytes()))?;
        }
        captures.set(groups);
        Ok(true)
    }
}

/// The expression with `\xHH` for each byte that is not UTF-8: PCRE2 takes bytes, but its binding for Rust takes text alone.
fn with_escapes(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|letter| byte_of(letter).is_some()) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut quoted, mut letters) = (String::with_capacity(text.len()), false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            // Between \Q and \E nothing is an escape.
            ('\\', Some(next)) if quoted => {
                quoted = next != 'E';
                out.push(letter);
            }
            ('\\', Some(next)) => {
                quoted = next == 'Q';
                // A backslash in front of a byte that needs none.
                if byte_of(next).is_none() {
                    out.extend([letter, next]);
                    letters.next();
                }
            }
            _ => match byte_of(letter) {
                // Writing to a String cannot fail.
                Some(byte) if quoted => drop(write!(out, "\\E\\x{byte:02x}\\Q")),
                Some(byte) => drop(write!(out, "\\x{byte:02x}")),
                None => out.push(letter),
            },
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str, caseless: bool) -> Result<Pattern, String> {
        Pattern::new(text, caseless, &mut VariableTable::<()>::default())
    }

    #[test]
    fn groups_are_found_by_number_and_a_match_without_groups_clears_them() {
        let captures = Captures::default();
        assert!(pattern(r"^/(?<user>\w+)/(\d+)?", false).unwrap().matches(b"/ann/7", &captures).unwrap());
        assert_eq!(captures.numbered(2), Some(&b"7"[..]));
        assert!(!pattern("^/b", false).unwrap().matches(b"/a", &captures).unwrap());
        assert_eq!(captures.numbered(1), Some(&b"ann"[..]));
        assert!(pattern(r"\.PNG$", true).unwrap().matches(b"/a.png", &captures).unwrap());
        assert_eq!((captures.numbered(0), captures.numbered(1), captures.numbered(10)), (None, None, None));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_matched() {
        for (text, matching, other) in [
            (&b"^/caf\xe9$"[..], &b"/caf\xe9"[..], &b"/caf\xc3\xa9"[..]),
            (b"^/[\xe0-\xef]+$", b"/\xe0\xe9", b"/\xf0"),
            (b"^\\Q.\xe9*\\E.$", b".\xe9*x", b"y\xe9*x"),
            (b"^\\\xe9\\.$", b"\xe9.", b"\xe9x"),
            ("^\u{e9}$".as_bytes(), "\u{e9}".as_bytes(), b"\xe9"),
        ] {
            let pattern = pattern(&freerun_conf::text_of(text), false).unwrap();
            assert_eq!((pattern.is_match(matching), pattern.is_match(other)), (Ok(true), Ok(false)), "{text:?}");
        }
    }

    #[test]
    fn an_error_names_the_pattern_and_the_rest_after_it() {
        let error = pattern("^/a)b", false).unwrap_err();
        assert!(error.starts_with("pcre2_compile() failed: ") && error.ends_with("in \"^/a)b\" at \")b\""), "{error}");
        assert!(pattern("^/(a", false).unwrap_err().ends_with("in \"^/(a\""));
    }

    #[test]
    fn endless_backtracking_ends_and_is_not_taken_for_no() {
        let evil = pattern(r"^(a|aa)+$", false).unwrap();
        let mut subject = vec![b'a'; 4000];
        subject.push(b'!');
        assert!(evil.matches(&subject, &Captures::default()).is_err());
    }
}
