//! `dav_methods`: changes to files over HTTP (PUT, DELETE, MKCOL, COPY, MOVE of RFC 4918).

mod work;

use std::ffi::CString;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, group, keyword_enum, settings, text_of};
use freerun_http::body;
use freerun_http::body::collect::CollectedBody;
use freerun_http::connection::client_gone::ClientGone;
use freerun_http::content::aio;
use freerun_http::content::{open, path};
use freerun_http::files::{hot, open_files};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, LocalBoxFuture, Response};
use freerun_http::values::access::Access;
use freerun_proto::uri::{EscapeSet, escape, unescape};
use freerun_proto::{BodyFraming, HeaderId, Method, Status, date};
use freerun_runtime::files::Via;
use freerun_runtime::files::change::Contents;
use freerun_runtime::pool::PoolError;
use freerun_serve::configuration::parts::WrittenPlaces;

use work::{Failure, Moves, Target, TreeChange};

keyword_enum! {
    /// A word of `dav_methods`.
    enum Word {
        Off = "off",
        Put = "put",
        Delete = "delete",
        MkCol = "mkcol",
        Copy = "copy",
        Move = "move",
    }
}

settings! {
    /// Changes to files over HTTP.
    ///
    /// A file is replaced in one step, by renaming: no reader sees a partial file, and a failed change leaves nothing
    /// behind.
    #[module = "dav"]
    pub struct DavSettings {
        /// The methods that are allowed: PUT, DELETE, MKCOL, COPY, MOVE. The methods of several directives at one level
        /// add up.
        ///
        /// As in nginx 1.31, COPY and MOVE are refused (403) if the destination is the source, is inside it, or
        /// contains it. A host in `Destination` must be the host of the request.
        dav_methods: Methods = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("the host in `Destination` may be in another case, and a `%` there that begins no escape stands for itself; COPY of a folder copies the symbolic links in it as links, not what they lead to; COPY onto a symbolic link replaces the link, not the file that it leads to");
        /// Whether PUT makes missing folders.
        ///
        /// As in nginx, MOVE of a file always does.
        create_full_put_path: bool = "off", in HTTP | SERVER | LOCATION;
        /// The rights of new files and folders.
        dav_access: Access = "user:rw", in HTTP | SERVER | LOCATION;
        /// The least number of names in the path of a DELETE.
        min_delete_depth: u32 = "0", in HTTP | SERVER | LOCATION;
    }
}

/// The words of the `dav_methods` directives of a level, a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Methods(u8);

impl Methods {
    const ALL: [(Method, Word); 5] = [
        (Method::Put, Word::Put),
        (Method::Delete, Word::Delete),
        (Method::Mkcol, Word::MkCol),
        (Method::Copy, Word::Copy),
        (Method::Move, Word::Move),
    ];

    /// Whether no method is allowed.
    fn is_empty(self) -> bool {
        self.0 & !(1 << Word::Off as u8) == 0
    }

    fn has(self, method: Method) -> bool {
        Methods::ALL.iter().any(|(known, word)| *known == method && self.0 & 1 << *word as u8 != 0)
    }
}

impl Setting for Methods {
    const SHAPE: Shape = Shape::at_least(1, "off | method …");

    fn set(previous: Option<Methods>, directive: &Node, cx: &mut Cx) -> Result<Methods, Problem> {
        let mut methods = previous.unwrap_or_default();
        for word in &directive.args {
            let Some(known) = Word::from_word(&word.text) else {
                return Err(Problem::new(format!("invalid value \"{}\"", word.text)).at(word.place));
            };
            if methods.0 & 1 << known as u8 != 0 {
                let message = format!("duplicate value \"{}\"", word.text);
                cx.warn(Problem::warning(message).at_node(directive).at(word.place));
            }
            methods.0 |= 1 << known as u8;
        }
        if !methods.is_empty() {
            cx.extensions.get_or_default::<WrittenPlaces>().add_anywhere(&directive.name.text);
        }
        Ok(methods)
    }
}

/// Whether files may be changed by this method where these settings are.
pub(in crate::content) fn allows(settings: &SettingsSet, method: Method) -> bool {
    settings.get::<DavSettings>().dav_methods.has(method)
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<DavSettings>().dav_methods.is_empty()
}

/// Checks the settings: PUT needs the folder for bodies.
fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    if settings.get::<DavSettings>().dav_methods.has(Method::Put) {
        settings.get::<CoreSettings>().client_body_temp_path.note(true, cx);
    }
    Ok(())
}

/// The module `dav`.
pub static MODULE: Module = Module {
    name: "dav",
    groups: &[group::<DavSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Later(answer) }],
    settle: Some(settle),
    ..Module::EMPTY
};

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    let settings = request.settings().get::<DavSettings>().clone();
    let method = request.asked.method;
    if !settings.dav_methods.has(method) {
        return Box::pin(std::future::ready(Outcome::Declined));
    }
    Box::pin(async move {
        let outcome = match method {
            Method::Put => put(request, settings).await,
            Method::Delete => delete(request, settings).await,
            Method::Mkcol => make_folder(request, settings).await,
            Method::Move => {
                let folders = settings.dav_access.of_folders();
                copy_or_move(request, Some(Moves { folders })).await
            }
            _ => copy_or_move(request, None).await,
        };
        match outcome {
            Ok(outcome) => outcome,
            Err(status) => Outcome::Status(status),
        }
    })
}

