//! The body of a response: the directives run as it is sent.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::body;
use freerun_http::body::collect::{CollectedBody, KeptBody};
use freerun_http::log_error;
use freerun_http::phases::subrequest::{prepared, target};
use freerun_http::phases::subrequest_body::SubrequestBody;
use freerun_http::request::Request;
use freerun_http::request::response::{Body, BodySource, FileRange, SourceError};
use freerun_proto::{Method, Status};
use freerun_runtime::{loops, timer};

use super::commands::{Commands, EchoCommand, SentText, Sub};
use super::variables::{Counter, EchoState};
use super::{Later, sleeping_time};
use crate::small_file;

/// The most bytes that may wait to be sent before the next directive runs.
const MAX_QUEUED: usize = 64 * 1024;

/// The most pieces that may wait to be sent, and so the most subrequests that run at a time.
const MAX_PIECES: usize = 64;

/// The largest file that a subrequest may have as its body (`-f`).
const MAX_FILE: u64 = 1 << 20;

/// A part of the body.
enum Piece {
    Text(Bytes),
    /// A text, and how often it is sent.
    Repeated(Bytes, u64),
    Flush,
    Body(Box<dyn BodySource>),
    Sub(SubrequestBody),
}

/// A loop that is running.
struct ForeachLoop {
    /// The directive behind its beginning.
    begin: usize,
    /// The parts of the text that are left, the next one last.
    parts: Vec<Vec<u8>>,
}

/// The body.
pub(super) struct EchoBody {
    request: Box<Request>,
    status: Status,
    commands: Commands,
    next: usize,
    running: Option<ForeachLoop>,
    queue: VecDeque<Piece>,
    queued: usize,
    /// The time at which the next directive may run.
    sleeps_until: Option<Instant>,
    /// Whether the next directive waits until everything before it is sent.
    waits: bool,
    is_urgent: bool,
}

impl EchoBody {
    /// The output of the directives from the one at `next` on.
    pub(super) fn new(request: &Request, commands: Commands, next: usize, status: Status) -> EchoBody {
        // All subrequests have the same one, whatever else they share.
        request.shared().get::<Counter>();
        let fork = request.fork();
        let (own, forked) = (request.own.get::<EchoState>(), fork.own.get::<EchoState>());
        forked.started.set(own.started.get());
        *forked.method.borrow_mut() = own.method.borrow().clone();
        EchoBody {
            request: fork,
            status,
            commands,
            next,
            running: None,
            queue: VecDeque::new(),
            queued: 0,
            sleeps_until: None,
            waits: false,
            is_urgent: false,
        }
    }

    fn state(&self) -> std::rc::Rc<EchoState> {
        self.request.own.get::<EchoState>()
    }

    fn push(&mut self, text: Vec<u8>) {
        if !text.is_empty() {
            self.queued += text.len();
            self.queue.push_back(Piece::Text(text.into()));
        }
    }

    /// Runs directives as long as none of them has to wait.
    async fn advance(&mut self) -> Result<(), SourceError> {
        loop {
            if self.sleeps_until.is_some_and(|until| until <= loops::now()) {
                self.sleeps_until = None;
            }
            self.waits &= !self.queue.is_empty();
            let is_full = self.queued >= MAX_QUEUED || self.queue.len() >= MAX_PIECES;
            if self.waits || self.sleeps_until.is_some() || is_full {
                return Ok(());
            }
            let commands = self.commands.clone();
            let Some(command) = commands.list().get(self.next).cloned() else {
                if self.running.is_none() {
                    return Ok(());
                }
                // A loop without an end ends here.
                self.end_of_loop();
                continue;
            };
            self.next += 1;
            self.execute(&command).await?;
            // From the first output on the status is told.
            self.request.sent.status = Some(self.status);
        }
    }

