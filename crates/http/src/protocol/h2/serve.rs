//! The task of a connection: it reads, begins requests, and writes what the requests have left in the machine.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use freerun_proto::h2::priority::Priority;
use freerun_proto::h2::{self, Config, ErrorCode, Event, Role, Slot};
use freerun_proto::head::{FieldFault, FieldRules};
use freerun_proto::{BodyFraming, HeaderId, Version};
use freerun_runtime::deadline::Deadline;
use freerun_runtime::{arrival_era, loops};

use crate::connection::idle::{self, AwaitedRequest, Keep};
use crate::connection::stream::StreamFault;
use crate::phases::keepalive;
use crate::protocol::h2::H2Driver;
use crate::protocol::h2::files::FileRead;
use crate::protocol::h2::shared::SharedConnection;
use crate::protocol::h2::stream::H2Stream;
use crate::protocol::h2::unsent_limit::Unsent;
use crate::protocol::h2::words;
use crate::protocol::multiplexed::head_sink::RequestHeadSink;
use crate::protocol::multiplexed::{ArrivedRequest, RequestTask, RequestWork, block_limits, field_rules};
use crate::request::core_settings::CoreSettings;
use crate::request::{ClientConnection, ClientStream, Head};
use crate::settings::http2::Http2Settings;
use crate::settings::server::ServerSettings;

/// The longest time for the rest of a request that is answered already, in milliseconds. Bytes that were on their way
/// when the answer came have come then, over most paths.
const REST: u64 = 250;

/// The longest time for a client's answer that it begins no further streams.
const LAST_CALL: u64 = 1000;

/// Number of bytes that are read of a client that has broken the rules, so that it sees why the connection ends. A
/// client that goes on for longer sees a reset.
const MOST_OF_FAILED: usize = 1024 * 1024;

/// Serves a connection of HTTP/2 to its end.
pub struct Serve {
    pub(super) shared: Rc<SharedConnection>,
    stage: Stage,
    /// The connection's place with the driver.
    place: usize,
    deadline: Deadline,
    /// The time at which the client took bytes the last time, or began to have any to take, in milliseconds.
    pub(super) progress: u64,
    /// The time at which the present head began, in milliseconds.
    head_began: Option<u64>,
    /// The present head came too late already once.
    gave_head_up: bool,
    /// Since when the end is announced, in milliseconds.
    announced: Option<u64>,
    /// The client has not taken everything that was written last.
    pub(super) is_slow: bool,
    /// The bytes of a file that are to be written next are being read. In a box of its own, since that is rare.
    pub(super) reading: Option<Box<FileRead>>,
    /// The limit of the bytes in the kernel.
    pub(super) unsent: Unsent,
}

#[derive(Debug)]
enum Stage {
    /// Streams are served, or on their way.
    Open,
    /// There is no stream.
    Idle(idle::Key),
    /// The connection announces its end, and throws away what the client still sends, so that the client sees the end
    /// and no reset.
    Lingering {
        /// The time in milliseconds at which the connection is closed.
        until: u64,
        /// The most bytes that are read.
        most: usize,
        /// Everything was sent.
        is_told: bool,
    },
}

/// The result of a step.
enum ServeStep {
    /// The connection has ended.
    Over,
    /// There is nothing to do for now.
    Wait,
}

impl Serve {
    /// Serves a connection whose first bytes are these; more may be there to be read. `None` if no server answers on it.
    pub fn new(driver: &Rc<H2Driver>, connection: Rc<ClientConnection>, first: Vec<u8>) -> Option<Box<Serve>> {
        let (_, servers, _) = driver.http.servers(&connection)?;
        let settings = servers.entry.settings.get::<ServerSettings>();
        let http2 = servers.entry.settings.get::<Http2Settings>();
        let machine = h2::Connection::new(&Config {
            role: Role::Server,
            max_streams: http2.max_streams(),
            initial_window: http2.http2_body_preread_size.0,
            chunk: h2::frame::DEFAULT_FRAME_SIZE,
            connect_protocol: http2.http2_extended_connect,
            limits: block_limits(settings),
            now: loops::millis(),
        });
        connection.set_nodelay();
        let shared = SharedConnection::new(driver, connection, machine);
        let place = driver.enter(&shared);
        let figures = &shared.connection.loop_state.shared.http2;
        figures.connections.add();
        figures.open.add();
        shared.connection.ends_softly();
        let now = loops::millis();
        let (unsent, most) = Unsent::new(now);
        shared.connection.transport.set_unsent_limit(most);
        let mut serve = Box::new(Serve {
            shared,
            stage: Stage::Open,
            place,
            deadline: Deadline::default(),
            progress: now,
            head_began: None,
            gave_head_up: false,
            announced: None,
            is_slow: false,
            reading: None,
            unsent,
        });
        serve.shared.is_polled.set(true);
        serve.received(&first);
        serve.shared.is_polled.set(false);
        Some(serve)
    }

