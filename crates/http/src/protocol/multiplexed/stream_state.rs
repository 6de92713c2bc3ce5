//! The state of a request's stream, as far as it is the same in every protocol.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use freerun_runtime::waiter::Waiter;

use crate::connection::stream::{StreamError, StreamFault};

/// The state of a request's stream: whether its body has come, whether its client is there, and who waits for what.
#[derive(Default)]
pub(in crate::protocol) struct StreamState {
    /// The whole body has been received.
    body_ended: Cell<bool>,
    /// The reason why the body is none. It is rare and long, so it is in a box.
    fault: RefCell<Option<Box<StreamFault>>>,
    /// The client has reset the stream, or the connection has ended.
    gone: Cell<bool>,
    /// The connection has failed, which is logged.
    failed: Cell<bool>,
    /// The request has ended.
    released: Cell<bool>,
    /// The head of the response was sent.
    sent_head: Cell<bool>,
    /// The generation that the request has begun with, if it has led to a tunnel.
    tunnel_of: Cell<Option<u64>>,
    /// The future that waits for more of the body.
    pub(in crate::protocol) reader: Waiter,
    /// The future that waits for room, or until all was sent.
    pub(in crate::protocol) writer: Waiter,
    /// Futures that wait for the client's leaving.
    watchers: RefCell<Vec<Waker>>,
}

impl StreamState {
    /// The state of a new stream; `body_ended` says that nothing follows the head of its request.
    pub(in crate::protocol) fn new(body_ended: bool) -> StreamState {
        StreamState { body_ended: Cell::new(body_ended), ..StreamState::default() }
    }

    // ---- the body of the request -----------------------------------------------------------------------------------

    /// Notes that the whole body has come.
    pub(in crate::protocol) fn end_body(&self) {
        self.body_ended.set(true);
        self.reader.wake();
    }

    /// Notes that the body is none. The first reason counts.
    pub(in crate::protocol) fn fail_body(&self, fault: StreamFault) {
        self.fault.borrow_mut().get_or_insert_with(|| Box::new(fault));
        self.reader.wake();
    }

    /// Polls what follows the pieces of the body that have come: its end, or another piece.
    ///
    /// # Errors
    /// The body is none.
    pub(in crate::protocol) fn poll_end(&self, context: &Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        if let Some(fault) = &*self.fault.borrow() {
            return Poll::Ready(Err(StreamError::Faulty(fault.clone())));
        }
        if self.body_ended.get() {
            return Poll::Ready(Ok(None));
        }
        self.reader.keep(context);
        Poll::Pending
    }

    /// Whether the whole body has come, and is one.
    pub(in crate::protocol) fn has_body(&self) -> bool {
        self.body_ended.get() && self.fault.borrow().is_none()
    }

    // ---- the end ---------------------------------------------------------------------------------------------------

    /// Notes that the client has gone, and wakes all that wait. `release_memory` is called the first time.
    pub(in crate::protocol) fn leave(&self, release_memory: impl FnOnce()) {
        if self.gone.replace(true) {
            return;
        }
        release_memory();
        self.reader.wake();
        self.writer.wake();
        let watchers = self.watchers.take();
        watchers.into_iter().for_each(Waker::wake);
    }

    /// Notes that the connection has failed.
    pub(in crate::protocol) fn fail(&self) {
        self.failed.set(true);
    }

    /// Notes that the request has ended. Returns whether it had not before.
    pub(in crate::protocol) fn release(&self) -> bool {
        !self.released.replace(true)
    }

    /// Whether the request has ended.
    pub(in crate::protocol) fn is_released(&self) -> bool {
        self.released.get()
    }

    /// Whether the client has gone.
    pub(in crate::protocol) fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Whether nothing can be sent or received any more.
    pub(in crate::protocol) fn is_over(&self) -> bool {
        self.gone.get() || self.released.get()
    }

    /// The error of a stream that was reset, or whose connection has ended.
    pub(in crate::protocol) fn over(&self) -> StreamError {
        if self.failed.get() { StreamError::ConnectionFailed } else { StreamError::Reset }
    }

    /// Ready when nothing can be sent or received any more. Several futures may wait for it.
    pub(in crate::protocol) fn poll_gone(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_over() {
            return Poll::Ready(());
        }
        let mut watchers = self.watchers.borrow_mut();
        if !watchers.iter().any(|waker| waker.will_wake(context.waker())) {
            watchers.push(context.waker().clone());
        }
        Poll::Pending
    }

    // ---- the response ----------------------------------------------------------------------------------------------

    /// Notes that the head of the response was sent.
    pub(in crate::protocol) fn note_head(&self) {
        self.sent_head.set(true);
    }

    /// Whether a response that is not whole is the client's fault: without a head, the rest of the body did not come in time, or
    /// in a wrong form.
    pub(in crate::protocol) fn is_client_at_fault(&self) -> bool {
        !self.sent_head.get() && !self.body_ended.get()
    }

    /// Notes that the stream is a tunnel, whose request has begun with this generation.
    pub(in crate::protocol) fn become_tunnel(&self, generation: u64) {
        self.tunnel_of.set(Some(generation));
    }

    /// Whether the stream is a tunnel of this generation that goes on.
    pub(in crate::protocol) fn is_tunnel_of(&self, generation: u64) -> bool {
        self.tunnel_of.get() == Some(generation) && !self.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fault_of_a_body_counts_and_comes_before_its_end() {
        let state = StreamState::new(false);
        let context = Context::from_waker(Waker::noop());
        assert!(state.poll_end(&context).is_pending() && !state.has_body());
        let fault = |missing| StreamFault::Length { missing };
        [fault(1), fault(2)].into_iter().for_each(|fault| state.fail_body(fault));
        state.end_body();
        let first = Poll::Ready(Err(StreamError::Faulty(Box::new(fault(1)))));
        assert!(state.poll_end(&context) == first && !state.has_body());
        assert!(!state.is_client_at_fault() && StreamState::new(false).is_client_at_fault());
    }

    #[test]
    fn a_stream_is_left_once_and_is_over_then() {
        let (state, released) = (StreamState::new(true), Cell::new(0));
        let context = Context::from_waker(Waker::noop());
        state.become_tunnel(3);
        assert!(state.poll_gone(&context).is_pending() && state.is_tunnel_of(3) && !state.is_tunnel_of(4));
        for _ in 0..2 {
            state.leave(|| released.set(released.get() + 1));
        }
        assert!(released.get() == 1 && state.is_over() && !state.is_tunnel_of(3));
        assert!(state.poll_gone(&context).is_ready() && state.release() && !state.release());
        assert_eq!(state.over(), StreamError::Reset);
        state.fail();
        assert_eq!(state.over(), StreamError::ConnectionFailed);
    }
}
