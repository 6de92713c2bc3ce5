//! Cipher strings: the suites of TLS 1.2 that `ssl_ciphers` allows, and their order.
//!
//! The string is evaluated as OpenSSL 3 does (`man ciphers`), over the suites that OpenSSL has. The suites that freerun
//! has are picked only after that: a string which removes, adds and sorts has to be followed whole, or the order comes
//! out wrong. Suites of TLS 1.3 are no matter of cipher strings; they are in [`ciphersuites`](super::ciphersuites).

mod settle;
mod suites;
mod words;

pub use settle::{AllowedSuites, settle};
pub use suites::{Authentication, Encryption, KeyExchange, Mac, SUITES, Since, Suite};

use super::ValueError;
use words::Selector;

/// Meaning of a cipher string: the suites it leaves, the most preferred first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CipherList {
    /// The suites.
    pub suites: Vec<&'static Suite>,
    /// The level that `@SECLEVEL=n` demands, from 0 to 5; the last one counts. It takes nothing from the list by
    /// itself: OpenSSL looks at it in each handshake.
    pub security_level: Option<u8>,
}

/// Reason for which OpenSSL refuses a cipher string. The text is OpenSSL's, as nginx logs it in `(SSL: …)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CipherStringError {
    /// No suite is left.
    #[error("error:0A0000B9:SSL routines::no cipher match")]
    NoMatch,
    /// The number of places that are not written as cipher strings are: a character that does not belong there, or an
    /// unknown word after `@`.
    #[error("error:0A000118:SSL routines::invalid command{}", " error:0A000118:SSL routines::invalid command".repeat(.0 - 1))]
    InvalidCommand(usize),
}

/// The string that `DEFAULT` at the beginning stands for.
const DEFAULT: &str = "ALL:!COMPLEMENTOFDEFAULT:!eNULL";

