//! Sending a response: its head, and its body as far as the client's windows allow.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use freerun_proto::h1::ResponseFraming;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;

use crate::connection::file_out::FileOut;
use crate::connection::stream::{Stream, StreamError};
use crate::content::pull::Reader;
use crate::content::{aio, direct};
use crate::finish;
use crate::protocol::multiplexed::response_head;
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::request::response::{Body, BodySource, FileRange, Response};
use crate::write::WriteError;
use crate::write::decide::decide;
use crate::write::file::{SMALL_FILE, unreadable};
use crate::write::pace::Pace;
use crate::write::source_progress::meanwhile;

/// Sends a response. The request notes how much was sent.
pub(super) async fn response(
    request: &mut Request,
    stream: &dyn Stream,
    mut response: Box<Response>,
) -> Result<(), WriteError> {
    let decided = decide(request, &response, false);
    let has_trailers = decided.framing == ResponseFraming::UntilEnd && response.has_trailers();
    let nothing = decided.framing == ResponseFraming::None || response.body.is_empty() && !has_trailers;
    if nothing {
        request.free_places();
    }
    stream.use_settings(request.settings());
    response_head::send(request, stream, &response, &decided, nothing);
    let body = std::mem::replace(&mut response.body, Body::Empty);
    let trailers = std::mem::take(&mut response.trailers);
    let late = response.late_trailers;
    drop(response);
    if nothing {
        note_sent(request, stream);
        return Ok(());
    }
    if let Body::Bytes(bytes) = &body
        && !has_trailers
        && !Pace::is_expected(request)
        && stream.certain_room() >= bytes.len()
    {
        let bytes = bytes.clone();
        request.sent.bytes += bytes.len() as u64;
        request.sent.body_bytes += bytes.len() as u64;
        request.free_places();
        stream.send_data(bytes, true);
        // Nearly always it is written together with other responses.
        let sent = poll_fn(|context| Poll::Ready(stream.poll_sent(context))).await;
        if let Poll::Ready(sent) = sent {
            note_sent(request, stream);
            return Ok(sent?);
        }
        let sent = Sender::new(request, stream).rest().await;
        note_sent(request, stream);
        return sent;
    }
    if stream.certain_room() == 0 {
        // The client's windows are closed, and many of its streams may wait for long.
        request.head.settle();
    }
    let mut sender = Sender::new(request, stream);
    let source = body.into_source(request);
    let owed = source.remaining();
    let loop_state = request.client.loop_state.clone();
    let sent = {
        let sending = pin!(sender.body(request, source, owed, !has_trailers));
        finish::unless_cut(&loop_state, sending).await.unwrap_or(Err(WriteError::Body))
    };
    request.sent.bytes += sender.sent;
    request.sent.body_bytes += sender.sent;
    note_sent(request, stream);
    sent?;
    if has_trailers {
        request.free_places();
        request.answered.trailers = trailers;
        for make in [late.passed, late.added].into_iter().flatten() {
            make(request);
        }
        if request.answered.trailers.is_empty() {
            stream.send_data(Bytes::new(), true)
        } else {
            stream.send_trailers(&request.answered.trailers)
        }
    }
    let sent = sender.rest().await;
    note_sent(request, stream);
    sent
}

/// Notes how many bytes the response has taken with its frames, if the driver knows it.
fn note_sent(request: &mut Request, stream: &dyn Stream) {
    if let Some(bytes) = stream.sent_bytes() {
        request.sent.bytes = bytes;
    }
}

/// The state that sending one body needs throughout.
struct Sender<'s> {
    stream: &'s dyn Stream,
    timer: Timer,
    pace: Pace,
    send_timeout: std::time::Duration,
    sent: u64,
}

