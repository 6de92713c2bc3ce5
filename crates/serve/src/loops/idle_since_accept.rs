//! The connections that a loop has accepted and whose clients have sent nothing yet.
//!
//! Nothing has happened to such a connection. So another loop can serve it from the beginning, if the loop that has accepted
//! it is late when the first bytes come (`accept/rescue_silent.rs`). Each loop enters its own here. It strikes one out when it
//! begins with the first bytes; another thread takes one over by changing the same number. One of both succeeds, and the other
//! one knows.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU8;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

use crate::listen::ListenSpec;
use crate::listen::address::Address;
use crate::loops::local::LoopLocal;

/// Number of connections of a loop that are known. When there are more, an old one makes room for a new one, because the new
/// one is likelier to send something soon.
const PLACES: u8 = 255;

/// Number of places that are tried for a connection when none is free.
const TRIES: usize = 4;

/// The state of a place without a connection.
const NOBODY: u64 = 0;

/// Set in the state of a place whose connection another loop has; the other bits are the connection's number.
const TAKEN: u64 = 1;

/// The state of the place of a connection that is there.
fn here(number: u64) -> u64 {
    debug_assert!(number > 0 && number >> 63 == 0, "connection {number} looks like another one, or like nobody");
    number << 1
}

/// The connections of a loop that have sent nothing, as all threads see them.
pub struct SilentPlaces {
    /// Whether other loops are there that could help.
    is_watched: AtomicBool,
    /// Whether the loop was told to let go of connections that others have, and has not begun to do so.
    is_told: AtomicBool,
    places: Box<[IdlePlace]>,
}

/// A place for one connection.
#[derive(Default)]
struct IdlePlace {
    state: AtomicU64,
    /// The connection that was here last. It is locked to enter one and to take it over, but not to strike it out; nobody waits
    /// for the lock.
    last: Mutex<Option<Last>>,
}

struct Last {
    /// The socket is the connection's, which closes it whatever stands here.
    fd: Weak<OwnedFd>,
    peer: Address,
    listen: Arc<ListenSpec>,
}

/// The place where a connection was entered: one more than its index, so that a connection that has none takes no more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleSlot(NonZeroU8);

impl IdleSlot {
    fn new(index: u8) -> IdleSlot {
        IdleSlot(NonZeroU8::MIN.saturating_add(index))
    }

    fn index(self) -> u8 {
        self.0.get() - 1
    }
}

/// A connection in its place, as another thread has seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenConnection {
    slot: IdleSlot,
    number: u64,
}

/// A connection that was taken over from the loop that has accepted it.
pub struct TakenOver {
    /// The serial number in the worker, `$connection`.
    pub number: u64,
    /// The socket, which the other loop has too until it notices.
    pub fd: Arc<OwnedFd>,
    /// The address that the connection came from.
    pub peer: Address,
    /// The specification of the listening socket.
    pub listen: Arc<ListenSpec>,
}

impl Default for SilentPlaces {
    fn default() -> Self {
        let places = std::iter::repeat_with(IdlePlace::default).take(usize::from(PLACES)).collect();
        SilentPlaces { is_watched: AtomicBool::new(false), is_told: AtomicBool::new(false), places }
    }
}

impl SilentPlaces {
    fn place(&self, slot: IdleSlot) -> &IdlePlace {
        &self.places[usize::from(slot.index())]
    }

