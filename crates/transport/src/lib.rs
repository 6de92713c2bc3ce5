//! A connected byte stream, as protocols see it: all traffic between the kernel and a protocol goes through
//! [`Transport`].
//!
//! A protocol reads and writes bytes, waits, is notified when its peer has gone, and asks how a file may be sent. It
//! depends neither on descriptors nor on the rules of edge-triggered epoll, which [`Socket`] handles. The connections
//! of clients and those to upstream servers are both transports.
//!
//! The type is an enumeration and not a trait object, so that a plain connection costs no more than its socket.

mod tls;

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use freerun_runtime::loops;
use freerun_runtime::net::Socket;
pub use freerun_sys::socket::TcpInfo;

pub use self::tls::TlsStream;

/// A connected byte stream of one event loop.
///
/// All methods take `&self`: reading and writing may happen at the same time (a request body and an early response).
/// Only one task reads at a time.
#[derive(Debug)]
pub enum Transport {
    /// Bytes are sent and received as they are.
    Plain(Socket),
    /// Bytes go through a TLS session, once that is established.
    Tls(Box<TlsStream>),
}

/// The manner in which a file is sent to the peer.
#[derive(Debug)]
pub enum FileSending<'t> {
    /// The kernel can copy the file into this descriptor (`sendfile(2)`); so can a pool thread with
    /// [`Transport::shared_fd`].
    Sendfile(BorrowedFd<'t>),
    /// The file has to be read first, and is written like bytes from memory.
    Copy,
}

