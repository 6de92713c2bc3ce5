//! `index`: the index file of a folder.

use freerun_conf::{Cx, Node, Problem, Setting, Shape, group, settings, text_of};
use freerun_http::content::open;
use freerun_http::content::path;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::LocalBoxFuture;
use freerun_http::template::Template;
use freerun_proto::{Method, Status};

use crate::content::static_files::log_open_error;

settings! {
    /// Index files of folders.
    #[module = "index"]
    pub struct IndexSettings {
        /// The files that are tried, in order, for a URI that ends with a slash. The last one may be a URI
        /// (`/index.php`).
        index: IndexFiles = "index.html", in HTTP | SERVER | LOCATION;
    }
}

/// The file names of one level.
#[derive(Debug, Clone)]
pub struct IndexFiles(std::sync::Arc<[Template]>);

impl Setting for IndexFiles {
    const SHAPE: Shape = Shape::at_least(1, "file …");

    fn set(previous: Option<IndexFiles>, directive: &Node, cx: &mut Cx) -> Result<IndexFiles, Problem> {
        let mut files = previous.map(|files| files.0.to_vec()).unwrap_or_default();
        for word in &directive.args {
            if word.text.is_empty() {
                let first = &directive.args[0].text;
                let message = format!("index \"{first}\" in \"index\" directive is invalid");
                return Err(Problem::new(message).at(word.place));
            }
            files.push(Template::parse(word, cx)?);
        }
        Ok(IndexFiles(files.into()))
    }
}

/// The module `index`.
pub static MODULE: Module = Module {
    name: "index",
    groups: &[group::<IndexSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted: |_| true, run: Run::NowOrLater(not_a_folder_or_hot, answer) }],
    ..Module::EMPTY
};

fn concerns(request: &Request) -> bool {
    request.asked.path.last() == Some(&b'/')
        && matches!(request.asked.method, Method::Get | Method::Head | Method::Post)
}

/// Finds an index file among the hot files, without a future.
fn not_a_folder_or_hot(request: &mut Request) -> Option<Outcome> {
    if !concerns(request) {
        return Some(Outcome::Declined);
    }
    let files = request.settings().get::<IndexSettings>().index.0.clone();
    if let Some(first) = files.first() {
        let first = first.render(request).into_owned();
        if first.first() != Some(&b'/') {
            // The name follows the folder's path, which the `alias` of a regular expression gives completely.
            let full = [path::file_name(request), first.clone()].concat();
            if open::hot(request, &full).is_some() {
                let mut uri = request.asked.path.clone();
                uri.extend_from_slice(&first);
                return Some(Outcome::Redirect(uri, request.asked.args.clone()));
            }
        }
    }
    None
}

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(find(request))
}

async fn find(request: &mut Request) -> Outcome {
    let files = request.settings().get::<IndexSettings>().index.0.clone();
    let folder = path::file_name(request);
    let mut folder_is_there = false;
    for file in &*files {
        let name = file.render(request).into_owned();
        if name.first() == Some(&b'/') {
            return Outcome::Redirect(name, request.asked.args.clone());
        }
        let mut uri = request.asked.path.clone();
        uri.extend_from_slice(&name);
        let full = [&folder[..], &name].concat();
        match open::find(request, &full).await {
            Ok(_) => return Outcome::Redirect(uri, request.asked.args.clone()),
            Err(error) if error.is_missing() => {
                if !folder_is_there {
                    match open::stat(request, &folder).await {
                        Ok(meta) if meta.is_dir() => folder_is_there = true,
                        Ok(_) => {
                            let full = text_of(&full);
                            log_error!(request, Alert, "\"{full}\" is not a directory");
                            return Outcome::Status(Status::INTERNAL_SERVER_ERROR);
                        }
                        _ => {
                            let full = text_of(&full);
                            if request
                                .settings()
                                .get::<freerun_http::request::core_settings::CoreSettings>()
                                .log_not_found
                            {
                                log_error!(request, Error, "\"{full}\" is not found (2: No such file or directory)");
                            }
                            return Outcome::Status(Status::NOT_FOUND);
                        }
                    }
                }
            }
            Err(error) => return Outcome::Status(log_open_error(request, &full, &error)),
        }
    }
    Outcome::Declined
}
