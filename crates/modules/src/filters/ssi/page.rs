//! The body of a page: text, executed commands, and includes in their places.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use freerun_http::log_error;
use freerun_http::phases::subrequest_body::SubrequestBody;
use freerun_http::request::Request;
use freerun_http::request::response::{Body, BodySource, LocalBoxFuture, Response, SourceError};
use freerun_http::settings::transfer::TransferSettings;
use freerun_proto::Status;
use freerun_runtime::loops;

use super::SsiSettings;
use super::parser::{ParsedPiece, Parser};
use super::state::SharedPage;

/// The most includes of one page that run at the same time. With more, the page is not parsed any further for now.
const MAX_RUNNING: usize = 16;
/// The most bytes of text that may wait behind an include.
const MAX_AHEAD: usize = 256 * 1024;
/// Pieces of text up to this size are sent together.
const TOGETHER: usize = 32 * 1024;

/// The longest time that a page is parsed before the task yields.
const TURN: Duration = Duration::from_millis(2);

/// The state of an `if`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Branch {
    None,
    If,
    Else,
}

/// An item of the page.
pub(super) enum Item {
    Text(Bytes),
    Include(Box<Include>),
}

/// A subrequest whose answer is inserted here.
pub(super) struct Include {
    pub(super) body: SubrequestBody,
    pub(super) purpose: Purpose,
    /// Whether the page behind it is parsed only after it is complete.
    pub(super) wait: bool,
    /// Whether some of it was sent.
    pub(super) begun: bool,
}

/// The use of the answer.
pub(super) enum Purpose {
    Show,
    /// The answer is shown, or this text if it is empty or an error.
    Stub(Bytes),
    /// The answer is stored in the variable with this name.
    Set(Vec<u8>),
}

/// The body of a page with commands.
pub(super) struct SsiPage {
    /// The request, for variables, subrequests and messages.
    pub(super) request: Box<Request>,
    pub(super) shared: Rc<SharedPage>,
    input: Box<dyn BodySource>,
    /// The part of the input that was not parsed yet.
    piece: Bytes,
    ended: bool,
    parser: Parser,
    pub(super) queue: VecDeque<Item>,
    running: usize,
    ahead: usize,
    waiting: bool,
    pub(super) branch: Branch,
    /// Whether the current branch is shown.
    pub(super) shown: bool,
    /// Whether some branch of the `if` was taken.
    pub(super) taken: bool,
    /// The block that is being gathered; an inner `None`: there was no room for it.
    pub(super) block: Option<(Vec<u8>, Option<Vec<u8>>)>,
    pub(super) error: Bytes,
    silent: bool,
}

impl SsiPage {
    pub(super) fn new(request: &Request, response: &Response, input: Box<dyn BodySource>) -> SsiPage {
        let settings = request.settings().get::<SsiSettings>();
        let mut fork = request.fork();
        fork.sent.status = Some(response.status);
        fork.answered.head = head_so_far(response);
        let max_value = usize::try_from(settings.ssi_value_length.0).unwrap_or(usize::MAX);
        SsiPage {
            shared: request.shared().get::<SharedPage>(),
            silent: settings.ssi_silent_errors,
            request: fork,
            input,
            piece: Bytes::new(),
            ended: false,
            parser: Parser::new(max_value),
            queue: VecDeque::new(),
            running: 0,
            ahead: 0,
            waiting: false,
            branch: Branch::None,
            shown: true,
            taken: false,
            block: None,
            error: Bytes::from_static(b"[an error occurred while processing the directive]"),
        }
    }

    /// Appends text to the queue.
    pub(super) fn push(&mut self, text: Bytes) {
        if !text.is_empty() {
            self.ahead += text.len();
            self.queue.push_back(Item::Text(text));
        }
    }

    /// Appends a subrequest to the queue.
    pub(super) fn push_include(&mut self, include: Include) {
        self.waiting |= include.wait;
        self.running += 1;
        self.queue.push_back(Item::Include(Box::new(include)));
    }

    /// Handles a command that failed: logs the reason, and shows the error in the page.
    pub(super) fn fail(&mut self, why: &str) {
        log_error!(self.request, Error, "{why} while sending response to client");
        self.push_error();
    }

    /// Handles a command that failed for a reason that is logged already.
    pub(super) fn push_error(&mut self) {
        if !self.silent {
            self.push(self.error.clone());
        }
    }

    /// Parses the current piece, as far as the limits and `wait` allow.
    async fn look(&mut self) {
        while !self.waiting && self.running < MAX_RUNNING && self.ahead < MAX_AHEAD {
            match self.parser.next(&mut self.piece) {
                None => return,
                Some(ParsedPiece::Text(text)) => self.text(text),
                Some(ParsedPiece::Command(command)) => {
                    self.run(&command);
                    take_turns().await;
                }
                Some(ParsedPiece::Fault(why)) => self.fail(&why),
            }
        }
    }

    fn text(&mut self, text: Bytes) {
        match &mut self.block {
            Some((_, content)) => {
                if let Some(kept) = content {
                    kept.extend_from_slice(&text);
                    if kept.len() > self.shared.room() {
                        *content = None;
                    }
                }
            }
            None if self.shown => self.push(text),
            None => {}
        }
    }

