//! The task of a connection: it reads, tells the streams what has come, and writes what they have left in the machine.

use std::any::Any;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use freerun_proto::h2::frame::DEFAULT_FRAME_SIZE;
use freerun_proto::h2::{self, ErrorCode, Event};
use freerun_runtime::deadline::Deadline;
use freerun_runtime::loops;

use super::connection::Http2State;
use super::handle::ConnectionGuard;
use crate::exchange::head::HeadSink;
use crate::exchange::loss::LossReason;
use crate::exchange::record::ExchangeFault;
use crate::pool::new_connection::NewConnection;

/// The size of the buffer that all connections of a loop read into, one after the other.
const READ: usize = 64 * 1024;

/// Number of bytes that are brought into their final order before each write.
const AHEAD: usize = 128 * 1024;

/// Number of parts that are written at once.
const PARTS: usize = 64;

const _: () = assert!(2 * AHEAD / DEFAULT_FRAME_SIZE as usize <= PARTS, "heads and payloads are written by one call");

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The task of a connection.
pub(super) struct Drive {
    inner: Rc<Http2State>,
    /// The requests that wait for the number of streams.
    making: Option<NewConnection>,
    sink: HeadSink,
    deadline: Deadline,
    /// Moment of the unanswered PING that tests the server; in milliseconds.
    asked: Option<u64>,
    _gone: ConnectionGuard,
}

/// The connection has ended.
struct Over;

