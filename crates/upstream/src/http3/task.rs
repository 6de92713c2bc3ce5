//! The task of a connection: it takes and sends datagrams, tells the streams what has come, and ends it.

use std::any::Any;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use freerun_conf::text_of;
use freerun_proto::h3::{H3ConnectionError, H3ErrorCode};
use freerun_quic::Dir;
use freerun_quic::connection::{ConnectionError, Event, StreamEvent};
use freerun_quic::http3::{Http3Streams, machine_id};
use freerun_runtime::deadline::Deadline;
use freerun_runtime::loops;

use super::connection::Http3State;
use super::handle::TableEntry;
use crate::exchange::head::HeadSink;
use crate::exchange::loss::LossReason;
use crate::pool::new_connection::NewConnection;

/// The most bytes of a server's reason that the log has.
const LONGEST_REASON: usize = 128;

/// The task of a connection.
pub(super) struct Http3Task {
    inner: Rc<Http3State>,
    /// The requests that wait for the number of streams.
    making: Option<NewConnection>,
    sink: HeadSink,
    deadline: Deadline,
    /// Moment of the last PING, in milliseconds.
    asked: u64,
    _gone: TableEntry,
}

/// The connection has ended.
struct TaskEnd;

impl Http3Task {
    pub(super) fn new(inner: Rc<Http3State>, making: Option<NewConnection>, gone: TableEntry) -> Http3Task {
        let (sink, deadline, asked) = Default::default();
        Http3Task { inner, making, sink, deadline, asked, _gone: gone }
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), TaskEnd> {
        let now = loops::now();
        if let Err(error) = self.receive(now, context) {
            return self.over(LossReason::from(&error));
        }
        self.inner.look(|streams| streams.quic.advance(now));
        if let Some(making) = self.making.take() {
            // The handshake has told how many streams there may be.
            making.ready(self.inner.tell_streams());
        }
        self.take_events(context)?;
        for id in self.inner.take_wanting() {
            let read = self.inner.read_stream(id, &mut self.sink);
            read.or_else(|failure| self.fail(&failure))?;
        }
        if let Some(failure) = self.inner.look(|streams| streams.machine.failure()) {
            return self.fail(&failure);
        }
        self.inner.look(Http3Streams::write_own);
        self.inner.follow_window();
        self.transmit(now, context);
        self.rest(context)
    }

    /// The connection has ended for this reason.
    fn over(&mut self, why: LossReason) -> Result<(), TaskEnd> {
        self.inner.read_rest(&mut self.sink);
        self.inner.lose(why.clone());
        if let Some(making) = self.making.take() {
            making.failed(&(Rc::new(why) as Rc<dyn Any>));
        }
        Err(TaskEnd)
    }

    /// Closes the connection in order, or with an error.
    fn close(&mut self, context: &mut Context<'_>, code: H3ErrorCode, what: &str) {
        let now = loops::now();
        self.inner.look(|streams| streams.close(now, code, what));
        self.transmit(now, context);
    }

    /// The server has broken the rules.
    fn fail(&mut self, failure: &H3ConnectionError) -> Result<(), TaskEnd> {
        let text = format!("upstream broke the rules of HTTP/3: {} ({})", failure.what, failure.code.name());
        self.inner.look(|streams| streams.close(loops::now(), failure.code, failure.what));
        self.over(LossReason::Invalid(text))
    }

    // ---- datagrams -----------------------------------------------------------------------------------------------------

    /// Takes datagrams that have come.
    fn receive(&mut self, now: Instant, context: &mut Context<'_>) -> io::Result<()> {
        let inner = &self.inner;
        while loops::poll_budget(context).is_ready() {
            let mut length = 0;
            let received = inner.socket.poll_receive(context, |datagram| {
                length += datagram.bytes.len();
                // The answers to packets of no connection are of no use to a server that this side has chosen.
                let _ = inner.look(|streams| streams.quic.receive(now, datagram, &mut Vec::new()));
            });
            match received {
                Poll::Pending => break,
                Poll::Ready(result) => result?,
            }
            inner.note_heard();
            loops::spend(length / 4);
        }
        Ok(())
    }

    /// Sends datagrams.
    fn transmit(&mut self, now: Instant, context: &mut Context<'_>) {
        let has_more = self.inner.look(|streams| self.inner.socket.transmit(&mut streams.quic, now, context));
        if has_more || self.inner.socket.has_failed() {
            context.waker().wake_by_ref();
        }
    }

    // ---- events --------------------------------------------------------------------------------------------------------