    /// Takes the text at the head of the queue, with short pieces put together.
    fn take_text(&mut self) -> Option<Bytes> {
        let Some(Item::Text(first)) = self.queue.front_mut() else { return None };
        let first = std::mem::take(first);
        self.queue.pop_front();
        self.ahead -= first.len();
        let mut together = BytesMut::new();
        while let Some(Item::Text(next)) = self.queue.front()
            && first.len().max(together.len()) + next.len() <= TOGETHER
        {
            if together.is_empty() {
                together.extend_from_slice(&first);
            }
            together.extend_from_slice(next);
            self.ahead -= next.len();
            self.queue.pop_front();
        }
        Some(if together.is_empty() { first } else { together.freeze() })
    }

    /// The next bytes of the include at the head of the queue, while the others make progress. `None`: it is over.
    async fn take_include(&mut self, include: &mut Include) -> Result<Option<Bytes>, SourceError> {
        {
            let mut step = step(include, &self.shared);
            let queue = &mut self.queue;
            std::future::poll_fn(|context| {
                // In the order of the page, because they may share variables.
                let piece = step.as_mut().poll(context);
                for item in queue.iter_mut() {
                    if let Item::Include(other) = item {
                        let _ = other.body.poll_answer(context);
                    }
                }
                piece
            })
            .await
        }
    }
}

/// Yields when this poll has taken long: a page with only commands, or with expensive expressions, must not starve
/// other tasks of the loop.
async fn take_turns() {
    if Instant::now().saturating_duration_since(loops::now()) > TURN {
        loops::after_events().await;
    }
}

/// The next bytes of an include that are shown.
fn step<'i>(
    include: &'i mut Include,
    shared: &'i SharedPage,
) -> LocalBoxFuture<'i, Result<Option<Bytes>, SourceError>> {
    Box::pin(async move {
        if let Purpose::Set(name) = &include.purpose {
            return keep(&mut include.body, name, shared).await.map(|()| None);
        }
        if !include.begun
            && let Purpose::Stub(stub) = &mut include.purpose
        {
            let answer = include.body.answer().await;
            if answer.is_some_and(|answer| answer.response.as_ref().is_some_and(|response| response.special)) {
                include.begun = true;
                let stub = std::mem::take(stub);
                include.body.substitute(Response::new(Status::OK, &b"text/html"[..], Body::Bytes(stub)));
            } else {
                include.body.accept_close();
            }
        }
        let piece = include.body.next().await?;
        if piece.is_none()
            && !include.begun
            && let Purpose::Stub(stub) = &mut include.purpose
        {
            include.begun = true;
            return Ok(Some(std::mem::take(stub)).filter(|stub| !stub.is_empty()));
        }
        include.begun = true;
        Ok(piece)
    })
}

/// Stores the answer to a subrequest in a variable, if it was successful.
async fn keep(body: &mut SubrequestBody, name: &[u8], shared: &SharedPage) -> Result<(), SourceError> {
    let Some(answer) = body.answer().await else { return body.next().await.map(drop) };
    let good = (200..300).contains(&answer.status().code()) && !answer.response.as_ref().is_some_and(|r| r.special);
    let limit = answer.request.settings().get::<TransferSettings>().subrequest_output_buffer_size.0;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let too_big = |body: &SubrequestBody, len: usize| {
        if let Some(request) = body.request() {
            log_error!(request, Error, "too big subrequest response: {len} while sending response to client");
        }
        Err(io::Error::other("too big subrequest response").into())
    };
    if let Some(len) = body.remaining().map(|len| usize::try_from(len).unwrap_or(usize::MAX)).filter(|len| *len > limit)
    {
        return too_big(body, len);
    }
    let mut value = Vec::new();
    while let Some(piece) = body.next().await? {
        if value.len() + piece.len() > limit {
            return too_big(body, value.len() + piece.len());
        }
        value.extend_from_slice(&piece);
    }
    if good {
        shared.set(name, value.into()).map_err(io::Error::other)?;
    }
    Ok(())
}

impl BodySource for SsiPage {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            loop {
                self.look().await;
                if let Some(text) = self.take_text() {
                    return Ok(Some(text));
                }
                if let Some(Item::Include(mut include)) = self.queue.pop_front() {
                    let piece = self.take_include(&mut include).await?;
                    match piece {
                        Some(piece) => {
                            self.queue.push_front(Item::Include(include));
                            return Ok(Some(piece));
                        }
                        None => {
                            self.running -= 1;
                            self.waiting &= !include.wait;
                        }
                    }
                    continue;
                }
                if !self.piece.is_empty() {
                    continue;
                }
                if self.ended {
                    return Ok(None);
                }
                match self.input.next().await? {
                    Some(piece) => {
                        take_turns().await;
                        self.piece = piece;
                    }
                    None => {
                        self.ended = true;
                        if let Some(rest) = self.parser.end() {
                            self.text(rest);
                        }
                    }
                }
            }
        })
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}

/// The head that `$sent_http_…` can show before the real one is written.
fn head_so_far(response: &Response) -> Vec<u8> {
    let mut head = Vec::new();
    let mut line = |name: &[u8], value: &[u8]| {
        head.extend_from_slice(b"\n");
        head.extend_from_slice(name);
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
    };
    line(b"Content-Type", &response.content_type);
    for (name, value) in &response.fields {
        line(name, value);
    }
    head
}