    /// Notes whether other loops are there that could help.
    pub(crate) fn set_watched(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Relaxed);
    }

    /// Notes that the loop is to let go of connections that others have. False if it was told before, and has not begun.
    pub(crate) fn tell(&self) -> bool {
        !self.is_told.swap(true, AcqRel)
    }

    /// Notes that the loop begins to let go of connections that others have.
    pub(crate) fn is_heard(&self) {
        self.is_told.store(false, Release);
    }

    /// The sockets of the connections that are there, for another thread. Those that a third loop still has are left out.
    pub(crate) fn sockets(&self) -> Vec<(SeenConnection, Arc<OwnedFd>)> {
        // The loop that has entered the connection, and this thread.
        const HOLDERS: usize = 2;
        let socket = |(index, place): (u8, &IdlePlace)| {
            let state = place.state.load(Acquire);
            if state == NOBODY || state & TAKEN != 0 {
                return None;
            }
            let fd = place.last.try_lock().ok()?.as_ref()?.fd.upgrade()?;
            // The place may have another connection now, whose socket this is.
            let is_same = place.state.load(Acquire) == state;
            let seen = SeenConnection { slot: IdleSlot::new(index), number: state >> 1 };
            (is_same && Arc::strong_count(&fd) <= HOLDERS).then_some((seen, fd))
        };
        (0..PLACES).zip(&self.places).filter_map(socket).collect()
    }

    /// Takes a connection over, on another thread than its loop's, if `is_wanted` says so of its listening socket. `None`: its
    /// loop goes on with it.
    pub(crate) fn take(&self, seen: SeenConnection, is_wanted: impl FnOnce(&ListenSpec) -> bool) -> Option<TakenOver> {
        let SeenConnection { slot, number } = seen;
        let place = self.place(slot);
        let last = place.last.try_lock().ok()?;
        let Last { fd, peer, listen } = last.as_ref()?;
        let fd = fd.upgrade().filter(|_| is_wanted(listen))?;
        // While it is locked, the loop enters no other connection here.
        let taken = place.state.compare_exchange(here(number), here(number) | TAKEN, AcqRel, Relaxed);
        taken.is_ok().then(|| TakenOver { number, fd, peer: peer.clone(), listen: listen.clone() })
    }
}

/// The connections of a loop that have sent nothing, as the loop itself sees them.
pub struct Silent {
    shared: Arc<SilentPlaces>,
    /// The places without a connection; those that were used last are used first.
    free: RefCell<Vec<IdleSlot>>,
    /// The index of the place whose connection makes room next.
    oldest: Cell<u8>,
}

impl Silent {
    /// The connections of a loop that begins.
    pub(crate) fn new(shared: Arc<SilentPlaces>) -> Silent {
        Silent { shared, free: RefCell::new((0..PLACES).rev().map(IdleSlot::new).collect()), oldest: Cell::new(0) }
    }

    /// Enters a connection with this socket. `None` if nobody could help, or no place can be had: then it stays with the loop in
    /// any case.
    pub fn enter(
        &self,
        number: u64,
        fd: impl FnOnce() -> Arc<OwnedFd>,
        peer: &Address,
        listen: &LoopLocal<ListenSpec>,
    ) -> Option<IdleSlot> {
        if !self.shared.is_watched.load(Relaxed) {
            return None;
        }
        let fd = fd();
        let is_put = |slot: &IdleSlot| self.put(*slot, number, &fd, peer, listen);
        let free = self.free.borrow_mut().pop();
        if let Some(free) = free {
            let slot = Some(free).filter(is_put);
            if slot.is_none() {
                self.release(free);
            }
            return slot;
        }
        // All places have connections: none of them is among the free ones.
        let next = || {
            let oldest = self.oldest.get();
            self.oldest.set((oldest + 1) % PLACES);
            IdleSlot::new(oldest)
        };
        std::iter::repeat_with(next).take(TRIES).find(is_put)
    }

    /// Notes that a place has no connection.
    fn release(&self, slot: IdleSlot) {
        let mut free = self.free.borrow_mut();
        debug_assert!(free.len() < usize::from(PLACES), "a place is free twice");
        free.push(slot);
    }

    /// Puts a connection in this place. False if another thread looks at the place, or another loop has its connection.
    fn put(
        &self,
        slot: IdleSlot,
        number: u64,
        fd: &Arc<OwnedFd>,
        peer: &Address,
        listen: &LoopLocal<ListenSpec>,
    ) -> bool {
        let place = self.shared.place(slot);
        let Ok(mut last) = place.last.try_lock() else { return false };
        let state = place.state.load(Relaxed);
        if state & TAKEN != 0 {
            return false;
        }
        debug_assert!(state != here(number), "connection {number} is entered twice");
        // Mostly the last connection had the same specification, and counting references to it is work for all loops.
        let known = last.take().map(|last| last.listen).filter(|known| listen.is(known));
        let listen = known.unwrap_or_else(|| listen.shared());
        *last = Some(Last { fd: Arc::downgrade(fd), peer: peer.clone(), listen });
        place.state.store(here(number), Release);
        true
    }

