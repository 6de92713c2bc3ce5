//! Which of many connections have something to do.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Most events answered at once.
const MOST_EVENTS: usize = 256;

/// Something has happened on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// The number it was added with.
    pub index: usize,
    /// Whether the peer has ended it, or it has failed.
    pub hung_up: bool,
}

/// An epoll instance. Connections leave it when they are closed.
#[derive(Debug)]
pub struct Poller(OwnedFd);

impl Poller {
    /// Without connections.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Adds a connection, edge-triggered: after an event, its owner has to do all that can be done.
    pub fn add(&self, socket: impl AsFd, index: usize) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.0, socket, EventData::new_u64(index as u64), flags)?)
    }

    /// Waits until something happens, for `limit` at most, which may be microseconds; then answers what has happened, into `ready`.
    /// An event of a connection that has been closed since may be one of another with the same number: it does no harm to
    /// look at that.
    pub fn wait(&self, limit: Duration, ready: &mut Vec<Readiness>) -> io::Result<()> {
        ready.clear();
        self.collect(ready)?;
        if ready.is_empty() && !limit.is_zero() {
            // Epoll counts in milliseconds.
            let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.collect(ready)?;
        }
        Ok(())
    }

    fn collect(&self, ready: &mut Vec<Readiness>) -> io::Result<()> {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; MOST_EVENTS];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let events = match epoll::wait(&self.0, &mut events, Some(&now)) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let gone = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        ready.extend(events.iter().map(|event| {
            let (data, flags) = (event.data, event.flags);
            Readiness { index: data.u64() as usize, hung_up: flags.intersects(gone) }
        }));
        Ok(())
    }
}
