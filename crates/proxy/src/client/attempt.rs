//! A try: a connection, the request on it, and the response's head.

use std::io;

use bytes::Bytes;
use freerun_http::request::Request;
use freerun_http::settings::transfer::TransferSettings;
use freerun_http::{log_error, log_step};
use freerun_runtime::{buffers, loops};
use freerun_upstream::{AttemptFailure, Lease};

use crate::client::connection::{Kit, UpstreamConnection, receive_error};
use crate::client::early_hints;
use crate::client::error::{TryStage, UpstreamError};
use crate::client::plan::{FailedTry, Plan};
use crate::client::reader::ErrorOutput;
use crate::client::request_body::{OutgoingBody, Position};
use crate::client::request_rest::RequestRest;
use crate::exchange::family::{AnyExchange, UpstreamProtocol};
use crate::exchange::{Exchange, Fault, To, UpstreamHead};
use crate::settings::FamilySettings;
use crate::settings::next::NextUpstream;

/// The room for the first read: a head and a small body come with it. The buffer is as large as `proxy_buffer_size`
/// where that is more.
const FIRST_READ: usize = 16 * 1024;

/// A body up to this size is copied behind the head: one `send` costs less than a `sendmsg` of two pieces.
const COPIED: usize = 4096;

/// The size of the largest body that is waited for after its head.
const SOON: usize = 8 * 1024;

const _: () = assert!(SOON < FIRST_READ, "a body that is waited for has room behind its head");

/// The most interim heads (1xx) within [`INTERIM_PERIOD`]. A server may send `102 Processing` for as long as it works,
/// but none may keep a loop busy with them.
const MAX_INTERIM: usize = 64;

/// The time in which interim heads are counted, in milliseconds.
const INTERIM_PERIOD: u64 = 1000;

/// A request in flight to a server and back. It has one fixed place in memory, whichever part of the program owns it,
/// from the first try to the end of the response's body.
pub struct UpstreamExchange {
    /// The state that all tries share.
    pub plan: Plan,
    /// The connection of the last try, until the end of the response.
    pub connection: Option<UpstreamConnection>,
    /// The exchange in the protocol of the connection.
    pub exchange: Option<AnyExchange>,
    /// The final head, once it has come.
    pub head: UpstreamHead,
    /// Whether all of the request was sent.
    pub sent_all: bool,
    /// The part of the request that is not sent yet, if the head came before all was sent.
    pub unsent: Option<Box<RequestRest>>,
}

impl UpstreamExchange {
    /// The state before the first try.
    pub fn new(plan: Plan) -> Box<UpstreamExchange> {
        let place = Box::new_uninit();
        let upstream = UpstreamExchange {
            plan,
            connection: None,
            exchange: None,
            head: UpstreamHead::default(),
            sent_all: false,
            unsent: None,
        };
        Box::write(place, upstream)
    }

    /// Keeps the rest of a request that was not sent completely.
    pub fn keep_rest(&mut self, request: &Request, body: OutgoingBody) {
        if let Some(unsent) = &mut self.unsent {
            unsent.put_in(request, body);
            if !self.plan.client.is_watched() {
                unsent.forget_client();
            }
        }
    }

