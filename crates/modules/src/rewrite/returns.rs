//! `return`: an answer given in the configuration.

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Setting, Shape, group, settings};
use freerun_http::content::error_page;
use freerun_http::content::response::{Body, Response};
use freerun_http::head::body;
use freerun_http::module::{Handler, Module, Outcome, Phase, Run};
use freerun_http::request::Request;
use freerun_http::template::Template;

use crate::content::static_files::content_type;

settings! {
    /// Answers given in the configuration.
    #[module = "rewrite"]
    pub struct ReturnSettings {
        /// Stops and answers: with a status, a status and a text, or a redirect. 444 closes the connection silently.
        #[name = "return"]
        return_: Returns, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, local;
    }
}

/// The answer.
#[derive(Debug, Clone)]
pub struct Return {
    status: u16,
    text: Option<Template>,
}

/// The answers of one level: the first one counts, because nothing after it runs.
#[derive(Debug, Clone, Default)]
pub struct Returns(Option<Return>);

impl Setting for Returns {
    const SHAPE: Shape = Shape::between(1, 2, "code [text] | code URL | URL");

    fn set(previous: Option<Returns>, directive: &Node, cx: &mut Cx) -> Result<Returns, Problem> {
        let this = Return::parse(directive, cx)?;
        Ok(Returns(previous.and_then(|previous| previous.0).or(Some(this))))
    }
}

impl Return {
    fn parse(directive: &Node, cx: &mut Cx) -> Result<Return, Problem> {
        let first = &directive.args[0];
        let invalid = || Problem::new(format!("invalid return code \"{}\"", first.text)).at(first.place);
        let Ok(status) = first.text.parse::<u16>() else {
            let is_url = ["http://", "https://", "$scheme"].iter().any(|start| first.text.starts_with(start));
            if directive.args.len() > 1 || !is_url {
                return Err(invalid());
            }
            return Ok(Return { status: 302, text: Some(Template::parse(first, cx)?) });
        };
        if status > 999 {
            return Err(invalid());
        }
        let text = match directive.args.get(1) {
            Some(word) => Some(Template::parse(word, cx)?),
            None => None,
        };
        Ok(Return { status, text })
    }
}

fn wanted(settings: &freerun_conf::SettingsSet) -> bool {
    settings.get::<ReturnSettings>().return_.0.is_some()
}

/// The module.
pub static MODULE: Module = Module {
    name: "rewrite",
    groups: &[group::<ReturnSettings>()],
    handlers: &[
        Handler { phase: Phase::ServerRewrite, wanted, run: Run::Now(run) },
        Handler { phase: Phase::Rewrite, wanted, run: Run::Now(run) },
    ],
    ..Module::EMPTY
};

fn run(request: &mut Request) -> Outcome {
    let settings = request.location.settings.clone();
    let Some(Return { status, text }) = &settings.get::<ReturnSettings>().return_.0 else { return Outcome::Declined };
    let status = *status;
    // `$status` in the text is the status of this answer, or of the error that led here.
    request.sent.status = request.forced_status.unwrap_or(status);
    let redirects = matches!(status, 301 | 302 | 303 | 307 | 308);
    let text = match text {
        Some(text) => text.render(request).into_owned(),
        None if redirects || matches!(status, 200..=202 | 206 | 300 | 304) => Vec::new(),
        // Errors have their page; other statuses are sent empty; 444 closes the connection.
        None => return Outcome::Status(status),
    };
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    if redirects {
        let mut response = error_page::built_in(request, status);
        response.location = Some(text.into());
        return response.into();
    }
    if status == 204 {
        return Response::new(status, Bytes::new(), Body::Empty).into();
    }
    let media_type = content_type(request, &request.path);
    let body = if text.is_empty() { Body::Empty } else { Body::Bytes(text.into()) };
    Response::new(status, media_type, body).into()
}
