//! The body of a subrequest's response as a part of another body.

use std::task::{Context, Poll};

use bytes::Bytes;
use freerun_proto::Status;

use crate::filters;
use crate::phases::subrequest::Subrequest;
use crate::request::Request;
use crate::request::response::{Body, BodySource, LocalBoxFuture, Response, SourceError};

/// The body of a subrequest's response, as a source: runs the subrequest first.
pub struct SubrequestBody {
    state: SubrequestState,
}

enum SubrequestState {
    Running(LocalBoxFuture<'static, Subrequest>),
    Body(Subrequest, Box<dyn BodySource>),
    Closed,
    Over,
}

impl SubrequestBody {
    /// The body of this subrequest's response.
    pub fn new(running: LocalBoxFuture<'static, Subrequest>) -> SubrequestBody {
        SubrequestBody { state: SubrequestState::Running(running) }
    }

    /// Polls the subrequest until its response, so that it runs while an earlier part of the body is still sent. Ready
    /// when there is a response.
    pub fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let SubrequestState::Running(running) = &mut self.state {
            let Poll::Ready(mut subrequest) = running.as_mut().poll(context) else { return Poll::Pending };
            self.state = match &mut subrequest.response {
                None => SubrequestState::Closed,
                Some(response) => {
                    let bodiless = matches!(response.status, Status::NO_CONTENT | Status::NOT_MODIFIED)
                        || response.status.code() < 200;
                    let body = std::mem::replace(&mut response.body, Body::Empty);
                    let body = if bodiless { Body::Empty } else { body };
                    let source = body.into_source(&subrequest.request);
                    SubrequestState::Body(subrequest, source)
                }
            };
        }
        Poll::Ready(())
    }

    /// The subrequest, from its response until the end of its body.
    pub fn request(&self) -> Option<&Request> {
        match &self.state {
            SubrequestState::Body(subrequest, _) => Some(&subrequest.request),
            _ => None,
        }
    }

    /// Replaces the subrequest's response by another one, which goes through the filters of the subrequest.
    pub fn substitute(&mut self, mut response: Box<Response>) {
        if let SubrequestState::Body(subrequest, source) = &mut self.state {
            filters::run(&mut subrequest.request, &mut response, ..);
            *source = std::mem::replace(&mut response.body, Body::Empty).into_source(&subrequest.request);
            subrequest.response = Some(response);
        }
    }

    /// Takes a subrequest that was closed instead of answered (`return 444`) for one with an empty body.
    pub fn accept_close(&mut self) {
        if let SubrequestState::Closed = self.state {
            self.state = SubrequestState::Over;
        }
    }

    /// Waits for the response. `None` if there will be none, or if the body is over.
    pub async fn answer(&mut self) -> Option<&Subrequest> {
        std::future::poll_fn(|context| self.poll_answer(context)).await;
        match &self.state {
            SubrequestState::Body(subrequest, _) => Some(subrequest),
            _ => None,
        }
    }
}

impl BodySource for SubrequestBody {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            std::future::poll_fn(|context| self.poll_answer(context)).await;
            match &mut self.state {
                SubrequestState::Body(_, source) => {
                    if let Some(piece) = source.next().await? {
                        return Ok(Some(piece));
                    }
                }
                SubrequestState::Over => return Ok(None),
                SubrequestState::Running(_) | SubrequestState::Closed => {
                    return Err(SourceError::Closed);
                }
            }
            if let SubrequestState::Body(subrequest, _) = std::mem::replace(&mut self.state, SubrequestState::Over) {
                subrequest.finish();
            }
            Ok(None)
        })
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        match &mut self.state {
            SubrequestState::Body(_, source) => source.ahead(),
            _ => Box::pin(std::future::pending()),
        }
    }

    fn is_urgent(&self) -> bool {
        matches!(&self.state, SubrequestState::Body(_, source) if source.is_urgent())
    }

    fn remaining(&self) -> Option<u64> {
        match &self.state {
            SubrequestState::Body(_, source) => source.remaining(),
            SubrequestState::Over => Some(0),
            SubrequestState::Running(_) | SubrequestState::Closed => None,
        }
    }
}
