//! The connections that a loop has accepted and whose clients have sent nothing yet.
//!
//! Nothing has happened to such a connection, so another loop can serve it from the beginning, if the loop that has accepted
//! it is late when the first bytes come (`accept/rescue_silent.rs`). Each loop enters its own here. It strikes one out when it
//! begins with the first bytes; another thread takes one over by changing the same number. One of both succeeds, and the other
//! one knows.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

use crate::address::Address;
use crate::listen::ListenSpec;
use crate::loop_local::LoopLocal;

/// How many connections of a loop are known. When there are more, one that was entered long ago makes room for a new one, which
/// is likelier to send something soon.
const PLACES: u16 = 256;

/// How many places are tried for a connection when none is free.
const TRIES: usize = 4;

/// The state of a place without a connection.
const NOBODY: u64 = 0;

/// Set in the state of a place whose connection another loop has; the other bits are the connection's number.
const TAKEN: u64 = 1;

/// The state of the place of a connection that is there.
fn here(number: u64) -> u64 {
    number << 1
}

/// The connections of a loop that have sent nothing, as all threads see them.
pub struct SilentPlaces {
    /// Whether other loops are there that could help.
    is_watched: AtomicBool,
    /// Whether the loop was told to let go of connections that others have, and has not begun to do so.
    is_told: AtomicBool,
    places: Box<[Place]>,
}

/// A place for one connection.
#[derive(Default)]
struct Place {
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

/// Where a connection was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entered {
    place: u16,
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
        let places = std::iter::repeat_with(Place::default).take(usize::from(PLACES)).collect();
        SilentPlaces { is_watched: AtomicBool::new(false), is_told: AtomicBool::new(false), places }
    }
}

