//! What a loop learns from the kernel: its epoll instance, and a table of the descriptors in it, with what is known of each and who
//! waits for it.
//!
//! epoll is edge-triggered here: an event tells of a change, and what it told is known until somebody finds that it holds no
//! longer. Of room for writes events are asked for when somebody first waits for it: most sockets always have room, and each would
//! cause an event as soon as it is entered. A place of the table is used again; events of who had it before are told from its own by a number.

use std::cell::RefCell;
use std::io;
use std::ops::BitOr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::mailbox::{BELL, Mailbox};

/// How many events are taken at once.
pub(crate) const EVENTS: usize = 1024;

/// What is known of a descriptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready(u8);

impl Ready {
    /// There may be something to read.
    pub const READABLE: Ready = Ready(1);
    /// There may be room for a write.
    pub const WRITABLE: Ready = Ready(1 << 1);
    /// Nothing more will come.
    pub const READ_CLOSED: Ready = Ready(1 << 2);
    /// Nothing more can be sent.
    pub const WRITE_CLOSED: Ready = Ready(1 << 3);
    /// There is an error.
    pub const ERROR: Ready = Ready(1 << 4);

    /// A read would not wait.
    pub const READ: Ready = Ready(Ready::READABLE.0 | Ready::READ_CLOSED.0);
    /// A write would not wait.
    pub const WRITE: Ready = Ready(Ready::WRITABLE.0 | Ready::WRITE_CLOSED.0);

    /// What an event says (epoll_ctl(2)).
    fn of(flags: EventFlags) -> Ready {
        let mut ready = Ready::default();
        let mut says = |condition: bool, what: Ready| {
            if condition {
                ready = ready | what;
            }
        };
        let (hung_up, failed) = (flags.contains(EventFlags::HUP), flags.contains(EventFlags::ERR));
        says(flags.intersects(EventFlags::IN | EventFlags::PRI), Ready::READABLE);
        says(flags.contains(EventFlags::OUT), Ready::WRITABLE);
        says(hung_up || flags.contains(EventFlags::RDHUP), Ready::READ_CLOSED);
        says(hung_up || failed, Ready::WRITE_CLOSED);
        says(failed, Ready::ERROR);
        ready
    }

    /// Whether it has any of these.
    pub fn has(self, any: Ready) -> bool {
        self.0 & any.0 != 0
    }
}

impl BitOr for Ready {
    type Output = Ready;

    fn bitor(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }
}

/// Which of a descriptor's two usual waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Who reads.
    Read,
    /// Who writes.
    Write,
}

impl Side {
    /// What it waits for.
    fn wants(self) -> Ready {
        match self {
            Side::Read => Ready::READ,
            Side::Write => Ready::WRITE,
        }
    }
}

/// What epoll is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Asked {
    /// Changes of what can be read.
    #[default]
    Reads,
    /// Changes of both sides.
    Both,
    /// Whether something can be read, each time (level-triggered): who takes one thing need not look for the next. Of the loops
    /// that ask this of one descriptor and sleep, one is woken.
    Level,
    /// Nothing for now: it is not in the epoll.
    Nothing,
}

/// A place of the table.
#[derive(Default)]
struct Place {
    /// Of who has it; the next one has the next number.
    generation: u32,
    ready: Ready,
    asked: Asked,
    /// Whether the reader waits. Its waker stays when it does not, for it is likely to be the next one's: each clone of a
    /// waker is a locked write, twice.
    read_awaited: bool,
    /// Whether the writer waits.
    write_awaited: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Those beside these two. One that no longer waits is woken in vain once.
    others: Vec<(Ready, Waker)>,
}

/// The descriptors of the loop that runs on this thread; as many as it has connections.
struct Table {
    mailbox: Arc<Mailbox>,
    places: Vec<Place>,
    free: Vec<u32>,
}

thread_local! {
    static TABLE: RefCell<Option<Table>> = const { RefCell::new(None) };
}

/// Makes a table for the loop of this thread, or takes it away.
pub(crate) fn set_up(mailbox: Option<&Arc<Mailbox>>) {
    let table = mailbox.map(|mailbox| Table { mailbox: mailbox.clone(), places: Vec::new(), free: Vec::new() });
    let before = TABLE.replace(table);
    drop(before);
}

/// Enters a descriptor. A kernel that cannot wake one of several who sleep wakes them all.
fn add(mailbox: &Mailbox, fd: &OwnedFd, key: u64, flags: EventFlags) -> io::Result<()> {
    let data = EventData::new_u64(key);
    match epoll::add(&mailbox.epoll, fd, data, flags) {
        Err(Errno::INVAL) if flags.contains(EventFlags::EXCLUSIVE) => {
            Ok(epoll::add(&mailbox.epoll, fd, data, flags - EventFlags::EXCLUSIVE)?)
        }
        added => Ok(added?),
    }
}