impl<'s> Sender<'s> {
    fn new(request: &Request, stream: &'s dyn Stream) -> Sender<'s> {
        let (timer, pace) = (Timer::default(), Pace::of(request, loops::now()));
        Sender { stream, timer, pace, send_timeout: request.core().send_timeout, sent: 0 }
    }

    /// Sends the body of a source. `owed` is the announced length; `ends` says that nothing follows the body.
    async fn body(
        &mut self,
        request: &Request,
        mut source: Box<dyn BodySource>,
        mut owed: Option<u64>,
        ends: bool,
    ) -> Result<(), WriteError> {
        let sends_files = self.stream.sends_files();
        loop {
            // A client as fast as the source must not keep other tasks from the loop.
            loops::consume_budget().await;
            // Nothing is pulled that could not be sent: a client whose windows are closed costs no memory.
            if source.remaining() != Some(0) {
                meanwhile(&mut Some(&mut source), self.room()).await?;
            }
            let is_large = source.remaining().is_none_or(|left| left > SMALL_FILE);
            if sends_files
                && is_large
                && let Some(range) = source.next_in_file()
            {
                if let Some(owed) = &mut owed {
                    *owed = owed.checked_sub(range.len).ok_or(WriteError::Body)?;
                }
                let last = ends && source.remaining() == Some(0);
                if last && owed.is_some_and(|owed| owed > 0) {
                    return Err(WriteError::Body);
                }
                self.file(request, &mut source, range, last).await?;
                if last {
                    return Ok(());
                }
                continue;
            }
            let Some(piece) = source.next().await.map_err(|_| WriteError::Body)? else { break };
            if let Some(owed) = &mut owed {
                *owed = owed.checked_sub(piece.len() as u64).ok_or(WriteError::Body)?;
            }
            let last = ends && source.remaining() == Some(0);
            if last && owed.is_some_and(|owed| owed > 0) {
                return Err(WriteError::Body);
            }
            self.piece(request, &mut source, piece, last).await?;
            if last {
                return Ok(());
            }
        }
        if owed.is_some_and(|owed| owed > 0) {
            return Err(WriteError::Body);
        }
        if ends {
            request.free_places();
            self.stream.send_data(Bytes::new(), true);
        }
        Ok(())
    }

    /// Sends a range of a file: the kernel copies what is in memory into the socket. The rest is read, as are small ranges, for
    /// which that is cheaper, files that are read past the page cache, and all with `sendfile off`.
    async fn file(
        &mut self,
        request: &Request,
        source: &mut Box<dyn BodySource>,
        mut range: FileRange,
        last: bool,
    ) -> Result<(), WriteError> {
        let Some(aio) = aio::resolve(request) else { return Err(WriteError::Body) };
        let sendfile = request.settings().get::<CoreSettings>().sendfile;
        let copies = !sendfile || range.len <= SMALL_FILE || direct::alignment(request, range.file.meta()).is_some();
        let (files, reader) = (&request.generation.files, Reader::new(request));
        let make = || Rc::new(FileOut::new(files.clone(), range.file.clone(), aio, request.client_key()));
        let file = (!copies).then(make);
        while range.len > 0 {
            loops::consume_budget().await;
            let room = meanwhile(&mut Some(&mut *source), self.room()).await?;
            let most = range.len.min(room as u64);
            let ready = file.as_ref().map_or(0, |file| file.sendable(range.offset, most));
            let Some(file) = file.as_ref().filter(|_| ready > 0) else {
                let piece = reader.read(&mut range).await.map_err(|error| unreadable(request, &range.file, &error))?;
                self.piece(request, source, piece, last && range.len == 0).await?;
                continue;
            };
            let part = if self.pace.is_free() {
                ready
            } else {
                meanwhile(&mut Some(&mut *source), self.paced(ready)).await.min(ready)
            };
            if last && part == range.len {
                request.free_places();
            }
            self.stream.send_file(file, range.offset, usize::try_from(part).unwrap_or(0), last && part == range.len);
            range.offset += part;
            range.len -= part;
            self.sent += part;
        }
        Ok(())
    }

    /// Sends a piece as far as there is room, and waits for more room; the source goes on meanwhile.
    async fn piece(
        &mut self,
        request: &Request,
        source: &mut Box<dyn BodySource>,
        mut piece: Bytes,
        last: bool,
    ) -> Result<(), WriteError> {
        while !piece.is_empty() {
            let wanted = piece.len();
            let mut source = Some(&mut *source);
            let allowed = if self.pace.is_free() {
                wanted
            } else {
                usize::try_from(meanwhile(&mut source, self.paced(wanted as u64)).await).unwrap_or(wanted)
            };
            let room = meanwhile(&mut source, self.room()).await?;
            let part = piece.split_to(wanted.min(allowed).min(room));
            self.sent += part.len() as u64;
            let ends = last && piece.is_empty();
            if ends {
                request.free_places();
            }
            self.stream.send_data(part, ends);
        }
        Ok(())
    }

    /// Returns how many of `wanted` bytes may be sent now by `limit_rate`; waits until it is at least one.
    async fn paced(&mut self, wanted: u64) -> u64 {
        loop {
            match self.pace.room(self.sent, wanted, loops::now()) {
                Ok(room) => return room,
                Err(wait) => drop(self.timer.within(wait, std::future::pending::<()>()).await),
            }
        }
    }

    /// Waits for room in the stream.
    async fn room(&mut self) -> Result<usize, WriteError> {
        let stream = self.stream;
        match self.in_time(|context| stream.poll_room(context)).await? {
            0 => {
                debug_assert!(false, "a stream that has no room is not ready");
                Err(WriteError::Body)
            }
            room => Ok(room),
        }
    }

    /// Waits until nothing that was sent waits for the client's windows or for other streams.
    async fn rest(&mut self) -> Result<(), WriteError> {
        let stream = self.stream;
        self.in_time(|context| stream.poll_sent(context)).await
    }

    /// Waits for the client, as long as `send_timeout` if its windows are closed.
    async fn in_time<T>(
        &mut self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<T, StreamError>>,
    ) -> Result<T, WriteError> {
        loop {
            if let Some(result) = self.timer.within(self.send_timeout, poll_fn(&mut poll)).await {
                return Ok(result?);
            }
            if self.stream.is_held() {
                self.stream.has_stalled();
                return Err(WriteError::TimedOut);
            }
        }
    }
}