impl Drive {
    pub(super) fn new(inner: Rc<Http2State>, making: Option<NewConnection>, gone: ConnectionGuard) -> Drive {
        let (sink, deadline, asked) = Default::default();
        Drive { inner, making, sink, deadline, asked, _gone: gone }
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Over> {
        loop {
            match self.read(context) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) => return self.over(LossReason::Closed),
                Poll::Ready(Err(error)) => return self.over(LossReason::from(&error)),
                Poll::Pending => break,
            }
            self.write(context)?;
        }
        self.write(context)?;
        self.rest(context)
    }

    /// The connection has ended for this reason.
    fn over(&mut self, why: LossReason) -> Result<(), Over> {
        self.inner.lose(why.clone());
        // The owners of streams may keep it for a while.
        self.inner.transport.end();
        if let Some(making) = self.making.take() {
            making.failed(&(Rc::new(why) as Rc<dyn Any>));
        }
        Err(Over)
    }

    // ---- reading -------------------------------------------------------------------------------------------------------

    /// Reads once. Returns how many bytes have come, 0 at the end.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(loops::poll_budget(context));
        let mut buffer = BUFFER.take();
        buffer.clear();
        buffer.reserve(READ);
        let inner = self.inner.clone();
        let read = inner.transport.poll_read_by(context, || {
            let room = buffer.capacity();
            Ok((inner.transport.try_read(&mut buffer)?, room))
        });
        if let Poll::Ready(Ok(1..)) = read {
            self.received(&buffer);
            // What has come is copied, and many tasks may have been woken by it.
            loops::spend(buffer.len() / 4);
        }
        BUFFER.set(buffer);
        read
    }

    /// Takes received bytes.
    fn received(&mut self, mut bytes: &[u8]) {
        let now = loops::millis();
        self.inner.heard.set(now);
        self.asked = None;
        loop {
            let event = self.inner.look(|machine| machine.receive(&mut bytes, now, &mut self.sink));
            match event {
                Ok(Some(event)) => self.take(event),
                Ok(None) => break,
                Err(failure) => {
                    let text =
                        format!("upstream broke the rules of HTTP/2: {} ({})", failure.what, failure.code.name());
                    self.inner.lose(LossReason::Invalid(text));
                    break;
                }
            }
            self.sink.clear();
        }
        self.inner.wake_streams();
    }

    fn take(&mut self, event: Event<'_>) {
        let inner = &self.inner;
        match event {
            Event::Head { slot, ends } => match (inner.stream(slot), self.sink.head()) {
                (Some(state), Ok((status, fields))) => state.head(ends, status, fields),
                (Some(_), Err(fault)) => inner.reset(slot, fault),
                (None, _) => {}
            },
            Event::Trailers { slot } => match (inner.stream(slot), self.sink.trailers()) {
                (Some(state), Ok(fields)) => state.trailers(fields),
                (Some(_), Err(fault)) => inner.reset(slot, fault),
                (None, _) => {}
            },
            Event::Data { slot, bytes } => inner.stream(slot).into_iter().for_each(|state| state.data(bytes)),
            Event::End { slot } => inner.stream(slot).into_iter().for_each(|state| state.ended()),
            Event::Reset { slot, code, by_peer } => {
                let how = match (by_peer, code) {
                    (true, code @ ErrorCode::REFUSED_STREAM) => {
                        inner.refused();
                        ExchangeFault::Refused(code.0)
                    }
                    (true, code) => ExchangeFault::Reset(code.0),
                    (false, code) => ExchangeFault::Invalid(format!(
                        "upstream broke the rules of HTTP/2 on a stream ({})",
                        code.name()
                    )),
                };
                inner.stream(slot).into_iter().for_each(|state| state.broken(&how));
            }
            Event::Settings => {
                let streams = inner.tell_streams();
                if let Some(making) = self.making.take() {
                    making.ready(streams);
                }
            }
            Event::GoneAway { code, .. } => {
                inner.break_unprocessed(code);
                inner.tell_streams();
            }
            // The last two happen to servers alone.
            Event::Pong(_) | Event::LastCallAnswered | Event::WrongLength { .. } => {}
        }
    }

    // ---- writing -------------------------------------------------------------------------------------------------------

    /// Writes as much as the server takes.
    fn write(&mut self, context: &mut Context<'_>) -> Result<(), Over> {
        let mut has_written = false;
        let result = loop {
            let step = self.inner.look(|machine| {
                machine.fill(AHEAD);
                if machine.pending() == 0 {
                    return None;
                }
                let mut parts = [IoSlice::new(&[]); PARTS];
                let count = machine.parts(&mut parts);
                let transport = &self.inner.transport;
                let result = match transport.try_write(&parts[..count], false) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        match transport.poll_write(context, &parts[0]) {
                            Poll::Ready(result) => result,
                            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                        }
                    }
                    result => result,
                };
                Some(result.inspect(|count| machine.wrote(*count)))
            });
            match step {
                None => break Ok(()),
                Some(Ok(_)) => has_written = true,
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Some(Err(error)) => break Err(error),
            }
        };
        if has_written {
            self.inner.wake_streams();
        }
        result.or_else(|error| {
            // What the server has said before it closed tells at which requests it has not looked.
            while matches!(self.read(context), Poll::Ready(Ok(1..))) {}
            self.over(LossReason::from(&error))
        })
    }

    // ---- between -------------------------------------------------------------------------------------------------------

    /// Decides what to wait for.
    fn rest(&mut self, context: &mut Context<'_>) -> Result<(), Over> {
        let inner = self.inner.clone();
        if let Some(lost) = inner.lost() {
            return self.over(lost);
        }
        debug_assert!(
            self.making.is_none() || !inner.look(|machine| machine.knows_peer()),
            "requests were told nothing"
        );
        let (used, is_ending) = inner.look(|machine| (machine.used_slots(), machine.is_ending()));
        if used == 0 && is_ending {
            return self.over(LossReason::Closed);
        }
        if used == 0 && inner.status.is_left.load(Relaxed) {
            inner.look(|machine| machine.finish(ErrorCode::NO_ERROR));
            self.write(context)?;
            return self.over(LossReason::Closed);
        }
        if used == 0 {
            return Ok(());
        }
        let now = loops::millis();
        loop {
            let until = match self.asked {
                Some(asked) => asked.saturating_add(inner.patience.get().1),
                None => inner.heard.get().saturating_add(inner.patience.get().0),
            };
            if now < until {
                if self.deadline.poll_until(until, context).is_ready() {
                    context.waker().wake_by_ref();
                }
                return Ok(());
            }
            if self.asked.is_some() {
                return self.over(LossReason::Unanswered);
            }
            self.asked = Some(now);
            inner.look(|machine: &mut h2::Connection| machine.ping(now.to_be_bytes()));
            self.write(context)?;
        }
    }
}

impl Future for Drive {
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
            Err(Over) => Poll::Ready(()),
        }
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        // The loop may be ending.
        self.inner.lose(LossReason::Closed);
    }
}
