//! Reasons for failures, as the log and the pauses need them.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use instant_acme::Error;

use crate::client::Notes;

/// The longest text of a failure, in bytes: much of it is the CA's.
const MAX_TEXT: usize = 2000;

/// Failure of a request or an order.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The text for the log: the CA's problem document, or what went wrong on the way to it.
    pub(crate) text: String,
    /// Whether the CA does not know the account, or has closed it.
    pub(crate) account_gone: bool,
    /// The time for which the CA wants to be left alone.
    pub(crate) retry_after: Option<Duration>,
    /// The time that others wait for as well, where the failure was theirs and is in the log already.
    pub(crate) waits_until: Option<SystemTime>,
}

impl Failure {
    /// A failure without the CA.
    pub(crate) fn new(text: impl Into<String>) -> Failure {
        let text = printable(&text.into());
        Failure { text, account_gone: false, retry_after: None, waits_until: None }
    }

    /// Failure from the library's error and the notes from the responses.
    pub(crate) fn of(error: &Error, notes: &Notes) -> Failure {
        let kind = match error {
            Error::Api(problem) => problem.r#type.as_deref().unwrap_or_default(),
            _ => "",
        };
        let kind = kind.rsplit(':').next().unwrap_or_default();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let further = error.to_string();
            if !text.contains(&further) {
                text.push_str(": ");
                text.push_str(&further);
            }
            source = error.source();
        }
        if kind == "userActionRequired" {
            text.push_str("; read the CA's terms of service, and accept them with \"accept_terms_of_service\"");
        }
        Failure { account_gone: kind == "accountDoesNotExist", retry_after: notes.retry_after(), ..Failure::new(text) }
    }

    /// The same of a request whose answer `unauthorized` means the account itself: where an account or an order is made.
    /// Elsewhere it is what the CA found at a name.
    pub(crate) fn of_account(error: &Error, notes: &Notes) -> Failure {
        let failure = Failure::of(error, notes);
        let refused = matches!(error, Error::Api(problem)
            if problem.r#type.as_deref().is_some_and(|kind| kind.ends_with(":unauthorized")));
        Failure { account_gone: failure.account_gone || refused, ..failure }
    }

    /// Adds to the text.
    pub(crate) fn with(mut self, more: &str) -> Failure {
        if !more.is_empty() {
            self.text = printable(&format!("{}; {more}", self.text));
        }
        self
    }
}

/// The text as it may stand in a log: one line, and not too long.
fn printable(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(json: &str) -> Failure {
        let problem: instant_acme::Problem = serde_json::from_str(json).expect("a problem document");
        Failure::of(&Error::Api(problem), &Notes::default())
    }

    #[test]
    fn problem_documents_become_one_line() {
        let failure = problem(r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too\nmany"}"#);
        assert!(failure.text.contains("too many (urn:ietf:params:acme:error:rateLimited)"), "{}", failure.text);
        assert!(!failure.account_gone);
        assert!(problem(r#"{"type":"urn:ietf:params:acme:error:accountDoesNotExist"}"#).account_gone);
        let terms = problem(r#"{"type":"urn:ietf:params:acme:error:userActionRequired"}"#);
        assert!(terms.text.contains("accept_terms_of_service"));
        assert!(Failure::new("ü".repeat(10_000)).text.len() <= MAX_TEXT + 3);
    }
}
