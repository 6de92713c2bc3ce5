//! The client's side of a session of datagrams.
//!
//! UDP has no connections: a *session* is made of the datagrams between a client's address and one of this machine. The
//! first of them begins it. It ends when nothing has come for `proxy_timeout`, when as many answers have come as are
//! expected (`proxy_responses`), or when it has to give way to another one ([`table`]).
//!
//! Datagrams that come before the content handler has begun wait in the session ([`DatagramSession::take_first`]). A
//! handler that passes datagrams on names a socket for them ([`DatagramSession::pass_to`]). From then on they go there
//! without waking the session's task, all datagrams of a batch with one call ([`Forwarder`]).

mod forward;
mod sessions;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use freerun_runtime::loops;
use freerun_runtime::net::udp::{DatagramTarget, Datagrams, ReceivedDatagrams, Runs, UnsentDatagrams};
use freerun_serve::accept::datagrams::DatagramListener;
use freerun_serve::upstream::relay::pace::RatePace;

pub use self::forward::Forwarder;
pub use self::sessions::Sessions;
use self::table::{Ends, Id};

/// The most bytes, and datagrams, that wait for a content handler; those that come later are lost.
const WAITING_BYTES: usize = 128 * 1024;
const WAITING: usize = 64;

/// The reason that a session ends before its content handler has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// Nothing has come for too long.
    TimedOut,
    /// The session gives way to another one, because the number of sessions is at its limit.
    GivesWay,
    /// The address is no longer listened on, or the worker is shutting down.
    Closed,
}

/// The number of datagrams of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramLimits {
    /// The number of the client's datagrams that belong to the session; the next one begins another session. 0 is no
    /// limit (`proxy_requests`).
    pub requests: u64,
    /// The number of answers to each of them; `None`: any number (`proxy_responses`).
    pub responses: Option<u64>,
}

/// The numbers of datagrams and of their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The datagrams that have come from the client.
    pub requests: u64,
    /// Their bytes.
    pub received: u64,
    /// The datagrams that were sent to the client.
    pub responses: u64,
    /// Their bytes.
    pub sent: u64,
    /// The bytes that were passed on, headers included.
    pub passed: u64,
    /// The datagrams of the client for which there was no room, or that could not be passed on.
    pub lost: u64,
}

/// The bytes before the datagrams that are passed on: a header of the PROXY protocol.
#[derive(Debug, Clone, Default)]
pub struct Header {
    /// Its bytes; none for no header.
    pub bytes: Vec<u8>,
    /// Whether each datagram has it, and not the first one alone.
    pub in_each: bool,
}

/// The datagrams of one client at one listening socket. It belongs to a loop.
pub struct DatagramSession {
    listener: Rc<DatagramListener>,
    sessions: Rc<Sessions>,
    ends: Ends,
    id: Cell<Option<Id>>,
    limits: Cell<DatagramLimits>,
    /// The limit of what is passed on a second.
    rate: RefCell<Option<Box<ForwardRate>>>,
    counts: Cell<Counts>,
    ending: Cell<Option<EndReason>>,
    /// Whether it ends when each of the client's datagrams has an answer.
    drains: Cell<bool>,
    destination: RefCell<Destination>,
    /// The task of the session.
    task: RefCell<Option<Waker>>,
}

/// The limit of what is passed on a second.
struct ForwardRate {
    pace: RatePace,
    /// The number of bytes that were passed on.
    passed: u64,
}

impl ForwardRate {
    /// The number of these bytes, which are datagrams of `segment` bytes each, that may be passed on now; `None`: not
    /// one datagram. As long as any are allowed, a datagram is passed on whole.
    fn admits(&mut self, len: usize, segment: Option<usize>, now: u64) -> Option<usize> {
        let allowed = self.pace.allows(self.passed, now);
        if allowed == 0 {
            return None;
        }
        let segment = segment.filter(|segment| *segment > 0).unwrap_or(len).max(1);
        let count = usize::try_from(allowed.div_ceil(segment as u64)).unwrap_or(usize::MAX);
        let admitted = count.saturating_mul(segment).min(len);
        self.passed += admitted as u64;
        Some(admitted)
    }
}

