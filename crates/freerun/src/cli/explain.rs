//! The options of `freerun explain`.

use std::ffi::OsString;
use std::net::IpAddr;

use freerun_conf::text_of_os;

use super::options::Options;
use super::usage_error::UsageError;

/// The subject of `freerun explain`.
#[derive(Debug, PartialEq, Eq)]
pub enum Explain {
    /// The entry of a directive, a variable, a rule of the lint, or a word.
    Word(String),
    /// The way of a request through a configuration.
    Request(ExplainRequest),
}

/// The request whose way is explained, and the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ExplainRequest {
    /// `-c`, `-p` and `-g`.
    pub options: Options,
    /// `--request`: method and URL, or the protocol and the address of a session.
    pub request: String,
    /// `-H`: fields of the request.
    pub fields: Vec<String>,
    /// `--from`: the address of the client.
    pub from: Option<IpAddr>,
    /// `--to`: the address that the client connects to.
    pub to: Option<String>,
    /// `--json`: the explanation is printed as JSON.
    pub json: bool,
}

/// The words for what `explain` takes.
const CHOICE: &str = "write one DIRECTIVE, '$variable' or WORD, or --request 'GET URL'";

/// Reads the arguments after `explain`. `None`: they ask for the help.
///
/// # Errors
/// One of them is unknown, lacks its value, or does not go with another one.
pub fn parse(args: &[OsString]) -> Result<Option<Explain>, UsageError> {
    use lexopt::Arg::{Long, Short, Value};
    let wrong = |error: lexopt::Error| UsageError::Own("explain", error.to_string());
    let own = |told: String| UsageError::Own("explain", told);
    let (mut word, mut request) = (None, None);
    let mut asked = ExplainRequest::default();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(wrong)? {
        let slot = match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("json") => {
                asked.json = true;
                continue;
            }
            Value(name) if word.is_none() => {
                word = Some(text_of_os(&name).into_owned());
                continue;
            }
            Short('H') | Long("header") => {
                asked.fields.push(text_of_os(&parser.value().map_err(wrong)?).into_owned());
                continue;
            }
            Long("from") => {
                let text = text_of_os(&parser.value().map_err(wrong)?).into_owned();
                let address = text.parse().map_err(|_| own(format!("\"--from {text}\" is no IP address")))?;
                asked.from = Some(address);
                continue;
            }
            Long("request") => &mut request,
            Long("to") => &mut asked.to,
            Short('c') => &mut asked.options.conf,
            Short('p') => &mut asked.options.prefix,
            Short('g') => &mut asked.options.globals,
            Value(_) => return Err(own(CHOICE.to_owned())),
            other => return Err(wrong(other.unexpected())),
        };
        *slot = Some(text_of_os(&parser.value().map_err(wrong)?).into_owned());
    }
    match (word, request) {
        (None, Some(request)) => Ok(Some(Explain::Request(ExplainRequest { request, ..asked }))),
        (Some(word), None) if asked == ExplainRequest::default() => Ok(Some(Explain::Word(word))),
        (Some(_), None) => Err(own("these options go with --request".to_owned())),
        _ => Err(own(CHOICE.to_owned())),
    }
}
