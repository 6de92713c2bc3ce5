//! A TLS session over a socket.
//!
//! A connection to a listening socket with `ssl` is one of these from the start. As long as no session has been
//! [established](TlsStream::establish), bytes go through as they are. So a PROXY protocol header, the handshake, and a
//! client that speaks plain HTTP need nothing else.
//!
//! A connection that waits holds no buffers. Bytes are received into, and encrypted in, memory of the loop
//! ([`scratch`]). A connection has memory of its own for the rest of an incomplete record, and for encrypted bytes that
//! its socket has not taken.

mod read;
mod scratch;
mod write;

use std::cell::RefCell;
use std::io;
use std::task::Context;

use freerun_runtime::net::Socket;
use freerun_tls::session::{SessionParameters, TlsSession};

use self::read::ReceivedBytes;
use self::write::Unsent;

/// A TLS session over a socket of one event loop.
#[derive(Debug)]
pub struct TlsStream {
    pub(crate) socket: Socket,
    state: RefCell<TlsState>,
}

/// The state of the session.
#[derive(Debug, Default)]
struct TlsState {
    /// The session, once there is one.
    session: Option<Box<TlsSession>>,
    received: ReceivedBytes,
    unsent: Unsent,
    /// Whether the peer sends nothing any more: it has closed the session or the connection.
    ended: bool,
    /// Whether the peer has ended its stream with `close_notify`.
    notified: bool,
    /// Whether the session has failed behind plaintext that was given already.
    failed: bool,
    /// Whether `close_notify` must not be sent: it was sent, or the peer must not take the stream for complete.
    quiet: bool,
    /// Whether the sending side is shut down as soon as the socket has taken what is left, `close_notify` at its end.
    shuts: bool,
}

impl TlsStream {
    /// A connected socket on which no session has begun.
    pub fn new(socket: Socket) -> TlsStream {
        TlsStream { socket, state: RefCell::default() }
    }

    /// Lets the bytes go through this session from now on. Its handshake is complete, and `received` are the peer's bytes
    /// that it has not consumed.
    pub fn establish(&self, session: Box<TlsSession>, received: Vec<u8>) {
        let mut state = self.state.borrow_mut();
        debug_assert!(state.session.is_none(), "a connection has one session");
        state.session = Some(session);
        state.received = ReceivedBytes::of(received);
    }

    /// Whether a session was established.
    pub fn is_established(&self) -> bool {
        self.state.borrow().session.is_some()
    }

    /// Whether the peer has ended its stream with `close_notify`, and what came before has been read. Without that, an end
    /// may be the work of somebody between the two.
    pub fn is_notified(&self) -> bool {
        self.state.borrow().notified
    }

    /// The result of `read` on the session, if there is one.
    pub fn with_session<T>(&self, read: impl FnOnce(&TlsSession) -> T) -> Option<T> {
        self.state.borrow().session.as_deref().map(read)
    }

    /// The result of `read` on the parameters that the peers have agreed on, if a session was established.
    pub fn with_agreed<T>(&self, read: impl FnOnce(SessionParameters<'_>) -> T) -> Option<T> {
        self.with_session(|session| session.agreed().map(read)).flatten()
    }

    /// Tells the session whether the client's certificate was found good: see [`TlsSession::settle`].
    pub fn settle(&self, is_good: bool) {
        if let Some(session) = &mut self.state.borrow_mut().session {
            session.settle(is_good);
        }
    }

    /// Takes the stream away from its loop, see [`Socket::moved`]; what is left here has no session any more.
    #[must_use]
    pub(crate) fn moved(&self) -> TlsStream {
        let state = RefCell::new(self.state.take());
        TlsStream { socket: self.socket.taken(), state }
    }

    /// Sends `close_notify`, once. If the socket is full at present, the peer misses it, unless
    /// [`shutdown_write`](Self::shutdown_write) ends the stream, because nobody waits for room here. A peer that knows
    /// by other means where the stream ends is not misled. Any other peer cannot tell a complete stream from a
    /// truncated one.
    ///
    /// False if the socket is full.
    pub(crate) fn close(&self) -> bool {
        let sent = self.send_close(&mut self.state.borrow_mut());
        !sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Queues `close_notify`, once, and sends as much as fits of what is queued.
    fn send_close(&self, state: &mut TlsState) -> io::Result<()> {
        let TlsState { session: Some(session), unsent, quiet, .. } = state else { return Ok(()) };
        if !std::mem::replace(quiet, true) {
            session.close(unsent.queue());
        }
        unsent.flush(&self.socket)
    }

    /// Shuts down the sending side after `close_notify`. If the socket is full, that is done when it has room, for as long
    /// as somebody reads from the stream.
    pub(crate) fn shutdown_write(&self) {
        let state = &mut *self.state.borrow_mut();
        match self.send_close(state) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.shuts = true,
            _ => self.socket.shutdown_write(),
        }
    }

    /// Goes on with [`shutdown_write`](Self::shutdown_write), for the task that reads.
    fn poll_shutdown(&self, state: &mut TlsState, context: &mut Context<'_>) {
        if !state.shuts {
            return;
        }
        debug_assert!(state.quiet, "the stream would end without a close_notify");
        if self.socket.poll_write_by(context, || state.unsent.flush(&self.socket).map(|()| 0)).is_ready() {
            state.shuts = false;
            self.socket.shutdown_write();
        }
    }

    /// Sends no `close_notify`: the peer must not take the stream for complete.
    pub(crate) fn keep_quiet(&self) {
        self.state.borrow_mut().quiet = true;
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        self.close();
        let state = self.state.get_mut();
        if state.shuts {
            let _ = state.unsent.flush(&self.socket);
        }
    }
}

#[cfg(test)]
mod tests;
