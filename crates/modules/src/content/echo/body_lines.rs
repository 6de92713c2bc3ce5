//! `echo_before_body` and `echo_after_body`: lines around the body of a response that something else has made.

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_http::request::Request;
use freerun_http::request::representation::Change;
use freerun_http::request::response::{Body, BodySource, Response, SourceError};
use freerun_proto::Status;

use super::commands::Lines;
use super::{EchoSettings, Later};

pub(super) fn wanted(settings: &SettingsSet) -> bool {
    let settings = settings.get::<EchoSettings>();
    !settings.echo_before_body.is_empty() || !settings.echo_after_body.is_empty()
}

pub(super) fn run(request: &mut Request, response: &mut Response) {
    if matches!(response.status, Status::NO_CONTENT | Status::NOT_MODIFIED) || response.takeover.is_some() {
        return;
    }
    let location = request.place.location.clone();
    let settings = location.settings.get::<EchoSettings>();
    response.content_changes(Change::AROUND);
    let body = std::mem::replace(&mut response.body, Body::Empty).into_source(request);
    let mut fork = request.fork();
    fork.sent.status = Some(response.status);
    let around = Around {
        before: Some(settings.echo_before_body.clone()),
        body: Some(body),
        after: Some(settings.echo_after_body.clone()),
        request: fork,
    };
    response.body = Body::Source(Box::new(around));
}

/// A body between lines.
struct Around {
    request: Box<Request>,
    before: Option<Lines>,
    body: Option<Box<dyn BodySource>>,
    after: Option<Lines>,
}

impl Around {
    fn text(&self, lines: Option<Lines>) -> Option<Bytes> {
        let text = lines?.render(&self.request);
        (!text.is_empty()).then(|| text.into())
    }
}

impl BodySource for Around {
    fn next(&mut self) -> Later<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            let before = self.before.take();
            if let Some(text) = self.text(before) {
                return Ok(Some(text));
            }
            if let Some(body) = &mut self.body {
                if let Some(piece) = body.next().await? {
                    return Ok(Some(piece));
                }
                self.body = None;
            }
            let after = self.after.take();
            Ok(self.text(after))
        })
    }

    fn ahead(&mut self) -> Later<'_, ()> {
        match &mut self.body {
            Some(body) => body.ahead(),
            None => Box::pin(std::future::pending()),
        }
    }

    fn is_urgent(&self) -> bool {
        self.before.is_none() && self.body.as_ref().is_some_and(|body| body.is_urgent())
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}
