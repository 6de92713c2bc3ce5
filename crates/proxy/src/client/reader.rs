//! The body of a response, read from the upstream server.

use std::fmt::{self, Write};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::log::DetachedLog;
use freerun_http::request::Request;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_upstream::link::Link;
use freerun_upstream::{FailureVerdict, Lease, Peer};

use crate::client::attempt::UpstreamExchange;
use crate::client::error::{TryStage, UpstreamError};
use crate::client::plan::Plan;
use crate::client::request_rest::RequestRest;
use crate::exchange::{BodyStep, Exchange, Fault, TOO_MUCH, UpstreamHead};

/// The text of the log line for a body that has no connection to be read from.
const LOST: &str = "the upstream connection was given up before the end of the response";

/// The result of [`BodyReader::ready`].
#[derive(Debug, PartialEq, Eq)]
pub enum ReadReadiness {
    /// The next piece of the body.
    Piece(Bytes),
    /// More bytes have to be read.
    Nothing,
    /// The body is over.
    End,
}

/// The body was not complete, and never will be. The error is logged already.
#[derive(Debug)]
pub struct BrokenBody;

/// The progress of reading a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// The body continues: there is a connection, and an exchange on it.
    Reading,
    /// The whole body has come. Only [`BodyReader::complete`] and [`BodyReader::too_much`] set this.
    Complete,
    /// The body is not complete, and never will be.
    Broken,
}

/// Reads a body to its end, and returns the connection to the pool if the end was clean.
pub struct BodyReader {
    state: ReadState,
    upstream: Box<UpstreamExchange>,
    lease: Option<Lease>,
    /// The server, once the lease was given back although the end of the response has not come.
    settled: Option<Arc<Peer>>,
    left: Option<u64>,
    pace: ReadPace,
    /// Beginning of the try, in [`loops::nanos`].
    began: u64,
    /// Whether the bytes count as the response's length, because some of them are for the client.
    wanted: bool,
    /// The log; it is made if the body does not come with the head.
    pub log: Option<DetachedLog>,
    /// The messages that could not be logged before there was a log.
    pub unsaid: Unsaid,
}