impl SilentPlaces {
    fn place(&self, place: u16) -> &Place {
        &self.places[usize::from(place)]
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
    pub(crate) fn sockets(&self) -> Vec<(Entered, Arc<OwnedFd>)> {
        // Theirs, and this one.
        const HOLDERS: usize = 2;
        let socket = |(index, place): (u16, &Place)| {
            let state = place.state.load(Acquire);
            if state == NOBODY || state & TAKEN != 0 {
                return None;
            }
            let fd = place.last.try_lock().ok()?.as_ref()?.fd.upgrade()?;
            // The state may be that of another connection by now, whose socket this is.
            let is_same = place.state.load(Acquire) == state;
            let entered = Entered { place: index, number: state >> 1 };
            (is_same && Arc::strong_count(&fd) <= HOLDERS).then_some((entered, fd))
        };
        (0..PLACES).zip(&self.places).filter_map(socket).collect()
    }

    /// Takes a connection over, on another thread than its loop's, if its listening socket is one that `is_wanted`. `None`: its
    /// loop goes on with it.
    pub(crate) fn take(&self, entered: Entered, is_wanted: impl FnOnce(&ListenSpec) -> bool) -> Option<TakenOver> {
        let Entered { place, number } = entered;
        let place = self.place(place);
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
    free: RefCell<Vec<u16>>,
    /// The place whose connection makes room next.
    oldest: Cell<u16>,
}

impl Silent {
    /// The connections of a loop that begins.
    pub(crate) fn new(shared: Arc<SilentPlaces>) -> Silent {
        Silent { shared, free: RefCell::new((0..PLACES).rev().collect()), oldest: Cell::new(0) }
    }

    /// Enters a connection. `None` if nobody could help, or no place can be had: then it stays with the loop in any case.
    pub fn enter(
        &self,
        number: u64,
        fd: &Arc<OwnedFd>,
        peer: &Address,
        listen: &LoopLocal<ListenSpec>,
    ) -> Option<Entered> {
        if !self.shared.is_watched.load(Relaxed) {
            return None;
        }
        let free = self.free.borrow_mut().pop();
        let next = || {
            let oldest = self.oldest.get();
            self.oldest.set((oldest + 1) % PLACES);
            oldest
        };
        let tried = free.into_iter().chain(std::iter::repeat_with(next)).take(TRIES);
        let entered = tried.map(|place| Entered { place, number }).find(|to| self.put(*to, fd, peer, listen));
        if let Some(free) = free.filter(|free| entered.is_none_or(|entered| entered.place != *free)) {
            self.free.borrow_mut().push(free);
        }
        entered
    }

    /// Puts a connection in this place. False if another thread looks at the place, or another loop has its connection.
    fn put(&self, to: Entered, fd: &Arc<OwnedFd>, peer: &Address, listen: &LoopLocal<ListenSpec>) -> bool {
        let place = self.shared.place(to.place);
        let Ok(mut last) = place.last.try_lock() else { return false };
        let state = place.state.load(Relaxed);
        if state & TAKEN != 0 {
            return false;
        }
        // The specification is mostly that of the last connection, and counting references to it is work for all loops.
        let known = last.take().map(|last| last.listen).filter(|known| listen.is(known));
        let listen = known.unwrap_or_else(|| listen.shared());
        *last = Some(Last { fd: Arc::downgrade(fd), peer: peer.clone(), listen });
        place.state.store(here(to.number), Release);
        true
    }

    /// Strikes out a connection. False: another loop has it.
    #[must_use]
    pub fn leave(&self, entered: Entered) -> bool {
        let Entered { place, number } = entered;
        let left = self.shared.place(place).state.compare_exchange(here(number), NOBODY, AcqRel, Acquire);
        match left {
            Ok(_) => self.free.borrow_mut().push(place),
            // It may have had to make room.
            Err(state) => return state != here(number) | TAKEN,
        }
        true
    }

    /// Whether another loop has the connection.
    pub fn is_taken(&self, entered: Entered) -> bool {
        self.shared.place(entered.place).state.load(Acquire) == here(entered.number) | TAKEN
    }

    /// Frees the place of a connection that another loop has, when this loop is done with it.
    pub fn forget(&self, entered: Entered) {
        debug_assert!(self.is_taken(entered), "no other loop has {entered:?}");
        self.shared.place(entered.place).state.store(NOBODY, Release);
        self.free.borrow_mut().push(entered.place);
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

    fn numbers(silent: &Silent) -> Vec<u64> {
        let mut numbers: Vec<u64> = silent.shared.sockets().iter().map(|(entered, _)| entered.number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn one_of_both_has_the_connection() {
        let (silent, listen) = (silent(), spec());
        let (one, other) = (socket(), socket());
        let first = silent.enter(1, &one, &peer(), &listen).unwrap();
        let second = silent.enter(2, &other, &peer(), &listen).unwrap();
        assert_eq!(numbers(&silent), [1, 2]);
        // The loop begins with the first one.
        assert!(silent.leave(first) && silent.shared.take(first, |_| true).is_none());
        // The second one goes, if its address is still listened on.
        assert!(silent.shared.take(second, |_| false).is_none() && !silent.is_taken(second));
        let taken = silent.shared.take(second, |spec| spec.name == listen.name).unwrap();
        assert!(Arc::ptr_eq(&taken.fd, &other) && taken.number == 2 && listen.is(&taken.listen));
        assert!(silent.shared.take(second, |_| true).is_none() && numbers(&silent).is_empty());
        assert!(silent.is_taken(second) && !silent.leave(second), "and its loop notices");
        silent.forget(second);
        assert!(!silent.is_taken(second) && silent.enter(3, &other, &peer(), &listen).is_some());
        // A third loop still has the other one: it does not go back there.
        assert!(numbers(&silent).is_empty());
        drop(taken);
        assert_eq!(numbers(&silent), [3]);
    }

    #[test]
    fn those_that_were_entered_long_ago_make_room_but_not_for_one_that_comes_and_goes() {
        let (silent, listen) = (silent(), spec());
        let enter = |number: u64| {
            let fd = socket();
            (silent.enter(number, &fd, &peer(), &listen).unwrap(), fd)
        };
        let (first, _open) = enter(1);
        for number in 2..1_000 {
            assert!(silent.leave(enter(number).0));
        }
        assert_eq!(numbers(&silent), [1]);
        let (all, _open): (Vec<Entered>, Vec<_>) = (10_001..10_000 + u64::from(PLACES)).map(enter).unzip();
        let known = numbers(&silent);
        assert!(known.len() == usize::from(PLACES) && known[0] == 1);
        // Another loop has the next one that would make room.
        assert!(silent.shared.take(first, |_| true).is_some());
        let (last, _open) = enter(20_000);
        assert!(silent.is_taken(first) && numbers(&silent).contains(&20_000) && !numbers(&silent).contains(&10_001));
        assert!(silent.leave(all[0]), "it stays with the loop");
        assert!(silent.shared.take(all[0], |_| true).is_none());
        assert!(all[1..].iter().chain([&last]).all(|entered| silent.leave(*entered)));
        silent.forget(first);
        assert_eq!(silent.free.borrow().len(), usize::from(PLACES), "each place is free, and once");
    }

    #[test]
    fn a_connection_that_has_ended_is_closed() {
        let (silent, listen) = (silent(), spec());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let fd: Arc<OwnedFd> = Arc::new(listener.accept().unwrap().0.into());
        let entered = silent.enter(5, &fd, &peer(), &listen).unwrap();
        assert!(silent.leave(entered));
        drop(fd);
        assert_eq!(std::io::Read::read(&mut &client, &mut [0; 1]).unwrap(), 0);
        assert!(silent.shared.take(entered, |_| true).is_none());
    }

    #[test]
    fn a_loop_without_others_enters_nothing_and_is_told_once() {
        let (silent, listen, fd) = (silent(), spec(), socket());
        silent.shared.set_watched(false);
        assert_eq!(silent.enter(1, &fd, &peer(), &listen), None);
        assert!(silent.shared.tell() && !silent.shared.tell());
        silent.shared.is_heard();
        assert!(silent.shared.tell());
    }

    #[test]
    fn two_threads_never_have_the_same_connection() {
        const CONNECTIONS: u64 = 20_000;
        let (silent, listen, fd) = (silent(), spec(), socket());
        let over = Arc::new(AtomicBool::new(false));
        let taker = std::thread::spawn({
            let (shared, over) = (silent.shared.clone(), over.clone());
            move || {
                let mut taken = Vec::new();
                while !over.load(Acquire) {
                    let some: Vec<Entered> = shared.sockets().into_iter().map(|(entered, _)| entered).collect();
                    taken.extend(
                        some.into_iter().filter_map(|one| shared.take(one, |_| true)).map(|taken| taken.number),
                    );
                }
                taken
            }
        });
        let mut kept = Vec::new();
        for number in 1..=CONNECTIONS {
            let entered = silent.enter(number, &fd, &peer(), &listen);
            if number % 3 == 0 {
                std::thread::yield_now();
            }
            match entered {
                Some(entered) if !silent.leave(entered) => silent.forget(entered),
                _ => kept.push(number),
            }
        }
        over.store(true, Release);
        let mut all = taker.join().unwrap();
        all.append(&mut kept);
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=CONNECTIONS), "each is with one of both");
    }
}
