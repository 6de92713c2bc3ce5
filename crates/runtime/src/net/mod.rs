//! Client sockets: non-blocking, and registered with the loop only when they first have to wait.
//!
//! A connection never costs an `epoll_ctl` if its request is there at once and its response fits the socket buffer.

mod congestion;
mod listening;
pub mod udp;

use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};

use crate::events::{Ready, Registration, Side};
use crate::{loops, timer};

pub use congestion::choose_congestion_control;
pub use listening::ListeningSocket;

/// Time for which a peer that has only shut down its sending side is assumed to wait for the response, while its work
/// waits in a queue. A half-closing client gets its response, and the place of a client that went away is free soon.
pub const GONE_GRACE: Duration = Duration::from_secs(1);

/// A connected stream socket of one event loop.
///
/// All methods take `&self`; reading and writing may go on at the same time (a request body and an early response).
#[derive(Debug)]
pub struct Socket {
    fd: Arc<OwnedFd>,
    registered: OnceCell<Registration>,
    /// Set when the readable state of the registration was cleared although bytes may wait: the next read tries the
    /// socket first.
    read_first: Cell<bool>,
    /// Set when a read filled its buffer and could not find out whether anything is left: the "readable" of the
    /// registration may be out of date.
    was_filled: Cell<bool>,
    /// See [`Socket::reset_on_close`].
    resets: Cell<bool>,
    /// See [`Socket::taken_over`].
    is_taken_over: Cell<bool>,
}

impl Socket {
    /// Takes over a connected, non-blocking socket.
    pub fn new(fd: OwnedFd) -> Socket {
        Socket::of_shared(Arc::new(fd))
    }

    /// Takes over a connected, non-blocking socket that others may hold as well; only one of them is used at a time.
    pub fn of_shared(fd: Arc<OwnedFd>) -> Socket {
        Socket {
            fd,
            registered: OnceCell::new(),
            read_first: Cell::new(true),
            was_filled: Cell::new(false),
            resets: Cell::new(false),
            is_taken_over: Cell::new(false),
        }
    }

    /// Takes over a connected, non-blocking socket from a loop that is late, which lets go of it when it has time. The peer finds
    /// the end when this value is dropped, even if that loop still has the socket.
    pub fn taken_over(fd: Arc<OwnedFd>) -> Socket {
        let socket = Socket::of_shared(fd);
        socket.is_taken_over.set(true);
        socket
    }