    /// Polls the connection; ready when it has ended.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.task_looks(context);
        self.shared.is_polled.set(true);
        self.shared.look(h2::Connection::owners_had_their_turn);
        let step = self.step(context);
        self.shared.is_polled.set(false);
        match step {
            ServeStep::Over => Poll::Ready(()),
            ServeStep::Wait => Poll::Pending,
        }
    }

    fn step(&mut self, context: &mut Context<'_>) -> ServeStep {
        if let Stage::Idle(key) = self.stage {
            let connection = &self.shared.connection;
            let is_readable = connection.transport.poll_readable(context).is_ready();
            if !is_readable && !connection.is_closing() && !self.shared.look(|machine| machine.wants_to_write()) {
                return ServeStep::Wait;
            }
            self.shared.driver.http.idle.leave(key);
            self.shared.resume();
            self.stage = Stage::Open;
        }
        loop {
            match self.read(context) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => {
                    self.shared.log_end(None);
                    return ServeStep::Over;
                }
                Poll::Ready(Err(error)) => {
                    self.shared.log_end(Some(&error));
                    return ServeStep::Over;
                }
                Poll::Pending => break,
            }
            if self.write(context).is_err() {
                return ServeStep::Over;
            }
        }
        if self.write(context).is_err() {
            return ServeStep::Over;
        }
        self.notice_failure();
        self.rest(context)
    }

    /// Looks whether the connection has failed; the message about it to the client is ready to be written then.
    fn notice_failure(&mut self) {
        let Some(failure) = self.shared.look(|machine| machine.failure()) else { return };
        if matches!(self.stage, Stage::Lingering { .. }) {
            return;
        }
        self.shared.log_failure(&failure);
        // That line says it for all its streams.
        self.shared.fail();
        let servers = self.shared.driver.http.servers(&self.shared.connection);
        let timeout = servers.map_or(Duration::ZERO, |(_, servers, _)| servers.entry.core.lingering_timeout);
        let until = loops::millis().saturating_add(millis(timeout));
        self.stage = Stage::Lingering { until, most: MOST_OF_FAILED, is_told: false };
    }

    // ---- reading ---------------------------------------------------------------------------------------------------

    /// Reads once. False at the end.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        ready!(loops::poll_budget(context));
        let mut buffer = self.shared.driver.read.take();
        if buffer.capacity() == 0 {
            buffer.reserve(self.buffer_size());
        }
        buffer.clear();
        let transport = &self.shared.connection.transport;
        let read = transport.poll_read_by(context, || {
            let room = buffer.capacity();
            Ok((transport.try_read(&mut buffer)?, room))
        });
        if let Poll::Ready(Ok(1..)) = read {
            self.received(&buffer);
        }
        *self.shared.driver.read.borrow_mut() = buffer;
        read.map(|read| read.map(|count| count > 0))
    }

    fn buffer_size(&self) -> usize {
        let servers = self.shared.driver.http.servers(&self.shared.connection);
        let size =
            servers.map(|(_, servers, _)| servers.entry.settings.get::<Http2Settings>().http2_recv_buffer_size.0);
        usize::try_from(size.unwrap_or(0)).unwrap_or(0).max(h2::frame::DEFAULT_FRAME_SIZE as usize)
    }

    /// Takes received bytes.
    fn received(&mut self, mut bytes: &[u8]) {
        // They may have been sent after the loop last looked for changes of files.
        arrival_era::begin();
        if let Stage::Lingering { until, most, .. } = &mut self.stage {
            *most = most.saturating_sub(bytes.len());
            if *most == 0 {
                *until = 0;
            }
            return;
        }
        let connection = &self.shared.connection;
        let Some((_, servers, still_listens)) = self.shared.driver.http.servers(connection) else { return };
        let settings = &servers.entry.settings;
        let rules = field_rules(settings, settings.get::<Http2Settings>().http2_extended_connect);
        let driver = self.shared.driver.clone();
        let mut sink = RequestHeadSink::new(&rules, &driver.runners);
        let now = loops::millis();
        loop {
            let event = self.shared.look(|machine| machine.receive(&mut bytes, now, &mut sink));
            match event {
                Ok(Some(Event::Head { slot, ends })) => {
                    self.begin(slot, ends, &mut sink, &rules, &servers.entry.core);
                    if !still_listens {
                        self.shared.announce_end();
                    }
                }
                Ok(Some(event)) => {
                    if let Event::Trailers { slot } = event
                        && let Some(fault) = sink.fault()
                    {
                        self.refuse_trailers(slot, fault);
                    }
                    self.take(event);
                    sink.clear();
                }
                Ok(None) => break,
                Err(_) => break self.notice_failure(),
            }
        }
        self.head_began = if self.shared.look(|machine| machine.is_in_block()) {
            Some(self.head_began.unwrap_or(now))
        } else {
            self.gave_head_up = false;
            None
        };
        self.shared.wake_streams();
    }

    /// Malformed trailers make the request malformed, which is an error of its stream (RFC 9113 section 8.1.1).
    fn refuse_trailers(&self, slot: Slot, fault: &FieldFault) {
        self.shared.look(|machine| machine.reset_at_end(slot, ErrorCode::PROTOCOL_ERROR));
        if let Some(stream) = self.shared.stream(slot) {
            stream.failed(StreamFault::Trailers(fault.clone()));
        }
    }

    fn take(&mut self, event: Event<'_>) {
        let stream = |slot: Slot| self.shared.stream(slot);
        match event {
            Event::Data { slot, bytes } => stream(slot).into_iter().for_each(|stream| stream.received(bytes)),
            // Valid trailers of requests are read and dropped, as nginx does.
            Event::End { slot } | Event::Trailers { slot } => {
                stream(slot).into_iter().for_each(|stream| stream.ended());
            }
            Event::WrongLength { slot, missing } => {
                stream(slot).into_iter().for_each(|stream| stream.failed(StreamFault::Length { missing }));
            }
            Event::Reset { slot, by_peer, .. } => {
                let figures = &self.shared.connection.loop_state.shared.http2;
                if by_peer {
                    figures.reset_by_clients.add()
                } else {
                    figures.reset_here.add()
                }
                stream(slot).into_iter().for_each(|stream| stream.leave());
            }
            Event::LastCallAnswered => self.shared.with(|machine| machine.finish(ErrorCode::NO_ERROR)),
            Event::Head { .. } | Event::Settings | Event::Pong(_) | Event::GoneAway { .. } => {}
        }
    }

    /// Begins a request.
    fn begin(
        &mut self,
        slot: Slot,
        ends: bool,
        sink: &mut RequestHeadSink<'_>,
        rules: &FieldRules,
        core: &CoreSettings,
    ) {
        let connection = &self.shared.connection;
        let serial = connection.requests.get() + 1;
        connection.requests.set(serial);
        let head = sink.take().finish(Version::Http2, rules, ends);
        let (fault, received) = (head.fault, head.received);
        let declared = match head.parsed.body {
            BodyFraming::Length(length) => Some(length),
            BodyFraming::None | BodyFraming::Chunked => None,
        };
        let is_tunnel = head.is_extended_connect;
        let mut head = Head::new(head.buffer, head.parsed);
        head.parsed.set_wire_len(self.shared.look(|machine| machine.block_len()));
        self.shared.look(|machine| {
            if let Some(length) = declared {
                machine.expect(slot, length);
            }
            if fault.is_some() {
                machine.reset_at_end(slot, ErrorCode::PROTOCOL_ERROR);
            }
            if let Some(priority) = head.value(HeaderId::Priority) {
                machine.set_first_priority(slot, Priority::parse(priority));
            }
            if self.is_last(serial, core) {
                machine.announce_end();
            }
        });
        let stream = H2Stream::new(self.shared.clone(), slot, ends);
        self.shared.enter(slot, stream.clone());
        let driver = &self.shared.driver;
        let work = RequestWork {
            http: driver.http.clone(),
            client: ClientStream::of_stream(connection.clone(), stream.clone()),
            arrived: ArrivedRequest { head, has_body: !ends && !is_tunnel, declared, serial, fault, received },
        };
        connection.loop_state.shared.http2.streams.add();
        driver.runners.start(connection.number, RequestTask::new(stream, work));
    }

    /// Whether the client is asked to begin no stream after this one.
    fn is_last(&self, serial: u64, core: &CoreSettings) -> bool {
        !keepalive::reuse_facts(&*self.shared.connection, core, serial, loops::now()).keep()
    }

    // ---- between -----------------------------------------------------------------------------------------------------

    /// Decides what to wait for.
    fn rest(&mut self, context: &mut Context<'_>) -> ServeStep {
        let Some((_, servers, still_listens)) = self.shared.driver.http.servers(&self.shared.connection) else {
            return ServeStep::Over;
        };
        let core = &*servers.entry.core;
        let settings = servers.entry.settings.get::<ServerSettings>();
        let now = loops::millis();
        if let Stage::Lingering { until, is_told, .. } = &mut self.stage {
            let until = *until;
            if !*is_told && self.shared.look(|machine| machine.pending() == 0) {
                *is_told = true;
                self.shared.connection.transport.shutdown_write();
            }
            return self.wait_until(until, context);
        }
        let (is_pending, is_finished, used, is_idle) = self
            .shared
            .look(|machine| (machine.pending() > 0, machine.is_finished(), machine.used_slots(), machine.is_idle()));
        if is_pending {
            let until = self.progress.saturating_add(millis(core.send_timeout));
            if now >= until {
                self.shared.log_timeout("while sending response to client");
                if settings.reset_timedout_connection {
                    self.shared.connection.transport.reset_on_close();
                }
                return ServeStep::Over;
            }
            return self.wait_until(until, context);
        }
        let makes_room = self.shared.connection.is_closing() && !self.shared.connection.loop_state.is_draining();
        if is_finished && used == 0 && makes_room {
            // The client was told; others wait for the connection's place.
            return ServeStep::Over;
        }
        if is_finished && used == 0 {
            self.shared.connection.transport.shutdown_write();
            let until = now.saturating_add(millis(core.lingering_timeout));
            self.stage = Stage::Lingering { until, most: usize::MAX, is_told: true };
            return self.wait_until(until, context);
        }
        if let Some(began) = self.head_began {
            let until = began.saturating_add(millis(settings.client_header_timeout));
            if now >= until {
                if std::mem::replace(&mut self.gave_head_up, true) {
                    return ServeStep::Over;
                }
                self.shared.log_timeout("while reading client request headers");
                // The connection goes on if the rest comes in the same time.
                self.shared.look(h2::Connection::give_up_block);
                // It has that time twice more.
                self.head_began = Some(now.saturating_add(millis(settings.client_header_timeout)));
                context.waker().wake_by_ref();
                return ServeStep::Wait;
            }
            return self.wait_until(until, context);
        }
        if let Some(since) = self.shared.look(|machine| machine.unended_since()) {
            if now < since.saturating_add(REST) {
                return self.wait_until(since.saturating_add(REST), context);
            }
            self.shared.look(|machine| machine.cut_off_until(now.saturating_sub(REST)));
            context.waker().wake_by_ref();
            return ServeStep::Wait;
        }
        if used > 0 {
            return ServeStep::Wait;
        }
        let connection = &self.shared.connection;
        let is_fresh = connection.requests.get() == 0;
        let is_over = connection.loop_state.is_draining() || !still_listens;
        let must_end = connection.is_closing() || is_over && !is_fresh;
        // All that the client has left behind is streams that it has held up.
        let has_stalled = self.shared.stalled_at.take() == Some(self.shared.look(|machine| machine.progress()));
        if must_end && makes_room || has_stalled {
            self.shared.look(|machine| machine.finish(ErrorCode::NO_ERROR));
            context.waker().wake_by_ref();
            return ServeStep::Wait;
        }
        if must_end && self.announced.is_none() {
            self.shared.look(h2::Connection::announce_end);
        }
        if self.shared.look(|machine| machine.is_ending()) {
            let announced = *self.announced.get_or_insert(now);
            if now >= announced.saturating_add(LAST_CALL) {
                self.shared.look(|machine| machine.finish(ErrorCode::NO_ERROR));
            }
            if self.shared.look(|machine| machine.wants_to_write()) {
                context.waker().wake_by_ref();
                return ServeStep::Wait;
            }
            return self.wait_until(announced.saturating_add(LAST_CALL), context);
        }
        if !is_idle {
            // A frame has come in part.
            let until = self.progress.saturating_add(millis(settings.client_header_timeout));
            if now >= until {
                self.shared.log_timeout(words::CONNECTION);
                return ServeStep::Over;
            }
            return self.wait_until(until, context);
        }
        self.shared.rest();
        let http = &self.shared.driver.http;
        http.renew_connection(connection);
        let (waiting, keep) = if is_fresh {
            (AwaitedRequest::First, Keep::at_most(settings.client_header_timeout))
        } else {
            (AwaitedRequest::Next, core.keep())
        };
        self.stage = Stage::Idle(http.idle.enter(connection, waiting, keep));
        connection.loop_state.admission.one_may_leave();
        ServeStep::Wait
    }

    /// Waits until this moment; the connection is looked at again then, or ended if it lingers.
    fn wait_until(&mut self, until: u64, context: &mut Context<'_>) -> ServeStep {
        match self.deadline.poll_until(until, context) {
            Poll::Pending => ServeStep::Wait,
            Poll::Ready(()) if matches!(self.stage, Stage::Lingering { .. }) => ServeStep::Over,
            Poll::Ready(()) => {
                context.waker().wake_by_ref();
                ServeStep::Wait
            }
        }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        if let Stage::Idle(key) = self.stage {
            self.shared.driver.http.idle.leave(key);
        }
        self.shared.leave();
        self.shared.driver.leave(self.place);
        self.shared.connection.loop_state.shared.http2.open.sub();
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
