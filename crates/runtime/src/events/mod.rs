//! The events that a loop gets from the kernel: its epoll instance, and a table of the descriptors in it. The table has
//! the known readiness of each and the wakers of the tasks that wait for it.
//!
//! epoll is edge-triggered here: an event reports a change, and the reported state is kept until a task finds that it
//! no longer holds. Events about room for writes are requested when a task first waits for room. Most sockets always
//! have room, and each would cause an event as soon as it is entered. A place of the table is used again; a number
//! tells events of its earlier descriptor from its own.

use std::cell::RefCell;
use std::io;
use std::ops::BitOr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::mailbox::{BELL, Mailbox};

/// Number of events that are taken at once.
pub(crate) const EVENTS: usize = 1024;

/// The known readiness of a descriptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready(u8);

impl Ready {
    /// There may be bytes to read.
    pub const READABLE: Ready = Ready(1);
    /// There may be room for a write.
    pub const WRITABLE: Ready = Ready(1 << 1);
    /// No more bytes will come.
    pub const READ_CLOSED: Ready = Ready(1 << 2);
    /// No more bytes can be sent.
    pub const WRITE_CLOSED: Ready = Ready(1 << 3);
    /// There is an error.
    pub const ERROR: Ready = Ready(1 << 4);

    /// A read would not wait.
    pub const READ: Ready = Ready(Ready::READABLE.0 | Ready::READ_CLOSED.0);
    /// A write would not wait.
    pub const WRITE: Ready = Ready(Ready::WRITABLE.0 | Ready::WRITE_CLOSED.0);

    /// The readiness that an event reports (epoll_ctl(2)).
    fn of(flags: EventFlags) -> Ready {
        let mut ready = Ready::default();
        let mut says = |condition: bool, what: Ready| {
            if condition {
                ready = ready | what;
            }
        };
        let (hung_up, failed) = (flags.contains(EventFlags::HUP), flags.contains(EventFlags::ERR));
        // An error is what a read would return: nothing else reports a datagram that was not delivered (udp(7)).
        says(flags.intersects(EventFlags::IN | EventFlags::PRI | EventFlags::ERR), Ready::READABLE);
        says(flags.contains(EventFlags::OUT), Ready::WRITABLE);
        says(hung_up || flags.contains(EventFlags::RDHUP), Ready::READ_CLOSED);
        says(hung_up || failed, Ready::WRITE_CLOSED);
        says(failed, Ready::ERROR);
        ready
    }

    /// Whether any of these flags is set.
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

/// The two usual waiters of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The reader.
    Read,
    /// The writer.
    Write,
}

impl Side {
    /// The readiness that this side waits for.
    fn wants(self) -> Ready {
        match self {
            Side::Read => Ready::READ,
            Side::Write => Ready::WRITE,
        }
    }
}

/// The events that epoll is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Interest {
    /// Changes of the readable state.
    #[default]
    Reads,
    /// Changes of the readable and the writable state.
    Both,
    /// Level-triggered: an event each time that there is something to read, so that a task that takes one item need not
    /// look for the next. Of the sleeping loops that ask for this on one descriptor, one is woken.
    Level,
    /// No events for now: the descriptor is not in the epoll instance.
    Nothing,
}

/// A place of the table.
#[derive(Default)]
struct EventPlace {
    /// The generation of the descriptor that has the place; the next one has the next number.
    generation: u32,
    ready: Ready,
    asked: Interest,
    /// Whether the reader waits. Its waker stays when it does not, for the next one is probably the same: each clone of
    /// a waker is a locked write, twice.
    read_awaited: bool,
    /// Whether the writer waits.
    write_awaited: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Further waiters. A waiter that has gone is woken in vain once.
    others: Vec<(Ready, Waker)>,
}

/// The descriptors of the loop that runs on this thread; as many as the loop has connections.
struct EventTable {
    mailbox: Arc<Mailbox>,
    places: Vec<EventPlace>,
    free: Vec<u32>,
}

thread_local! {
    static TABLE: RefCell<Option<EventTable>> = const { RefCell::new(None) };
}