    /// Whether somebody else has the socket too: a pool thread, or a loop that it was taken over from.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.fd) > 1
    }

    /// Leaves the socket to another loop, which has [taken it over](Socket::taken_over) from this one: the peer finds no end when
    /// this value is dropped.
    pub fn disown(&self) {
        self.is_taken_over.set(false);
    }

    /// The descriptor, for a pool thread; it stays open until the last holder drops it.
    pub fn shared_fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    /// The registration, for a task that is about to wait on this side.
    fn registration(&self, side: Side) -> io::Result<&Registration> {
        if let Some(registered) = self.registered.get() {
            return Ok(registered);
        }
        let registered = Registration::new(&self.fd, side)?;
        Ok(self.registered.get_or_init(|| registered))
    }

    /// Reads without waiting into the spare capacity of `buffer`; `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing to read, else the error of `recv(2)`.
    pub fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        Ok(rustix::net::recv(&*self.fd, rustix::buffer::spare_capacity(buffer), RecvFlags::empty())?.0)
    }

    /// Waits until there are bytes (or the end) and reads them into the spare capacity of `buffer`, which must not be
    /// zero. Only one task reads from a socket at a time.
    ///
    /// # Errors
    /// The error of `recv(2)`, except `WouldBlock`.
    pub async fn read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        // A peer that is as fast as this loop always has bytes ready: after some of them, other tasks get their turn.
        loops::consume_budget().await;
        let room = buffer.capacity() - buffer.len();
        poll_fn(|context| self.poll_read_by(context, || Ok((self.try_read(buffer)?, room)))).await
    }

    /// Reads like [`Socket::read`], at most `most` bytes, into a buffer whose pieces can be handed out without copying.
    ///
    /// # Errors
    /// The error of `recv(2)`, except `WouldBlock`.
    pub async fn read_bytes(&self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        loops::consume_budget().await;
        poll_fn(|context| self.poll_read_bytes(context, buffer, most)).await
    }

    /// Reads like [`Socket::read_bytes`], for a task that waits for other things too, and lets others have their turn
    /// itself.
    ///
    /// # Errors
    /// The error of `recv(2)`, except `WouldBlock`.
    pub fn poll_read_bytes(
        &self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let room = (buffer.capacity() - buffer.len()).min(most);
        self.poll_read_by(context, || Ok((self.try_read_bytes(buffer, most)?, room)))
    }

    /// Reads like [`Socket::try_read`], at most `most` bytes, into a buffer whose pieces can be handed out without
    /// copying.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing to read, else the error of `recv(2)`.
    pub fn try_read_bytes(&self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        freerun_sys::receive::receive(&*self.fd, buffer, most)
    }

    /// Reads like [`Socket::try_read`], if there is something to read by the loop's latest events. `None`:
    /// call [`Socket::read`]. It costs less than that, for a caller that does not have to be woken.
    pub fn read_now(&self, buffer: &mut Vec<u8>) -> Option<io::Result<usize>> {
        let room = buffer.capacity() - buffer.len();
        self.read_now_by(|| Ok((self.try_read(buffer)?, room)))
    }

    /// Reads like [`Socket::read_now`], by `read`, which is called once at most. It returns how many bytes it got, and
    /// for how many it had room.
    #[inline]
    pub fn read_now_by(&self, mut read: impl FnMut() -> io::Result<(usize, usize)>) -> Option<io::Result<usize>> {
        let (mut got, mut filled) = (None, false);
        let mut read = || match read() {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Err(error),
            // A short read has emptied the socket: the registration learns that nothing is left.
            Ok((n, room)) if n > 0 && n < room => {
                got = Some(Ok(n));
                Err(io::ErrorKind::WouldBlock.into())
            }
            answer => {
                filled = matches!(answer, Ok((n, room)) if n == room);
                got = Some(answer.map(|(n, _)| n));
                Ok(())
            }
        };
        if self.read_first.get() {
            let _ = read();
            self.read_first.set(got.is_some());
            return got;
        }
        let registered = self.registered.get()?;
        if registered.ready().is_some_and(|ready| ready.has(Ready::READ))
            && read().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            registered.clear(Side::Read);
        }
        if let Some(Ok(_)) = got {
            self.was_filled.set(filled);
        }
        got
    }

    /// Reads by `read`, which is called only when there may be something to read, so that a waiting task holds no
    /// buffer. `read` returns how many bytes it got, and for how many it had room.
    ///
    /// # Errors
    /// The error of `read`, except `WouldBlock`.
    pub fn poll_read_by(
        &self,
        context: &mut Context<'_>,
        mut read: impl FnMut() -> io::Result<(usize, usize)>,
    ) -> Poll<io::Result<usize>> {
        if self.read_first.take() {
            match read() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                answer => {
                    // A short read has emptied the socket. What comes next is reported, also if it comes before the socket is
                    // registered.
                    let is_empty = matches!(answer, Ok((n, room)) if n > 0 && n < room);
                    self.read_first.set(!is_empty);
                    return Poll::Ready(answer.map(|(n, _)| n));
                }
            }
        }
        let registered = self.registration(Side::Read)?;
        loop {
            ready!(registered.poll(&self.fd, Side::Read, context))?;
            match read() {
                Ok((n, room)) => {
                    // A short read has emptied the socket: the next event comes with the next bytes (epoll,
                    // edge-triggered). The "closed" flags stay, so an end of stream is not missed.
                    if n > 0 && n < room {
                        registered.clear(Side::Read);
                    }
                    self.was_filled.set(n == room);
                    return Poll::Ready(Ok(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => registered.clear(Side::Read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Writes as many of `bytes` as fit.
    ///
    /// # Errors
    /// The error of `send(2)`, except `WouldBlock`.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_by(context, || self.try_write(&[IoSlice::new(bytes)], false))
    }

    /// Writes by `write`, which is called when the socket may take something.
    ///
    /// # Errors
    /// The error of `write`, except `WouldBlock`.
    pub fn poll_write_by(
        &self,
        context: &mut Context<'_>,
        mut write: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let registered = self.registration(Side::Read)?;
        loop {
            ready!(registered.poll(&self.fd, Side::Write, context))?;
            match write() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => registered.clear(Side::Write),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => return Poll::Ready(answer),
            }
        }
    }

    /// Limits the bytes that the kernel takes and has not sent yet to about this number (`TCP_NOTSENT_LOWAT`, tcp(7)).
    ///
    /// # Errors
    /// The error of `setsockopt(2)`.
    pub fn set_unsent_limit(&self, bytes: u32) -> io::Result<()> {
        socket2::SockRef::from(&*self.fd).set_tcp_notsent_lowat(bytes)
    }

    /// Waits until a read would not wait, without reading: for an idle connection, which thereby holds no buffer.
    ///
    /// # Errors
    /// Registration with the loop failed, or the loop is going away.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_readable(context)).await
    }

    /// Waits like [`Socket::readable`], for a task that waits for other things too.
    ///
    /// # Errors
    /// Registration with the loop failed, or the loop is going away.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(registered) = self.registered.get()
            && !self.read_first.get()
            && !self.was_filled.get()
            && registered.ready().is_some_and(|ready| ready.has(Ready::READ))
        {
            return Poll::Ready(Ok(()));
        }
        if self.registered.get().is_none() {
            // Entering the descriptor reports the state that exists already.
            self.read_first.set(false);
        } else if self.read_first.get() {
            if !self.has_nothing() {
                return Poll::Ready(Ok(()));
            }
            self.read_first.set(false);
        }
        let registered = self.registration(Side::Read)?;
        loop {
            ready!(registered.poll(&self.fd, Side::Read, context))?;
            if self.was_filled.take() && self.has_nothing() {
                registered.clear(Side::Read);
                continue;
            }
            return Poll::Ready(Ok(()));
        }
    }

    /// To be called when a read of this thread has found nothing, if it was not one of the functions here: the next event
    /// reports the next bytes.
    pub fn found_empty(&self) {
        self.read_first.set(false);
        if let Some(registered) = self.registered.get() {
            registered.clear(Side::Read);
        }
    }

    /// Notes that the connection was just made and nothing was read or waited for. Its peer has hardly sent anything:
    /// the first read waits for an event, instead of trying in vain.
    pub fn expect_nothing(&self) {
        self.read_first.set(false);
    }

    /// Whether there is neither a byte nor the end to be read.
    fn has_nothing(&self) -> bool {
        let peeked = rustix::net::recv(&*self.fd, &mut [0u8; 1][..], RecvFlags::PEEK);
        matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    /// Writes as many bytes as fit without waiting.
    ///
    /// With `more`, the kernel holds a last partial segment back for bytes that follow at once (`MSG_MORE`).
    ///
    /// # Errors
    /// `WouldBlock` when the socket buffer is full, else the error of `sendmsg(2)`.
    pub fn try_write(&self, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
        if let [only] = parts {
            return Ok(rustix::net::send(&*self.fd, only, flags)?);
        }
        Ok(rustix::net::sendmsg(&*self.fd, parts, &mut Default::default(), flags)?)
    }

    /// Number of bytes that a write would certainly take now; 0 if that is not known.
    pub fn certain_room(&self) -> usize {
        let memory = freerun_sys::socket::send_room(&*self.fd).unwrap_or(0);
        // The kernel's own data about the bytes counts too: some hundred bytes for each 64 KiB, and more for small
        // segments.
        memory - memory / 8
    }

    /// Waits until a write would not wait. To be called right after a write of this thread has filled the socket, with
    /// no `await` in between.
    ///
    /// Writes are tried without asking the registration, which may therefore still say "writable" from before. Its
    /// state changes only when this loop looks at its events, which it has not done since the write. So the present
    /// state is out of date, and the event for the next room is still to come.
    ///
    /// # Errors
    /// Registration with the loop failed, or the loop is going away.
    pub async fn writable_after_full(&self) -> io::Result<()> {
        let registered = self.registration(Side::Write)?;
        registered.clear(Side::Write);
        poll_fn(|context| registered.poll(&self.fd, Side::Write, context)).await
    }

    /// Waits until a write would not wait, whichever thread filled the socket and whenever (a pool thread, for
    /// example).
    ///
    /// # Errors
    /// Registration with the loop failed, or the loop is going away.
    pub async fn writable(&self) -> io::Result<()> {
        let registered = self.registration(Side::Write)?;
        loop {
            poll_fn(|context| registered.poll_for(&self.fd, Ready::WRITE, context)).await?;
            if self.has_room()? {
                return Ok(());
            }
            registered.clear(Side::Write);
        }
    }

    /// Resolves when the peer has gone: at once on a reset or a full close, and [`GONE_GRACE`] after a mere end of its
    /// sending side.
    pub async fn gone(&self) {
        let Ok(registered) = self.registration(Side::Read) else { return };
        loop {
            let wanted = Ready::READ | Ready::ERROR;
            if poll_fn(|context| registered.poll_for(&self.fd, wanted, context)).await.is_err() {
                return;
            }
            let ready = registered.ready().unwrap_or_default();
            if ready.has(Ready::ERROR | Ready::WRITE_CLOSED) {
                return;
            }
            if ready.has(Ready::READ_CLOSED) {
                timer::sleep(GONE_GRACE).await;
                return;
            }
            // Unread bytes (pipelined requests) must not hide a reset that comes later.
            self.read_first.set(true);
            registered.clear(Side::Read);
        }
    }

    /// Polls for the end of what the peer sends: it has shut down its sending side, or its connection is closed or broken.
    /// Unread bytes may come before that end.
    pub fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        let Ok(registered) = self.registration(Side::Read) else { return Poll::Ready(()) };
        let wanted = Ready::READ_CLOSED | Ready::ERROR;
        registered.poll_for(&self.fd, wanted, context).map(|_| ())
    }

    /// Resolves when the peer has gone, like [`Socket::gone`], for the task that otherwise reads from the socket: other
    /// tasks are not woken, and waiting costs less.
    pub async fn gone_for_reader(&self) {
        let Ok(registered) = self.registration(Side::Read) else { return };
        if poll_fn(|context| registered.poll(&self.fd, Side::Read, context)).await.is_ok() {
            // Few tasks come here; in a box the future takes no room in the others.
            Box::pin(self.gone()).await;
        }
    }

    /// Whether the peer has sent nothing that was not read, neither bytes nor the end. This has to hold for a
    /// connection that is kept for another request.
    ///
    /// For a registered socket the loop's last look at its events gives the answer, and the kernel is asked only if
    /// they reported something. With `surely`, and on another thread than its loop's, the kernel is asked in any case.
    pub fn is_quiet(&self, surely: bool) -> bool {
        // On the thread of another loop, the registration cannot be read.
        let Some((registered, ready)) = self.registered.get().and_then(|one| Some((one, one.ready()?))) else {
            return self.has_nothing();
        };
        if ready.has(Ready::READ) {
            // The report may be out of date.
            if !self.has_nothing() {
                return false;
            }
            registered.clear(Side::Read);
        }
        if !surely && !self.read_first.get() {
            return true;
        }
        let quiet = self.has_nothing();
        if quiet {
            self.read_first.set(false);
        }
        quiet
    }

    /// Registers with the loop of this thread now, instead of when it first has to wait, so that [`Socket::is_quiet`]
    /// learns from the loop's events.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn watch(&self) -> io::Result<()> {
        if self.registered.get().is_none() {
            self.registration(Side::Read)?;
            // The loop has not looked since.
            self.read_first.set(true);
        }
        Ok(())
    }

    /// Whether the socket may be used on this thread: no other loop has it in its epoll instance.
    pub fn is_here(&self) -> bool {
        self.registered.get().is_none_or(|registered| registered.ready().is_some())
    }

    /// Takes the socket out of the epoll instance of the loop that it was used on, on any thread: then it may be used
    /// on another loop.
    #[must_use]
    pub fn moved(self) -> Socket {
        self.taken()
    }

    /// Takes the socket out: another loop may use it when this value, which is to be dropped, is not used any more.
    #[must_use]
    pub fn taken(&self) -> Socket {
        let socket = Socket::of_shared(self.fd.clone());
        socket.is_taken_over.set(self.is_taken_over.take());
        socket
    }

    /// Waits until a connection that was begun (`connect(2)` returned `EINPROGRESS`) is established. Asks once before
    /// it registers.
    ///
    /// # Errors
    /// The reason why it failed (`SO_ERROR`), or the failure of the registration with the loop.
    pub async fn connected(&self) -> io::Result<()> {
        let state = self.write_state()?;
        if state.intersects(PollFlags::ERR | PollFlags::HUP) {
            return self.failure();
        }
        if !state.is_empty() {
            // A connection that has failed would be told by `POLLERR` (poll(2)): there is no error to ask for.
            return Ok(());
        }
        let registered = self.registration(Side::Write)?;
        loop {
            poll_fn(|context| registered.poll_for(&self.fd, Ready::WRITE, context)).await?;
            self.failure()?;
            if self.has_room()? {
                return Ok(());
            }
            registered.clear(Side::Write);
        }
    }

    /// The error that the kernel has noted for the socket; reading it clears it.
    fn failure(&self) -> io::Result<()> {
        Ok(rustix::net::sockopt::socket_error(&*self.fd)??)
    }

    /// Whether a write would not wait, or would fail.
    ///
    /// # Errors
    /// The error of `poll(2)`.
    pub fn has_room(&self) -> io::Result<bool> {
        Ok(!self.write_state()?.is_empty())
    }

    /// The state of the sending side: room, an error, the end of the connection. Empty: a write would wait.
    fn write_state(&self) -> io::Result<PollFlags> {
        let mut poll = [PollFd::new(&*self.fd, PollFlags::OUT)];
        rustix::event::poll(&mut poll, Some(&Default::default()))?;
        Ok(poll[0].revents())
    }

    /// Ends the receiving side (`shutdown(2)`): a task that waits for bytes finds the end of the stream, after the
    /// bytes that have come already. An error means that the peer is gone already.
    pub fn shutdown_read(&self) {
        let _ = rustix::net::shutdown(&*self.fd, rustix::net::Shutdown::Read);
    }

    /// Wakes the task that waits for bytes, though none may have come: it has been asked to do something else.
    pub fn wake_reader(&self) {
        if let Some(registered) = self.registered.get() {
            registered.wake_reader();
        }
    }

    /// Makes closing, or [`Socket::end`], send a reset instead of an orderly end. This is for a response that ends with
    /// the connection and could not be completed: the client must not take it for whole. A Unix socket has no reset.
    pub fn reset_on_close(&self) {
        self.resets.set(true);
        // A failure means that the connection no longer exists.
        let _ = rustix::net::sockopt::set_socket_linger(&*self.fd, Some(Duration::ZERO));
    }

    /// Lets the peer find the end now, while other holders may keep the socket for long: as if it was closed, with a
    /// reset if [`Socket::reset_on_close`] was called. Later reads and writes fail then; after an orderly end, reading
    /// goes on.
    pub fn end(&self) {
        // A TCP socket that is dissolved (AF_UNSPEC of connect(2)) resets its connection and drops its buffers.
        if self.resets.get() && rustix::net::connect_unspec(&*self.fd).is_ok() {
            return;
        }
        self.shutdown_write();
    }

    /// Ends the sending side (`shutdown(2)`); an error means that the peer is gone already.
    pub fn shutdown_write(&self) {
        let _ = rustix::net::shutdown(&*self.fd, rustix::net::Shutdown::Write);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_taken_over.get() && self.is_shared() {
            self.end();
        }
        if let Some(registered) = self.registered.take() {
            registered.leave(&self.fd);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether reading, or accepting, would not wait.
pub fn can_be_read(socket: impl AsFd) -> bool {
    let mut poll = [PollFd::new(&socket, PollFlags::IN)];
    rustix::event::poll(&mut poll, Some(&Default::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests;