/// The level and the text of the log line about surplus bytes; see [`Exchange::surplus`].
type Surplus = (Level, &'static str);

/// The messages about a response that are still to be logged.
#[derive(Debug, Default)]
pub struct Unsaid {
    /// The error.
    pub error: Option<UpstreamError>,
    /// The application's error output.
    pub output: Vec<Bytes>,
    /// The level and the text for surplus bytes, if there were any.
    pub surplus: Option<Surplus>,
    /// Whether the outlier detection has ejected the server.
    pub ejected: bool,
}

impl BodyReader {
    /// A reader that begins behind the head. `began` is when the try began.
    pub fn new(upstream: Box<UpstreamExchange>, lease: Lease, began: u64) -> BodyReader {
        debug_assert!(upstream.connection.is_some() && upstream.exchange.is_some(), "a head has come on a connection");
        BodyReader {
            state: ReadState::Reading,
            left: upstream.head.length,
            upstream,
            lease: Some(lease),
            settled: None,
            pace: ReadPace::default(),
            began,
            wanted: true,
            log: None,
            unsaid: Unsaid::default(),
        }
    }

    /// The plan of the request.
    pub fn plan(&self) -> &Plan {
        &self.upstream.plan
    }

    /// Takes the response's head; to be called once.
    pub fn take_head(&mut self) -> UpstreamHead {
        std::mem::take(&mut self.upstream.head)
    }

    /// Limits the rate of reading from now on to `proxy_limit_rate`, whose variables may be about the head.
    pub fn limit_rate(&mut self, request: &Request) {
        let Plan { family, record, .. } = self.plan();
        let rate = family.table(request.settings()).proxy_limit_rate.of(request);
        if rate == 0 {
            return;
        }
        let received = record.with(|last| last.received).unwrap_or_default();
        self.pace = ReadPace { rate, began: loops::nanos(), received };
    }

    /// Gives the lease back, because the whole body has come and the server has done its work: it is free for other
    /// requests. Returns whether the end of the response may be waited for, so that the connection can be used again.
    pub fn settle(&mut self) -> bool {
        let took = self.end();
        let Some(lease) = self.lease.take() else { return false };
        self.settled = Some(lease.peer().clone());
        self.judged(lease.succeeded(took, loops::millis()));
        self.upstream.exchange.as_ref().is_some_and(|exchange| exchange.framing() > 0)
    }

    /// Marks the body as not for the client: as in nginx, it then counts as length 0 and is not checked for surplus.
    pub fn for_nobody(&mut self) {
        self.wanted = false;
    }

    /// Whether the body is over, complete or not.
    pub fn is_over(&self) -> bool {
        self.state != ReadState::Reading
    }

    /// Whether the whole body has come.
    pub fn is_complete(&self) -> bool {
        self.state == ReadState::Complete
    }

    /// The server, until the body is over.
    pub fn peer(&self) -> Option<&Peer> {
        self.lease.as_ref().map(|lease| &**lease.peer())
    }

    /// The number of bytes of the body that are still to come from the server, if the head has told the length.
    pub fn left(&self) -> Option<u64> {
        self.left
    }

    /// Whether trailers may come behind the body.
    pub fn may_have_trailers(&self) -> bool {
        self.upstream.exchange.as_ref().is_some_and(|exchange| exchange.may_have_trailers())
    }

    /// Number of bytes to read, at most about `most`: no more than are still to come, and the bytes that end the
    /// response after the last bytes of the body.
    pub fn room(&self, most: usize) -> usize {
        match self.left.and_then(|left| usize::try_from(left).ok()) {
            Some(left) if left <= most => {
                left + self
                    .upstream
                    .exchange
                    .as_ref()
                    .map_or(0, |exchange| exchange.framing())
                    .max(usize::from(left == 0))
            }
            _ => most,
        }
    }

    /// The next piece of the bytes that have come already.
    ///
    /// # Errors
    /// The body is broken.
    pub fn ready(&mut self) -> Result<ReadReadiness, BrokenBody> {
        match self.state {
            ReadState::Reading => {}
            ReadState::Complete => return Ok(ReadReadiness::End),
            ReadState::Broken => return Err(BrokenBody),
        }
        let UpstreamExchange { connection: Some(connection), exchange: Some(exchange), .. } = &mut *self.upstream
        else {
            return Err(self.lost());
        };
        let step = exchange.body(&mut connection.kit.input.bytes);
        self.hear();
        match step {
            Ok(BodyStep::Data(mut piece)) => {
                let mut beyond = false;
                if let Some(left) = &mut self.left {
                    if piece.len() as u64 > *left {
                        piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                        beyond = true;
                    }
                    *left -= piece.len() as u64;
                }
                let is_done = self.upstream.exchange.as_ref().is_some_and(|exchange| exchange.is_done());
                if self.wanted {
                    self.plan().record.with(|last| last.own.length += piece.len() as u64);
                }
                if beyond {
                    self.too_much();
                } else if is_done || self.left == Some(0) && self.is_ended()? {
                    self.complete()?;
                }
                match self.state {
                    _ if !piece.is_empty() => Ok(ReadReadiness::Piece(piece)),
                    ReadState::Complete => Ok(ReadReadiness::End),
                    _ => Err(self.lost()),
                }
            }
            Ok(BodyStep::More) => Ok(ReadReadiness::Nothing),
            Ok(BodyStep::End) => {
                self.complete()?;
                Ok(ReadReadiness::End)
            }
            Err(fault) => Err(self.broken(UpstreamError::Fault(fault))),
        }
    }

    /// Takes the error output of the application.
    fn hear(&mut self) {
        let Some(exchange) = &mut self.upstream.exchange else { return };
        while let Some(text) = exchange.take_error_output() {
            match &self.log {
                Some(log) => log.write(Level::Error, format_args!("{}", ErrorOutput(&text, TryStage::ReadingBody))),
                None => self.unsaid.output.push(text),
            }
        }
    }

    /// Whether the bytes that end the response (the last record of FastCGI, memcached's `END`) have come with the last
    /// bytes of its body. Then nobody asks for more of the body.
    fn is_ended(&mut self) -> Result<bool, BrokenBody> {
        let UpstreamExchange { connection: Some(connection), exchange: Some(exchange), .. } = &mut *self.upstream
        else {
            return Err(self.lost());
        };
        let step = exchange.body(&mut connection.kit.input.bytes);
        self.hear();
        Ok(matches!(step, Ok(BodyStep::End)))
    }

    /// Reads from the server, about `room` bytes at most.
    ///
    /// # Errors
    /// The body is broken.
    pub async fn receive(&mut self, room: usize) -> Result<(), BrokenBody> {
        let room = self.pace.room(room).await;
        let UpstreamExchange { plan, connection: Some(connection), exchange: Some(exchange), unsent, sent_all, .. } =
            &mut *self.upstream
        else {
            return Err(self.lost());
        };
        let log = self.log.as_ref();
        let send_on = |link: &Link, context: &mut Context<'_>| {
            send_on((&mut *unsent, &mut *sent_all), (&mut **exchange, plan), log, link, context)
        };
        match connection.receive_while(room, plan.options.read_timeout, &plan.client, send_on).await {
            Ok(0) => match exchange.closed() {
                Ok(()) => self.complete(),
                Err(fault) => Err(self.broken(UpstreamError::Fault(fault))),
            },
            Ok(n) => {
                self.pace.received += n as u64;
                plan.record.with(|last| last.received += n as u64);
                Ok(())
            }
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Waits until bytes can be read. The bytes read next are going to be kept for a while, and so go into a buffer of
    /// their own.
    ///
    /// # Errors
    /// The body is broken.
    pub async fn readable(&mut self) -> Result<(), BrokenBody> {
        self.pace.room(1).await;
        let UpstreamExchange { plan, connection: Some(connection), exchange: Some(exchange), unsent, sent_all, .. } =
            &mut *self.upstream
        else {
            return Err(self.lost());
        };
        connection.kit.input.be_exact();
        let log = self.log.as_ref();
        let send_on = |link: &Link, context: &mut Context<'_>| {
            send_on((&mut *unsent, &mut *sent_all), (&mut **exchange, plan), log, link, context)
        };
        let readable = connection.readable_while(plan.options.read_timeout, &plan.client, send_on).await;
        readable.map_err(|error| self.broken(error))
    }

    /// Sends the rest of the request while nothing is read.
    ///
    /// # Errors
    /// The body is broken.
    pub async fn send_rest(&mut self) -> Result<(), BrokenBody> {
        match self.state {
            ReadState::Reading => {}
            // The server has received all that it wanted.
            ReadState::Complete => return Ok(()),
            ReadState::Broken => return Err(BrokenBody),
        }
        let sent = poll_fn(|context| {
            let UpstreamExchange {
                plan, connection: Some(connection), exchange: Some(exchange), unsent, sent_all, ..
            } = &mut *self.upstream
            else {
                return Poll::Ready(Err(UpstreamError::Internal(LOST)));
            };
            let log = self.log.as_ref();
            let sent = send_on((unsent, sent_all), (&mut **exchange, plan), log, &connection.link, context);
            match sent {
                Ok(_) if unsent.is_some() => Poll::Pending,
                sent => Poll::Ready(sent.map(|_| ())),
            }
        });
        sent.await.map_err(|error| self.broken(error))
    }

    /// Prepares for reading the rest of the request from the client while this reads the response.
    pub fn borrow_body(&mut self, request: &mut Request) {
        if let Some(unsent) = &mut self.upstream.unsent {
            unsent.borrow(request);
        }
    }

    /// Handles the end of a complete body.
    fn complete(&mut self) -> Result<(), BrokenBody> {
        debug_assert_eq!(self.state, ReadState::Reading, "a body ends once");
        if self.left.is_some_and(|left| left > 0) {
            return Err(self.broken(UpstreamError::Fault(Fault::Cut)));
        }
        let UpstreamExchange { plan, connection, exchange: Some(exchange), sent_all, .. } = &mut *self.upstream else {
            return Err(self.lost());
        };
        let Some(connection) = connection.take() else { return Err(self.lost()) };
        self.state = ReadState::Complete;
        plan.record.set_trailers(exchange.take_trailers());
        let reusable = *sent_all && exchange.reusable();
        let behind = !connection.kit.input.bytes.is_empty();
        if let Some(surplus) = exchange.surplus().or_else(|| if behind { self.surplus() } else { None }) {
            self.say_surplus(surplus);
        }
        let took = self.end();
        if let Some(lease) = self.lease.take() {
            if reusable && let Some(servers) = self.plan().servers() {
                connection.give_back(lease.peer(), servers);
            }
            self.judged(lease.succeeded(took, loops::millis()));
        } else if let Some(peer) = self.settled.take().filter(|_| reusable)
            && let Some(servers) = self.plan().servers()
        {
            connection.give_back(&peer, servers);
        }
        Ok(())
    }

    /// Handles surplus bytes: the connection cannot be used again.
    fn too_much(&mut self) {
        if let Some(surplus) = self.surplus() {
            self.say_surplus(surplus);
        }
        // The announced bytes have come, and the rest was cut off.
        debug_assert!(
            self.state == ReadState::Reading && self.left == Some(0),
            "only a body of known length has too much"
        );
        self.state = ReadState::Complete;
        if self.upstream.connection.take().is_some() {
            let took = self.end();
            if let Some(lease) = self.lease.take() {
                self.judged(lease.succeeded(took, loops::millis()));
            }
        }
    }

    /// The level and the text of the log line about bytes that are left behind the end of the body.
    fn surplus(&self) -> Option<Surplus> {
        match self.left {
            Some(_) => Some((Level::Warn, TOO_MUCH)),
            None => Some((Level::Warn, self.upstream.exchange.as_ref()?.behind_end()?)),
        }
    }

    fn say_surplus(&mut self, (level, what): Surplus) {
        match &self.log {
            _ if !self.wanted => {}
            Some(log) => log.write(level, format_args!("{what} while {}", TryStage::ReadingBody)),
            None => self.unsaid.surplus = Some((level, what)),
        }
    }

    /// Records the consequence for the server.
    fn judged(&mut self, verdict: FailureVerdict) {
        if verdict.ejected {
            match &self.log {
                Some(log) => {
                    log.write(Level::Warn, format_args!("{} while {}", FailureVerdict::EJECTED, TryStage::ReadingBody))
                }
                None => self.unsaid.ejected = true,
            }
        }
    }

    /// Handles a missing connection or exchange while more of the body is to come, which is a bug in this program. The
    /// bytes that have come are not the whole body, and must not be taken for it.
    #[cold]
    fn lost(&mut self) -> BrokenBody {
        debug_assert!(false, "{LOST}");
        self.broken(UpstreamError::Internal(LOST))
    }

    /// Handles an error: the body is not complete, and never will be.
    fn broken(&mut self, error: UpstreamError) -> BrokenBody {
        debug_assert!(self.state != ReadState::Complete, "a body breaks that has come");
        self.state = ReadState::Broken;
        // After [`BodyReader::settle`] the missing bytes do not matter.
        if let Some(log) = self.log.as_ref().filter(|_| self.settled.is_none()) {
            error.log_detached(log, TryStage::ReadingBody);
        }
        self.upstream.connection = None;
        self.upstream.unsent = None;
        self.end();
        if let (Some(lease), Some(failure)) = (self.lease.take(), error.failure()) {
            self.judged(lease.broken(failure, loops::millis()));
        }
        if self.log.is_none() {
            self.unsaid.error = Some(error);
        }
        BrokenBody
    }

    fn end(&mut self) -> Duration {
        let now = loops::nanos();
        let record = &self.plan().record;
        record.end(now);
        let took = Duration::from_nanos(now.saturating_sub(self.began));
        if let Some(lease) = &self.lease {
            record.count(lease);
        }
        took
    }

    /// Goes on without the client, if it can: it cannot if the rest of the request was to come from the client.
    pub fn leave_client(&mut self) -> bool {
        let UpstreamExchange { plan: Plan { client, .. }, unsent, .. } = &mut *self.upstream;
        *client = client.unwatched();
        unsent.as_mut().is_none_or(|unsent| unsent.leave_client())
    }

    /// Reads to the end without a consumer, so that the server can finish. The client was [left](BodyReader::leave_client).
    pub async fn drain(mut self, room: usize) {
        loop {
            match self.ready() {
                Ok(ReadReadiness::Piece(_)) => loops::consume_budget().await,
                Ok(ReadReadiness::Nothing) => {
                    if self.receive(room).await.is_err() {
                        return;
                    }
                }
                Ok(ReadReadiness::End) | Err(BrokenBody) => return,
            }
        }
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        debug_assert!(
            self.state == ReadState::Reading || self.lease.is_none() || std::thread::panicking(),
            "an ended response keeps its server busy"
        );
        if self.state == ReadState::Reading {
            self.end();
        }
    }
}

/// Sends as much as possible of the rest of a request, if there is one. Returns whether the server is not expected to
/// respond yet: it has just got more, or the client is waited for.
fn send_on(
    (unsent, sent_all): (&mut Option<Box<RequestRest>>, &mut bool),
    (exchange, plan): (&mut dyn Exchange, &Plan),
    log: Option<&DetachedLog>,
    link: &Link,
    context: &mut Context<'_>,
) -> Result<bool, UpstreamError> {
    let Some(rest) = unsent else { return Ok(false) };
    let mut sent = 0;
    let answer = rest.poll(context, link, (exchange, plan), &mut sent);
    let is_busy = sent > 0 || rest.waits_for_client();
    plan.record.with(|last| last.sent += sent);
    match answer {
        Poll::Pending => return Ok(is_busy),
        Poll::Ready(Ok(())) => *sent_all = true,
        Poll::Ready(Err(stopped)) => {
            if let Some(log) = log {
                stopped.log(log);
            }
            if let Some(error) = stopped.upstream_error() {
                return Err(error);
            }
        }
    }
    *unsent = None;
    Ok(is_busy)
}

/// The error output of an application, as nginx logs it; each message stays on one line of the log.
pub struct ErrorOutput<'t>(pub &'t [u8], pub TryStage);

