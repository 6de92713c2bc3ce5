//! Memory that connections without streams leave to those that have some. An idle connection holds next to none, and a
//! connection that begins a stream need not ask the allocator for it.

use super::connection::Connection;
use super::out::Out;
use super::schedule::Schedule;
use super::stream::StreamTable;

/// The number of connections whose memory is kept.
const KEPT: usize = 64;

/// For how many streams a connection at rest keeps room in its lists.
const FEW: usize = 8;

/// The largest table of streams that is kept: a table of a few streams.
const LARGEST_TABLE: usize = 16;

/// Memory that one connection has left.
#[derive(Debug, Default)]
struct IdleMemory {
    streams: StreamTable,
    schedule: Schedule,
    out: Out,
}

/// The memory that connections have left, of one loop.
#[derive(Debug, Default)]
pub struct MemoryPool(Vec<IdleMemory>);

impl Connection {
    /// Leaves memory that is not needed while there is no stream. Whatever is in use stays.
    pub fn release_memory(&mut self, spare: &mut MemoryPool) {
        let mut left = IdleMemory::default();
        if self.streams.used() == 0 {
            left.streams = std::mem::take(&mut self.streams);
        }
        if self.out.pending() == 0 {
            left.out = std::mem::take(&mut self.out);
        }
        if self.schedule.is_empty() {
            left.schedule = std::mem::take(&mut self.schedule);
        }
        self.lists.shrink_to(FEW);
        let is_worth_it = left.out.heap_bytes() > 0 && left.streams.places() <= LARGEST_TABLE;
        debug_assert!(spare.0.len() <= KEPT, "more memory is kept than the limit says");
        if spare.0.len() < KEPT && is_worth_it {
            spare.0.push(left);
        }
    }

    /// Gives up what only makes the next messages shorter, if nothing has come since this time (in milliseconds) and
    /// nothing goes on. This is the table of fields that were sent (the next block has the peer empty its table, too),
    /// and how the last streams have ended. Returns whether there was anything.
    pub fn hibernate(&mut self, since: u64) -> bool {
        let has_nothing = self.encoder.heap_bytes() == 0 && self.lists.heap_bytes() == 0;
        if has_nothing || self.now > since || !self.is_idle() || self.streams.used() > 0 {
            return false;
        }
        let had_table = self.encoder.heap_bytes() > 0;
        self.encoder.forget();
        self.decoder.shrink();
        self.lists.forget() || had_table
    }

    /// Takes memory that another connection has left, before anything is done after [`Connection::release_memory`].
    pub fn reuse_memory(&mut self, spare: &mut MemoryPool) {
        let Some(left) = spare.0.pop() else { return };
        debug_assert!(left.streams.used() == 0 && left.schedule.is_empty(), "another connection's streams are left");
        debug_assert_eq!(left.out.pending(), 0, "another connection's bytes are left");
        if self.streams.used() == 0 {
            self.streams = left.streams;
        }
        if self.schedule.is_empty() {
            self.schedule = left.schedule;
        }
        if self.out.pending() == 0 {
            self.out = left.out;
        }
    }
}