    /// Sends the request to the chosen server and waits for the head of the response.
    pub async fn attempt(
        &mut self,
        request: &mut Request,
        body: &mut OutgoingBody,
        lease: &Lease,
    ) -> Result<(), FailedTry> {
        self.plan.prepare(request, body)?;
        let sharing =
            self.plan.sharing(request, lease).map_err(|error| FailedTry::before(error, TryStage::Connecting))?;
        // A request that must not be sent twice should not meet a connection that was just closed.
        let surely = !self.plan.idempotent || body.is_stream();
        let may_be_repeated =
            self.plan.idempotent || self.plan.options.next_upstream.contains(NextUpstream::NonIdempotent);
        let mut fresh_only = false;
        let mut was_unprocessed = false;
        self.unsent = None;
        loop {
            let failed = |(error, stage)| FailedTry::before(error, stage);
            self.connection = match self.plan.family.protocol(request) {
                UpstreamProtocol::Sequential if fresh_only => None,
                UpstreamProtocol::Sequential => self.plan.idle(lease, &sharing, surely),
                UpstreamProtocol::Http2 => {
                    let stream = Box::pin(self.plan.stream(request, lease, &sharing, surely || fresh_only));
                    Some(stream.await.map_err(failed)?)
                }
                UpstreamProtocol::Http3 => {
                    let made = Box::pin(self.plan.http3(request, lease, &sharing, surely, fresh_only));
                    Some(made.await.map_err(failed)?)
                }
            };
            let connection = match &mut self.connection {
                Some(connection) => connection,
                none => {
                    let connected = Box::pin(self.plan.connect(request, lease, &sharing)).await;
                    none.insert(connected.map_err(failed)?)
                }
            };
            log_step!(
                request,
                "the server is asked over {} connection",
                if connection.reused { "a kept" } else { "a new" }
            );
            let (plan, head, unsent) = (&self.plan, &mut self.head, &mut self.unsent);
            let table = plan.table();
            let is_stream = connection.link.stream().is_some();
            let exchange = plan.family.exchange(request, is_stream, &plan.target, table.max_head());
            let exchange = &mut **self.exchange.insert(exchange);
            let mut run = Run { plan, table, connection, exchange, head, unsent, sent: 0, interim: (0, 0) };
            match run.run(request, body, lease).await {
                Ok(sent_all) => {
                    self.sent_all = sent_all;
                    return Ok(());
                }
                Err((error, stage)) => {
                    // The server has closed an idle connection just as it was used, which says nothing about the
                    // server.
                    let stale = run.connection.reused
                        && run.connection.kit.input.bytes.is_empty()
                        && matches!(
                            error,
                            UpstreamError::Send(_) | UpstreamError::Receive(_) | UpstreamError::Fault(Fault::Cut)
                        )
                        && (may_be_repeated || run.sent == 0)
                        && (body.can_be_sent_again() || run.sent == 0 && body.can_be_repeated());
                    let is_unprocessed = error.is_unprocessed() || run.is_unheard(&error);
                    let sent = run.sent > 0 && !is_unprocessed;
                    self.connection = None;
                    // Another connection may lead to a process of the server that takes it.
                    if is_unprocessed && body.can_be_repeated() && !std::mem::replace(&mut was_unprocessed, true) {
                        log_error!(request, Info, "{}, the request is sent again", error.words(stage));
                        continue;
                    }
                    if !stale {
                        return Err(FailedTry { error, stage, sent, is_unprocessed });
                    }
                    let failures = &lease.peer().figures.failures;
                    failures[AttemptFailure::Stale as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    log_error!(request, Info, "an idle upstream connection was closed, the request is sent again");
                    fresh_only = true;
                }
            }
        }
    }
}

/// A request on one connection.
struct Run<'p> {
    plan: &'p Plan,
    /// The member's settings from the shared table.
    table: &'p FamilySettings,
    connection: &'p mut UpstreamConnection,
    exchange: &'p mut dyn Exchange,
    /// The destination of the head.
    head: &'p mut UpstreamHead,
    /// The destination of the part that was not sent before the head came.
    unsent: &'p mut Option<Box<RequestRest>>,
    /// The number of bytes sent.
    sent: u64,
    /// Beginning of the period in which interim heads are counted, in [`loops::millis`], and their number since.
    interim: (u64, usize),
}

type StoppedAttempt = (UpstreamError, TryStage);

/// The state of the response's heads.
enum HeadsSeen {
    /// No complete head has come.
    Nothing,
    /// An interim head (1xx) has come; more follow.
    Interim,
    /// The final head has come.
    Final,
}

/// The part of a request that is still to be sent.
struct UnsentRequest {
    position: Position,
    /// Whether the body is over, apart from the bytes in the buffer.
    over: bool,
}

/// The result of writing.
enum Wrote {
    /// All bytes are written.
    All,
    /// Bytes have come from the server before all were written.
    Heard,
    /// The server accepts no more bytes.
    Refused(io::Error),
}