/// Makes a table for the loop of this thread, or removes it.
pub(crate) fn set_up(mailbox: Option<&Arc<Mailbox>>) {
    let table = mailbox.map(|mailbox| EventTable { mailbox: mailbox.clone(), places: Vec::new(), free: Vec::new() });
    let before = TABLE.replace(table);
    drop(before);
}

/// Enters a descriptor. A kernel that cannot wake just one of several sleeping loops wakes them all.
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

/// Notes the readiness that events report, and wakes the tasks that wait for it.
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
        // The table is not borrowed here, so wakers may use it.
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

/// A descriptor in the epoll instance of a loop. All methods are called on the thread of that loop, unless they say
/// otherwise.
///
/// It does not hold the descriptor: the owner of the descriptor calls [`Registration::leave`].
#[derive(Debug)]
pub struct Registration {
    mailbox: Arc<Mailbox>,
    index: u32,
}

impl Registration {
    /// Puts a descriptor into the epoll instance of this thread's loop, for `side`, which a task is about to wait for.
    /// Readiness that exists already comes as an event. Unless `side` is the writer, room for writes is assumed until a
    /// write finds none.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`; there is no loop on this thread.
    pub fn new(fd: &OwnedFd, side: Side) -> io::Result<Registration> {
        Registration::enter(fd, if side == Side::Write { Interest::Both } else { Interest::Reads })
    }