/// The layer that bytes pass through: none, or a session.
enum Layer<'t> {
    Plain(&'t Socket),
    Session(&'t TlsStream),
}

impl From<Socket> for Transport {
    fn from(socket: Socket) -> Transport {
        Transport::Plain(socket)
    }
}

impl Transport {
    /// Takes over a connected, non-blocking socket whose bytes are not encrypted.
    pub fn plain(fd: OwnedFd) -> Transport {
        Transport::Plain(Socket::new(fd))
    }

    /// The stream as one on which a TLS session can be [established](TlsStream::establish).
    #[must_use]
    pub fn into_tls(self) -> Transport {
        match self {
            Transport::Plain(socket) => Transport::Tls(Box::new(TlsStream::new(socket))),
            Transport::Tls(tls) => Transport::Tls(tls),
        }
    }

    /// The TLS stream, if it is one.
    #[inline]
    pub fn tls(&self) -> Option<&TlsStream> {
        match self {
            Transport::Plain(_) => None,
            Transport::Tls(tls) => Some(tls),
        }
    }

    /// The TLS stream, if a session was established on it.
    #[inline]
    pub fn established(&self) -> Option<&TlsStream> {
        self.tls().filter(|tls| tls.is_established())
    }

    /// The layer that bytes pass through at present.
    #[inline]
    fn layer(&self) -> Layer<'_> {
        match self {
            Transport::Plain(socket) => Layer::Plain(socket),
            Transport::Tls(tls) if tls.is_established() => Layer::Session(tls),
            Transport::Tls(tls) => Layer::Plain(&tls.socket),
        }
    }

    #[inline]
    fn socket(&self) -> &Socket {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(tls) => &tls.socket,
        }
    }

    // ---- reading ---------------------------------------------------------------------------------------------------

    /// Reads without waiting into the spare capacity of `buffer`; `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` if there are no bytes. `Interrupted` if much has come that has no plaintext of TLS, and there may
    /// be more. Otherwise the error that broke the stream.
    #[inline]
    pub fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let most = buffer.capacity() - buffer.len();
        match self.layer() {
            Layer::Plain(socket) => socket.try_read(buffer),
            Layer::Session(tls) => tls.try_read_into(buffer, most),
        }
    }

    /// Reads without waiting, if the loop's events say that there are bytes. `None` tells the caller to use
    /// [`Transport::read`]; this function is the cheaper one for a caller that does not have to be woken.
    #[inline]
    pub fn read_now(&self, buffer: &mut Vec<u8>) -> Option<io::Result<usize>> {
        match self.layer() {
            Layer::Plain(socket) => socket.read_now(buffer),
            Layer::Session(tls) => tls.read_now(buffer),
        }
    }

    /// To be called when the stream was just connected and not read yet, since its peer has hardly sent anything. The
    /// first read then waits for an event, instead of trying in vain. It makes no difference to TLS.
    pub fn expect_nothing(&self) {
        if let Transport::Plain(socket) = self {
            socket.expect_nothing();
        }
    }

    /// Waits for bytes (or the end), and reads them into the spare capacity of `buffer`, which must not be empty.
    ///
    /// # Errors
    /// The error that broke the stream.
    #[inline]
    pub async fn read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self.layer() {
            Layer::Plain(socket) => socket.read(buffer).await,
            Layer::Session(tls) => {
                loops::consume_budget().await;
                let most = buffer.capacity() - buffer.len();
                poll_fn(|context| tls.poll_read_into(context, buffer, most)).await
            }
        }
    }

    /// Waits as [`Transport::read`] does, and reads at most `most` bytes into a buffer from which pieces can be taken
    /// without copying.
    ///
    /// # Errors
    /// The error that broke the stream.
    #[inline]
    pub async fn read_bytes(&self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        loops::consume_budget().await;
        poll_fn(|context| self.poll_read_bytes(context, buffer, most)).await
    }

    /// Polls a read of at most `most` bytes, for a task that also waits for other events, and yields to other tasks
    /// itself.
    ///
    /// # Errors
    /// The error that broke the stream.
    #[inline]
    pub fn poll_read_bytes(
        &self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let room = (buffer.capacity() - buffer.len()).min(most);
        match self.layer() {
            Layer::Plain(socket) => socket.poll_read_bytes(context, buffer, most),
            Layer::Session(tls) => tls.poll_read_into(context, buffer, room),
        }
    }

    /// Reads at most `most` bytes without waiting, into a buffer from which pieces can be taken without copying.
    ///
    /// # Errors
    /// `WouldBlock` if there are no bytes. `Interrupted` if much has come that has no plaintext of TLS, and there may
    /// be more. Otherwise the error that broke the stream.
    #[inline]
    pub fn try_read_bytes(&self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        let room = (buffer.capacity() - buffer.len()).min(most);
        match self.layer() {
            Layer::Plain(socket) => socket.try_read_bytes(buffer, most),
            Layer::Session(tls) => tls.try_read_into(buffer, room),
        }
    }

    /// Polls a read that `read` does by [`Transport::try_read`] or [`Transport::try_read_bytes`]. `read` is called only
    /// if there may be bytes, so that a waiting task holds no buffer. It returns how many bytes it read, and how many
    /// it had room for.
    ///
    /// # Errors
    /// The error of `read`, except `WouldBlock` and `Interrupted`.
    #[inline]
    pub fn poll_read_by(
        &self,
        context: &mut Context<'_>,
        read: impl FnMut() -> io::Result<(usize, usize)>,
    ) -> Poll<io::Result<usize>> {
        match self.layer() {
            Layer::Plain(socket) => socket.poll_read_by(context, read),
            Layer::Session(tls) => tls.poll_read_by(context, read),
        }
    }

    /// Polls for bytes, or the end, without reading them: an idle connection holds no buffer.
    ///
    /// # Errors
    /// The loop cannot watch the stream, or is ending.
    #[inline]
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.layer() {
            Layer::Plain(socket) => socket.poll_readable(context),
            Layer::Session(tls) => tls.poll_readable(context),
        }
    }

    /// Waits for bytes, or the end, without reading them.
    ///
    /// # Errors
    /// The loop cannot watch the stream, or is ending.
    #[inline]
    pub fn readable(&self) -> impl Future<Output = io::Result<()>> {
        poll_fn(|context| self.poll_readable(context))
    }

    /// Whether there is nothing unread from the peer, neither bytes nor the end, as a connection that is kept for
    /// another request has to be. With `surely` the kernel is asked in any case, see [`Socket::is_quiet`].
    #[inline]
    pub fn is_quiet(&self, surely: bool) -> bool {
        match self.layer() {
            Layer::Plain(socket) => socket.is_quiet(surely),
            Layer::Session(tls) => tls.is_quiet(surely),
        }
    }

    // ---- writing ---------------------------------------------------------------------------------------------------

    /// Writes as much as fits without waiting. With `more`, a last partial segment is held back for the bytes that
    /// follow at once.
    ///
    /// If fewer bytes than offered are written, the next write begins with the others: a TLS session may have encrypted
    /// them already.
    ///
    /// # Errors
    /// `WouldBlock` if no byte fits, or the error that broke the stream.
    #[inline]
    pub fn try_write(&self, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        match self.layer() {
            Layer::Plain(socket) => socket.try_write(parts, more),
            Layer::Session(tls) => tls.try_write(parts, more),
        }
    }

    /// Polls a write of as much of `bytes` as fits.
    ///
    /// # Errors
    /// The error that broke the stream.
    #[inline]
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.layer() {
            Layer::Plain(socket) => socket.poll_write(context, bytes),
            Layer::Session(tls) => tls.poll_write(context, bytes),
        }
    }

    /// Writes all of the bytes: for a few that come before everything else.
    ///
    /// # Errors
    /// The error that broke the stream.
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            done += poll_fn(|context| self.poll_write(context, &bytes[done..])).await?;
        }
        Ok(())
    }

    /// Polls a write to the socket itself by `write`, which is called when the socket may take something. It is for what
    /// [`FileSending::Sendfile`] allows: past TLS, nothing may be written.
    ///
    /// # Errors
    /// The error of `write`, except `WouldBlock`; `Unsupported` with TLS.
    pub fn poll_write_by(
        &self,
        context: &mut Context<'_>,
        write: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        match self.layer() {
            Layer::Plain(socket) => socket.poll_write_by(context, write),
            Layer::Session(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// The number of bytes that a write would certainly accept now; 0 if that is not known.
    #[inline]
    pub fn certain_room(&self) -> usize {
        match self.layer() {
            Layer::Plain(socket) => socket.certain_room(),
            Layer::Session(tls) => tls.certain_room(),
        }
    }

    /// Whether a write would not wait, or would fail.
    ///
    /// # Errors
    /// The error of `poll(2)`.
    #[inline]
    pub fn has_room(&self) -> io::Result<bool> {
        match self.layer() {
            Layer::Plain(socket) => socket.has_room(),
            Layer::Session(tls) => tls.has_room(),
        }
    }

    /// Waits until a write would not wait. It has to be called right after a write of this thread that found no more
    /// room, without an `await` in between.
    ///
    /// # Errors
    /// The loop cannot watch the stream, or is ending.
    #[inline]
    pub fn writable_after_full(&self) -> impl Future<Output = io::Result<()>> {
        self.socket().writable_after_full()
    }

    /// Waits until a write would not wait, no matter which thread found the socket full (a pool thread, for example)
    /// and when.
    ///
    /// # Errors
    /// The loop cannot watch the stream, or is ending.
    #[inline]
    pub fn writable(&self) -> impl Future<Output = io::Result<()>> {
        self.socket().writable()
    }

    /// The manner in which a file is sent to the peer.
    #[inline]
    pub fn file_sending(&self) -> FileSending<'_> {
        match self.layer() {
            Layer::Plain(socket) => FileSending::Sendfile(socket.as_fd()),
            Layer::Session(_) => FileSending::Copy,
        }
    }

    /// The descriptor that a pool thread may send a file to, if [`Transport::file_sending`] is `Sendfile`; it stays
    /// open as long as any holder keeps it.
    #[inline]
    pub fn shared_fd(&self) -> Arc<OwnedFd> {
        self.socket().shared_fd()
    }

    /// Sends small segments at once from now on (`TCP_NODELAY`). A failure costs latency, not correctness: the stream
    /// may just have been reset, or have no segments.
    pub fn set_nodelay(&self) {
        let _ = rustix::net::sockopt::set_tcp_nodelay(self.socket(), true);
    }

    /// Has the kernel take no more than about this number of bytes that it has not sent yet (`TCP_NOTSENT_LOWAT`,
    /// tcp(7)). A failure costs nothing but the order of sending.
    pub fn set_unsent_limit(&self, bytes: u32) {
        let _ = self.socket().set_unsent_limit(bytes);
    }

    // ---- the end ---------------------------------------------------------------------------------------------------

    /// Resolves when the peer has gone: at once on a reset or a full close, and after [a
    /// while](freerun_runtime::net::GONE_GRACE) if it has only shut down its sending side.
    #[inline]
    pub fn gone(&self) -> impl Future<Output = ()> {
        self.socket().gone()
    }

    /// Resolves as [`Transport::gone`] does, but for the task that otherwise reads: no other task is woken, and waiting
    /// costs less.
    #[inline]
    pub fn gone_for_reader(&self) -> impl Future<Output = ()> {
        self.socket().gone_for_reader()
    }

    /// Polls for the end of what the peer sends, which half-closing peers reach long before they have gone. Unread bytes
    /// may come before it.
    #[inline]
    pub fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        self.socket().poll_ended(context)
    }

    /// Shuts down the receiving side: a task that waits for bytes reads the end of the stream, after the bytes that
    /// have come already.
    pub fn shutdown_read(&self) {
        self.socket().shutdown_read();
    }

    /// Wakes the task that waits for bytes, though none may have come.
    pub fn wake_reader(&self) {
        self.socket().wake_reader();
    }

    /// Shuts down the sending side; the peer reads the end of the stream. Reading goes on. With TLS the end is a
    /// `close_notify` before anything else; if there is no room for it, it leaves while the stream is read.
    pub fn shutdown_write(&self) {
        match self {
            Transport::Plain(socket) => socket.shutdown_write(),
            Transport::Tls(tls) => tls.shutdown_write(),
        }
    }

    /// Sends the end of a session of TLS (`close_notify`, RFC 8446 section 6.1). Nothing may be written behind it.
    /// False if there is no room for it. It is lost if the stream is closed now, but not if
    /// [`Transport::shutdown_write`] comes first and the stream is read until the peer has closed it.
    #[must_use]
    pub fn end_session(&self) -> bool {
        self.tls().is_none_or(TlsStream::close)
    }

    /// Makes closing, or [`Transport::end`], send no `close_notify` if this is TLS: something is not complete, whatever its
    /// own framing tells the peer (RFC 8446 section 6.1).
    pub fn cut_on_close(&self) {
        if let Transport::Tls(tls) = self {
            tls.keep_quiet();
        }
    }

    /// Makes closing, or [`Transport::end`], send a reset instead of an orderly end. Without it, a client would take an
    /// incomplete response whose end is the end of the connection for a complete one.
    pub fn reset_on_close(&self) {
        self.cut_on_close();
        self.socket().reset_on_close();
    }

    /// Shows the peer the end now, as if the stream was closed, even if another holder keeps it for long yet. Reading
    /// goes on after an orderly end.
    pub fn end(&self) {
        if let Transport::Tls(tls) = self {
            tls.close();
        }
        self.socket().end();
    }

    // ---- whose it is -----------------------------------------------------------------------------------------------

    /// Makes the loop of this thread watch the stream now, instead of when it first has to wait, so that
    /// [`Transport::is_quiet`] learns from the loop's events.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn watch(&self) -> io::Result<()> {
        self.socket().watch()
    }

    /// Whether it may be used on this thread, because no other loop watches it.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.socket().is_here()
    }

    /// Takes the stream away from the loop that watched it, on any thread: another loop may use it then.
    #[must_use]
    pub fn moved(self) -> Transport {
        self.taken()
    }

    /// Takes the stream out, with its session and all that waits in it. Another loop may use it when this transport,
    /// which is to be dropped, is not used any more.
    #[must_use]
    pub fn taken(&self) -> Transport {
        match self {
            Transport::Plain(socket) => Transport::Plain(socket.taken()),
            Transport::Tls(tls) => Transport::Tls(Box::new(tls.moved())),
        }
    }

    /// Whether somebody else has the socket too: a pool thread, or a loop that it was taken over from.
    pub fn is_shared(&self) -> bool {
        self.socket().is_shared()
    }

    /// Leaves the stream to another loop that has taken over its socket: the peer finds no end when this value is dropped.
    pub fn disown(&self) {
        self.socket().disown();
    }

    /// The address that the peer connected to, if it is an IP address.
    pub fn local_address(&self) -> Option<SocketAddr> {
        rustix::net::getsockname(self.socket()).ok().and_then(|address| SocketAddr::try_from(address).ok())
    }

    /// The kernel's information about the connection (`TCP_INFO`).
    ///
    /// # Errors
    /// The stream is not a TCP connection.
    pub fn tcp_info(&self) -> io::Result<TcpInfo> {
        freerun_sys::socket::tcp_info(self.socket())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use freerun_runtime::loops;

    use super::*;

    /// A transport and its peer.
    fn pair() -> (Transport, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Transport::plain(ours.into()), theirs)
    }

    #[test]
    fn bytes_go_both_ways_until_each_side_has_ended() {
        loops::block_on(async {
            let (transport, mut peer) = pair();
            peer.write_all(b"question").unwrap();
            let mut buffer = Vec::with_capacity(64);
            assert_eq!(transport.read(&mut buffer).await.unwrap(), 8);
            assert_eq!(transport.try_write(&[IoSlice::new(b"ans"), IoSlice::new(b"wer")], false).unwrap(), 6);
            transport.shutdown_write();
            let mut answer = Vec::new();
            peer.read_to_end(&mut answer).unwrap();
            assert_eq!((&buffer[..], &answer[..]), (&b"question"[..], &b"answer"[..]));
            drop(peer);
            buffer.clear();
            assert_eq!(transport.read(&mut buffer).await.unwrap(), 0);
        })
        .unwrap();
    }

    #[test]
    fn an_idle_transport_lends_no_buffer_before_something_has_come() {
        loops::block_on(async {
            let (transport, mut peer) = pair();
            let mut lent = 0;
            let mut buffer = BytesMut::with_capacity(64);
            let mut peer_wrote = false;
            let read = std::future::poll_fn(|context| {
                let polled = transport.poll_read_by(context, || {
                    let n = transport.try_read_bytes(&mut buffer, 64)?;
                    lent += 1;
                    Ok((n, 64))
                });
                if polled.is_pending() && !std::mem::replace(&mut peer_wrote, true) {
                    peer.write_all(b"late").unwrap();
                }
                polled
            });
            assert_eq!(read.await.unwrap(), 4);
            assert_eq!((lent, &buffer[..]), (1, &b"late"[..]));
        })
        .unwrap();
    }

    #[test]
    fn a_plain_transport_sends_files_by_the_kernel() {
        let (transport, _peer) = pair();
        assert!(matches!(transport.file_sending(), FileSending::Sendfile(_)));
        assert!(transport.tcp_info().is_err(), "a Unix socket is none of TCP");
    }
}