/// Refuses a body for methods other than PUT.
fn refuse_body(request: &Request) -> Result<(), Status> {
    let has_body = request.body.declared_length().is_some_and(|length| length > 0)
        || matches!(request.head.body(), BodyFraming::Chunked);
    if has_body {
        log_error!(request, Error, "{} with body is unsupported", request.asked.method.as_str().unwrap_or_default());
        return Err(Status::UNSUPPORTED_MEDIA_TYPE);
    }
    Ok(())
}

fn c_path(name: Vec<u8>) -> Result<CString, Status> {
    CString::new(name).map_err(|_| Status::BAD_REQUEST)
}

fn is_folder(path: &[u8]) -> bool {
    path.ends_with(b"/")
}

/// Runs `work` on a pool thread, and converts an error into a status.
async fn work(request: &Request, work: TreeChange) -> Result<bool, Status> {
    let aio = aio::resolve(request).ok_or(Status::INTERNAL_SERVER_ERROR)?;
    let gone = ClientGone::of(&request.client);
    // Once begun it is finished, whether or not the client waits; while it is queued it can be cancelled.
    let via = Via { aio: &aio, client: request.client_key(), gone: Some(&gone) };
    let files = &request.generation.files;
    let tag = files.tag_of(work.path(), request.client_key());
    let checks = work.checks(|path| open::link_check(request, path));
    let paths = work.paths();
    let run = move || {
        let done = match checks {
            None => work.run(),
            Some((target, source)) => work.run_checked(target, source),
        };
        open_files::changed(paths.iter().map(|path| path.to_bytes()));
        done
    };
    let done = files.offload(via, tag, run).await;
    hot::files_changed();
    match done {
        Ok(Ok(existed)) => Ok(existed),
        Ok(Err(Failure { status, error, path })) => {
            if let Some(error) = error {
                let text = error.describe(path.to_bytes());
                match status {
                    Status::NOT_FOUND if !request.settings().get::<CoreSettings>().log_not_found => {}
                    status if (403..=412).contains(&status.code()) => log_error!(request, Error, "{text}"),
                    _ => log_error!(request, Crit, "{text}"),
                }
            }
            Err(status)
        }
        Err(error) => {
            let gone = matches!(error, freerun_runtime::files::FileError::Pool(PoolError::ClientGone));
            log_error!(request, Error, "{error} while changing files");
            Err(if gone { Status::CLIENT_CLOSED_REQUEST } else { Status::SERVICE_UNAVAILABLE })
        }
    }
}

/// The answer: 201 with `Location`, 201 alone, or 204.
fn done(request: &Request, status: Status, tells_where: bool) -> Outcome {
    let mut response = Response::new(status, Bytes::new(), Body::Empty);
    if tells_where {
        response.location = Some(escape(EscapeSet::Uri, &request.asked.path).into_owned().into());
    }
    response.into()
}

async fn put(request: &mut Request, settings: DavSettings) -> Result<Outcome, Status> {
    if is_folder(&request.asked.path) {
        log_error!(request, Error, "cannot PUT to a collection");
        return Err(Status::CONFLICT);
    }
    if request.head.value(HeaderId::ContentRange).is_some() {
        log_error!(request, Error, "PUT with range is unsupported");
        return Err(Status::NOT_IMPLEMENTED);
    }
    if matches!(request.head.body(), BodyFraming::None) {
        log_error!(request, Error, "PUT request body is unavailable");
        return Err(Status::INTERNAL_SERVER_ERROR);
    }
    let body = match body::collect_upload(request).await {
        Ok(body) => body,
        Err(error) => return Err(error.status()),
    };
    let contents = match &*body {
        CollectedBody::Memory(bytes) => Contents::Bytes(bytes.clone()),
        CollectedBody::File(file) => Contents::File(file.file().clone(), file.len()),
    };
    let target = c_path(path::file_name(request))?;
    let mtime = request.head.value(HeaderId::Date).and_then(date::parse_http_date);
    let new = freerun_runtime::files::change::NewFile {
        mode: settings.dav_access.of_files(),
        mtime,
        folders: settings.create_full_put_path.then(|| settings.dav_access.of_folders()),
    };
    let existed = work(request, TreeChange::Put { contents, target, new }).await?;
    if let CollectedBody::File(file) = &*body {
        // As in nginx, if the file was renamed.
        file.discard();
    }
    Ok(if existed { done(request, Status::NO_CONTENT, false) } else { done(request, Status::CREATED, true) })
}

/// Makes an empty file where there is none, for a lock.
///
/// # Errors
/// The status of the answer; why is logged.
pub(in crate::content) async fn make_empty_file(request: &Request) -> Result<(), Status> {
    let settings = request.settings().get::<DavSettings>();
    let mode = settings.dav_access.of_files();
    let new = freerun_runtime::files::change::NewFile { mode, mtime: None, folders: None };
    let target = c_path(path::file_name(request))?;
    work(request, TreeChange::Put { contents: Contents::Bytes(Bytes::new()), target, new }).await.map(drop)
}