    /// Puts a descriptor into the epoll instance of this thread's loop, with an event each time that there is something
    /// to read, not only when that has changed. A caller that has taken something calls [`Registration::clear`]; a
    /// caller that does not take anything for a while calls [`Registration::rest`]. Of several sleeping loops that have
    /// entered the descriptor, the first to enter it is woken (`EPOLLEXCLUSIVE` of epoll_ctl(2)).
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`; there is no loop on this thread.
    pub fn level(fd: &OwnedFd) -> io::Result<Registration> {
        Registration::enter(fd, Interest::Level)
    }

    fn enter(fd: &OwnedFd, asked: Interest) -> io::Result<Registration> {
        TABLE.with_borrow_mut(|table| {
            let Some(table) = table else { return Err(io::Error::other("there is no event loop on this thread")) };
            let index = match table.free.pop() {
                Some(index) => index,
                None => table.room(),
            };
            let place = &mut table.places[index as usize];
            place.asked = asked;
            place.ready = if asked == Interest::Both { Ready::default() } else { Ready::WRITABLE };
            let added = add(&table.mailbox, fd, key(index, place.generation), place.events());
            if let Err(error) = added {
                table.free.push(index);
                return Err(error);
            }
            Ok(Registration { mailbox: table.mailbox.clone(), index })
        })
    }

    /// Uses the descriptor's place. `None`: the place is another loop's, or the loop has ended.
    fn with<T>(&self, use_it: impl FnOnce(&mut EventPlace) -> T) -> Option<T> {
        TABLE.with_borrow_mut(|table| {
            let table = table.as_mut().filter(|table| table.mailbox.id == self.mailbox.id)?;
            table.places.get_mut(self.index as usize).map(use_it)
        })
    }

    /// The known readiness; `None` on the thread of another loop.
    pub fn ready(&self) -> Option<Ready> {
        self.with(|place| place.ready)
    }

    /// Waits until `side` of `fd`, the descriptor that was entered, would not wait. Only one task waits on each side.
    ///
    /// # Errors
    /// The loop is going away; the error of `epoll_ctl(2)`.
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

    /// Waits until any of these is known, in addition to the tasks that wait on either side.
    ///
    /// # Errors
    /// The loop is going away; the error of `epoll_ctl(2)`.
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

    /// Wakes the task that waits to read, if one does, though nothing is known to be there.
    pub fn wake_reader(&self) {
        let awaited = |place: &mut EventPlace| std::mem::take(&mut place.read_awaited).then(|| place.reader.clone());
        // The table is not borrowed here, so the waker may use it.
        if let Some(waker) = self.with(awaited).flatten().flatten() {
            waker.wake();
        }
    }

    /// Notes that `side` would wait now: the next event ends that. The "closed" flags stay.
    pub fn clear(&self, side: Side) {
        let known = match side {
            Side::Read => Ready::READABLE,
            Side::Write => Ready::WRITABLE,
        };
        self.with(|place| place.ready.0 &= !known.0);
    }

    /// Notes that an error was taken from a socket that goes on all the same, because it was about one datagram.
    pub fn forgive(&self) {
        self.with(|place| place.ready.0 &= !(Ready::ERROR.0 | Ready::WRITE_CLOSED.0));
    }

    /// Stops the events of [`Registration::level`], or starts them again as if the descriptor had just been entered.
    /// Other loops are not notified of an event that this loop was notified of and does not handle.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn rest(&self, fd: &OwnedFd, rests: bool) -> io::Result<()> {
        let asked = if rests { Interest::Nothing } else { Interest::Level };
        let changed = self.with(|place| {
            let before = std::mem::replace(&mut place.asked, asked);
            (before != asked).then(|| (key(self.index, place.generation), place.events()))
        });
        match changed.flatten() {
            Some(_) if rests => Ok(epoll::delete(&self.mailbox.epoll, fd)?),
            Some((key, flags)) => add(&self.mailbox, fd, key, flags).inspect_err(|_| {
                self.with(|place| place.asked = Interest::Nothing);
            }),
            None => Ok(()),
        }
    }

    /// Takes the descriptor out. To be called by the owner of the descriptor, on any thread.
    pub fn leave(self, fd: &Arc<OwnedFd>) {
        // The last owner is about to close it, which takes it out of the epoll instance, too (epoll(7)).
        if Arc::strong_count(fd) > 1 {
            self.delete(fd);
        }
        self.free();
    }

    /// Takes a descriptor out whose socket has another descriptor as well, such as the master's. epoll knows the
    /// socket, which stays open when this descriptor is closed, and would go on to report it.
    pub fn leave_open(self, fd: &OwnedFd) {
        self.delete(fd);
        self.free();
    }

    fn delete(&self, fd: &OwnedFd) {
        // The only possible error is that it is not there.
        let _ = epoll::delete(&self.mailbox.epoll, fd);
    }

    /// Gives the place back.
    fn free(self) {
        let left = TABLE.try_with(|table| {
            let mut table = table.borrow_mut();
            let table = table.as_mut().filter(|table| table.mailbox.id == self.mailbox.id)?;
            table.take_back(self.index)
        });
        // The wakers are dropped here, while the table is not borrowed. The loop of another thread looks for free
        // places when it needs one.
        if left.is_ok_and(|left| left.is_none()) {
            self.mailbox.left.push(self.index);
        }
    }
}

impl EventPlace {
    /// The flags for `epoll_ctl(2)`.
    fn events(&self) -> EventFlags {
        let reads = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        match self.asked {
            Interest::Reads => reads,
            Interest::Both => reads | EventFlags::OUT,
            Interest::Level => EventFlags::IN | EventFlags::EXCLUSIVE,
            Interest::Nothing => EventFlags::empty(),
        }
    }

    /// The key and the flags with which to change the epoll entry, if it does not yet report the room that is waited
    /// for.
    fn ask_for_room(&mut self, index: u32, wants: Ready) -> Option<(u64, EventFlags)> {
        if self.asked == Interest::Both || !wants.has(Ready::WRITE) {
            return None;
        }
        self.asked = Interest::Both;
        Some((key(index, self.generation), self.events()))
    }
}

impl EventTable {
    /// A free place of the table, a new one if none is free.
    fn room(&mut self) -> u32 {
        while let Some(index) = self.mailbox.left.pop() {
            self.take_back(index);
        }
        self.free.pop().unwrap_or_else(|| {
            self.places.push(EventPlace::default());
            // A process cannot have more descriptors than an `i32` can number.
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Frees a place for others. Returns its former content, which the caller drops.
    fn take_back(&mut self, index: u32) -> Option<EventPlace> {
        let place = self.places.get_mut(index as usize)?;
        let next = EventPlace { generation: place.generation.wrapping_add(1), ..EventPlace::default() };
        self.free.push(index);
        Some(std::mem::replace(place, next))
    }
}

#[cfg(test)]
mod tests;
