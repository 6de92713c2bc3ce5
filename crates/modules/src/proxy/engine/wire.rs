//! A connection to an upstream server while it serves one request.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use freerun_http::request::Connection;
use freerun_http::write::body::PAUSE;
use freerun_runtime::deadline::Deadline;
use freerun_runtime::loops;
use freerun_runtime::net::Socket;
use freerun_runtime::timer::Timer;
use freerun_upstream::Peer;
use freerun_upstream::idle::Kept;

use super::trouble::Trouble;
use crate::proxy::exchange::Servers;
use crate::proxy::variables::Record;

/// The client, as far as it has to be there while the upstream server is waited for.
#[derive(Clone)]
pub struct Client {
    connection: Rc<Connection>,
    /// Whether anything depends on it.
    watched: bool,
}

impl Client {
    /// Of this connection. `watched`: what is done for it is given up when it goes.
    pub fn new(connection: Rc<Connection>, watched: bool) -> Client {
        Client { connection, watched }
    }

    /// The same client, of whom nothing depends any more.
    pub fn unwatched(&self) -> Client {
        Client { connection: self.connection.clone(), watched: false }
    }

    /// How many bytes its socket would certainly take now.
    pub fn room(&self) -> usize {
        self.connection.socket.certain_room()
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
            true => self.connection.socket.gone_for_reader().await,
            false => std::future::pending().await,
        }
    }
}

/// How many unused buffers a loop keeps.
const KEPT: usize = 64;

/// A buffer and a timer that connections use one after the other. The buffer's bytes may still be in use: it takes new room
/// then.
#[derive(Default)]
pub struct Kit {
    /// What has come.
    pub input: BytesMut,
    /// For all that is waited for on the connection.
    pub timer: Timer,
    /// How much the buffer was made for.
    size: usize,
}

thread_local! {
    /// The one that was given back first is taken first: its bytes have had time to be sent.
    static SPARE: RefCell<VecDeque<Box<Kit>>> = const { RefCell::new(VecDeque::new()) };
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

/// How large a buffer is at first: what is read after the head then goes into the same one, where `proxy_buffers` are what they usually
/// are, and leaves no hole of another size in the allocator's memory.
const FIRST: usize = 32 * 1024;

impl Wire {
    /// A connection before its request.
    pub fn new(kept: Kept, reused: bool) -> Wire {
        let mut kit = SPARE.with_borrow_mut(VecDeque::pop_front).unwrap_or_default();
        if kit.input.capacity() == 0 {
            (kit.input, kit.size) = (BytesMut::with_capacity(FIRST), FIRST);
        }
        Wire { kept, kit, reused, late: None }
    }

    /// Waits for bytes, at most `room` of them or what the buffer has room for anyway; how many have come, 0 at the end of
    /// the stream.
    ///
    /// # Errors
    /// The connection broke, nothing came for `wait`, or the client went away.
    pub async fn receive(&mut self, room: usize, wait: Duration, client: &Client) -> Result<usize, Trouble> {
        // One that was made for more is not used for less: a piece that waits for the client keeps all of what it is in.
        let kit = &mut *self.kit;
        if kit.size > room.max(FIRST) || !kit.input.try_reclaim(room) {
            // No more than that: `reserve` would take as much as was wanted before.
            kit.size = room;
            let mut input = BytesMut::with_capacity(kit.input.len() + room);
            input.extend_from_slice(&kit.input);
            kit.input = input;
        }
        self.wait(wait, client, |socket, input, context| socket.poll_read_bytes(context, input, room)).await
    }

    /// Waits for `missing` bytes that are just about to come, for [`PAUSE`] at most. However it ends, who waits after that is told.
    pub async fn soon(&mut self, missing: usize, record: &Record) {
        let Wire { kept, kit, late, .. } = self;
        let Kit { input, size, .. } = &mut **kit;
        let end = input.len() + missing;
        if !input.try_reclaim(missing + 1) {
            *size = FIRST.max(end + 1);
            let mut larger = BytesMut::with_capacity(*size);
            larger.extend_from_slice(input);
            *input = larger;
        }
        let mut asked = false;
        let coming = poll_fn(|context| {
            while input.len() < end {
                // One byte more: a read that fills its room would have to be followed by one that finds nothing.
                let read = kept.socket.poll_read_bytes(context, input, end + 1 - input.len());
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
    /// As those of [`Wire::receive`].
    pub async fn readable(&mut self, wait: Duration, client: &Client) -> Result<(), Trouble> {
        self.wait(wait, client, |socket, _, context| socket.poll_readable(context)).await
    }

    async fn wait<T>(
        &mut self,
        wait: Duration,
        client: &Client,
        mut poll: impl FnMut(&Socket, &mut BytesMut, &mut Context<'_>) -> Poll<io::Result<T>>,
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
            if let Poll::Ready(answer) = poll(&kept.socket, input, context) {
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

    /// Lets go of a buffer with nothing in it: the next one is as large as what is read then.
    pub fn shed(&mut self) {
        if self.kit.input.is_empty() {
            self.kit.input = BytesMut::new();
        }
    }

    /// The response has ended cleanly: another request may use the connection.
    pub fn give_back(self, peer: &Peer, servers: &dyn Servers) {
        let Wire { kept, kit, .. } = self;
        if kit.input.is_empty() {
            let (settings, count): (_, &Arc<_>) = servers.keepalive();
            peer.idle.put(kept, settings, count);
            spare(kit);
        }
    }

    /// The connection goes on without HTTP; with what has come on it.
    pub fn leave(self) -> (Socket, Vec<u8>) {
        let Wire { kept, mut kit, .. } = self;
        let rest = kit.input.to_vec();
        kit.input.clear();
        spare(kit);
        (kept.socket, rest)
    }
}

/// Keeps buffer and timer for another connection; no buffer that was made for more than they are at first.
fn spare(mut kit: Box<Kit>) {
    kit.timer.clear();
    if kit.size > FIRST {
        kit.input = BytesMut::new();
    }
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < KEPT {
            spare.push_back(kit);
        }
    });
}

/// What an error of receiving is. The kernel's own giving up is one of time.
pub fn received(error: io::Error) -> Trouble {
    if error.kind() == io::ErrorKind::TimedOut { Trouble::TimedOut } else { Trouble::Receive(error) }
}