    /// Strikes out a connection. False: another loop has it.
    #[must_use]
    pub fn leave(&self, slot: IdleSlot, number: u64) -> bool {
        let left = self.shared.place(slot).state.compare_exchange(here(number), NOBODY, AcqRel, Acquire);
        match left {
            Ok(_) => self.release(slot),
            // It may have had to make room.
            Err(state) => return state != here(number) | TAKEN,
        }
        true
    }

    /// Whether another loop has the connection.
    pub fn is_taken(&self, slot: IdleSlot, number: u64) -> bool {
        self.shared.place(slot).state.load(Acquire) == here(number) | TAKEN
    }

    /// Frees the place of a connection that another loop has, when this loop is done with it.
    pub fn forget(&self, slot: IdleSlot, number: u64) {
        debug_assert!(self.is_taken(slot, number), "no other loop has connection {number}");
        self.shared.place(slot).state.store(NOBODY, Release);
        self.release(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn silent() -> Silent {
        let shared = Arc::new(SilentPlaces::default());
        shared.set_watched(true);
        Silent::new(shared)
    }

    fn spec() -> LoopLocal<ListenSpec> {
        let address = "127.0.0.1:0";
        LoopLocal::new(Arc::new(ListenSpec::new("http", address.parse().ok(), address.to_owned())))
    }

    fn socket() -> Arc<OwnedFd> {
        Arc::new(TcpListener::bind("127.0.0.1:0").unwrap().into())
    }

    fn peer() -> Address {
        Address::Ip("127.0.0.1:7".parse().unwrap())
    }

    /// A register with an address for its connections.
    struct Fixture {
        silent: Silent,
        listen: LoopLocal<ListenSpec>,
    }

    impl Fixture {
        fn new() -> Fixture {
            Fixture { silent: silent(), listen: spec() }
        }

        fn enter(&self, number: u64, fd: &Arc<OwnedFd>) -> Option<SeenConnection> {
            Some(SeenConnection { slot: self.silent.enter(number, || fd.clone(), &peer(), &self.listen)?, number })
        }

        fn leave(&self, seen: SeenConnection) -> bool {
            self.silent.leave(seen.slot, seen.number)
        }

        fn is_taken(&self, seen: SeenConnection) -> bool {
            self.silent.is_taken(seen.slot, seen.number)
        }

        fn forget(&self, seen: SeenConnection) {
            self.silent.forget(seen.slot, seen.number);
        }

        fn take(&self, seen: SeenConnection) -> Option<TakenOver> {
            self.silent.shared.take(seen, |_| true)
        }

        fn numbers(&self) -> Vec<u64> {
            let mut numbers: Vec<u64> = self.silent.shared.sockets().iter().map(|(seen, _)| seen.number).collect();
            numbers.sort_unstable();
            numbers
        }
    }

    #[test]
    fn one_of_both_has_the_connection() {
        let all = Fixture::new();
        let (one, other) = (socket(), socket());
        let (first, second) = (all.enter(1, &one).unwrap(), all.enter(2, &other).unwrap());
        assert_eq!(all.numbers(), [1, 2]);
        // The loop begins with the first one.
        assert!(all.leave(first) && all.take(first).is_none());
        // The second one goes, if its address is still listened on.
        assert!(all.silent.shared.take(second, |_| false).is_none() && !all.is_taken(second));
        let taken = all.silent.shared.take(second, |spec| spec.name == all.listen.name).unwrap();
        assert!(Arc::ptr_eq(&taken.fd, &other) && taken.number == 2 && all.listen.is(&taken.listen));
        assert!(all.take(second).is_none() && all.numbers().is_empty());
        assert!(all.is_taken(second) && !all.leave(second), "and its loop notices");
        all.forget(second);
        assert!(!all.is_taken(second) && all.enter(3, &other).is_some());
        // A third loop still has the other one: it does not go back there.
        assert!(all.numbers().is_empty());
        drop(taken);
        assert_eq!(all.numbers(), [3]);
    }

    #[test]
    fn those_that_were_entered_long_ago_make_room_but_not_for_one_that_comes_and_goes() {
        let all = Fixture::new();
        let enter = |number: u64| {
            let fd = socket();
            (all.enter(number, &fd).unwrap(), fd)
        };
        let (first, _open) = enter(1);
        for number in 2..1_000 {
            assert!(all.leave(enter(number).0));
        }
        assert_eq!(all.numbers(), [1]);
        let (others, _open): (Vec<SeenConnection>, Vec<_>) = (10_001..10_000 + u64::from(PLACES)).map(enter).unzip();
        let known = all.numbers();
        assert!(known.len() == usize::from(PLACES) && known[0] == 1);
        // Another loop has the next one that would make room.
        assert!(all.take(first).is_some());
        let (last, _open) = enter(20_000);
        assert!(all.is_taken(first) && all.numbers().contains(&20_000) && !all.numbers().contains(&10_001));
        assert!(all.leave(others[0]), "it stays with the loop");
        assert!(all.take(others[0]).is_none());
        assert!(others[1..].iter().chain([&last]).all(|seen| all.leave(*seen)));
        all.forget(first);
        assert_eq!(all.silent.free.borrow().len(), usize::from(PLACES), "each place is free, and once");
    }

    #[test]
    fn a_place_that_another_thread_looks_at_is_not_waited_for_and_stays_free() {
        let (all, fd) = (Fixture::new(), socket());
        let seen = all.enter(1, &fd).unwrap();
        assert!(all.leave(seen));
        let looks = all.silent.shared.place(seen.slot).last.lock().unwrap();
        assert!((2..1_000).all(|number| all.enter(number, &fd).is_none()));
        drop(looks);
        assert_eq!(all.silent.free.borrow().len(), usize::from(PLACES));
        assert!(all.enter(1_000, &fd).is_some());
    }

    #[test]
    fn a_connection_that_has_ended_is_closed() {
        let all = Fixture::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let fd: Arc<OwnedFd> = Arc::new(listener.accept().unwrap().0.into());
        let seen = all.enter(5, &fd).unwrap();
        assert!(all.leave(seen));
        drop(fd);
        assert_eq!(std::io::Read::read(&mut &client, &mut [0; 1]).unwrap(), 0);
        assert!(all.take(seen).is_none());
    }

    #[test]
    fn a_loop_without_others_enters_nothing_and_is_told_once() {
        let all = Fixture::new();
        all.silent.shared.set_watched(false);
        assert_eq!(all.enter(1, &socket()), None);
        assert!(all.silent.shared.tell() && !all.silent.shared.tell());
        all.silent.shared.is_heard();
        assert!(all.silent.shared.tell());
    }

    #[test]
    fn two_threads_never_have_the_same_connection() {
        const CONNECTIONS: u64 = 20_000;
        let (all, fd) = (Fixture::new(), socket());
        let over = Arc::new(AtomicBool::new(false));
        let taker = std::thread::spawn({
            let (shared, over) = (all.silent.shared.clone(), over.clone());
            move || {
                let mut taken = Vec::new();
                while !over.load(Acquire) {
                    let some: Vec<SeenConnection> = shared.sockets().into_iter().map(|(seen, _)| seen).collect();
                    taken.extend(
                        some.into_iter().filter_map(|one| shared.take(one, |_| true)).map(|taken| taken.number),
                    );
                }
                taken
            }
        });
        let mut kept = Vec::new();
        for number in 1..=CONNECTIONS {
            let entered = all.enter(number, &fd);
            if number % 3 == 0 {
                std::thread::yield_now();
            }
            match entered {
                Some(entered) if !all.leave(entered) => all.forget(entered),
                _ => kept.push(number),
            }
        }
        over.store(true, Release);
        let mut every = taker.join().unwrap();
        every.append(&mut kept);
        every.sort_unstable();
        assert!(every.iter().copied().eq(1..=CONNECTIONS), "each is with one of both");
    }
}
