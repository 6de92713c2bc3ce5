//! The driver of HTTP/2: the requests of a connection at the same time, each as a task of its own.
//!
//! The machine in [`freerun_proto::h2`] knows the protocol; here are the bytes, the time, and the requests. The task of a
//! connection reads and writes; tasks of requests leave what they send in the machine, and the connection's task writes it
//! together.

mod files;
mod preface;
mod request;
mod runner;
mod serve;
mod shared;
mod sink;
mod stream;
mod unsent;
mod words;
mod write;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use freerun_proto::RequestHead;
use freerun_proto::h2::ErrorCode;
use freerun_proto::h2::Spare;
use freerun_runtime::{loops, spare_memory, timer};

use crate::http_loop::HttpLoop;
use crate::protocol::h2::runner::RunnerPool;
use crate::protocol::h2::shared::{Shared, StreamPlaces};

pub use preface::{Seen, read as read_preface};
pub use request::RequestTask;
pub use serve::Serve;

/// The connections of a loop; empty places are used again.
#[derive(Default)]
struct Places {
    places: Vec<Weak<Shared>>,
    free: Vec<usize>,
}

/// How many heads of requests a loop keeps the memory of.
const KEPT_HEADS: usize = 128;

/// How many connections' places for streams a loop keeps.
const KEPT_PLACES: usize = 64;

/// How many places for streams are kept of one connection.
const MOST_PLACES: usize = 16;

/// How long a connection is left alone before it gives up what only makes its next messages shorter, and how often such
/// connections are looked for.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// How many connections are looked at before other tasks get their turn.
const LOOKED_AT: usize = 256;

/// How many connections have to give up memory for it to be worth giving it back to the system.
const MANY: usize = 256;

/// Starts the task of a request; it is polled at once, as a part of the current poll.
pub type Start = Rc<dyn Fn(u64, RequestTask)>;

/// The state that the connections of HTTP/2 share on a loop.
pub struct Driver {
    http: Rc<HttpLoop>,
    start: Start,
    /// The unused runners.
    runners: RunnerPool,
    /// The memory for heads of requests.
    #[expect(clippy::vec_box, reason = "each is handed over in its box")]
    heads: RefCell<Vec<Box<RequestHead>>>,
    /// The buffer that all connections read into.
    read: RefCell<Vec<u8>>,
    /// The memory that connections without streams have left.
    spare: RefCell<Spare>,
    /// The places for streams that they have left.
    spare_places: RefCell<Vec<StreamPlaces>>,
    /// The connections, each in a place of its own.
    connections: RefCell<Places>,
}

impl Driver {
    /// The driver of one loop. `start` starts the tasks of requests.
    pub fn new(http: Rc<HttpLoop>, start: Start) -> Rc<Driver> {
        let (runners, heads, read, spare, spare_places, connections) = Default::default();
        let driver = Rc::new(Driver { http, start, runners, heads, read, spare, spare_places, connections });
        loops::spawn(0, "hibernating", Driver::hibernate(Rc::downgrade(&driver)));
        driver
    }

    /// Has connections that were left alone for long give up memory, as long as the driver lives.
    async fn hibernate(driver: Weak<Driver>) {
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

    /// Tells the clients of all connections which of their streams was the last one that has begun.
    pub fn finish(&self) {
        let connections: Vec<_> = self.connections.borrow().places.iter().filter_map(Weak::upgrade).collect();
        connections.iter().for_each(|shared| shared.with(|machine| machine.finish(ErrorCode::NO_ERROR)));
    }

    /// Memory for the head of a request, if there is any.
    fn spare_head(&self) -> Option<Box<RequestHead>> {
        self.heads.borrow_mut().pop()
    }

    /// Keeps the memory of a head for a later request.
    fn keep_head(&self, head: Option<Box<RequestHead>>) {
        let mut heads = self.heads.borrow_mut();
        if heads.len() < KEPT_HEADS {
            heads.extend(head);
        }
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
    fn enter(&self, shared: &Rc<Shared>) -> usize {
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