/// The destination of the client's datagrams.
enum Destination {
    /// The datagrams wait for the content handler.
    Waiting(VecDeque<Box<[u8]>>, usize),
    /// The datagrams are passed on.
    To(Rc<Datagrams>, Header),
    /// Passing them on has failed with this error, which the handler has not seen yet.
    Failed(Option<io::Error>),
}

impl DatagramSession {
    fn new(listener: Rc<DatagramListener>, sessions: Rc<Sessions>, ends: Ends) -> Rc<DatagramSession> {
        let (id, limits, rate, counts, ending, drains, task) = Default::default();
        sessions.alive.set(sessions.alive.get() + 1);
        let destination = RefCell::new(Destination::Waiting(VecDeque::new(), 0));
        Rc::new(DatagramSession {
            listener,
            sessions,
            ends,
            id,
            limits,
            rate,
            counts,
            ending,
            drains,
            destination,
            task,
        })
    }

    /// The client's address.
    pub fn client_address(&self) -> SocketAddr {
        self.ends.client
    }

    /// The address that the client sends to; `None` if it is the address of the listening socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let port = self.listener.spec().ip.map_or(0, |address| address.port());
        self.ends.local.map(|ip| SocketAddr::new(ip.to_canonical(), port))
    }

    /// The numbers of datagrams and bytes so far.
    pub fn counts(&self) -> Counts {
        self.counts.get()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Counts datagrams of the client that are lost.
    fn lose(&self, count: u64) {
        self.count(|counts| counts.lost += count);
        self.listener.lose_from_clients(count);
    }

    /// Takes the first of the client's datagrams that wait.
    pub fn take_first(&self) -> Option<Box<[u8]>> {
        let Destination::Waiting(waiting, bytes) = &mut *self.destination.borrow_mut() else { return None };
        let first = waiting.pop_front()?;
        *bytes -= first.len();
        debug_assert!(!waiting.is_empty() || *bytes == 0, "{bytes} bytes of no datagram wait");
        Some(first)
    }

    /// Sends a datagram to the client, or several of `segment` bytes each that follow each other in `bytes`.
    pub fn send(&self, bytes: &[u8], segment: Option<usize>) {
        let target = DatagramTarget { to: Some(self.ends.client), from: self.ends.local, ecn: 0 };
        self.listener.send(target, bytes, segment);
        self.count(|counts| {
            counts.responses += number_of(bytes.len(), segment);
            counts.sent += bytes.len() as u64;
        });
    }

    /// Waits until what is sent to the client has room: to be asked before that is read which is to be sent.
    pub fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        self.listener.poll_room(context)
    }

    /// Keeps the session for so long after its last datagram in either direction.
    pub fn keep_for(&self, timeout: Duration) {
        self.sessions.keep_for(self.id.get(), timeout);
    }

    /// Notes that the session is used: an answer has come.
    pub fn touch(&self) {
        self.sessions.touch(self.id.get());
    }

    /// Limits how many bytes a second are passed on from now on. Datagrams beyond that are lost: they come from a socket that all
    /// clients share, so they cannot wait there.
    pub fn limit_rate(&self, pace: Option<RatePace>) {
        self.rate.replace(pace.map(|pace| Box::new(ForwardRate { pace, passed: 0 })));
    }

    /// The part of these datagrams that may be passed on at this moment, if any may. The others are lost.
    fn within_rate<'a>(&self, bytes: &'a [u8], segment: Option<usize>) -> Option<&'a [u8]> {
        let mut rate = self.rate.borrow_mut();
        let Some(rate) = rate.as_mut() else { return Some(bytes) };
        let admitted = rate.admits(bytes.len(), segment, loops::millis());
        match admitted {
            None => self.lose(number_of(bytes.len(), segment)),
            Some(len) if len < bytes.len() => self.lose(number_of(bytes.len() - len, segment)),
            Some(_) => {}
        }
        admitted.map(|len| &bytes[..len])
    }

    /// Passes on what the client has sent and will send, behind this header, until the session ends or `requests` datagrams
    /// have come.
    pub fn pass_to(&self, socket: Rc<Datagrams>, header: Header, limits: DatagramLimits) {
        self.limits.set(limits);
        let before = self.destination.replace(Destination::To(socket, header));
        debug_assert!(!matches!(before, Destination::To(..)), "a session's datagrams have two destinations");
        if limits.requests > 0 && self.counts.get().requests >= limits.requests {
            self.sessions.unbind(self.id.get());
        }
        let Destination::Waiting(waiting, _) = before else { return };
        let mut runs = Runs::default();
        for one in waiting.iter().filter_map(|one| self.within_rate(one, None)) {
            runs.push(DatagramTarget::default(), one, None);
        }
        self.pass_on(&runs);
    }

    /// Whether the session has all that it consists of.
    pub fn is_done(&self) -> bool {
        let (DatagramLimits { requests, responses }, counts) = (self.limits.get(), self.counts.get());
        if self.drains.get() && self.is_answered() {
            return true;
        }
        let Some(each) = responses else { return false };
        (requests == 0 || counts.requests >= requests) && counts.responses >= each.saturating_mul(counts.requests)
    }

    /// Whether there are as many answers as the client has sent datagrams.
    pub(super) fn is_answered(&self) -> bool {
        let counts = self.counts.get();
        counts.responses >= counts.requests
    }

    /// Has the session end when each of the client's datagrams has an answer.
    pub(super) fn drain(&self) {
        self.drains.set(true);
    }

    /// Whether answers are missing that were expected.
    pub fn lacks_answers(&self) -> bool {
        let counts = self.counts.get();
        self.limits.get().responses.is_some_and(|each| counts.responses < each.saturating_mul(counts.requests))
    }

    /// Ready when the session has to end. The task that polls is also woken when [`DatagramSession::take_failure`] has an
    /// error, and when the session may have become [done](DatagramSession::is_done).
    pub fn poll_ending(&self, context: &Context<'_>) -> Poll<EndReason> {
        if let Some(ending) = self.ending.get() {
            return Poll::Ready(ending);
        }
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            *task = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// The error with which passing on has failed.
    pub fn take_failure(&self) -> Option<io::Error> {
        match &mut *self.destination.borrow_mut() {
            Destination::Failed(error) => error.take(),
            _ => None,
        }
    }

    /// Has the session end, if it has not ended.
    pub(crate) fn end(&self, ending: EndReason) {
        if self.ending.get().is_none() {
            self.ending.set(Some(ending));
        }
        self.wake();
    }

    /// Takes the session out of the table: it has ended.
    pub(crate) fn leave(&self) {
        self.sessions.remove(self.id.take());
        self.task.take();
        self.destination.replace(Destination::Failed(None));
    }

    fn wake(&self) {
        let task = self.task.borrow().clone();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Whether further datagrams of the client come to this session.
    pub fn is_bound(&self) -> bool {
        self.sessions.is_bound(self.id.get())
    }

    /// Takes the first datagram of what has come, for a session that does not know yet how many belong to it. Returns the rest.
    pub fn take_one<'a>(
        self: &Rc<Self>,
        received: ReceivedDatagrams<'a>,
        forwarding: &mut Forwarder<'a>,
    ) -> Option<ReceivedDatagrams<'a>> {
        let (first, rest) = split(received, 1);
        let more = self.take(first, forwarding);
        debug_assert!(more.is_none(), "a session begins without a limit");
        rest
    }

    /// Takes what has come from the client. Returns the part of it that belongs to another session, which begins with it.
    pub fn take<'a>(
        self: &Rc<Self>,
        received: ReceivedDatagrams<'a>,
        forwarding: &mut Forwarder<'a>,
    ) -> Option<ReceivedDatagrams<'a>> {
        self.touch();
        let DatagramLimits { requests, responses } = self.limits.get();
        let (own, rest) = match requests {
            0 => (received, None),
            most => split(received, most.saturating_sub(self.counts.get().requests)),
        };
        let (bytes, segment) = (own.bytes, own.segment);
        self.count(|counts| {
            counts.requests += number_of(bytes.len(), segment);
            counts.received += bytes.len() as u64;
        });
        debug_assert!(
            requests == 0 || self.counts.get().requests <= requests,
            "datagrams of another session have come"
        );
        if requests > 0 && self.counts.get().requests >= requests {
            self.sessions.unbind(self.id.get());
        }
        match &mut *self.destination.borrow_mut() {
            Destination::Waiting(waiting, sum) => {
                for one in bytes.chunks(segment.unwrap_or(bytes.len()).max(1)).chain(bytes.is_empty().then_some(bytes))
                {
                    if waiting.len() < WAITING && *sum + one.len() <= WAITING_BYTES {
                        *sum += one.len();
                        waiting.push_back(one.into());
                    } else {
                        self.lose(1);
                    }
                }
            }
            Destination::To(..) => {
                if let Some(bytes) = self.within_rate(bytes, segment) {
                    forwarding.push(self, bytes, segment);
                }
            }
            Destination::Failed(_) => self.lose(number_of(bytes.len(), segment)),
        }
        // The answers may have come before their questions.
        if responses.is_some() && self.is_done() {
            self.wake();
        }
        rest
    }

    /// Sends datagrams to where they are passed to.
    fn pass_on(&self, runs: &Runs<'_>) {
        let mut failure = None;
        {
            let mut destination = self.destination.borrow_mut();
            let Destination::To(socket, header) = &mut *destination else { return };
            // Without its header, the server would take what the client sends next for one.
            let is_needed = !header.bytes.is_empty() && !header.in_each;
            let mut failed = |unsent: UnsentDatagrams| {
                // A datagram is lost when there is no room, as in a network without room. If a datagram is too long, it
                // is lost alone.
                self.lose(unsent.count as u64);
                if is_needed || !is_of_one(&unsent.error) {
                    failure.get_or_insert(unsent.error);
                }
            };
            let passed = if header.bytes.is_empty() {
                socket.send(runs, &mut failed);
                runs.totals().1
            } else {
                let bytes = std::mem::take(&mut header.bytes);
                let headed = runs.headed(&bytes, header.in_each);
                socket.send(&headed, &mut failed);
                let passed = headed.totals().1;
                drop(headed);
                if header.in_each {
                    header.bytes = bytes;
                }
                passed
            };
            self.count(|counts| counts.passed += passed);
        }
        if let Some(error) = failure {
            self.destination.replace(Destination::Failed(Some(error)));
            self.wake();
        }
    }
}

