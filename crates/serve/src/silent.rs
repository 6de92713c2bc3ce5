//! The connections that a loop has accepted and whose clients have sent nothing yet.
//!
//! Nothing has happened to such a connection, so another loop can serve it from the beginning, if the loop that has accepted
//! it is late when the first bytes come (`accept/rescue_silent.rs`). Each loop writes down its last ones here. It strikes one
//! out when it begins with the first bytes; another thread takes one over by changing the same number. One of both succeeds,
//! and the other one knows.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

use crate::address::Address;
use crate::listen::ListenSpec;
use crate::loop_local::LoopLocal;

/// How many connections of a loop are known. One that takes the place of an older one is likelier to send something soon.
const PLACES: u64 = 256;

/// The state of a place without a connection.
const NOBODY: u64 = 0;

/// Set in the state of a place whose connection another loop has; the other bits are the connection's number.
const TAKEN: u64 = 1;

/// The connections of one loop that have sent nothing.
pub struct Silent {
    /// Whether other loops are there that could help.
    is_watched: AtomicBool,
    places: Box<[Place]>,
}

/// A place for one connection, that with a number which belongs here.
#[derive(Default)]
struct Place {
    state: AtomicU64,
    /// The connection that was here last. It is locked to enter one and to take it over, but not to strike it out; nobody waits
    /// for the lock.
    last: Mutex<Option<Last>>,
}

struct Last {
    /// The socket is the connection's: it is closed when that ends, whatever stands here.
    fd: Weak<OwnedFd>,
    peer: Address,
    listen: Arc<ListenSpec>,
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

impl Default for Silent {
    fn default() -> Self {
        let places = std::iter::repeat_with(Place::default).take(PLACES as usize).collect();
        Silent { is_watched: AtomicBool::new(false), places }
    }
}

/// The state of the place of a connection that is there.
fn here(number: u64) -> u64 {
    number << 1
}

impl Silent {
    fn place(&self, number: u64) -> &Place {
        &self.places[(number % PLACES) as usize]
    }

    /// Notes whether other loops are there that could help.
    pub(crate) fn set_watched(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Relaxed);
    }

    /// Enters a connection of this thread's loop. False if nobody could help, or its place is not free: then it stays with the
    /// loop in any case.
    #[must_use]
    pub fn enter(&self, number: u64, fd: &Arc<OwnedFd>, peer: &Address, listen: &LoopLocal<ListenSpec>) -> bool {
        if !self.is_watched.load(Relaxed) {
            return false;
        }
        let place = self.place(number);
        let Ok(mut last) = place.last.try_lock() else { return false };
        if place.state.load(Relaxed) & TAKEN != 0 {
            return false;
        }
        let (fd, peer) = (Arc::downgrade(fd), peer.clone());
        // The specification is mostly that of the last connection, and counting references to it is work for all loops.
        let known = last.take().map(|last| last.listen).filter(|known| listen.is(known));
        *last = Some(Last { fd, peer, listen: known.unwrap_or_else(|| listen.shared()) });
        place.state.store(here(number), Release);
        true
    }

    /// Strikes out a connection of this thread's loop that was [entered](Silent::enter). False: another loop has it.
    #[must_use]
    pub fn leave(&self, number: u64) -> bool {
        let left = self.place(number).state.compare_exchange(here(number), NOBODY, AcqRel, Acquire);
        // It may have had to make room for another one.
        left.is_ok() || !self.is_taken(number)
    }

    /// Whether another loop has a connection that was entered.
    pub fn is_taken(&self, number: u64) -> bool {
        self.place(number).state.load(Acquire) == here(number) | TAKEN
    }

    /// Frees the place of a connection that another loop has, when this thread's loop is done with it.
    pub fn forget(&self, number: u64) {
        // It fails if the place is that of another connection.
        let _ = self.place(number).state.compare_exchange(here(number) | TAKEN, NOBODY, AcqRel, Relaxed);
    }

