//! Regular expressions in nginx's dialect (PCRE2), with a bound on the work of one match.

use pcre2::bytes::{Regex, RegexBuilder};

/// How many steps one match may take before it is given up: a pattern that backtracks without end must not hold a loop.
/// PCRE2's own default is ten times as much.
pub const MATCH_LIMIT: u32 = 1_000_000;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    names: Box<[Option<Box<str>>]>,
}

/// A match was given up, for its steps or its memory. Whether the expression matches is not known; to take it for "no"
/// could open what an expression closes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pcre2_match() failed: {0}")]
pub struct GaveUp(String);

/// What the last matching expression of a request captured.
#[derive(Debug, Clone, Default)]
pub struct Captures {
    numbered: Vec<Option<Box<[u8]>>>,
    named: Vec<(Box<str>, Box<[u8]>)>,
}

impl Captures {
    /// `$1` … `$9`; `$0` is the whole match.
    pub fn numbered(&self, number: usize) -> Option<&[u8]> {
        self.numbered.get(number)?.as_deref()
    }

    /// A named group, of any expression that matched in this request.
    pub fn named(&self, name: &str) -> Option<&[u8]> {
        self.named.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// PCRE2's message with the offset.
    pub fn new(text: &str, caseless: bool) -> Result<Pattern, String> {
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
        let names = regex.capture_names().iter().map(|name| name.as_deref().map(Box::from)).collect();
        Ok(Pattern { regex, names })
    }

    /// Names of its named groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| name.as_deref())
    }

    /// Matches and, on success, replaces the request's captures.
    ///
    /// # Errors
    /// The match hit [`MATCH_LIMIT`], or needed too much memory.
    pub fn matches(&self, subject: &[u8], captures: &mut Captures) -> Result<bool, GaveUp> {
        let gave_up = |error: pcre2::Error| GaveUp(error.to_string());
        if self.names.len() <= 1 {
            return Ok(match self.regex.find(subject).map_err(gave_up)? {
                Some(found) => {
                    captures.numbered.clear();
                    captures.numbered.push(Some(found.as_bytes().into()));
                    true
                }
                None => false,
            });
        }
        let Some(found) = self.regex.captures(subject).map_err(gave_up)? else { return Ok(false) };
        captures.numbered.clear();
        for (index, name) in self.names.iter().enumerate() {
            let value: Option<Box<[u8]>> = found.get(index).map(|group| group.as_bytes().into());
            if let (Some(name), Some(value)) = (name, &value) {
                captures.named.retain(|(known, _)| known != name);
                captures.named.push((name.clone(), value.clone()));
            }
            captures.numbered.push(value);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_number_and_by_name_and_names_stay() {
        let mut captures = Captures::default();
        assert!(Pattern::new(r"^/(?<user>\w+)/(\d+)?", false).unwrap().matches(b"/ann/7", &mut captures).unwrap());
        assert_eq!(captures.numbered(2), Some(&b"7"[..]));
        assert!(Pattern::new(r"\.PNG$", true).unwrap().matches(b"/a.png", &mut captures).unwrap());
        assert_eq!(captures.numbered(1), None);
        assert_eq!(captures.named("user"), Some(&b"ann"[..]));
        assert!(!Pattern::new("^/b", false).unwrap().matches(b"/a", &mut captures).unwrap());
    }

    #[test]
    fn an_error_names_the_pattern_and_the_rest_after_it() {
        let error = Pattern::new("^/a)b", false).unwrap_err();
        assert!(error.starts_with("pcre2_compile() failed: ") && error.ends_with("in \"^/a)b\" at \")b\""), "{error}");
        assert!(Pattern::new("^/(a", false).unwrap_err().ends_with("in \"^/(a\""));
    }

    #[test]
    fn endless_backtracking_ends_and_is_not_taken_for_no() {
        let evil = Pattern::new(r"^(a|aa)+$", false).unwrap();
        let mut subject = vec![b'a'; 4000];
        subject.push(b'!');
        assert!(evil.matches(&subject, &mut Captures::default()).is_err());
    }
}
