//! `try_files`: serves the first of several files that exists, or else a fallback.

use std::borrow::Cow;
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word, group, settings, text_of};
use freerun_http::content::open;
use freerun_http::content::path;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::LocalBoxFuture;
use freerun_http::template::Template;
use freerun_proto::Status;

settings! {
    /// The first existing one of several files.
    #[module = "try_files"]
    pub struct TryFilesSettings {
        /// Serves the first file (or, with a slash at the end, folder) that exists; otherwise goes on with the last
        /// argument: a URI, a named location, or `=status`.
        try_files: Option<TryFiles>, in SERVER | LOCATION, own;
    }
}

/// The value of `try_files`.
#[derive(Debug, Clone)]
pub struct TryFiles {
    tries: Arc<[Try]>,
    last: Last,
}

#[derive(Debug, Clone)]
struct Try {
    path: Template,
    folder: bool,
}

#[derive(Debug, Clone)]
enum Last {
    Status(Status),
    Named(String),
    Uri(Template),
}

impl Value for TryFiles {
    const SHAPE: Shape = Shape::at_least(2, "file … uri | file … =code");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<TryFiles, Problem> {
        let Some((last, files)) = directive.args.split_last() else { return Err(Problem::wrong_count(directive)) };
        let mut tries = Vec::with_capacity(files.len());
        for word in files {
            let (text, folder) = match word.text.strip_suffix('/') {
                Some(text) => (text, true),
                None => (word.text.as_str(), false),
            };
            let path = Template::parse(&Word { text: text.to_owned(), ..word.clone() }, cx)?;
            tries.push(Try { path, folder });
        }
        let last = match last.text.strip_prefix('=') {
            Some(code) => match code.parse::<u16>() {
                // As in nginx, where this is a URI that no file has.
                Ok(0) => Last::Uri(Template::parse(last, cx)?),
                Ok(code @ 1..=999) => Last::Status(Status::new(code)),
                _ => return Err(Problem::new(format!("invalid code \"={code}\"")).at(last.place)),
            },
            None if last.text.starts_with('@') => Last::Named(last.text.clone()),
            None => Last::Uri(Template::parse(last, cx)?),
        };
        Ok(TryFiles { tries: tries.into(), last })
    }
}

/// The module `try_files`.
pub static MODULE: Module = Module {
    name: "try_files",
    groups: &[group::<TryFilesSettings>()],
    handlers: &[Handler {
        phase: Phase::PreContent,
        wanted: |settings| settings.get::<TryFilesSettings>().try_files.is_some(),
        run: Run::Later(run),
    }],
    ..Module::EMPTY
};

fn run(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        let Some(setting) = request.settings().get::<TryFilesSettings>().try_files.clone() else {
            return Outcome::Declined;
        };
        if path::alias_is_lost(request) {
            return Outcome::Status(Status::INTERNAL_SERVER_ERROR);
        }
        for candidate in &*setting.tries {
            let value = candidate.path.render(request).into_owned();
            let (uri, file) = place(request, &value, candidate.path.constant().is_none());
            let there = if candidate.folder {
                open::stat(request, &file).await.is_ok_and(|meta| meta.is_dir())
            } else {
                open::stat(request, &file).await.is_ok_and(|meta| !meta.is_dir())
            };
            if there {
                // For the alias of a regular expression a folder is looked for, but not used.
                let nameless = request.place.location.alias.as_ref().is_some_and(|alias| alias.prefix.is_none());
                if !(candidate.folder && nameless) {
                    request.asked.path = uri;
                    request.place.path_behind_alias = nameless;
                }
                return Outcome::Declined;
            }
        }
        match &setting.last {
            // No answer has such a status. nginx sends none either.
            Last::Status(status) if status.code() < 200 => Outcome::Close,
            Last::Status(status) => Outcome::Status(*status),
            Last::Named(name) => Outcome::Named(name.clone()),
            Last::Uri(uri) => {
                let mut value = uri.render(request);
                if uri.constant().is_none() {
                    value = without_prefix(request, value);
                }
                let uri = value.into_owned();
                if uri.first() == Some(&b'@') {
                    return Outcome::Named(text_of(&uri).into_owned());
                }
                match uri.iter().position(|byte| *byte == b'?') {
                    Some(mark) => Outcome::Redirect(uri[..mark].to_vec(), Some(uri[mark + 1..].to_vec())),
                    // The request's own arguments are dropped: `$args` is empty, not missing.
                    None => Outcome::Redirect(uri, Some(Vec::new())),
                }
            }
        }
    })
}

/// The files that are looked for at the request's location, before the last argument: the path of each, and whether it has to
/// be a folder.
pub fn candidates(request: &Request) -> Vec<(Vec<u8>, bool)> {
    let Some(setting) = &request.settings().get::<TryFilesSettings>().try_files else { return Vec::new() };
    let file = |candidate: &Try| {
        let value = candidate.path.render(request).into_owned();
        (place(request, &value, candidate.path.constant().is_none()).1, candidate.folder)
    };
    setting.tries.iter().map(file).collect()
}

/// The URI of the last argument: in a location with `alias`, a text with variables loses the location's prefix. That is
/// nginx's rule, which configurations rely on (`try_files $uri /x/$uri` in `location /x/`). It cannot give a path above
/// the root.
fn without_prefix<'v>(request: &Request, value: Cow<'v, [u8]>) -> Cow<'v, [u8]> {
    let prefix = request.place.location.alias.as_ref().and_then(|alias| alias.prefix.as_deref());
    let rest = prefix.and_then(|prefix| value.strip_prefix(prefix));
    match rest.filter(|rest| !rest.starts_with(b"..")) {
        Some(rest) => Cow::Owned(rest.to_vec()),
        None => value,
    }
}

/// The URI and the file of a value. With `alias`, a value with variables that begins with the location's prefix keeps
/// it in the URI and loses it in the file. Other values are appended to the alias, as all values are for a regular
/// expression.
fn place(request: &Request, value: &[u8], variables: bool) -> (Vec<u8>, Vec<u8>) {
    let Some(alias) = &request.place.location.alias else {
        return (value.to_vec(), path::file_name_of(request, value));
    };
    let Some(prefix) = &alias.prefix else {
        return (value.to_vec(), [path::file_name_of(request, value), value.to_vec()].concat());
    };
    let uri = if variables && value.starts_with(prefix) { value.to_vec() } else { [prefix, value].concat() };
    let file = path::file_name_of(request, &uri);
    (uri, file)
}
