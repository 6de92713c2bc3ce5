//! A connection to an upstream server while it serves one request.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use freerun_http::connection::client::ClientStream;
use freerun_http::write::PAUSE;
use freerun_runtime::deadline::Deadline;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_transport::Transport;
use freerun_upstream::Peer;
use freerun_upstream::idle::Kept;

use super::input::Input;
use super::trouble::Trouble;
use crate::proxy::exchange::Servers;
use crate::proxy::variables::Record;

/// The client, as far as it has to be there while the upstream server is waited for.
#[derive(Clone)]
pub struct Client {
    stream: ClientStream,
    /// Whether anything depends on it.
    watched: bool,
}

impl Client {
    /// Of this connection. `watched`: what is done for it is given up when it goes.
    pub fn new(stream: ClientStream, watched: bool) -> Client {
        Client { stream, watched }
    }

    /// The same client, of whom nothing depends any more.
    pub fn unwatched(&self) -> Client {
        Client { stream: self.stream.clone(), watched: false }
    }

    /// Whether what is done for it is given up when it goes.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// How many bytes its socket would certainly take now.
    pub fn room(&self) -> usize {
        self.stream.certain_room()
    }

    /// Waits for `future`, unless the client goes before.
    ///
    /// # Errors
    /// [`Trouble::ClientGone`]
    pub async fn unless_gone<T>(&self, future: impl Future<Output = T>) -> Result<T, Trouble> {
        let mut future = pin!(future);
        let mut gone = pin!(self.gone());
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => gone.as_mut().poll(context).map(|()| Err(Trouble::ClientGone)),
        })
        .await
    }

    /// Waits for the client to go. Only its own task does so, which is the one that reads from it.
    async fn gone(&self) {
        match self.watched {
            true => self.stream.gone_for_reader().await,
            false => std::future::pending().await,
        }
    }
}

/// How many unused kits a loop keeps.
const KEPT: usize = 64;

/// What connections use one after the other.
#[derive(Default)]
pub struct Kit {
    /// What has come.
    pub input: Input,
    /// For all that is waited for on the connection.
    pub timer: Timer,
}

thread_local! {
    #[expect(clippy::vec_box, reason = "a wire is moved about, and with it the pointer alone")]
    static SPARE: RefCell<Vec<Box<Kit>>> = const { RefCell::new(Vec::new()) };
}

/// A connection in use, with what has come on it and was not looked at.
pub struct Wire {
    /// The connection.
    pub kept: Kept,
    /// Its buffer and its timer.
    pub kit: Box<Kit>,
    /// Whether it has served a request before.
    pub reused: bool,
    /// What went wrong while nobody could be told: the next one to wait is.
    late: Option<io::Error>,
}

impl Wire {
    /// A connection before its request.
    pub fn new(kept: Kept, reused: bool) -> Wire {
        Wire { kept, kit: SPARE.with_borrow_mut(Vec::pop).unwrap_or_default(), reused, late: None }
    }

    /// Waits for bytes, at most `room` of them; how many have come, 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection broke, nothing came for `wait`, or the client went away.
    pub fn receive(
        &mut self,
        room: usize,
        wait: Duration,
        client: &Client,
    ) -> impl Future<Output = Result<usize, Trouble>> {
        self.receive_while(room, wait, client, |_, _| Ok(false))
    }

    /// The same, while something else is done on the connection as far as it can be, which says whether it has got on: the other side
    /// is at work then, and the time begins anew.
    ///
    /// # Errors
    /// As those of [`Wire::receive`], or what `meanwhile` says.
    pub fn receive_while(
        &mut self,
        room: usize,
        wait: Duration,
        client: &Client,
        meanwhile: impl FnMut(&Transport, &mut Context<'_>) -> Result<bool, Trouble>,
    ) -> impl Future<Output = Result<usize, Trouble>> {
        self.wait(wait, client, move |transport, input, context| input.poll_read(transport, context, room), meanwhile)
    }

    /// Waits for `missing` bytes that are just about to come, for [`PAUSE`] at most. However it ends, who waits after that is told.
    pub async fn soon(&mut self, missing: usize, record: &Record) {
        let Wire { kept, kit, late, .. } = self;
        let input = &mut kit.input;
        let end = input.bytes.len() + missing;
        let mut asked = false;
        let coming = poll_fn(|context| {
            while input.bytes.len() < end {
                // One byte more: a read that fills its room would have to be followed by one that finds nothing.
                let read = input.poll_read(&kept.transport, context, end + 1 - input.bytes.len());
                if read.is_pending() && !std::mem::replace(&mut asked, true) {
                    // It comes sooner than a thread that has nothing to do falls asleep and wakes up: the loop asks for
                    // events once without waiting for them.
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

    /// Waits until there is something to receive, and needs no buffer meanwhile.
    ///
    /// # Errors
    /// As those of [`Wire::receive_while`].
    pub fn readable_while(
        &mut self,
        wait: Duration,
        client: &Client,
        meanwhile: impl FnMut(&Transport, &mut Context<'_>) -> Result<bool, Trouble>,
    ) -> impl Future<Output = Result<(), Trouble>> {
        self.wait(wait, client, |transport, _, context| transport.poll_readable(context), meanwhile)
    }

    async fn wait<T>(
        &mut self,
        wait: Duration,
        client: &Client,
        mut poll: impl FnMut(&Transport, &mut Input, &mut Context<'_>) -> Poll<io::Result<T>>,
        mut meanwhile: impl FnMut(&Transport, &mut Context<'_>) -> Result<bool, Trouble>,
    ) -> Result<T, Trouble> {
        let Wire { kept, kit, late, .. } = self;
        let Kit { input, timer, .. } = &mut **kit;
        if let Some(error) = late.take() {
            return Err(received(error));
        }
        // A server that is as fast as this loop always has bytes there.
        freerun_runtime::loops::consume_budget().await;
        let mut gone = pin!(client.gone());
        let mut armed = false;
        poll_fn(|context| {
            if meanwhile(&kept.transport, context)? {
                armed = false;
            }
            if let Poll::Ready(answer) = poll(&kept.transport, input, context) {
                return Poll::Ready(answer.map_err(received));
            }
            if gone.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Trouble::ClientGone));
            }
            if !std::mem::replace(&mut armed, true) {
                timer.set(wait);
            }
            timer.poll_expired(context).map(|()| Err(Trouble::TimedOut))
        })
        .await
    }

    /// The response has ended cleanly: another request may use the connection.
    pub fn give_back(self, peer: &Peer, servers: &dyn Servers) {
        let Wire { kept, kit, .. } = self;
        if kit.input.bytes.is_empty() {
            let (settings, count): (_, &Arc<_>) = servers.keepalive();
            peer.idle.put(kept, settings, count);
            spare(kit);
        }
    }

    /// The connection goes on without HTTP; with what has come on it.
    pub fn leave(self) -> (Transport, Vec<u8>) {
        let Wire { kept, kit, .. } = self;
        let rest = kit.input.bytes.to_vec();
        spare(kit);
        (kept.transport, rest)
    }
}

/// Keeps buffer and timer for other connections.
fn spare(mut kit: Box<Kit>) {
    kit.timer.clear();
    kit.input.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < KEPT {
            spare.push(kit);
        }
    });
}

/// What an error of receiving is. The kernel's own giving up is one of time.
pub fn received(error: io::Error) -> Trouble {
    if error.kind() == io::ErrorKind::TimedOut { Trouble::TimedOut } else { Trouble::Receive(error) }
}
