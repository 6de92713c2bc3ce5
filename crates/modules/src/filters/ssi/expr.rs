//! Evaluates values with variables, and the conditions of `if`.

use std::cell::RefCell;

use freerun_conf::text_of;
use freerun_http::regex::MATCH_LIMIT;
use pcre2::bytes::{Regex, RegexBuilder};

/// The longest value that variables may make: a page must not double a value again and again.
const MAX_EVALUATED: usize = 64 * 1024;
/// The number of compiled expressions that a loop keeps.
const KEPT_PATTERNS: usize = 64;

/// The names that an expression uses.
pub trait Lookup {
    /// Appends the value of a variable; nothing if there is none.
    fn value(&self, name: &[u8], out: &mut Vec<u8>);

    /// Stores the groups of an expression that matched.
    fn captured(&mut self, captures: Captures);
}

/// The groups of the last expression that matched, the whole match first.
#[derive(Debug, Default, Clone)]
pub struct Captures {
    /// The groups by number.
    pub numbered: Vec<Vec<u8>>,
    /// The groups by name.
    pub named: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The compiled expressions of one loop, the latest last.
#[derive(Default)]
pub struct Patterns(RefCell<Vec<(Vec<u8>, Regex)>>);

impl Patterns {
    fn get(&self, text: &[u8]) -> Result<Regex, String> {
        let mut kept = self.0.borrow_mut();
        let found = match kept.iter().position(|(known, _)| known == text) {
            Some(at) => kept.remove(at),
            None => {
                let shown = text_of(text).into_owned();
                let fault = |why: String| format!("pcre2_compile() failed: {why} in \"{shown}\"");
                let source = std::str::from_utf8(text).map_err(|error| fault(error.to_string()))?;
                let regex = RegexBuilder::new()
                    .jit_if_available(true)
                    .build(&format!("(*LIMIT_MATCH={MATCH_LIMIT}){source}"))
                    .map_err(|error| fault(error.to_string()))?;
                if kept.len() == KEPT_PATTERNS {
                    kept.remove(0);
                }
                (text.to_vec(), regex)
            }
        };
        let regex = found.1.clone();
        kept.push(found);
        Ok(regex)
    }
}

/// Replaces the variables in a text by their values.
///
/// # Errors
/// The message for the log.
pub fn evaluate(text: &[u8], lookup: &impl Lookup) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let invalid = || format!("invalid variable name in \"{}\"", text_of(text));
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'\\' if matches!(text.get(at), Some(b'\\' | b'"' | b'\'' | b'$')) => {
                out.push(text[at]);
                at += 1;
            }
            b'$' => {
                let braced = text.get(at) == Some(&b'{');
                at += usize::from(braced);
                let rest = &text[at..];
                let end = match rest.first() {
                    Some(b'0'..=b'9') if !braced => 1,
                    _ => rest
                        .iter()
                        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
                        .unwrap_or(rest.len()),
                };
                if end == 0 {
                    return Err(invalid());
                }
                let name = &rest[..end];
                at += end;
                if braced {
                    if text.get(at) != Some(&b'}') {
                        let name = text_of(name);
                        return Err(format!("the closing bracket in \"{name}\" variable is missing"));
                    }
                    at += 1;
                }
                lookup.value(&name.to_ascii_lowercase(), &mut out);
                if out.len() > MAX_EVALUATED {
                    return Err(format!("too long value of {} bytes", out.len()));
                }
            }
            byte => out.push(*byte),
        }
    }
    Ok(out)
}

/// Whether the condition of `if` or `elif` holds.
///
/// # Errors
/// The message for the log.
pub fn holds(text: &[u8], lookup: &mut impl Lookup, patterns: &Patterns) -> Result<bool, String> {
    let invalid = || format!("invalid expression in \"{}\"", text_of(text));
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'{' | b'}' | b'"' | b'\'');
    let spaces = |text: &[u8]| text.iter().take_while(|byte| **byte == b' ').count();
    let end = text.iter().position(|byte| !word(byte)).unwrap_or(text.len());
    let left = evaluate(&text[..end], lookup)?;
    let rest = &text[end..];
    let rest = &rest[spaces(rest)..];
    let (equal, right) = match rest {
        [] => return Ok(!left.is_empty()),
        [b'=', right @ ..] => (true, right),
        [b'!', b'=', right @ ..] => (false, right),
        _ => return Err(invalid()),
    };
    let right = &right[spaces(right)..];
    let (is_pattern, right) = match right {
        [b'/', pattern @ .., b'/'] => (true, pattern),
        [b'/', _, ..] => return Err(invalid()),
        right => (false, right),
    };
    let right = evaluate(right, lookup)?;
    if !is_pattern {
        return Ok((left == right) == equal);
    }
    let regex = patterns.get(&right)?;
    let found = regex.captures(&left).map_err(|error| format!("pcre2_match() failed: {error}"))?;
    if let Some(found) = &found {
        let group = |at: usize| found.get(at).map(|group| group.as_bytes().to_vec()).unwrap_or_default();
        let numbered = (0..found.len()).map(group).collect();
        let names = regex.capture_names().iter().enumerate();
        let named = names.filter_map(|(at, name)| Some((name.as_ref()?.clone().into_bytes(), group(at)))).collect();
        lookup.captured(Captures { numbered, named });
    }
    Ok(found.is_some() == equal)
}