impl Drop for DatagramSession {
    fn drop(&mut self) {
        self.sessions.alive.set(self.sessions.alive.get() - 1);
    }
}

/// Whether an error is about a datagram, and not about the way to the server.
fn is_of_one(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error.kind() == io::ErrorKind::WouldBlock
        || matches!(Errno::from_io_error(error), Some(Errno::MSGSIZE | Errno::NOBUFS | Errno::NOMEM))
}

/// The number of datagrams in `len` bytes.
pub(crate) fn number_of(len: usize, segment: Option<usize>) -> u64 {
    segment.filter(|segment| *segment > 0).map_or(1, |segment| len.div_ceil(segment)) as u64
}

/// Splits datagrams that the kernel has put together behind the first `most` datagrams, at least one.
fn split(received: ReceivedDatagrams<'_>, most: u64) -> (ReceivedDatagrams<'_>, Option<ReceivedDatagrams<'_>>) {
    let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
    let Some(segment) = received.segment else { return (received, None) };
    let Some((own, rest)) = received.bytes.split_at_checked(most.saturating_mul(segment)) else {
        return (received, None);
    };
    if rest.is_empty() {
        return (received, None);
    }
    (ReceivedDatagrams { bytes: own, ..received }, Some(ReceivedDatagrams { bytes: rest, ..received }))
}

impl std::fmt::Debug for DatagramSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "datagrams of {}", self.ends.client)
    }
}

#[cfg(test)]
mod tests;
