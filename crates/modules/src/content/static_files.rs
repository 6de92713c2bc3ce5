//! Serves files: the handler that answers when no other handler did.

use std::rc::Rc;

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::body;
use freerun_http::content::aio;
use freerun_http::content::open;
use freerun_http::content::open_error::OpenError;
use freerun_http::content::path;
use freerun_http::files::hot::{Content, HotFile};
use freerun_http::files::known_files::DescribedFile;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, FileRange, LocalBoxFuture, Response};
use freerun_proto::uri::{EscapeSet, escape};
use freerun_proto::{Method, Status};

pub use freerun_http::content::media_type as content_type;

/// The module `static`.
pub static MODULE: Module = Module {
    name: "static",
    handlers: &[Handler { phase: Phase::Content, wanted: |_| true, run: Run::NowOrLater(answer_hot, answer) }],
    ..Module::EMPTY
};

/// The decisions that need no look at a file.
fn refuse(request: &Request) -> Option<Outcome> {
    if !matches!(request.asked.method, Method::Get | Method::Head | Method::Post) {
        return Some(Outcome::Status(Status::METHOD_NOT_ALLOWED));
    }
    (request.asked.path.last() == Some(&b'/')).then_some(Outcome::Declined)
}

/// Answers from the hot files, without a future.
fn answer_hot(request: &mut Request) -> Option<Outcome> {
    if let Some(outcome) = refuse(request) {
        return Some(outcome);
    }
    if let Some(known) = open::known_file(request) {
        return Some(respond_as(request, &known.file, known.media_type.clone(), Some(known.described.clone())));
    }
    let name = path::file_name(request);
    let file = open::hot(request, &name)?;
    open::learn(request, &name);
    Some(respond(request, &file))
}

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        let name = path::file_name(request);
        match open::open(request, &name).await {
            Ok(file) if file.meta.is_dir() => add_slash(request),
            Ok(file) if file.meta.is_file() => respond(request, &file),
            Ok(_) => {
                let name = text_of(&name);
                log_error!(request, Crit, "\"{name}\" is not a regular file");
                Outcome::Status(Status::NOT_FOUND)
            }
            Err(error) => Outcome::Status(log_open_error(request, &name, &error)),
        }
    })
}

/// Logs why a file could not be opened, as nginx does, and gives the status of the answer.
pub fn log_open_error(request: &Request, name: &[u8], error: &OpenError) -> Status {
    let status = error.status();
    if let OpenError::File(error) = error {
        let text = error.describe(name);
        match status {
            Status::NOT_FOUND if !request.settings().get::<CoreSettings>().log_not_found => {}
            Status::NOT_FOUND | Status::FORBIDDEN => log_error!(request, Error, "{text}"),
            Status::SERVICE_UNAVAILABLE => log_error!(request, Error, "{text}"),
            Status::CLIENT_CLOSED_REQUEST => log_error!(request, Info, "{text}"),
            _ => log_error!(request, Crit, "{text}"),
        }
    }
    status
}

/// The redirect from the name of a folder without a slash to the one with it.
fn add_slash(request: &Request) -> Outcome {
    let mut location = escape(EscapeSet::Uri, &request.asked.path).into_owned();
    location.push(b'/');
    if let Some(args) = request.asked.args.as_ref().filter(|args| !args.is_empty()) {
        location.push(b'?');
        location.extend_from_slice(args);
    }
    Outcome::ClientRedirect(Status::MOVED_PERMANENTLY, location.into())
}

/// The response with this file.
pub fn respond(request: &mut Request, file: &Rc<HotFile>) -> Outcome {
    let media_type = content_type(request, &request.asked.path);
    respond_as(request, file, media_type, None)
}

fn respond_as(
    request: &mut Request,
    file: &Rc<HotFile>,
    media_type: Bytes,
    described: Option<Rc<DescribedFile>>,
) -> Outcome {
    if request.asked.method == Method::Post {
        return Outcome::Status(Status::METHOD_NOT_ALLOWED);
    }
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let core = request.core();
    let meta = file.meta;
    let content = match &file.content {
        Content::Bytes(content) if content.is_empty() => Body::Empty,
        Content::Bytes(content) => Body::Bytes(content.clone()),
        // A missing pool has to be detected before the head is sent, also for a file that is open already.
        Content::Open(_) if aio::resolve(request).is_none() => return Outcome::Status(Status::INTERNAL_SERVER_ERROR),
        Content::Open(file) => Body::File(FileRange { file: file.clone(), offset: 0, len: meta.size }),
    };
    let mut response = Response::typed_by_uri(Status::OK, media_type, content);
    response.last_modified = Some(meta.mtime);
    response.etag = core.etag.then(|| file.etag.clone());
    response.ranges = true;
    response.described = described;
    response.into()
}