    /// The sockets of the connections that are there, with their numbers, for another thread.
    pub fn sockets(&self) -> Vec<(u64, Arc<OwnedFd>)> {
        let socket = |place: &Place| {
            let state = place.state.load(Acquire);
            if state == NOBODY || state & TAKEN != 0 {
                return None;
            }
            let fd = place.last.try_lock().ok()?.as_ref()?.fd.upgrade()?;
            // Otherwise the socket may be another connection's.
            (place.state.load(Acquire) == state).then_some((state >> 1, fd))
        };
        self.places.iter().filter_map(socket).collect()
    }

    /// Takes a connection over, on another thread than its loop's. `None`: its loop goes on with it.
    pub fn take(&self, number: u64) -> Option<TakenOver> {
        let place = self.place(number);
        let last = place.last.try_lock().ok()?;
        let Last { fd, peer, listen } = last.as_ref()?;
        let fd = fd.upgrade()?;
        // While it is locked, the loop enters no other connection here.
        let taken = place.state.compare_exchange(here(number), here(number) | TAKEN, AcqRel, Relaxed);
        taken.is_ok().then(|| TakenOver { number, fd, peer: peer.clone(), listen: listen.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn silent() -> Silent {
        let silent = Silent::default();
        silent.set_watched(true);
        silent
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

    #[test]
    fn one_of_both_has_the_connection() {
        let (silent, listen) = (silent(), spec());
        let (one, other) = (socket(), socket());
        assert!(silent.enter(1, &one, &peer(), &listen) && silent.enter(2, &other, &peer(), &listen));
        assert_eq!(silent.sockets().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2]);
        // The loop begins with the first one.
        assert!(silent.leave(1) && silent.take(1).is_none());
        // The second one goes.
        let taken = silent.take(2).unwrap();
        assert!(Arc::ptr_eq(&taken.fd, &other) && taken.number == 2 && listen.is(&taken.listen));
        assert!(silent.take(2).is_none() && silent.sockets().is_empty());
        assert!(silent.is_taken(2) && !silent.leave(2), "and its loop notices");
        silent.forget(2);
        assert!(!silent.is_taken(2) && silent.enter(2, &other, &peer(), &listen));
    }

    #[test]
    fn a_newer_connection_takes_the_place_of_an_older_one_but_not_of_one_that_was_taken() {
        let (silent, listen) = (silent(), spec());
        let sockets = [socket(), socket(), socket()];
        let enter =
            |silent: &Silent, index: usize| silent.enter(1 + index as u64 * PLACES, &sockets[index], &peer(), &listen);
        assert!(enter(&silent, 0) && enter(&silent, 1));
        assert!(silent.take(1).is_none() && silent.leave(1), "it stays with its loop");
        assert!(silent.take(1 + PLACES).is_some());
        assert!(!enter(&silent, 2), "the loop has not noticed yet");
        assert!(!silent.leave(1 + PLACES));
        silent.forget(1);
        assert!(silent.is_taken(1 + PLACES));
        silent.forget(1 + PLACES);
        assert!(enter(&silent, 2));
    }

    #[test]
    fn a_connection_that_has_ended_is_closed() {
        let (silent, listen) = (silent(), spec());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let fd: Arc<OwnedFd> = Arc::new(listener.accept().unwrap().0.into());
        assert!(silent.enter(5, &fd, &peer(), &listen) && silent.leave(5));
        drop(fd);
        assert_eq!(std::io::Read::read(&mut &client, &mut [0; 1]).unwrap(), 0);
        assert!(silent.take(5).is_none());
    }

    #[test]
    fn two_threads_never_have_the_same_connection() {
        const CONNECTIONS: u64 = 20_000;
        let (silent, listen, fd) = (Arc::new(silent()), spec(), socket());
        let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let taker = std::thread::spawn({
            let (silent, over) = (silent.clone(), over.clone());
            move || {
                let mut taken = Vec::new();
                while !over.load(Acquire) {
                    let some = silent.sockets();
                    taken.extend(some.iter().filter_map(|(number, _)| silent.take(*number)).map(|taken| taken.number));
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
            if !entered || silent.leave(number) {
                kept.push(number);
            }
            silent.forget(number);
        }
        over.store(true, Release);
        let mut all = taker.join().unwrap();
        all.append(&mut kept);
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=CONNECTIONS), "each is with one of both");
    }
}
