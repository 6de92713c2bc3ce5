//! The task of a connection: its events, its time, and when it ends.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use freerun_proto::h3::{H3ConnectionError, H3ErrorCode};
use freerun_quic::connection::{ConnectionError, Event, StreamEvent};
use freerun_quic::http3::machine_id;
use freerun_runtime::deadline::Deadline;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_serve::accept::service::words_of_panic;
use freerun_serve::tls::agreed_session::AgreedSession;

use crate::connection::IdleConnection;
use crate::connection::idle::{self, AwaitedRequest, Keep};
use crate::phases::keepalive;
use crate::protocol::h3::client::H3Client;
use crate::protocol::h3::handshake;
use crate::protocol::tls;
use crate::request::core_settings::CoreSettings;
use crate::request::response::LocalBoxFuture;
use crate::settings::server::ServerSettings;

/// The longest time for a client's requests that were on their way when the end was announced.
const LAST_CALL: Duration = Duration::from_secs(1);

/// The time in round trips, and the least one, until a client knows its last stream.
const HEARD: u32 = 3;
const LEAST_HEARD: Duration = Duration::from_millis(10);

/// The longest time for a client to acknowledge its last responses.
const LAST_ACKNOWLEDGEMENT: Duration = Duration::from_secs(5);

/// The time between two PINGs to a client whose requests take long. It is well below the time after which QUIC takes a
/// silent client for gone.
const PING: Duration = Duration::from_secs(20);

/// The time for which packets of a handshake that is complete may still come. Afterwards they would begin a connection.
const LATE_PACKETS: Duration = Duration::from_secs(3);

/// The stage of a connection.
enum TaskStage {
    /// The ClientHello is awaited, and the settings are chosen.
    Beginning(LocalBoxFuture<'static, Option<()>>),
    /// The handshake goes on until this moment at most.
    Handshake(Instant),
    /// The client's certificate is verified.
    Verifying(LocalBoxFuture<'static, Option<()>>),
    /// Requests are served, or may come.
    Open,
    /// There is no request. The number of requests so far shows whether any has come since.
    Idle(idle::Key, u64),
    /// The connection is closed, and answers what is still on its way.
    Closing,
}

/// A fault that a test has ordered for the task of a connection.
#[cfg(debug_assertions)]
#[derive(Default)]
pub struct OrderedFault(pub std::cell::Cell<Option<fn()>>);

/// Serves a connection to its end.
pub struct H3Task {
    client: Rc<H3Client>,
    stage: TaskStage,
    deadline: Deadline,
    /// The moment at which the end was announced.
    announced: Option<Instant>,
    /// The moment at which the client knows the last stream that was accepted.
    heard: Option<Instant>,
    /// The moment at which the client acknowledged anything last while its last responses were on their way, and the number of
    /// its acknowledgements by then.
    rested: Option<(Instant, u64)>,
    /// The moment from which on the client's first packets are forgotten.
    forgets_at: Option<Instant>,
    /// The moment of the next PING to a client with requests.
    next_ping: Option<Instant>,
}

impl H3Task {
    /// The task of a connection whose first datagram has come.
    pub(super) fn new(client: Rc<H3Client>) -> H3Task {
        let of = client.clone();
        let begins = Box::pin(async move { handshake::begin(&of).await });
        H3Task {
            client,
            stage: TaskStage::Beginning(begins),
            deadline: Deadline::default(),
            announced: None,
            heard: None,
            rested: None,
            forgets_at: None,
            next_ping: None,
        }
    }

    /// Ready when the connection has ended.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let TaskStage::Beginning(begins) = &mut self.stage {
            match begins.as_mut().poll(context) {
                Poll::Pending if self.client.is_over() => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Ready(Some(())) => {
                    let until = loops::now() + self.header_timeout();
                    self.stage = TaskStage::Handshake(until);
                    if self.client.is_over() {
                        // Its socket was closed meanwhile.
                        self.close(H3ErrorCode::H3_NO_ERROR);
                    }
                }
            }
        }
        self.client.task_looks(context);
        #[cfg(debug_assertions)]
        if let Some(fault) = self.client.facts.find_state::<OrderedFault>().and_then(|ordered| ordered.0.take()) {
            fault();
        }
        let now = loops::now();
        self.client.with_quic(|quic| quic.advance(now));
        if self.client.is_moving() {
            self.client.transmit(now, context);
        }
        if let Err(failure) = self.take_events(context) {
            self.fail(failure);
        }
        self.client.flush_writable();
        if let TaskStage::Verifying(verifying) = &mut self.stage {
            match verifying.as_mut().poll(context) {
                Poll::Pending => {}
                Poll::Ready(None) => self.close(H3ErrorCode::H3_NO_ERROR),
                // Streams that have come meanwhile wait.
                Poll::Ready(Some(())) => self.stage = TaskStage::Open,
            }
        }
        if self.may_serve()
            && let Err(failure) = self.client.read_wanted().and_then(|()| self.client.accept_streams(context))
        {
            self.fail(failure);
        }
        if let Some(failure) = self.client.machine(|machine| machine.failure()) {
            self.fail(failure);
        }
        self.client.write_own();
        self.client.follow_window();
        if self.client.transmit(now, context) {
            context.waker().wake_by_ref();
        }
        self.decide(context, now)
    }

