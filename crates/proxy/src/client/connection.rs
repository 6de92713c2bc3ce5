//! A connection to an upstream server while it serves one request.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use freerun_http::write::PAUSE;
use freerun_runtime::deadline::Deadline;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_transport::Transport;
use freerun_upstream::Peer;
use freerun_upstream::pool::{Exclusive, Pool};

use crate::client::client_watch::ClientWatch;
use crate::client::error::UpstreamError;
use crate::client::input::Input;
use crate::exchange::target::Servers;
use crate::state::record::Record;

/// The number of unused kits that a loop keeps.
const KEPT: usize = 64;

/// The buffer and the timer of a connection, which are used by one connection after another.
#[derive(Default)]
pub struct Kit {
    /// The bytes that have come.
    pub input: Input,
    /// The timer for all waits on the connection.
    pub timer: Timer,
}

thread_local! {
    #[expect(clippy::vec_box, reason = "a connection is moved about, and with it the pointer alone")]
    static SPARE: RefCell<Vec<Box<Kit>>> = const { RefCell::new(Vec::new()) };
}

/// A connection in use, with the bytes that have come and were not parsed yet.
pub struct UpstreamConnection {
    /// The connection, with the right to the one exchange that it carries at a time.
    pub slot: Exclusive,
    /// The buffer and the timer.
    pub kit: Box<Kit>,
    /// Whether the connection has served a request before.
    pub reused: bool,
    /// The client's own pool that the connection returns to, if not the server's shared pool.
    own: Option<Rc<Pool>>,
    /// An error that could not be returned when it happened; the next wait returns it.
    late: Option<io::Error>,
}

impl UpstreamConnection {
    /// A connection before its request.
    pub fn new(slot: Exclusive, own: Option<Rc<Pool>>, reused: bool) -> UpstreamConnection {
        UpstreamConnection { slot, kit: SPARE.with_borrow_mut(Vec::pop).unwrap_or_default(), reused, own, late: None }
    }

    /// Waits for bytes, at most `room` of them. Returns how many have come, 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection failed, nothing came for `wait`, or the client went away.
    pub fn receive(
        &mut self,
        room: usize,
        wait: Duration,
        client: &ClientWatch,
    ) -> impl Future<Output = Result<usize, UpstreamError>> {
        self.receive_while(room, wait, client, |_, _| Ok(false))
    }

    /// Waits for bytes as [`UpstreamConnection::receive`] does, while `meanwhile` does other work on the connection. It
    /// reports whether it has made progress: the other side is working then, and the timeout begins anew.
    ///
    /// # Errors
    /// The errors of [`UpstreamConnection::receive`], or that of `meanwhile`.
    pub fn receive_while(
        &mut self,
        room: usize,
        wait: Duration,
        client: &ClientWatch,
        meanwhile: impl FnMut(&Transport, &mut Context<'_>) -> Result<bool, UpstreamError>,
    ) -> impl Future<Output = Result<usize, UpstreamError>> {
        self.wait(wait, client, move |transport, input, context| input.poll_read(transport, context, room), meanwhile)
    }

    /// Waits for `missing` bytes that are just about to come, for [`PAUSE`] at most. An error is reported to the next
    /// wait.
    pub async fn soon(&mut self, missing: usize, record: &Record) {
        let UpstreamConnection { slot, kit, late, .. } = self;
        let input = &mut kit.input;
        let end = input.bytes.len() + missing;
        let mut asked = false;
        let coming = poll_fn(|context| {
            while input.bytes.len() < end {
                // One byte more, because a read that fills its room would have to be followed by one that finds
                // nothing.
                let read = input.poll_read(&slot.transport, context, end + 1 - input.bytes.len());
                if read.is_pending() && !std::mem::replace(&mut asked, true) {
                    // The bytes come sooner than an idle thread falls asleep and wakes up: the loop polls for events
                    // once without blocking.
                    loops::wake_after_events(context);
                }
                match ready!(read) {
                    Ok(0) => break,
                    Ok(n) => record.with(|last| last.received += n as u64),
                    Err(error) => {
                        *late = Some(error);
                        break;
                    }
                };
            }
            Poll::Ready(())
        });
        Deadline::within(PAUSE, coming).await;
    }

    /// Waits until there are bytes to receive, and needs no buffer meanwhile.
    ///
    /// # Errors
    /// The errors of [`UpstreamConnection::receive_while`].
    pub fn readable_while(
        &mut self,
        wait: Duration,
        client: &ClientWatch,
        meanwhile: impl FnMut(&Transport, &mut Context<'_>) -> Result<bool, UpstreamError>,
    ) -> impl Future<Output = Result<(), UpstreamError>> {
        self.wait(wait, client, |transport, _, context| transport.poll_readable(context), meanwhile)
    }

    async fn wait<T>(
        &mut self,
        wait: Duration,
        client: &ClientWatch,
        mut poll: impl FnMut(&Transport, &mut Input, &mut Context<'_>) -> Poll<io::Result<T>>,
        mut meanwhile: impl FnMut(&Transport, &mut Context<'_>) -> Result<bool, UpstreamError>,
    ) -> Result<T, UpstreamError> {
        let UpstreamConnection { slot, kit, late, .. } = self;
        let Kit { input, timer, .. } = &mut **kit;
        if let Some(error) = late.take() {
            return Err(receive_error(error));
        }
        // A server that is as fast as this loop always has bytes ready.
        freerun_runtime::loops::consume_budget().await;
        let mut gone = pin!(client.gone());
        let mut armed = false;
        poll_fn(|context| {
            if meanwhile(&slot.transport, context)? {
                armed = false;
            }
            if let Poll::Ready(answer) = poll(&slot.transport, input, context) {
                return Poll::Ready(answer.map_err(receive_error));
            }
            if gone.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(UpstreamError::ClientGone));
            }
            if !std::mem::replace(&mut armed, true) {
                timer.set(wait);
            }
            timer.poll_expired(context).map(|()| Err(UpstreamError::TimedOut))
        })
        .await
    }

    /// Returns the connection to the pool after the response has ended cleanly, so that another request may use it.
    pub fn give_back(self, peer: &Peer, servers: &dyn Servers) {
        let UpstreamConnection { slot, kit, own, .. } = self;
        if kit.input.bytes.is_empty() {
            let (settings, count): (_, &Arc<_>) = servers.keepalive();
            own.as_deref().unwrap_or(&peer.pool).release(slot.into(), settings, count);
            spare(kit);
        }
    }

    /// Leaves HTTP: returns the transport, with the bytes that have come on it.
    pub fn leave(self) -> (Transport, Vec<u8>) {
        let UpstreamConnection { slot, kit, .. } = self;
        let rest = kit.input.bytes.to_vec();
        spare(kit);
        (slot.transport, rest)
    }
}

/// Keeps the buffer and the timer for other connections.
fn spare(mut kit: Box<Kit>) {
    kit.timer.clear();
    kit.input.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < KEPT {
            spare.push(kit);
        }
    });
}

/// Converts an error of receiving. A connection that the kernel gave up has timed out.
pub fn receive_error(error: io::Error) -> UpstreamError {
    if error.kind() == io::ErrorKind::TimedOut { UpstreamError::TimedOut } else { UpstreamError::Receive(error) }
}