    async fn execute(&mut self, command: &EchoCommand) -> Result<(), SourceError> {
        let request = &*self.request;
        match command {
            EchoCommand::Line(line) => {
                let mut text = Vec::new();
                line.render(request, &mut text);
                self.push(text);
            }
            EchoCommand::Duplicate(count, text) => {
                let count = text_of(&count.render(request)).replace('_', "");
                let Ok(count) = count.parse::<u64>() else {
                    log_error!(request, Error, "invalid size specified: \"{count}\"");
                    return Err(SourceError::InvalidDirective);
                };
                let text = Bytes::copy_from_slice(&text.render(request));
                if count > 0 && !text.is_empty() {
                    self.queue.push_back(Piece::Repeated(text, count));
                }
            }
            EchoCommand::Flush => {
                if !self.queue.is_empty() {
                    self.queue.push_back(Piece::Flush);
                }
            }
            EchoCommand::Sleep(seconds) => {
                let time = sleeping_time(request, seconds).ok_or(SourceError::InvalidDirective)?;
                self.sleeps_until = loops::now().checked_add(time);
            }
            EchoCommand::ResetTimer => self.state().started.set(Some(loops::now())),
            EchoCommand::ReadBody => {}
            EchoCommand::RequestBody => self.push_request_body(),
            EchoCommand::Sub(sub) => {
                let included = self.subrequest(sub).await?;
                self.queue.push_back(Piece::Sub(included));
                self.waits = sub.waits;
            }
            EchoCommand::ForEach(delimiter, text) => {
                let (delimiter, text) = (delimiter.render(request), text.render(request));
                let parts = split(&text, &delimiter);
                self.running = Some(ForeachLoop { begin: self.next, parts });
                self.enter_loop();
            }
            EchoCommand::End => self.end_of_loop(),
            EchoCommand::Exec(..) => {
                log_error!(request, Error, "echo_exec comes too late: the response has begun");
                return Err(SourceError::InvalidDirective);
            }
        }
        Ok(())
    }

    /// Goes on with the next part of the text, or behind the loop.
    fn enter_loop(&mut self) {
        let Some(running) = &mut self.running else { return };
        match running.parts.pop() {
            Some(part) => {
                self.next = running.begin;
                *self.state().it.borrow_mut() = part;
            }
            None => {
                let rest = &self.commands.list()[running.begin..];
                let end = rest.iter().position(|command| matches!(command, EchoCommand::End));
                self.next = running.begin + end.map_or(rest.len(), |end| end + 1);
                self.running = None;
                self.state().it.borrow_mut().clear();
            }
        }
    }

    fn end_of_loop(&mut self) {
        if self.running.is_some() {
            self.enter_loop();
        }
    }

    fn push_request_body(&mut self) {
        let kept = self.request.find_shared::<KeptBody>().and_then(|kept| kept.0.borrow().clone());
        match kept.as_deref() {
            None => {}
            Some(CollectedBody::Memory(bytes)) => self.push(bytes.to_vec()),
            Some(CollectedBody::File(file)) => {
                let range = FileRange { file: file.file().clone(), offset: 0, len: file.len() };
                self.queue.push_back(Piece::Body(Body::File(range).into_source(&self.request)));
            }
        }
    }

    async fn subrequest(&self, sub: &Sub) -> Result<SubrequestBody, SourceError> {
        let request = &*self.request;
        let uri = sub.uri.render(request);
        let (path, args) = target(b"", &uri).map_err(|path| {
            log_error!(request, Error, "echo sees unsafe uri: \"{}\"", text_of(&path));
            SourceError::InvalidDirective
        })?;
        let args = sub.args.as_ref().map(|args| args.render(request).into_owned()).or(args);
        let method = sub.method.as_ref().map(|method| method.render(request).into_owned());
        let body = match &sub.body {
            SentText::Same => None,
            SentText::Text(text) => Some(Bytes::copy_from_slice(&text.render(request))),
            SentText::File(path) => Some(read(request, &path.render(request)).await?),
        };
        let running = prepared(request, path, args, |request| {
            if let Some(method) = method {
                request.asked.method = Method::of(&method);
                *request.own.get::<EchoState>().method.borrow_mut() = Some(method);
            }
            if let Some(body) = body {
                body::give(request, body);
            }
        });
        running.map(SubrequestBody::new).map_err(|refused| io::Error::other(refused).into())
    }