    /// Whether requests may be served: the session is established, or brings early data.
    fn may_serve(&self) -> bool {
        matches!(self.stage, TaskStage::Open | TaskStage::Idle(..))
    }

    // ---- events ------------------------------------------------------------------------------------------------------

    fn take_events(&mut self, context: &mut Context<'_>) -> Result<(), H3ConnectionError> {
        // Other tasks have their turn in between: QUIC keeps the rest.
        while loops::poll_budget(context).is_ready()
            && let Some(event) = self.client.next_event()
        {
            match event {
                Event::HandshakeDataReady => self.early_data(),
                Event::Connected => self.connected(),
                Event::ConnectionLost { reason } => self.lost(&reason),
                Event::Stream(event) => self.take_stream_event(event)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn take_stream_event(&mut self, event: StreamEvent) -> Result<(), H3ConnectionError> {
        let client = &self.client;
        match event {
            StreamEvent::Opened { dir } => {
                client.take_opened(dir);
                Ok(())
            }
            StreamEvent::Readable { id } if self.may_serve() => client.read_stream(machine_id(id)),
            // They are read when requests may be served.
            StreamEvent::Readable { .. } => Ok(()),
            StreamEvent::Writable { id } => {
                client.note_writable(machine_id(id));
                Ok(())
            }
            StreamEvent::Finished { id } => {
                client.unacknowledged.borrow_mut().remove(&machine_id(id).0);
                Ok(())
            }
            StreamEvent::Stopped { id, error_code } => {
                let (id, code) = (machine_id(id), H3ErrorCode(error_code.into()));
                client.unacknowledged.borrow_mut().remove(&id.0);
                let event = client.machine(|machine| machine.peer_stops(id, code, loops::millis()))?;
                match event {
                    Some(event) => client.take_event(event),
                    // The machine has sent everything, but QUIC may still have a part of it. It resets nothing by itself.
                    None => {
                        client.reset_stream(id, H3ErrorCode::H3_REQUEST_CANCELLED);
                        client.stream(id).into_iter().for_each(|stream| stream.leave());
                    }
                }
                Ok(())
            }
            StreamEvent::Available { .. } => Ok(()),
        }
    }

    /// The client's first messages have come. If they bring early data, requests are served from now on.
    fn early_data(&mut self) {
        if self.client.with_quic(|quic| quic.look().has_0rtt()) == Some(true) {
            self.client.facts.loop_state.shared.quic.early_accepted.add();
            self.establish();
        } else if self.client.offers_early() {
            self.client.facts.loop_state.shared.quic.early_rejected.add();
        }
    }

    /// The handshake is complete.
    fn connected(&mut self) {
        self.client.end_handshake();
        self.forgets_at = Some(loops::now() + LATE_PACKETS);
        if self.client.note_agreed().is_none() {
            return self.close(H3ErrorCode::H3_INTERNAL_ERROR);
        }
        if matches!(self.stage, TaskStage::Handshake(_)) {
            self.establish();
        }
    }

    fn establish(&mut self) {
        let client = self.client.clone();
        self.stage = TaskStage::Verifying(Box::pin(async move { establish(&client).await }));
    }

    /// The connection has ended.
    fn lost(&mut self, reason: &ConnectionError) {
        if matches!(self.stage, TaskStage::Handshake(_)) {
            if let Some(failure) = self.client.session().and_then(|session| session.failure()) {
                handshake::session_failed(&self.client, failure);
            }
        } else {
            self.client.log_end(reason);
        }
        self.leave_idle();
        self.client.over();
        self.stage = TaskStage::Closing;
    }

    /// The client has broken the rules, so the connection ends.
    fn fail(&mut self, failure: H3ConnectionError) {
        if matches!(self.stage, TaskStage::Closing) {
            return;
        }
        self.client.log_failure(&failure);
        self.client.close(failure.code, failure.what);
        self.leave_idle();
        self.client.failed();
        self.stage = TaskStage::Closing;
    }

    /// Closes the connection in order.
    fn close(&mut self, code: H3ErrorCode) {
        self.client.close(code, "");
        self.leave_idle();
        self.client.over();
        self.stage = TaskStage::Closing;
    }

    fn leave_idle(&mut self) {
        if let TaskStage::Idle(key, _) = self.stage {
            self.client.driver.http.idle.leave(key);
            self.stage = TaskStage::Open;
        }
    }

    // ---- between -----------------------------------------------------------------------------------------------------

    /// Decides what to wait for. Ready when the connection has ended.
    fn decide(&mut self, context: &mut Context<'_>, now: Instant) -> Poll<()> {
        let mut until = match self.client.with_quic(|quic| (quic.is_drained(), quic.deadline())) {
            None | Some((true, _)) => return Poll::Ready(()),
            Some((false, deadline)) => deadline,
        };
        if let Some(at) = self.forgets_at {
            if now >= at {
                self.client.forget_first_id();
                self.forgets_at = None;
            } else {
                until = earlier(until, at);
            }
        }
        match &self.stage {
            TaskStage::Handshake(end) if now >= *end => {
                handshake::failed(&self.client, &freerun_serve::tls::handshake::HandshakeError::TimedOut);
                self.close(H3ErrorCode::H3_NO_ERROR);
                context.waker().wake_by_ref();
            }
            TaskStage::Handshake(end) => until = earlier(until, *end),
            TaskStage::Open | TaskStage::Idle(..) => {
                if let Some(end) = self.rest(context, now) {
                    until = earlier(until, end);
                }
                if let Some(end) = self.client.give_up_rests() {
                    let left = Duration::from_millis(end.saturating_sub(loops::millis()));
                    until = earlier(until, now + left);
                }
            }
            TaskStage::Beginning(_) | TaskStage::Verifying(_) | TaskStage::Closing => {}
        }
        if let Some(until) = until
            && self.deadline.poll_instant(until, context).is_ready()
        {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Looks whether the connection has nothing to do, or is to end. Returns when it is to look again.
    fn rest(&mut self, context: &mut Context<'_>, now: Instant) -> Option<Instant> {
        let client = self.client.clone();
        let http = &client.driver.http;
        let Some((_, servers, still_listens)) = http.servers_of(&client.facts, || client.local()) else {
            self.close(H3ErrorCode::H3_NO_ERROR);
            context.waker().wake_by_ref();
            return None;
        };
        let (core, settings) = (&servers.entry.core, servers.entry.settings.get::<ServerSettings>());
        let timeout = settings.client_header_timeout;
        if let Some(since) = client.machine(|machine| machine.awaited_since()) {
            let (since, millis) = (Duration::from_millis(since), loops::millis());
            let end = since + timeout;
            if Duration::from_millis(millis) < end {
                self.leave_idle();
                return Some(now + (end - Duration::from_millis(millis)));
            }
            self.give_up_late(millis, timeout);
            context.waker().wake_by_ref();
            return None;
        }
        if !client.has_no_streams() {
            self.leave_idle();
            self.rested = None;
            let next_ping = self.ping(now);
            if !client.machine(|machine| machine.is_ending()) || client.machine(|machine| machine.is_finished()) {
                return Some(next_ping);
            }
            // A client that always has a request would be served for ever otherwise.
            let called = *self.announced.get_or_insert(now) + LAST_CALL;
            if now >= called {
                client.machine(|machine| machine.finish());
                context.waker().wake_by_ref();
            }
            return Some(next_ping.min(called));
        }
        self.next_ping = None;
        let is_fresh = client.facts.requests.get() == 0;
        let is_draining = client.facts.loop_state.is_draining();
        let is_asked = client.close_request().is_made();
        let must_end = is_asked || (is_draining || !still_listens) && !is_fresh;
        if must_end || client.machine(|machine| machine.is_ending()) {
            self.leave_idle();
            // A connection that was asked because of its time is in no hurry, but then nothing is on its way to it either.
            let is_late = is_asked && !is_draining;
            return self.end(context, now, is_late, is_late && client.facts.loop_state.admission.is_full());
        }
        if let TaskStage::Idle(_, requests) = self.stage
            && requests != client.facts.requests.get()
        {
            // Requests have come and were answered since.
            self.leave_idle();
        }
        if let TaskStage::Open = self.stage {
            http.renew_connection_of(&client.facts, || client.local());
            let (waiting, keep) = if is_fresh {
                (AwaitedRequest::First, Keep::at_most(timeout))
            } else {
                (AwaitedRequest::Next, core.keep())
            };
            let requests = client.facts.requests.get();
            self.stage = TaskStage::Idle(http.idle.enter(&client, waiting, keep), requests);
            client.facts.loop_state.admission.one_may_leave();
        }
        None
    }

    /// Sends a PING now and then while requests go on, so that the connection outlives requests that take long. Returns the
    /// moment of the next one.
    fn ping(&mut self, now: Instant) -> Instant {
        match self.next_ping {
            Some(next) if now < next => next,
            before => {
                if before.is_some() {
                    self.client.with_quic(|quic| quic.inner().ping());
                    self.client.wake_later();
                }
                let next = now + PING;
                self.next_ping = Some(next);
                next
            }
        }
    }

    /// Ends a connection without requests. Returns when it is to look again.
    fn end(&mut self, context: &mut Context<'_>, now: Instant, is_late: bool, makes_room: bool) -> Option<Instant> {
        let client = &self.client;
        if self.announced.is_none() {
            client.machine(|machine| machine.announce_end());
            context.waker().wake_by_ref();
        }
        let announced = *self.announced.get_or_insert(now);
        let called = announced + LAST_CALL;
        if !is_late && now < called {
            return Some(called);
        }
        if !client.machine(|machine| machine.is_finished()) {
            client.machine(|machine| machine.finish());
            // The client gets the number before the connection ends.
            context.waker().wake_by_ref();
        }
        // Requests that are on their way are refused until the client knows, so that it may send them again.
        let round_trip = client.with_quic(|quic| quic.look().rtt()).unwrap_or_default();
        let heard = *self.heard.get_or_insert(now + (round_trip * HEARD).clamp(LEAST_HEARD, LAST_CALL));
        let last = if client.unacknowledged.borrow().is_empty() {
            heard
        } else {
            // The ends of responses are on their way, as long as the client acknowledges parts of them.
            let acknowledged = client.with_quic(|quic| quic.look().stats().frame_rx.acks).unwrap_or_default();
            let (since, before) = *self.rested.get_or_insert((now, acknowledged));
            if before != acknowledged {
                self.rested = Some((now, acknowledged));
            }
            let since = if before == acknowledged { since } else { now };
            heard.max(since + LAST_ACKNOWLEDGEMENT)
        };
        if makes_room || now >= last {
            self.close(H3ErrorCode::H3_NO_ERROR);
            context.waker().wake_by_ref();
            return None;
        }
        Some(last)
    }

    /// Gives up streams whose heads have not come in time.
    fn give_up_late(&mut self, millis: u64, timeout: Duration) {
        let client = self.client.clone();
        let since = millis.saturating_sub(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        loop {
            match client.machine(|machine| machine.take_late(since, millis)) {
                Ok(Some(id)) => client.reset_stream(id, H3ErrorCode::H3_REQUEST_INCOMPLETE),
                Ok(None) => return,
                Err(failure) => return self.fail(failure),
            }
        }
    }

    fn header_timeout(&self) -> Duration {
        let client = &self.client;
        let servers = client.driver.http.servers_of(&client.facts, || client.local());
        servers.map_or(Duration::ZERO, |(_, servers, _)| {
            servers.entry.settings.get::<ServerSettings>().client_header_timeout
        })
    }
}

fn earlier(one: Option<Instant>, other: Instant) -> Option<Instant> {
    Some(one.map_or(other, |one| one.min(other)))
}

/// Notes what was agreed on in the handshake so far, and verifies the client's certificate. `None` if the connection is to end.
async fn establish(client: &Rc<H3Client>) -> Option<()> {
    let http = &client.driver.http;
    let (generation, servers, _) = http.servers_of(&client.facts, || client.local())?;
    let facts = client.facts.tls()?;
    if facts.agreed().is_none() {
        facts.establish(AgreedSession::of_quic(client.session()?.agreed()?));
    }
    let server = servers.negotiated(facts);
    if let Some(settings) = &server.tls {
        tls::verify(&client.facts, &**client, &generation, server, settings, facts).await?;
    }
    // From now on, the server that the client has named answers on the connection.
    client.facts.served_by.take();
    let _ = http.servers_of(&client.facts, || client.local());
    Some(())
}

impl H3Client {
    /// Notes and counts what was agreed on in the handshake, which is complete.
    fn note_agreed(&self) -> Option<()> {
        let facts = self.facts.tls()?;
        let agreed = AgreedSession::of_quic(self.session()?.agreed()?);
        let shared = &self.facts.loop_state.shared;
        shared.client_tls.established(&agreed);
        shared.quic.completed.add();
        if agreed.is_resumed {
            shared.quic.resumed.add();
        }
        let servers = self.driver.http.servers_of(&self.facts, || self.local());
        if let Some(zone) = servers.and_then(|(_, servers, _)| servers.negotiated(facts).zone.clone()) {
            zone.established(&agreed);
        }
        facts.establish(agreed);
        Some(())
    }

    /// Whether the client is asked to begin no stream after this one.
    pub(super) fn is_last(&self, serial: u64, core: &CoreSettings) -> bool {
        !keepalive::reuse_facts(self, core, serial, loops::now()).keep()
    }
}

impl Future for H3Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.client.set_polled(true);
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| this.poll_end(context)));
        this.client.set_polled(false);
        polled.unwrap_or_else(|panic| {
            let message = format_args!("connection ended by a panic: {}", words_of_panic(&*panic));
            this.client.facts.log(Level::Alert, message);
            // The client need not wait for the time after which it takes the server for gone.
            let close = || this.client.close_now(H3ErrorCode::H3_INTERNAL_ERROR);
            if std::panic::catch_unwind(AssertUnwindSafe(close)).is_err() {
                this.client.facts.log(Level::Alert, format_args!("the client is not told of it"));
            }
            Poll::Ready(())
        })
    }
}

impl Drop for H3Task {
    fn drop(&mut self) {
        self.leave_idle();
        let figures = &self.client.facts.loop_state.shared.quic;
        if !self.client.is_established() {
            figures.failed.add();
        }
        figures.open.sub();
        self.client.leave();
        self.client.facts.loop_state.admission.end();
    }
}
