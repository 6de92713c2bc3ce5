//! The driver of HTTP/2: the requests of a connection at the same time, each as a task of its own.
//!
//! The machine in [`freerun_proto::h2`] knows the protocol; here are the bytes, the time, and the requests. The task of a
//! connection reads and writes; tasks of requests leave what they send in the machine, and the connection's task writes it
//! together.

mod files;
mod preface;
mod serve;
mod shared;
mod stream;
mod unsent_limit;
mod words;
mod write;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use freerun_proto::h2::ErrorCode;
use freerun_proto::h2::MemoryPool;
use freerun_runtime::{loops, spare_memory, timer};

use crate::http_loop::HttpLoop;
use crate::protocol::h2::shared::{SharedConnection, StreamPlaces};
use crate::protocol::multiplexed::RequestRunners;

pub use preface::{FirstBytes, read as read_preface};
pub use serve::Serve;

/// The connections of a loop; empty places are used again.
#[derive(Default)]
struct Places {
    places: Vec<Weak<SharedConnection>>,
    free: Vec<usize>,
}

/// Number of connections whose places for streams a loop keeps.
const KEPT_PLACES: usize = 64;

/// Number of places for streams that are kept of one connection.
const MOST_PLACES: usize = 16;

/// The time for which a connection is left alone before it gives up memory that only makes its next messages shorter.
/// It is also the interval at which such connections are looked for.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// Number of connections that are looked at before other tasks get their turn.
const LOOKED_AT: usize = 256;

/// Number of connections that have to give up memory for it to be worth giving it back to the system.
const MANY: usize = 256;

/// The state that the connections of HTTP/2 share on a loop.
pub struct H2Driver {
    http: Rc<HttpLoop>,
    /// The futures that serve requests.
    runners: Rc<RequestRunners>,
    /// The buffer that all connections read into.
    read: RefCell<Vec<u8>>,
    /// The memory that connections without streams have left.
    spare: RefCell<MemoryPool>,
    /// The places for streams that they have left.
    spare_places: RefCell<Vec<StreamPlaces>>,
    /// The connections, each in a place of its own.
    connections: RefCell<Places>,
}

impl H2Driver {
    /// The driver of one loop, whose requests these runners serve.
    pub fn new(http: Rc<HttpLoop>, runners: Rc<RequestRunners>) -> Rc<H2Driver> {
        let (read, spare, spare_places, connections) = Default::default();
        let driver = Rc::new(H2Driver { http, runners, read, spare, spare_places, connections });
        loops::spawn(0, "hibernating", H2Driver::hibernate(Rc::downgrade(&driver)));
        driver
    }

    /// Has connections that were left alone for long give up memory, as long as the driver lives.
    async fn hibernate(driver: Weak<H2Driver>) {
        loop {
            timer::sleep(LEFT_ALONE).await;
            let since = loops::millis().saturating_sub(LEFT_ALONE.as_millis() as u64);
            let (mut next, mut gave_up) = (Some(0), 0);
            while let Some(first) = next {
                let Some(driver) = driver.upgrade() else { return };
                let (end, some) = driver.hibernate_some(first, since);
                (next, gave_up) = (end, gave_up + some);
                drop(driver);
                loops::yield_now().await;
            }
            if gave_up >= MANY {
                spare_memory::was_freed();
            }
        }
    }

    /// Looks at the connections from this place on, as many as in one turn. Returns the next place, and how many connections have
    /// given up something.
    fn hibernate_some(&self, first: usize, since: u64) -> (Option<usize>, usize) {
        let places = &self.connections.borrow().places;
        let end = places.len().min(first + LOOKED_AT);
        let some = places[first.min(end)..end].iter().filter_map(Weak::upgrade);
        (Some(end).filter(|end| *end < places.len()), some.filter(|shared| shared.hibernate(since)).count())
    }

    /// Asks the clients of all connections to begin no further streams, because the worker is shutting down.
    pub fn drain(&self) {
        let connections: Vec<_> = self.connections.borrow().places.iter().filter_map(Weak::upgrade).collect();
        connections.iter().for_each(|shared| shared.announce_end());
    }

    /// Sends all clients the number of the last stream of their connection that has begun.
    pub fn finish(&self) {
        let connections: Vec<_> = self.connections.borrow().places.iter().filter_map(Weak::upgrade).collect();
        connections.iter().for_each(|shared| shared.with(|machine| machine.finish(ErrorCode::NO_ERROR)));
    }

    /// Places for the streams of a connection that has none yet.
    fn spare_places(&self) -> StreamPlaces {
        self.spare_places.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps the places of a connection without streams, unless they are many.
    fn keep_places(&self, mut places: StreamPlaces) {
        debug_assert!(places.iter().all(Option::is_none), "a request goes on");
        let mut kept = self.spare_places.borrow_mut();
        if (1..=MOST_PLACES).contains(&places.capacity()) && kept.len() < KEPT_PLACES {
            places.clear();
            kept.push(places);
        }
    }

    /// Adds a connection to those that are asked, and returns its place.
    fn enter(&self, shared: &Rc<SharedConnection>) -> usize {
        let Places { places, free } = &mut *self.connections.borrow_mut();
        let connection = Rc::downgrade(shared);
        match free.pop() {
            Some(place) => {
                places[place] = connection;
                place
            }
            None => {
                places.push(connection);
                places.len() - 1
            }
        }
    }

    /// Forgets the connection in this place, whose memory is held until then.
    fn leave(&self, place: usize) {
        let Places { places, free } = &mut *self.connections.borrow_mut();
        places[place] = Weak::new();
        free.push(place);
    }
}