    /// The next bytes of the first piece; `None` when it is over.
    async fn first(&mut self) -> Result<Option<Bytes>, SourceError> {
        let mut pieces = self.queue.iter_mut();
        match pieces.next() {
            None | Some(Piece::Flush) => Ok(None),
            Some(Piece::Text(text)) => {
                let text = std::mem::take(text);
                self.queued = self.queued.saturating_sub(text.len());
                Ok((!text.is_empty()).then_some(text))
            }
            Some(Piece::Repeated(text, left)) => {
                let most = (MAX_QUEUED / text.len()).max(1) as u64;
                let count = most.min(*left);
                *left -= count;
                Ok((count > 0).then(|| text.repeat(count as usize).into()))
            }
            Some(Piece::Body(body)) => body.next().await,
            Some(Piece::Sub(included)) => {
                // Those behind it run at the same time.
                let mut others: Vec<&mut SubrequestBody> = pieces
                    .filter_map(|piece| match piece {
                        Piece::Sub(included) => Some(included),
                        _ => None,
                    })
                    .collect();
                let mut next = included.next();
                std::future::poll_fn(|context| {
                    for other in &mut others {
                        // Its answer is kept until it is its turn.
                        let _ = other.poll_answer(context);
                    }
                    next.as_mut().poll(context)
                })
                .await
            }
        }
    }
}

/// Reads a file that is to be the body of a subrequest.
async fn read(request: &Request, path: &[u8]) -> Result<Bytes, SourceError> {
    small_file::read(request, path, MAX_FILE).await.map_err(|why| {
        log_error!(request, Error, "{why}");
        SourceError::InvalidDirective
    })
}

/// The parts of a text that are not empty, the first one last.
fn split(text: &[u8], delimiter: &[u8]) -> Vec<Vec<u8>> {
    if delimiter.is_empty() {
        return if text.is_empty() { Vec::new() } else { vec![text.to_vec()] };
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, delimiter) {
        parts.push(rest[..at].to_vec());
        rest = &rest[at + delimiter.len()..];
    }
    parts.push(rest.to_vec());
    parts.retain(|part| !part.is_empty());
    parts.reverse();
    parts
}

impl BodySource for EchoBody {
    fn next(&mut self) -> Later<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            loop {
                self.advance().await?;
                if self.queue.is_empty() {
                    match self.sleeps_until {
                        Some(until) => timer::sleep_until(until).await,
                        None => return Ok(None),
                    }
                    continue;
                }
                match self.first().await? {
                    Some(piece) => {
                        if matches!(self.queue.front(), Some(Piece::Text(_))) {
                            self.queue.pop_front();
                        }
                        self.is_urgent = matches!(self.queue.front(), Some(Piece::Flush));
                        return Ok(Some(piece));
                    }
                    None => drop(self.queue.pop_front()),
                }
            }
        })
    }

    fn is_urgent(&self) -> bool {
        self.is_urgent || matches!(self.queue.front(), Some(Piece::Sub(included)) if included.is_urgent())
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_parts_are_left_out() {
        let parts = |text: &str, delimiter: &str| split(text.as_bytes(), delimiter.as_bytes());
        assert_eq!(parts("a,b,,c,", ","), [b"c", b"b", b"a"]);
        assert_eq!(parts("-a-x-a-", "-a-"), [b"x"]);
        assert!(parts("", ",").is_empty() && parts(",,", ",").is_empty() && parts("", "").is_empty());
        assert_eq!(parts("abc", ""), [b"abc"]);
    }
}
