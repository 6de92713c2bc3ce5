//! Regular expressions in nginx's dialect (PCRE2), with a bound on the work of one match.

use pcre2::bytes::{Regex, RegexBuilder};

/// How many steps one match may take before it is given up as "no match" and logged: a pattern that backtracks
/// without end must not hold a loop. PCRE2's own default is ten times as much.
pub const MATCH_LIMIT: u32 = 1_000_000;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    names: Box<[Option<Box<str>>]>,
}

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

    /// Matches and, on success, replaces the request's captures. A match that hits [`MATCH_LIMIT`] does not match.
    pub fn matches(&self, subject: &[u8], captures: &mut Captures) -> bool {
        if self.names.len() <= 1 {
            return match self.regex.find(subject) {
                Ok(Some(found)) => {
                    captures.numbered.clear();
                    captures.numbered.push(Some(found.as_bytes().into()));
                    true
                }
                _ => false,
            };
        }
        let Ok(Some(found)) = self.regex.captures(subject) else { return false };
        captures.numbered.clear();
        for (index, name) in self.names.iter().enumerate() {
            let value: Option<Box<[u8]>> = found.get(index).map(|group| group.as_bytes().into());
            if let (Some(name), Some(value)) = (name, &value) {
                captures.named.retain(|(known, _)| known != name);
                captures.named.push((name.clone(), value.clone()));
            }
            captures.numbered.push(value);
        }
        true
    }

    /// Only tells whether it matches.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        matches!(self.regex.is_match(subject), Ok(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_number_and_by_name_and_names_stay() {
        let mut captures = Captures::default();
        assert!(Pattern::new(r"^/(?<user>\w+)/(\d+)?", false).unwrap().matches(b"/ann/7", &mut captures));
        assert_eq!(captures.numbered(2), Some(&b"7"[..]));
        assert!(Pattern::new(r"\.PNG$", true).unwrap().matches(b"/a.png", &mut captures));
        assert_eq!(captures.numbered(1), None);
        assert_eq!(captures.named("user"), Some(&b"ann"[..]));
        assert!(!Pattern::new("^/b", false).unwrap().matches(b"/a", &mut captures));
    }

    #[test]
    fn an_error_names_the_pattern_and_the_rest_after_it() {
        let error = Pattern::new("^/a)b", false).unwrap_err();
        assert!(error.starts_with("pcre2_compile() failed: ") && error.ends_with("in \"^/a)b\" at \")b\""), "{error}");
        assert!(Pattern::new("^/(a", false).unwrap_err().ends_with("in \"^/(a\""));
    }

    #[test]
    fn endless_backtracking_ends() {
        let evil = Pattern::new(r"^(a|aa)+$", false).unwrap();
        let mut subject = vec![b'a'; 4000];
        subject.push(b'!');
        assert!(!evil.is_match(&subject));
    }
}