impl Run<'_> {
    /// Sends the request and waits for the final head. Returns whether all of the request was sent before.
    async fn run(
        &mut self,
        request: &mut Request,
        body: &mut OutgoingBody,
        lease: &Lease,
    ) -> Result<bool, StoppedAttempt> {
        let mut out = buffers::take_to_send();
        let result = match self.begin(request, body, lease, &mut out) {
            Ok(None) => Ok(false),
            Ok(Some(rest)) => Box::pin(self.send(request, body, rest, &mut out)).await,
            Err(stopped) => Err(stopped),
        };
        buffers::give_back_sent(out);
        self.plan.record.with(|last| last.sent = self.sent);
        let early = result?;
        if early {
            return Ok(false);
        }
        let reading = |error| (error, TryStage::ReadingHead);
        loop {
            // In a variable of its own, the result is not kept across the wait.
            let seen = self.head(request).map_err(reading)?;
            match seen {
                HeadsSeen::Final => break,
                HeadsSeen::Interim => self.interim(request).await.map_err(reading)?,
                HeadsSeen::Nothing => {
                    let Plan { options, client, .. } = self.plan;
                    let received = self.connection.receive(self.room(), options.read_timeout, client).await;
                    self.received(received).map_err(reading)?;
                }
            }
        }
        if let Some(missing) = self.is_about_to_come(request) {
            self.plan.record.with(|last| last.answered(loops::nanos()));
            self.connection.soon(missing, &self.plan.record).await;
        }
        Ok(true)
    }

    /// Whether a connection of HTTP/2 has ended before the server has said anything, so that nobody has accepted it.
    fn is_unheard(&self, error: &UpstreamError) -> bool {
        let is_end =
            matches!(error, UpstreamError::Send(_) | UpstreamError::Receive(_) | UpstreamError::Fault(Fault::Cut));
        is_end && self.connection.link.stream().is_some_and(|stream| !stream.is_heard())
    }

    /// Number of bytes missing of a response that `postpone_output` would hold back anyway. Servers that send a head by
    /// itself send such a body right after it; if both are there, nothing has to be prepared for a body that comes
    /// later.
    fn is_about_to_come(&self, request: &Request) -> Option<usize> {
        let left = usize::try_from(self.exchange.remaining()?).ok()?;
        let here = self.connection.kit.input.bytes.len();
        let missing = left.checked_sub(here).filter(|missing| *missing > 0)?;
        let held_back = request.settings().get::<TransferSettings>().postpone_output.0;
        let waits = self.table.proxy_buffering
            && ((self.head.bytes + here) as u64) < held_back
            && left <= SOON
            && !self.plan.head_at_once
            && !self.head.fields.has_other(b"X-Accel-Buffering");
        waits.then_some(missing)
    }

    /// The most bytes that the next read may bring.
    fn room(&self) -> usize {
        FIRST_READ.max(self.table.max_head()).saturating_sub(self.connection.kit.input.bytes.len()).max(1)
    }

    /// Handles the result of a read.
    fn received(&mut self, result: Result<usize, UpstreamError>) -> Result<(), UpstreamError> {
        match result? {
            0 => {
                self.exchange.closed().map_err(UpstreamError::Fault)?;
                Err(UpstreamError::Fault(Fault::Cut))
            }
            n => {
                self.plan.record.with(|last| last.received += n as u64);
                Ok(())
            }
        }
    }

    /// Takes the next head, if it has come completely.
    fn head(&mut self, request: &mut Request) -> Result<HeadsSeen, UpstreamError> {
        let limit = self.table.max_head();
        // A tunnel needs no answer of the server.
        if self.connection.kit.input.bytes.is_empty() && self.plan.options.tunnel.is_none() {
            return Ok(HeadsSeen::Nothing);
        }
        let found = self.exchange.head(&mut self.connection.kit.input.bytes).map_err(UpstreamError::Fault);
        while let Some(text) = self.exchange.take_error_output() {
            log_error!(request, Error, "{}", ErrorOutput(&text, TryStage::ReadingHead));
        }
        let Some(head) = found? else {
            let too_big = self.connection.kit.input.bytes.len() >= limit;
            return if too_big { Err(UpstreamError::Fault(Fault::TooBig)) } else { Ok(HeadsSeen::Nothing) };
        };
        *self.head = head;
        match self.head.status {
            _ if self.head.bytes > limit => Err(UpstreamError::Fault(Fault::TooBig)),
            101 if self.plan.family.upgrades(request) => Ok(HeadsSeen::Final),
            101 => Err(UpstreamError::Fault(Fault::invalid("upstream switched protocols though nobody asked for it"))),
            ..200 => Ok(HeadsSeen::Interim),
            _ => Ok(HeadsSeen::Final),
        }
    }

    /// Takes the heads that have come. Returns whether the final one has.
    async fn heads(&mut self, request: &mut Request) -> Result<bool, StoppedAttempt> {
        let reading = |error| (error, TryStage::ReadingHead);
        loop {
            match self.head(request).map_err(reading)? {
                HeadsSeen::Final => return Ok(true),
                HeadsSeen::Interim => self.interim(request).await.map_err(reading)?,
                HeadsSeen::Nothing => return Ok(false),
            }
        }
    }

    /// Handles an interim head.
    async fn interim(&mut self, request: &mut Request) -> Result<(), UpstreamError> {
        let (since, count) = &mut self.interim;
        let now = loops::millis();
        if now.saturating_sub(*since) >= INTERIM_PERIOD {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        if *count >= MAX_INTERIM {
            return Err(UpstreamError::Fault(Fault::invalid("upstream sent too many interim responses")));
        }
        Box::pin(early_hints::pass_on(request, self.plan.family, self.head)).await
    }

    /// Makes the request, including a small body, and sends at once as much of it as possible. The unsent part, if any,
    /// is in `out`, and in the body behind it.
    fn begin(
        &mut self,
        request: &Request,
        body: &OutgoingBody,
        lease: &Lease,
        out: &mut Vec<u8>,
    ) -> Result<Option<UnsentRequest>, StoppedAttempt> {
        let peer = lease.peer();
        let to = To { target: &self.plan.target, peer: &peer.name, server: &peer.server };
        let record = &self.plan.record;
        record.hide(!self.table.proxy_request_dynamic);
        let began = self.exchange.begin(request, &to, body.plan(request), out);
        record.hide(false);
        began.map_err(|fault| (UpstreamError::Fault(fault), TryStage::Sending))?;
        match body {
            OutgoingBody::None => {}
            body => match body.small(COPIED.min(self.exchange.max_piece())) {
                Some(bytes) => {
                    if !bytes.is_empty() {
                        self.exchange.before_piece(bytes.len(), out);
                        out.extend_from_slice(bytes);
                        self.exchange.after_piece(out);
                    }
                }
                None => return Ok(Some(UnsentRequest { position: body.start(), over: false })),
            },
        }
        self.exchange.body_end(out);
        // Any error is reported again by the next write.
        if let Ok(n) = self.connection.link.try_write(out, &Bytes::new()) {
            self.sent += n as u64;
            if n == out.len() {
                return Ok(None);
            }
            out.drain(..n);
        }
        Ok(Some(UnsentRequest { position: body.start(), over: true }))
    }

    /// Sends the rest of the request. A head that comes before the end stops it (`true`), and the unsent part is kept.
    async fn send(
        &mut self,
        request: &mut Request,
        body: &mut OutgoingBody,
        rest: UnsentRequest,
        out: &mut Vec<u8>,
    ) -> Result<bool, StoppedAttempt> {
        let sending = |error| (error, TryStage::Sending);
        let UnsentRequest { mut position, mut over } = rest;
        let mut piece = Bytes::new();
        loop {
            // A client, or a body in memory, that is as fast as the server must not starve other tasks of the loop.
            loops::consume_budget().await;
            // The next piece, after the bytes that precede it. The head does not wait for a body that is still to come
            // from the client; what has come with the client's head goes with it, in one call.
            let is_here = !body.is_stream() || request.body.is_done() || request.has_more_body();
            if is_here && self.sent == 0 {
                body.keep_first();
            }
            if !over && piece.is_empty() && (out.is_empty() || is_here) {
                let (next, early) = self.next_piece(request, body, &mut position).await.map_err(sending)?;
                if early {
                    if self.heads(request).await? {
                        *self.unsent = Some(RequestRest::new(out, piece, over, &position));
                        return Ok(true);
                    }
                    continue;
                }
                match next {
                    Some(next) => {
                        if body.has_ended(request, &position) {
                            self.exchange.last_piece(next.len());
                        }
                        self.exchange.before_piece(next.len(), out);
                        if next.len() <= COPIED {
                            out.extend_from_slice(&next);
                            self.exchange.after_piece(out);
                        } else {
                            piece = next;
                        }
                    }
                    None => {
                        over = true;
                        self.exchange.body_end(out);
                    }
                }
                // The end goes with the last piece. A client's piece is sent without waiting for the next one.
                let more_is_here = !body.is_stream() || body.has_ended(request, &position);
                if out.len() < COPIED && piece.is_empty() && !over && more_is_here {
                    continue;
                }
            }
            if out.is_empty() && piece.is_empty() {
                if over {
                    return Ok(false);
                }
                continue;
            }
            let whole = piece.is_empty();
            match self.write(out, &mut piece).await.map_err(sending)? {
                Wrote::All if whole => {}
                Wrote::All => self.exchange.after_piece(out),
                Wrote::Heard => {
                    if self.heads(request).await? {
                        *self.unsent = Some(RequestRest::new(out, piece, over, &position));
                        return Ok(true);
                    }
                }
                Wrote::Refused(error) => return self.last_words(request, error).await.map(|()| true),
            }
        }
    }

    /// Takes the head of a server that accepts no more of the request: the server may have sent a response before it
    /// closed, or send it now.
    async fn last_words(&mut self, request: &mut Request, error: io::Error) -> Result<(), StoppedAttempt> {
        loop {
            if self.heads(request).await? {
                return Ok(());
            }
            let Plan { options, client, .. } = self.plan;
            let error = match self.connection.receive(self.room(), options.read_timeout, client).await {
                Ok(0) | Err(UpstreamError::Receive(_)) => UpstreamError::Send(error),
                Ok(n) => match self.received(Ok(n)) {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            return Err((error, TryStage::Sending));
        }
    }

    /// The next piece of the body, or the notice that bytes have come from the server during the wait.
    async fn next_piece(
        &mut self,
        request: &mut Request,
        body: &mut OutgoingBody,
        position: &mut Position,
    ) -> Result<(Option<Bytes>, bool), UpstreamError> {
        let most = self.exchange.max_piece();
        if !body.is_stream() {
            return Ok((body.next(request, position, most, &self.plan.client).await?, false));
        }
        let room = self.room();
        let UpstreamConnection { link, kit, .. } = &mut *self.connection;
        let input = &mut kit.input;
        let received = tokio::select! {
            biased;
            piece = body.next(request, position, most, &self.plan.client) => return Ok((piece?, false)),
            received = input.read(link, room) => received,
        };
        self.received(received.map_err(receive_error))?;
        Ok((None, true))
    }

    /// Writes all of `out` and `piece`, unless bytes come from the server before.
    async fn write(&mut self, out: &mut Vec<u8>, piece: &mut Bytes) -> Result<Wrote, UpstreamError> {
        let mut done = 0;
        loop {
            let rest = &out[done..];
            if rest.is_empty() && piece.is_empty() {
                break;
            }
            match self.connection.link.try_write(rest, piece) {
                Ok(n) => {
                    self.sent += n as u64;
                    let of_out = n.min(rest.len());
                    done += of_out;
                    if n > of_out {
                        bytes::Buf::advance(piece, n - of_out);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.wait_for_room().await? {
                        out.drain(..done);
                        return Ok(Wrote::Heard);
                    }
                }
                Err(error) => return Ok(Wrote::Refused(error)),
            }
        }
        out.clear();
        Ok(Wrote::All)
    }

    /// Waits until the server accepts more bytes, or bytes come from it (`true`).
    async fn wait_for_room(&mut self) -> Result<bool, UpstreamError> {
        let room = self.room();
        let wait = self.table.proxy_send_timeout;
        let UpstreamConnection { link, kit, .. } = &mut *self.connection;
        let Kit { input, timer, .. } = &mut **kit;
        let either = async {
            tokio::select! {
                biased;
                received = input.read(link, room) => Ok(Some(received)),
                writable = link.writable_after_full() => writable.map(|()| None),
            }
        };
        let received = match timer.within(wait, self.plan.client.unless_gone(either)).await {
            None => return Err(UpstreamError::TimedOut),
            Some(either) => either?.map_err(UpstreamError::Send)?,
        };
        match received {
            None => Ok(false),
            Some(received) => {
                self.received(received.map_err(receive_error))?;
                Ok(true)
            }
        }
    }
}
