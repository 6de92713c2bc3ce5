//! The UDP socket of a connection.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use freerun_quic::connection::QuicConnection;
use freerun_quic::datagram::Datagram;
use freerun_runtime::net::udp::{BATCH, DatagramOptions, DatagramTarget, Datagrams, ReceivedDatagrams, Runs};
use rustix::io::Errno;

/// Number of datagrams of one size that leave with one call, if the kernel takes them apart. Together they are one packet for
/// the kernel, whose length has 16 bits.
const SEGMENTS: usize = 40;

/// Number of calls for datagrams of one connection before other tasks get their turn.
const CALLS: usize = 8;

thread_local! {
    /// The buffer that all connections of a loop write datagrams into.
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket that is connected to a server, for one connection of QUIC.
#[derive(Debug)]
pub struct QuicSocket {
    datagrams: Datagrams,
    server: SocketAddr,
    /// The error of a datagram that was sent.
    failure: RefCell<Option<io::Error>>,
}

impl QuicSocket {
    /// Takes over a socket that is connected to this server.
    pub fn new(datagrams: Datagrams, server: SocketAddr) -> QuicSocket {
        datagrams.gather();
        // Without these options a connection works, too: it finds no larger packets, or hears of a full way late.
        let options = DatagramOptions { ecn: true, unfragmented: true, ..DatagramOptions::default() };
        let _ = options.apply(&datagrams, server.is_ipv6());
        QuicSocket { datagrams, server, failure: RefCell::new(None) }
    }

    /// The address of the server.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Takes datagrams that have come, and gives each to `take`.
    ///
    /// # Errors
    /// Nobody listens at the server's address, or the loop is ending.
    pub fn poll_receive(&self, context: &mut Context<'_>, mut take: impl FnMut(Datagram)) -> Poll<io::Result<()>> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(Err(error));
        }
        let received = self.datagrams.poll_receive(context, BATCH, |receiver| {
            receiver.iter().for_each(|run| self.split(&run, &mut take));
        });
        match received {
            // A path takes smaller packets than before, which QUIC finds out by itself.
            Poll::Ready(Err(error)) if is_too_long(&error) => Poll::Ready(Ok(())),
            received => received,
        }
    }

    /// Gives each datagram of a run to `take`.
    fn split(&self, run: &ReceivedDatagrams<'_>, take: &mut impl FnMut(Datagram)) {
        let segment = run.segment.unwrap_or(run.bytes.len()).max(1);
        for bytes in run.bytes.chunks(segment) {
            take(Datagram { bytes: BytesMut::from(bytes), from: self.server, to: None, ecn: run.ecn });
        }
    }

    /// Sends the connection's datagrams, as many as in one turn. Returns whether there may be more for now.
    pub fn transmit(&self, quic: &mut QuicConnection, now: Instant, context: &mut Context<'_>) -> bool {
        let mut output = OUTPUT.take();
        let mut has_more = true;
        for _ in 0..CALLS {
            // The task is woken when there is room again.
            if self.datagrams.poll_writable(context).is_pending() {
                has_more = false;
                break;
            }
            output.clear();
            let Some(transmit) = quic.transmit(now, SEGMENTS, &mut output) else {
                has_more = false;
                break;
            };
            let target = DatagramTarget { ecn: transmit.ecn.map_or(0, |ecn| ecn as u8), ..DatagramTarget::default() };
            let mut runs = Runs::default();
            runs.push(target, &output[..transmit.size], transmit.segment_size);
            self.datagrams.send(&runs, |unsent| {
                if !is_lost_alone(&unsent.error) {
                    *self.failure.borrow_mut() = Some(unsent.error);
                }
            });
        }
        OUTPUT.set(output);
        has_more
    }

    /// Whether a datagram could not be sent, which the next [`QuicSocket::poll_receive`] reports.
    pub fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }
}

/// Whether an error is about one datagram that was lost, which QUIC notices by itself: it was longer than the path takes, or there
/// was no memory for it.
fn is_lost_alone(error: &io::Error) -> bool {
    let is_short_of_memory = matches!(Errno::from_io_error(error), Some(Errno::NOBUFS | Errno::NOMEM));
    error.kind() == io::ErrorKind::WouldBlock || is_too_long(error) || is_short_of_memory
}

/// Whether a datagram was longer than the path takes.
fn is_too_long(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
}