    fn take_events(&mut self, context: &mut Context<'_>) -> Result<(), TaskEnd> {
        // Other tasks have their turn in between: QUIC keeps the rest.
        while loops::poll_budget(context).is_ready()
            && let Some(event) = self.inner.look(|streams| streams.quic.next_event())
        {
            match event {
                Event::ConnectionLost { reason } => return self.over(loss(&reason)),
                Event::Stream(event) => self.take_stream_event(event).or_else(|failure| self.fail(&failure))?,
                _ => {}
            }
        }
        Ok(())
    }

    fn take_stream_event(&mut self, event: StreamEvent) -> Result<(), H3ConnectionError> {
        let (inner, sink) = (&self.inner, &mut self.sink);
        match event {
            StreamEvent::Opened { dir } => {
                while let Some(id) = inner.look(|streams| streams.accept(dir)) {
                    inner.read_stream(id, sink)?;
                }
                Ok(())
            }
            StreamEvent::Readable { id } => inner.read_stream(machine_id(id), sink),
            StreamEvent::Writable { id } => {
                inner.stream(machine_id(id)).into_iter().for_each(|stream| stream.flush(inner));
                Ok(())
            }
            StreamEvent::Stopped { id, error_code } => {
                inner.take_stop(machine_id(id), H3ErrorCode(error_code.into()), sink)
            }
            StreamEvent::Available { dir: Dir::Bi } => {
                inner.open_streams();
                Ok(())
            }
            StreamEvent::Available { .. } | StreamEvent::Finished { .. } => Ok(()),
        }
    }

    // ---- between -------------------------------------------------------------------------------------------------------

    /// Decides what to wait for.
    fn rest(&mut self, context: &mut Context<'_>) -> Result<(), TaskEnd> {
        let inner = self.inner.clone();
        if let Some(lost) = inner.lost() {
            return self.over(lost);
        }
        let used = inner.used();
        if used == 0 && (inner.is_ending() || inner.status.is_left.load(Relaxed)) {
            self.close(context, H3ErrorCode::H3_NO_ERROR, "");
            return self.over(LossReason::Closed);
        }
        let mut until = inner.look(|streams| streams.quic.deadline());
        if inner.awaits_server() {
            let now = loops::millis();
            let ping = inner.silence.get().ping;
            if now >= inner.heard.get().max(self.asked).saturating_add(ping) {
                self.asked = now;
                inner.ask();
                context.waker().wake_by_ref();
            }
            let Some(next) = inner.judge_silence(now) else {
                self.close(context, H3ErrorCode::H3_NO_ERROR, "");
                return self.over(LossReason::Unanswered);
            };
            let next = inner.heard.get().max(self.asked).saturating_add(ping).min(next);
            let next = loops::now() + Duration::from_millis(next.saturating_sub(now));
            until = Some(until.map_or(next, |until| until.min(next)));
        }
        if let Some(until) = until
            && self.deadline.poll_instant(until, context).is_ready()
        {
            context.waker().wake_by_ref();
        }
        Ok(())
    }
}

/// The end of a connection of QUIC, as exchanges see it. A server that closes it with an error has not just finished.
fn loss(reason: &ConnectionError) -> LossReason {
    match reason {
        ConnectionError::TimedOut => LossReason::Unanswered,
        ConnectionError::TransportError(error) => {
            LossReason::Invalid(format!("upstream broke the rules of QUIC: {error}"))
        }
        ConnectionError::ApplicationClosed(close) => match H3ErrorCode(close.error_code.into()) {
            H3ErrorCode::H3_NO_ERROR => LossReason::Closed,
            code => closed_with(code, &close.reason),
        },
        // The error of QUIC that comes with it says little: nginx closes all connections with one when it is reloaded.
        _ => LossReason::Closed,
    }
}

/// The end of a connection that the server has closed with an error, and maybe a reason.
fn closed_with(code: H3ErrorCode, reason: &[u8]) -> LossReason {
    let text = text_of(&reason[..reason.len().min(LONGEST_REASON)]);
    let text: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let because = if text.is_empty() { String::new() } else { format!(": \"{text}\"") };
    LossReason::Invalid(format!("upstream closed connection with error {} ({:#x}){because}", code.name(), code.0))
}

impl Future for Http3Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let inner = this.inner.clone();
        inner.task_looks(context);
        debug_assert!(!inner.is_polled.get(), "a wake-up would be lost: the task is polled within its own poll");
        inner.is_polled.set(true);
        let step = this.step(context);
        inner.is_polled.set(false);
        match step {
            Ok(()) => Poll::Pending,
            Err(TaskEnd) => {
                // The server learns why, if there is anything to say.
                this.transmit(loops::now(), context);
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Http3Task {
    fn drop(&mut self) {
        // The loop may be ending.
        self.inner.lose(LossReason::Closed);
    }
}
