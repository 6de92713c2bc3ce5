//! `freerun explain`: what the reference says of a name, and what a configuration does with a request.

mod recipes;
mod request;
mod word;

use std::process::ExitCode;

use crate::cli::Explain;

pub use request::{
    AskedRequest, ExplainedSubject, Explainer, Explanation, address_of, host_and_port, names_host, parse_request,
    split_port,
};

/// Prints an explanation.
pub fn run(explain: &Explain) -> ExitCode {
    match explain {
        Explain::Word(word) => word::run(word),
        Explain::Request(asked) => request::run(asked),
    }
}
