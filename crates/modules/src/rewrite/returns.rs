//! `return`: an answer given in the configuration.

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Shape, Value, group, settings};
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
        return_: Option<Return>, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, local;
    }
}

/// The answer.
#[derive(Debug, Clone)]
pub struct Return {
    status: u16,
    text: Option<Template>,
}

impl Value for Return {
    const SHAPE: Shape = Shape::between(1, 2, "code [text] | code URL | URL");

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
    settings.get::<ReturnSettings>().return_.is_some()
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
    let Some(setting) = &settings.get::<ReturnSettings>().return_ else { return Outcome::Declined };
    let status = setting.status;
    if status == 444 {
        return Outcome::Close;
    }
    let Some(text) = &setting.text else {
        // Statuses without a page of their own are sent empty.
        return Outcome::Status(status);
    };
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let text = text.render(request).into_owned();
    if matches!(status, 301 | 302 | 303 | 307 | 308) {
        let mut response = error_page::built_in(request, status);
        response.location = Some(text.into());
        return response.into();
    }
    if status == 204 {
        return Response::new(status, Bytes::new(), Body::Empty).into();
    }
    let media_type = content_type(request, &request.path);
    Response::new(status, media_type, Body::Bytes(text.into())).into()
}
