//! An explanation as data, as text, and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

/// A step of the way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExplainedStep {
    /// The kind: `location`, `rewrite`, `access`.
    pub kind: String,
    /// The directive, or what else the step is about.
    pub text: String,
    /// `file:line` of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The result.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// Further lines: what was tried, what is sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// The way of a request or of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The request: method, URL, client.
    pub request: String,
    /// The steps, in the order in which they are taken.
    pub steps: Vec<ExplainedStep>,
    /// The status of the answer. None if the connection is closed, or if another server answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Whether another server answers.
    pub is_passed_on: bool,
    /// The first name of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The location that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The URI of the request in the end, after rewrites and internal redirects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// The file that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The upstream group or address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The request line and the fields, or the parameters, for the upstream server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<String>,
    /// The key in the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// The fields of the answer, except those that every answer has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Lines that the error log gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub error_log: Vec<String>,
    /// The assumptions about what depends on the time when the server runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
}

/// The width of the column with the kinds.
const KIND: usize = 14;

impl Explanation {
    /// The explanation as text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.request);
        for ExplainedStep { kind, text: about, place, result, details } in &self.steps {
            let place = place.as_ref().map(|place| format!("  ({place})")).unwrap_or_default();
            // The column has the name already.
            let about = about.strip_prefix(kind.as_str()).map_or(about.as_str(), str::trim_start);
            let result = if result.is_empty() { String::new() } else { format!(": {result}") };
            let _ = writeln!(text, "{kind:KIND$}{about}{place}{result}");
            for detail in details {
                let _ = writeln!(text, "{:KIND$}  {detail}", "");
            }
        }
        for (title, lines) in [("error log", &self.error_log), ("assumed", &self.assumptions)] {
            for line in lines {
                let _ = writeln!(text, "{title:KIND$}{line}");
            }
        }
        text
    }

    /// The explanation as JSON.
    pub fn json(&self) -> String {
        // Texts and numbers always have a form in JSON.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
