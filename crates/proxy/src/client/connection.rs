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
use freerun_upstream::link::{ExchangeStream, Link};
use freerun_upstream::pool::Pool;

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
    /// The connection, or the stream of one, with the right to an exchange on it.
    pub link: Link,
    /// The buffer and the timer.
    pub kit: Box<Kit>,
    /// Whether the connection has served a request before.
    pub reused: bool,
    /// Whether a server that is silent is not given up as long as it answers when it is asked whether it is there: on a stream
    /// of a shared connection.
    pub is_kept_by_ping: bool,
    /// The client's own pool that the connection returns to, if not the server's shared pool.
    own: Option<Rc<Pool>>,
    /// An error that could not be returned when it happened; the next wait returns it.
    late: Option<io::Error>,
}

impl UpstreamConnection {
    /// A connection before its request.
    pub fn new(link: Link, own: Option<Rc<Pool>>, reused: bool) -> UpstreamConnection {
        let kit = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        UpstreamConnection { link, kit, reused, is_kept_by_ping: false, own, late: None }
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
    /// The errors of [`UpstreamConnection::receive`], or the error of `meanwhile`.
    pub fn receive_while(
        &mut self,
        room: usize,
        wait: Duration,
        client: &ClientWatch,
        meanwhile: impl FnMut(&Link, &mut Context<'_>) -> Result<bool, UpstreamError>,
    ) -> impl Future<Output = Result<usize, UpstreamError>> {
        self.wait(wait, client, move |link, input, context| input.poll_read(link, context, room), meanwhile)
    }

    /// Waits for `missing` bytes that are just about to come, for [`PAUSE`] at most. An error is reported to the next
    /// wait.
    pub async fn soon(&mut self, missing: usize, record: &Record) {
        let UpstreamConnection { link, kit, late, .. } = self;
        let input = &mut kit.input;
        let end = input.bytes.len() + missing;
        let mut asked = false;
        let coming = poll_fn(|context| {
            while input.bytes.len() < end {
                // One byte more, because a read that fills its room would have to be followed by another read that
                // finds nothing.
                let read = input.poll_read(link, context, end + 1 - input.bytes.len());
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
        meanwhile: impl FnMut(&Link, &mut Context<'_>) -> Result<bool, UpstreamError>,
    ) -> impl Future<Output = Result<(), UpstreamError>> {
        self.wait(wait, client, |link, _, context| link.poll_readable(context), meanwhile)
    }

    async fn wait<T>(
        &mut self,
        wait: Duration,
        client: &ClientWatch,
        mut poll: impl FnMut(&Link, &mut Input, &mut Context<'_>) -> Poll<io::Result<T>>,
        mut meanwhile: impl FnMut(&Link, &mut Context<'_>) -> Result<bool, UpstreamError>,
    ) -> Result<T, UpstreamError> {
        let UpstreamConnection { link, kit, late, is_kept_by_ping, .. } = self;
        let Kit { input, timer, .. } = &mut **kit;
        if let Some(error) = late.take() {
            return Err(receive_error(error));
        }
        // A server that is as fast as this loop always has bytes ready.
        freerun_runtime::loops::consume_budget().await;
        let mut gone = pin!(client.gone());
        let mut armed = false;
        let mut pings = link.stream().filter(|_| *is_kept_by_ping).map(Pings::new);
        poll_fn(|context| {
            if meanwhile(link, context)? {
                armed = false;
            }
            if let Poll::Ready(answer) = poll(link, input, context) {
                return Poll::Ready(answer.map_err(receive_error));
            }
            if gone.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(UpstreamError::ClientGone));
            }
            if !std::mem::replace(&mut armed, true) {
                timer.set(wait);
            }
            ready!(timer.poll_expired(context));
            while let Some(longer) = pings.as_mut().and_then(|pings| pings.go_on(wait)) {
                timer.set(longer);
                ready!(timer.poll_expired(context));
            }
            Poll::Ready(Err(UpstreamError::TimedOut))
        })
        .await
    }

    /// Returns the connection to the pool after the response has ended cleanly, so that another request may use it.
    pub fn give_back(self, peer: &Peer, servers: &dyn Servers) {
        let UpstreamConnection { link, kit, own, .. } = self;
        if kit.input.bytes.is_empty() {
            // Of a shared connection others have the stream's place, however it ended.
            if let Link::Own(connection) = link {
                let (settings, count): (_, &Arc<_>) = servers.keepalive();
                own.as_deref().unwrap_or(&peer.pool).release(connection.into(), settings, count);
            }
            spare(kit);
        }
    }

    /// Leaves HTTP: returns the transport, with the bytes that have come on it. `None`: it is not for this exchange alone.
    pub fn leave(self) -> Option<(Transport, Vec<u8>)> {
        let UpstreamConnection { link, kit, .. } = self;
        let Link::Own(connection) = link else { return None };
        let rest = kit.input.bytes.to_vec();
        spare(kit);
        Some((connection.transport, rest))
    }
}

/// The longest time that a server has to answer whether it is there.
const ANSWER: Duration = Duration::from_secs(15);

/// Asks a server that is silent on a stream whether it is there. It has to answer, or to send anything on another stream, once
/// in each timeout.
struct Pings<'l> {
    stream: &'l ExchangeStream,
    /// Time when the server was heard last, as of the last look, in milliseconds.
    heard: u64,
    /// Whether the server was asked since.
    has_asked: bool,
}

impl<'l> Pings<'l> {
    fn new(stream: &'l ExchangeStream) -> Pings<'l> {
        Pings { stream, heard: loops::millis(), has_asked: false }
    }

    /// Silence that the server is allowed from now on, after a timeout of `wait`. `None`: it is not there.
    fn go_on(&mut self, wait: Duration) -> Option<Duration> {
        let heard = self.stream.heard();
        if heard > self.heard {
            (self.heard, self.has_asked) = (heard, false);
            let since = Duration::from_millis(loops::millis().saturating_sub(heard));
            return Some(wait.saturating_sub(since).max(Duration::from_millis(1)));
        }
        if std::mem::replace(&mut self.has_asked, true) {
            return None;
        }
        self.stream.ask();
        Some(wait.min(ANSWER))
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
