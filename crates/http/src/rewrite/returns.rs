//! `return`: an answer given in the configuration.

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem};
use std::num::NonZeroU16;

use crate::body;
use crate::content::{error_page, media_type};
use crate::request::Request;
use crate::request::handler::Outcome;
use crate::request::response::{Body, Response};
use crate::template::Template;

/// The answer.
#[derive(Debug, Clone)]
pub(crate) struct Return {
    status: u16,
    text: Option<Template>,
}

impl Return {
    pub(crate) fn parse(directive: &Node, cx: &mut Cx) -> Result<Return, Problem> {
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
            // An empty one is none; one that comes out empty is a text.
            Some(word) if word.text.is_empty() => None,
            Some(word) => Some(Template::parse(word, cx)?),
            None => None,
        };
        Ok(Return { status, text })
    }

    pub(crate) fn answer(&self, request: &mut Request) -> Outcome {
        let status = self.status;
        // `$status` in the text is the status of this answer, or of the error that led here.
        request.sent.status = request.place.forced_status.map_or(status, NonZeroU16::get);
        let redirects = matches!(status, 301 | 302 | 303 | 307 | 308);
        let text: Bytes = match &self.text {
            Some(text) => match text.constant() {
                Some(text) => request.generation.text(text),
                None => text.render(request).into_owned().into(),
            },
            None if redirects || status < 400 => Bytes::new(),
            // Errors have their page; 444 closes the connection.
            None => return Outcome::Status(status),
        };
        if let Err(status) = body::begin_discarding(request) {
            return Outcome::Status(status);
        }
        if redirects {
            return redirect(request, status, text);
        }
        let media_type = media_type(request, &request.asked.path);
        let body = if text.is_empty() { Body::Empty } else { Body::Bytes(text) };
        Response::new(status, media_type, body).into()
    }
}

/// A redirect with nginx's page.
pub(crate) fn redirect(request: &mut Request, status: u16, location: Bytes) -> Outcome {
    let mut response = error_page::built_in(request, status);
    response.location = Some(location);
    response.into()
}
