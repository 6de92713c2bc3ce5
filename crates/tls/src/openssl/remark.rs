//! Remarks for the administrator about a value that is accepted.

/// Severity of a remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemarkLevel {
    /// Nothing is lost that matters.
    Notice,
    /// Something that was asked for does not happen.
    Warn,
}

/// A line for the error log, said when the configuration is loaded. It does not name the directive's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The severity.
    pub level: RemarkLevel,
    /// The line.
    pub text: String,
}

impl Remark {
    pub(super) fn notice(text: String) -> Remark {
        Remark { level: RemarkLevel::Notice, text }
    }

    pub(super) fn warn(text: String) -> Remark {
        Remark { level: RemarkLevel::Warn, text }
    }
}

/// The line for an administrator whose value is refused: what nginx logs when a function of OpenSSL fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

impl ValueError {
    /// Refusal in the words of the function `call` with its `arguments`, as nginx shows them; `cause` is OpenSSL's
    /// reason, and may be empty.
    pub(super) fn call(call: &str, arguments: &[&str], cause: &str) -> ValueError {
        let shown = arguments.iter().map(|argument| format!("\"{argument}\"")).collect::<Vec<_>>().join(", ");
        let cause = if cause.is_empty() { String::new() } else { format!(" (SSL: {cause})") };
        ValueError(format!("{call}({shown}) failed{cause}"))
    }

    pub(super) fn ours(text: String) -> ValueError {
        ValueError(text)
    }
}
