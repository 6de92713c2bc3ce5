//! `debug_sandbox` tries what a worker has no need for, for tests. Only builds with debug assertions have it.

use std::path::PathBuf;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, SettingsSet, Shape, Value, group, path_of, settings};
use freerun_http::body;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, Response};
use freerun_proto::Status;
use freerun_sys::sandbox::attempts::try_all;

settings! {
    /// Attempts that a sandbox refuses.
    #[module = "debug/sandbox"]
    pub struct DebugSandboxSettings {
        /// Answers with a line for each attempt, with its result.
        debug_sandbox: Option<AttemptFiles>, in LOCATION, local, fidelity = Own;
    }
}

/// The value of `debug_sandbox`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFiles {
    /// A file to read.
    key: PathBuf,
    /// A file to write.
    outside: PathBuf,
}

impl Value for AttemptFiles {
    const SHAPE: Shape = Shape::exactly(2, "file_to_read file_to_write");

    fn parse(directive: &Node, _: &mut Cx) -> Result<AttemptFiles, Problem> {
        let file = |index: usize| path_of(directive.args[index].as_str()).into_owned();
        Ok(AttemptFiles { key: file(0), outside: file(1) })
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "debug/sandbox",
    groups: &[group::<DebugSandboxSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Now(answer) }],
    content: &["debug_sandbox"],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<DebugSandboxSettings>().debug_sandbox.is_some()
}

fn answer(request: &mut Request) -> Outcome {
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let location = request.place.location.clone();
    let Some(files) = &location.settings.get::<DebugSandboxSettings>().debug_sandbox else { return Outcome::Declined };
    let mut text = String::new();
    for (attempt, result) in try_all(&files.key, &files.outside) {
        let result = result.map_or_else(|error| format!("failed: {error}"), |()| "done".to_owned());
        text += &format!("{attempt}: {result}\n");
    }
    Response::new(Status::OK, &b"text/plain"[..], Body::Bytes(Bytes::from(text))).into()
}