impl fmt::Display for ErrorOutput<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FastCGI sent in stderr: \"")?;
        for char in text_of(self.0).chars() {
            match char {
                '\n' => formatter.write_str("\\n")?,
                char if char.is_control() && char != '\t' => write!(formatter, "\\x{:02X}", u32::from(char))?,
                char => formatter.write_char(char)?,
            }
        }
        write!(formatter, "\" while {}", self.1)
    }
}

/// The rate at which a server is read.
#[derive(Default)]
struct ReadPace {
    rate: u64,
    began: u64,
    received: u64,
}

impl ReadPace {
    /// Part of `wanted` that may be read now; waits until it is at least one byte.
    async fn room(&self, wanted: usize) -> usize {
        if self.rate == 0 {
            return wanted;
        }
        loop {
            let elapsed = u128::from(loops::nanos().saturating_sub(self.began) / 1_000_000 + 1000);
            let allowed = u128::from(self.rate) * elapsed / 1000;
            let room = allowed.saturating_sub(u128::from(self.received));
            if room > 0 {
                return wanted.min(usize::try_from(room).unwrap_or(usize::MAX));
            }
            let missing = u128::from(self.received) - allowed + 1;
            let wait = (missing * 1000).div_ceil(u128::from(self.rate));
            freerun_runtime::timer::sleep(Duration::from_millis(u64::try_from(wait).unwrap_or(u64::MAX))).await;
        }
    }
}
