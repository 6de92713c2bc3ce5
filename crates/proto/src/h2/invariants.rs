//! The invariants of a whole connection, for tests and fuzzing.

use super::connection::{Connection, REMEMBERED};
use super::frame::LARGEST_WINDOW;
use super::stream::Slot;
use super::windows::LARGEST_GROWTH;

impl Connection {
    /// Compares all accounts with the streams that they are of. It looks at everything, so only tests and fuzzing call it.
    pub fn check_invariants(&self) {
        self.streams.check_invariants();
        self.out.check_invariants();
        let mut queued = 0;
        let mut grown = 0;
        for slot in (0..self.streams.places()).map(|place| Slot(place as u32)) {
            let times = self.schedule.check_invariants(slot);
            let Some(stream) = self.streams.get(slot) else {
                debug_assert_eq!(times, 0, "an empty place waits for its turn");
                continue;
            };
            queued += stream.queued;
            grown += stream.grown;
            debug_assert!(stream.id <= self.last_stream, "stream {} has not begun", stream.id);
            debug_assert_eq!(
                times,
                usize::from(stream.is_ready),
                "stream {} is in the queues {times} times",
                stream.id
            );
            let is_listed = self.lists.unended.iter().any(|(other, _)| *other == slot);
            debug_assert!(!is_listed || stream.is_unended, "stream {} waits for an end that came", stream.id);
            debug_assert!(self.failure.is_none() || stream.is_reset, "a stream goes on after the failure");
        }
        debug_assert_eq!(self.queued, queued, "the account of queued bytes is wrong");
        debug_assert!(self.failure.is_some() || self.grown == grown, "the account of windows is wrong");
        debug_assert!(self.grown <= LARGEST_GROWTH, "windows have grown beyond their limit");
        debug_assert!(self.lists.closed.len() <= REMEMBERED, "more streams are remembered than the limit says");
        debug_assert!(self.owed < LARGEST_WINDOW / 2, "the peer was not told of what was read");
        let is_right = self.send_window <= i64::from(LARGEST_WINDOW);
        debug_assert!(is_right || self.failure.is_some(), "the connection's window is too large");
        debug_assert!(self.failure.is_none() || self.schedule.is_empty(), "something is sent after the failure");
        self.account.check_invariants();
    }
}