/// The value of `Depth`: a missing field counts as `infinity`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Zero,
    Infinity,
}

fn depth(request: &Request) -> Result<Depth, Status> {
    match request.head.value(HeaderId::Depth) {
        None | Some(b"infinity") => Ok(Depth::Infinity),
        Some(b"0") => Ok(Depth::Zero),
        Some(other) => {
            log_error!(request, Error, "client sent invalid \"Depth\" header: \"{}\"", text_of(other));
            Err(Status::BAD_REQUEST)
        }
    }
}

async fn delete(request: &mut Request, settings: DavSettings) -> Result<Outcome, Status> {
    refuse_body(request)?;
    let names = request.asked.path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).count();
    if names < settings.min_delete_depth as usize {
        log_error!(request, Error, "insufficient URI depth:{names} to DELETE");
        return Err(Status::CONFLICT);
    }
    let depth = depth(request);
    let target = Target { path: c_path(path::file_name(request))?, is_folder: is_folder(&request.asked.path) };
    let whole = depth == Ok(Depth::Infinity);
    work(request, TreeChange::Delete { target, allowed: depth.is_ok(), whole }).await?;
    Ok(done(request, Status::NO_CONTENT, false))
}

async fn make_folder(request: &mut Request, settings: DavSettings) -> Result<Outcome, Status> {
    refuse_body(request)?;
    if !is_folder(&request.asked.path) {
        log_error!(request, Error, "MKCOL can create a collection only");
        return Err(Status::CONFLICT);
    }
    let path = c_path(path::file_name(request))?;
    work(request, TreeChange::MakeFolder { path, mode: settings.dav_access.of_folders() }).await?;
    Ok(done(request, Status::CREATED, true))
}

async fn copy_or_move(request: &mut Request, moves: Option<Moves>) -> Result<Outcome, Status> {
    refuse_body(request)?;
    let destination = destination(request)?;
    if is_folder(&request.asked.path) != is_folder(&destination) {
        log_error!(request, Error, "both URI and \"Destination\" header must be either collections or non-collections");
        return Err(Status::CONFLICT);
    }
    if depth(request)? == Depth::Zero && moves.is_some() {
        log_error!(request, Error, "\"Depth: 0\" is invalid for MOVE");
        return Err(Status::BAD_REQUEST);
    }
    let overwrite = match request.head.value(HeaderId::Overwrite) {
        None | Some(b"T" | b"t") => true,
        Some(b"F" | b"f") => false,
        Some(other) => {
            let other = text_of(other);
            log_error!(request, Error, "client sent invalid \"Overwrite\" header: \"{other}\"");
            return Err(Status::BAD_REQUEST);
        }
    };
    let is_folder = is_folder(&destination);
    let from = Target { path: c_path(path::file_name(request))?, is_folder };
    let to = Target { path: c_path(path::file_name_of(request, &destination))?, is_folder };
    let folder = work(request, TreeChange::Transfer { from, to, moves, overwrite }).await?;
    Ok(done(request, if folder { Status::CREATED } else { Status::NO_CONTENT }, false))
}

/// The path that `Destination` names: on this host, and in this location if its path is replaced by an alias. It has no
/// fragment (RFC 4918 section 10.3): a `#` that a client has not escaped belongs to the name.
///
/// # Errors
/// The status: it is missing or invalid.
pub(in crate::content) fn destination(request: &Request) -> Result<Vec<u8>, Status> {
    let Some(field) = request.head.value(HeaderId::Destination) else {
        log_error!(request, Error, "client sent no \"Destination\" header");
        return Err(Status::BAD_REQUEST);
    };
    let invalid = || {
        let field = text_of(field);
        log_error!(request, Error, "client sent invalid \"Destination\" header: \"{field}\"");
        Status::BAD_REQUEST
    };
    let path = match field.first() {
        Some(b'/') => field,
        _ => {
            // Over TLS it is https.
            let rest = field.strip_prefix(request.client.scheme().as_bytes()).ok_or_else(invalid)?;
            let rest = rest.strip_prefix(b"://").ok_or_else(invalid)?;
            let slash = rest.iter().position(|byte| *byte == b'/').ok_or_else(invalid)?;
            let (authority, path) = rest.split_at(slash);
            let host = match authority.iter().rposition(|byte| *byte == b':') {
                Some(colon) if authority[colon + 1..].iter().all(u8::is_ascii_digit) => &authority[..colon],
                _ => authority,
            };
            let asked = request.asked.host.as_deref().unwrap_or_default();
            if !asked.as_bytes().eq_ignore_ascii_case(host) {
                return Err(invalid());
            }
            path
        }
    };
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let path = unescape(path).into_owned();
    if path.contains(&0) || path.split(|byte| *byte == b'/').any(|name| name == b"..") {
        return Err(invalid());
    }
    if let Some(alias) = &request.place.location.alias
        && let Some(prefix) = &alias.prefix
        && !path.starts_with(prefix)
    {
        return Err(invalid());
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
