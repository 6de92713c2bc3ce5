//! The sessions at one address, on one loop.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use freerun_runtime::deadline::Deadline;
use freerun_runtime::loops;
use freerun_runtime::net::udp::ReceivedDatagrams;
use freerun_serve::accept::datagrams::client_key::ClientKey;
use freerun_serve::accept::datagrams::{DatagramListener, SharedPart};

use super::table::{Ends, Id, SessionTable};
use super::{DatagramSession, EndReason};

/// The time that a session is kept if its content handler does not say it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The number of sessions that may have been told to end and still hold memory. A flood of new clients comes faster
/// than sessions end, and loses its datagrams then.
pub(super) const LEAVING: usize = 256;

/// The sessions at one address, on one loop.
pub struct Sessions {
    table: RefCell<SessionTable<Rc<DatagramSession>>>,
    /// Whether there is a task that ends those whose time is over, and the one to wake if a time is over sooner.
    is_swept: Cell<bool>,
    sweeper: RefCell<Option<Waker>>,
    /// The time of the sweeper's next look.
    next_look: Cell<u64>,
    /// Whether each datagram begins with a header of the PROXY protocol.
    has_headers: Cell<bool>,
    /// The number of sessions, including sessions that have left the table and have not ended yet.
    pub(super) alive: Cell<usize>,
}

impl Sessions {
    /// A table for at most `limit` sessions. Other loops learn of the socket's clients from it.
    pub fn new(limit: usize, shared: Option<SharedPart>) -> Rc<Sessions> {
        let tell = move |ends: &Ends, begins: bool| {
            if let Some(shared) = &shared {
                shared.note(&ClientKey::Ends(ends.client, ends.local), begins);
            }
        };
        Rc::new(Sessions {
            table: RefCell::new(SessionTable::new(limit, tell)),
            is_swept: Cell::new(false),
            sweeper: RefCell::default(),
            next_look: Cell::new(u64::MAX),
            has_headers: Cell::new(false),
            alive: Cell::new(0),
        })
    }

    /// Changes the number of sessions that there may be, and whether each datagram begins with a header of the PROXY protocol.
    pub fn configure(&self, limit: usize, has_headers: bool) {
        self.table.borrow_mut().set_limit(limit);
        self.has_headers.set(has_headers);
    }

    /// Whether each datagram begins with a header of the PROXY protocol.
    pub fn has_headers(&self) -> bool {
        self.has_headers.get()
    }

    /// The number of sessions.
    pub fn count(&self) -> usize {
        self.table.borrow().len()
    }

    /// The ends of the session that a datagram belongs to. `None`: nobody can answer it.
    fn ends(listener: &DatagramListener, received: &ReceivedDatagrams<'_>, behind: Option<SocketAddr>) -> Option<Ends> {
        let client = received.from.filter(|client| client.port() != 0)?;
        Some(Ends { client, local: listener.source(received.to), behind })
    }

    /// The session that a datagram belongs to. `behind` is the client that a proxy has sent it for.
    pub fn find(
        &self,
        listener: &DatagramListener,
        received: &ReceivedDatagrams<'_>,
        behind: Option<SocketAddr>,
    ) -> Option<Rc<DatagramSession>> {
        let ends = Sessions::ends(listener, received, behind)?;
        Some(self.table.borrow().find(&ends)?.1.clone())
    }

    /// Begins a session with a datagram, which it does not have yet. If the number of sessions is at its limit, the
    /// session that has been idle longest ends. `None`: nobody can answer it, or too many sessions were told to end and
    /// have not ended yet.
    pub fn begin(
        self: &Rc<Self>,
        listener: &Rc<DatagramListener>,
        received: &ReceivedDatagrams<'_>,
        behind: Option<SocketAddr>,
    ) -> Option<Rc<DatagramSession>> {
        let ends = Sessions::ends(listener, received, behind)?;
        if self.alive.get() >= self.count() + LEAVING {
            return None;
        }
        self.make_room();
        let session = DatagramSession::new(listener.clone(), self.clone(), ends);
        debug_assert!(self.alive.get() > self.count(), "the table has sessions that are gone");
        let now = loops::millis();
        let id = self.table.borrow_mut().insert(ends, loops::millis_of(TIMEOUT), now, session.clone());
        session.id.set(Some(id));
        if !self.is_swept.replace(true) {
            loops::spawn(0, "ending idle sessions", self.clone().sweep());
        }
        self.look_at(now.saturating_add(loops::millis_of(TIMEOUT)));
        Some(session)
    }

    /// Has sessions give way until there is room for another one.
    fn make_room(&self) {
        while self.table.borrow().is_full() {
            if !self.end_oldest() {
                break;
            }
        }
    }

    /// Has the session give way that has been idle longest; `false` if there is none.
    pub fn end_oldest(&self) -> bool {
        let oldest = self.table.borrow_mut().take_oldest();
        let Some(oldest) = oldest else { return false };
        oldest.id.set(None);
        oldest.end(EndReason::GivesWay);
        true
    }

    /// Ends the sessions that have an answer to each of their client's datagrams, and has the others end when they have.
    pub fn drain(&self) {
        self.table.borrow().iter().for_each(|session| session.drain());
        let answered = self.table.borrow_mut().take_where(|session| session.is_answered());
        for session in answered {
            session.id.set(None);
            session.end(EndReason::Closed);
        }
    }

    /// Ends all sessions.
    pub fn end_all(&self) {
        let all = self.table.borrow_mut().take_all();
        for session in all {
            session.id.set(None);
            session.end(EndReason::Closed);
        }
    }

    pub(super) fn keep_for(&self, id: Option<Id>, timeout: Duration) {
        let now = loops::millis();
        if let Some(id) = id {
            self.table.borrow_mut().set_timeout(id, loops::millis_of(timeout), now);
            self.look_at(now.saturating_add(loops::millis_of(timeout)));
        }
    }

    pub(super) fn touch(&self, id: Option<Id>) {
        if let Some(id) = id {
            self.table.borrow_mut().touch(id, loops::millis());
        }
    }

    pub(super) fn is_bound(&self, id: Option<Id>) -> bool {
        id.is_some_and(|id| self.table.borrow().is_bound(id))
    }

    pub(super) fn unbind(&self, id: Option<Id>) {
        if let Some(id) = id {
            self.table.borrow_mut().unbind(id);
        }
    }

    pub(super) fn remove(&self, id: Option<Id>) {
        let removed = id.and_then(|id| self.table.borrow_mut().remove(id));
        drop(removed);
    }

    /// Wakes the sweeper if it would look later than at this moment.
    fn look_at(&self, moment: u64) {
        if moment < self.next_look.get()
            && let Some(sweeper) = self.sweeper.take()
        {
            sweeper.wake();
        }
    }

    /// Ends sessions whose time is over, until there is none.
    async fn sweep(self: Rc<Self>) {
        let mut deadline = Deadline::default();
        poll_fn(|context| self.poll_sweep(&mut deadline, context)).await;
    }

    fn poll_sweep(&self, deadline: &mut Deadline, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = loops::millis();
            loop {
                let late = self.table.borrow_mut().take_late(now);
                let Some(late) = late else { break };
                late.id.set(None);
                late.end(EndReason::TimedOut);
            }
            let next = self.table.borrow().next_deadline();
            let Some(next) = next else {
                self.is_swept.set(false);
                self.next_look.set(u64::MAX);
                return Poll::Ready(());
            };
            if deadline.poll_until(next, context).is_pending() {
                self.next_look.set(next);
                self.sweeper.replace(Some(context.waker().clone()));
                return Poll::Pending;
            }
        }
    }
}