fn key(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

/// Notes what events say, and wakes who waits for it.
pub(crate) fn tell(events: &[epoll::Event]) {
    for event in events {
        // The structure is packed.
        let (flags, data) = (event.flags, event.data.u64());
        if data == BELL {
            continue;
        }
        let ready = Ready::of(flags);
        let (index, generation) = (data as u32, (data >> 32) as u32);
        let mut woken = (None, None);
        let mut others = Vec::new();
        TABLE.with_borrow_mut(|table| {
            let place = table.as_mut().and_then(|table| table.places.get_mut(index as usize));
            let Some(place) = place.filter(|place| place.generation == generation) else { return };
            place.ready = place.ready | ready;
            if ready.has(Ready::READ) && std::mem::take(&mut place.read_awaited) {
                woken.0 = place.reader.take();
            }
            if ready.has(Ready::WRITE) && std::mem::take(&mut place.write_awaited) {
                woken.1 = place.writer.take();
            }
            if !place.others.is_empty() {
                others.extend(place.others.extract_if(.., |(wants, _)| ready.has(*wants)));
            }
        });
        // Whatever waking does, the table is free for it.
        if woken.0.is_some() || woken.1.is_some() {
            [&woken.0, &woken.1].into_iter().flatten().for_each(Waker::wake_by_ref);
            TABLE.with_borrow_mut(|table| {
                let place = table.as_mut().and_then(|table| table.places.get_mut(index as usize));
                let Some(place) = place.filter(|place| place.generation == generation) else { return };
                if place.reader.is_none() {
                    place.reader = woken.0.take();
                }
                if place.writer.is_none() {
                    place.writer = woken.1.take();
                }
            });
        }
        others.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// A descriptor in the epoll of a loop. All is asked on the thread of that loop, unless it says otherwise.
///
/// It does not hold the descriptor: who has it calls [`Registration::leave`].
#[derive(Debug)]
pub struct Registration {
    mailbox: Arc<Mailbox>,
    index: u32,
}

impl Registration {
    /// Puts a descriptor into the epoll of this thread's loop, for `side`, which somebody is about to wait for. What it is ready
    /// for already comes as an event. Unless it is asked for, room for writes is taken to be there until a write finds none.
    ///
    /// # Errors
    /// What `epoll_ctl(2)` answers; there is no loop on this thread.
    pub fn new(fd: &OwnedFd, side: Side) -> io::Result<Registration> {
        Registration::enter(fd, if side == Side::Write { Asked::Both } else { Asked::Reads })
    }

    /// The same for a descriptor of which events tell each time that something can be read, not only when that has changed: whoever has
    /// taken something calls [`Registration::clear`], and who does not take anything for a while [`Registration::rest`]. Where several
    /// loops have entered it and sleep, one of them is woken (`EPOLLEXCLUSIVE` of epoll_ctl(2)): the one that entered it first.
    ///
    /// # Errors
    /// As there.
    pub fn level(fd: &OwnedFd) -> io::Result<Registration> {
        Registration::enter(fd, Asked::Level)
    }

    fn enter(fd: &OwnedFd, asked: Asked) -> io::Result<Registration> {
        TABLE.with_borrow_mut(|table| {
            let Some(table) = table else { return Err(io::Error::other("there is no event loop on this thread")) };
            let index = match table.free.pop() {
                Some(index) => index,
                None => table.room(),
            };
            let place = &mut table.places[index as usize];
            place.asked = asked;
            place.ready = if asked == Asked::Both { Ready::default() } else { Ready::WRITABLE };
            let added = add(&table.mailbox, fd, key(index, place.generation), place.events());
            if let Err(error) = added {
                table.free.push(index);
                return Err(error);
            }
            Ok(Registration { mailbox: table.mailbox.clone(), index })
        })
    }

    /// `None`: the place is another loop's, or the loop has ended.
    fn with<T>(&self, use_it: impl FnOnce(&mut Place) -> T) -> Option<T> {
        TABLE.with_borrow_mut(|table| {
            let table = table.as_mut().filter(|table| table.mailbox.id == self.mailbox.id)?;
            table.places.get_mut(self.index as usize).map(use_it)
        })
    }

    /// What is known; `None` on the thread of another loop.
    pub fn ready(&self) -> Option<Ready> {
        self.with(|place| place.ready)
    }

    /// Waits until `side` of `fd`, the descriptor that was entered, would not wait. Only one task waits on each side.
    ///
    /// # Errors
    /// The loop is going away; what `epoll_ctl(2)` answers.
    pub fn poll(&self, fd: &OwnedFd, side: Side, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut before = None;
        let mut asks = None;
        let ready = self.with(|place| {
            let ready = place.ready.has(side.wants());
            if !ready {
                asks = place.ask_for_room(self.index, side.wants());
                let (awaited, waker) = match side {
                    Side::Read => (&mut place.read_awaited, &mut place.reader),
                    Side::Write => (&mut place.write_awaited, &mut place.writer),
                };
                *awaited = true;
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    before = waker.replace(context.waker().clone());
                }
            }
            ready
        });
        drop(before);
        self.outcome(fd, ready, asks)
    }

    /// Waits until any of these is known, beside who waits on either side.
    ///
    /// # Errors
    /// As for [`Registration::poll`].
    pub fn poll_for(&self, fd: &OwnedFd, wants: Ready, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut asks = None;
        let ready = self.with(|place| {
            let ready = place.ready.has(wants);
            if !ready {
                asks = place.ask_for_room(self.index, wants);
                match place.others.iter_mut().find(|(_, waker)| waker.will_wake(context.waker())) {
                    Some((all, _)) => *all = *all | wants,
                    None => place.others.push((wants, context.waker().clone())),
                }
            }
            ready
        });
        self.outcome(fd, ready, asks)
    }

    fn outcome(&self, fd: &OwnedFd, ready: Option<bool>, asks: Option<(u64, EventFlags)>) -> Poll<io::Result<()>> {
        if let Some((key, flags)) = asks {
            epoll::modify(&self.mailbox.epoll, fd, EventData::new_u64(key), flags)?;
        }
        match ready {
            Some(true) => Poll::Ready(Ok(())),
            Some(false) => Poll::Pending,
            None => Poll::Ready(Err(io::Error::other("the event loop of this socket is not that of this thread"))),
        }
    }

    /// Notes that `side` would wait now: the next event will tell. What says "closed" stays.
    pub fn clear(&self, side: Side) {
        let known = match side {
            Side::Read => Ready::READABLE,
            Side::Write => Ready::WRITABLE,
        };
        self.with(|place| place.ready.0 &= !known.0);
    }

    /// Has events of [`Registration::level`] stop, or go on again, as if it had just been entered. Nobody else is told of what this loop
    /// was told of and does not take.
    ///
    /// # Errors
    /// What `epoll_ctl(2)` answers.
    pub fn rest(&self, fd: &OwnedFd, rests: bool) -> io::Result<()> {
        let asked = if rests { Asked::Nothing } else { Asked::Level };
        let changed = self.with(|place| {
            let before = std::mem::replace(&mut place.asked, asked);
            (before != asked).then(|| (key(self.index, place.generation), place.events()))
        });
        match changed.flatten() {
            Some(_) if rests => Ok(epoll::delete(&self.mailbox.epoll, fd)?),
            Some((key, flags)) => add(&self.mailbox, fd, key, flags).inspect_err(|_| {
                self.with(|place| place.asked = Asked::Nothing);
            }),
            None => Ok(()),
        }
    }

    /// Takes the descriptor out. To be called by who holds it, on any thread.
    pub fn leave(self, fd: &Arc<OwnedFd>) {
        // The last holder is about to close it, and with that it leaves by itself (epoll(7)).
        if Arc::strong_count(fd) > 1 {
            // The only error is that it is not there.
            let _ = epoll::delete(&self.mailbox.epoll, &**fd);
        }
        let left = TABLE.try_with(|table| {
            let mut table = table.borrow_mut();
            let table = table.as_mut().filter(|table| table.mailbox.id == self.mailbox.id)?;
            table.take_back(self.index)
        });
        // The wakers are dropped here, with the table free. Another thread's loop looks when it needs a place.
        if left.is_ok_and(|left| left.is_none()) {
            self.mailbox.left.push(self.index);
        }
    }
}

impl Place {
    /// What epoll is asked for.
    fn events(&self) -> EventFlags {
        let reads = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        match self.asked {
            Asked::Reads => reads,
            Asked::Both => reads | EventFlags::OUT,
            Asked::Level => EventFlags::IN | EventFlags::EXCLUSIVE,
            Asked::Nothing => EventFlags::empty(),
        }
    }

    /// What epoll is to be asked for from now on, under which key, where it does not tell yet of what is waited for.
    fn ask_for_room(&mut self, index: u32, wants: Ready) -> Option<(u64, EventFlags)> {
        if self.asked == Asked::Both || !wants.has(Ready::WRITE) {
            return None;
        }
        self.asked = Asked::Both;
        Some((key(index, self.generation), self.events()))
    }
}

impl Table {
    /// A place that nobody has, where none is known to be free.
    fn room(&mut self) -> u32 {
        while let Some(index) = self.mailbox.left.pop() {
            self.take_back(index);
        }
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            // A process has no more descriptors than an `i32` can number.
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Has others use a place. What was in it comes back, to be dropped.
    fn take_back(&mut self, index: u32) -> Option<Place> {
        let place = self.places.get_mut(index as usize)?;
        let next = Place { generation: place.generation.wrapping_add(1), ..Place::default() };
        self.free.push(index);
        Some(std::mem::replace(place, next))
    }
}

#[cfg(test)]
mod tests;