/// The words of RFC 6460, which replace the whole string that begins with one of them.
const SUITE_B: &[(&str, &str)] = &[
    ("SUITEB128ONLY", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("SUITEB128C2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("SUITEB128", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("SUITEB192", "ECDHE-ECDSA-AES256-GCM-SHA384"),
];

/// Evaluates a cipher string. Words that nobody knows are ignored, as OpenSSL does.
pub fn evaluate(text: &str) -> Result<CipherList, CipherStringError> {
    let text = SUITE_B.iter().find(|(word, _)| text.starts_with(word)).map_or(text, |(_, list)| list);
    let mut evaluation = Evaluation::new();
    match text.strip_prefix("DEFAULT") {
        Some(rest) => {
            evaluation.read(DEFAULT);
            evaluation.read(rest);
        }
        None => evaluation.read(text),
    }
    evaluation.finish()
}

/// Reads the argument of `ssl_ciphers`: [`evaluate`], with nginx's line for what is refused.
pub fn ssl_ciphers(text: &str) -> Result<CipherList, ValueError> {
    evaluate(text).map_err(|error| ValueError::call("SSL_CTX_set_cipher_list", &[text], &error.to_string()))
}

/// Operation on the suites that are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// Add those that are not in the list, at its end.
    Add,
    /// `-`: take them out; they may come back, and then before others.
    Delete,
    /// `!`: take them out for good.
    Kill,
    /// `+`: move those that are in the list to its end.
    MoveToEnd,
    /// `@`: a command.
    Command,
}

/// A suite, and whether it is in the list.
struct CipherEntry {
    suite: &'static Suite,
    listed: bool,
}

/// The state between the words of a string. Suites that are not listed keep their place among the others: in it they are
/// added later.
struct Evaluation {
    entries: Vec<CipherEntry>,
    security_level: Option<u8>,
    invalid: usize,
}

impl Evaluation {
    fn new() -> Evaluation {
        let entries = SUITES.iter().map(|suite| CipherEntry { suite, listed: false }).collect();
        Evaluation { entries, security_level: None, invalid: 0 }
    }

    fn read(&mut self, text: &str) {
        let mut rest = text;
        while let Some(&first) = rest.as_bytes().first() {
            if is_separator(first) {
                rest = &rest[1..];
                continue;
            }
            let verb = match first {
                b'-' => Verb::Delete,
                b'!' => Verb::Kill,
                b'+' => Verb::MoveToEnd,
                b'@' => Verb::Command,
                _ => Verb::Add,
            };
            rest = if verb == Verb::Add { rest } else { &rest[1..] };
            rest = if verb == Verb::Command { self.command(rest) } else { self.rule(verb, rest) };
        }
    }

    /// Reads words with `+` between them, and does with the suites what the verb says. Returns what follows.
    fn rule<'t>(&mut self, verb: Verb, mut rest: &'t str) -> &'t str {
        let mut selector: Option<Selector> = None;
        loop {
            let (word, after) = word(rest);
            if word.is_empty() {
                self.invalid += 1;
                return to_separator(skip_one(after));
            }
            let next = after.strip_prefix('+');
            rest = next.unwrap_or(after);
            let narrowed = match (selector, Selector::of(word)) {
                (Some(before), Some(own)) => before.and(own),
                (None, own) => own,
                (Some(_), None) => None,
            };
            let Some(narrowed) = narrowed else { return to_separator(rest) };
            selector = Some(narrowed);
            if next.is_none() {
                self.apply(verb, &narrowed);
                return rest;
            }
        }
    }

    /// Reads what follows after `@`. Returns what follows after that.
    fn command<'t>(&mut self, rest: &'t str) -> &'t str {
        let (word, mut after) = word(rest);
        if word.is_empty() {
            self.invalid += 1;
            after = skip_one(after);
        }
        let level = word.strip_prefix("SECLEVEL=").and_then(|level| match level.as_bytes() {
            &[digit @ b'0'..=b'5'] => Some(digit - b'0'),
            _ => None,
        });
        match (word, level) {
            ("STRENGTH", _) => self.sort_by_strength(),
            (_, Some(level)) => self.security_level = Some(level),
            _ => self.invalid += 1,
        }
        to_separator(after)
    }

    fn apply(&mut self, verb: Verb, selector: &Selector) {
        // A stable sort by a yes or no moves what is meant to one end, and keeps the order of both parts.
        match verb {
            Verb::Add => {
                let added = |entry: &CipherEntry| !entry.listed && selector.selects(entry.suite);
                self.entries.sort_by_key(added);
                self.entries.iter_mut().rev().take_while(|entry| added(entry)).for_each(|entry| entry.listed = true);
            }
            Verb::Delete => {
                let deleted = |entry: &CipherEntry| entry.listed && selector.selects(entry.suite);
                self.entries.sort_by_key(|entry| !deleted(entry));
                self.entries.iter_mut().take_while(|entry| deleted(entry)).for_each(|entry| entry.listed = false);
            }
            Verb::Kill => self.entries.retain(|entry| !selector.selects(entry.suite)),
            Verb::MoveToEnd => self.entries.sort_by_key(|entry| entry.listed && selector.selects(entry.suite)),
            Verb::Command => {}
        }
    }

    fn sort_by_strength(&mut self) {
        let rank = |entry: &CipherEntry| entry.listed.then(|| std::cmp::Reverse(entry.suite.strength_bits()));
        self.entries.sort_by_key(rank);
    }

    fn finish(self) -> Result<CipherList, CipherStringError> {
        if self.invalid > 0 {
            return Err(CipherStringError::InvalidCommand(self.invalid));
        }
        let suites: Vec<_> = self.entries.iter().filter(|entry| entry.listed).map(|entry| entry.suite).collect();
        if suites.is_empty() {
            return Err(CipherStringError::NoMatch);
        }
        Ok(CipherList { suites, security_level: self.security_level })
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b':' | b' ' | b';' | b',')
}

/// The word that a text begins with, perhaps an empty one, and what follows.
fn word(text: &str) -> (&str, &str) {
    let of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'=');
    text.split_at(text.bytes().position(|byte| !of_word(&byte)).unwrap_or(text.len()))
}

/// The text behind its first character.
fn skip_one(text: &str) -> &str {
    let mut characters = text.chars();
    characters.next();
    characters.as_str()
}

/// The text from its first separator on.
fn to_separator(text: &str) -> &str {
    &text[text.bytes().position(is_separator).unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests;
