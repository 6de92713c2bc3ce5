//! The invariants of a whole connection, for tests and fuzzing.

use super::connection::H3Connection;
use super::control::EARLY;
use super::reader::FrameStage;
use super::receive::MOST_SKIPPED;
use super::stream::MessagePart;

impl H3Connection {
    /// Compares all accounts with the streams that they are of. It looks at everything, so only tests and fuzzing call it.
    pub fn check_invariants(&self) {
        self.streams.check_invariants();
        self.encoder.check_invariants();
        self.account.check_invariants();
        let (mut open, mut kept, mut blocked, mut awaited) = (0, 0, 0, 0);
        for (id, stream) in self.streams.iter() {
            open += usize::from(!stream.is_closed());
            kept += stream.fragment_len();
            blocked += usize::from(stream.is_blocked);
            awaited += usize::from(stream.is_awaited);
            debug_assert!(id < self.next_stream && id.is_of_request(), "stream {} has not begun", id.0);
            let is_skipped = self.is_not_begun(id);
            debug_assert!(!is_skipped, "stream {} has begun and would begin again", id.0);
            debug_assert!(!stream.is_closed() || stream.is_attached, "stream {} is over and still there", id.0);
            debug_assert!(!stream.is_closed() || stream.fragment.is_none(), "a stream that is over keeps fields");
            let is_in_lists = self.lists.blocked.iter().any(|(other, _)| *other == id);
            debug_assert_eq!(stream.is_blocked, is_in_lists, "stream {} would wait for ever", id.0);
            let is_waiting = stream.fragment.is_some() && stream.reader.stage == FrameStage::Type;
            let is_called = self.lists.unblocked.contains(&id);
            debug_assert!(!stream.is_blocked || is_waiting, "stream {} waits for nothing", id.0);
            debug_assert!(!is_called || is_waiting, "stream {} has nothing to go on with", id.0);
            debug_assert!(!stream.is_awaited || stream.part == MessagePart::Head, "a head is awaited that has come");
        }
        debug_assert_eq!(self.open, open, "the number of open streams is wrong");
        debug_assert_eq!(self.kept, kept, "the account of kept bytes is wrong");
        debug_assert_eq!(self.lists.blocked.len(), blocked, "a stream is blocked that is not there");
        debug_assert_eq!(self.lists.awaited.len(), awaited, "a head is awaited twice, or of no stream");
        debug_assert!(blocked <= usize::from(self.blocked_streams), "more streams are blocked than were allowed");
        let skipped = &self.lists.skipped;
        debug_assert!(skipped.len() <= MOST_SKIPPED, "more streams are skipped than the limit says");
        debug_assert!(skipped.iter().all(|(from, end)| from < end && *end < self.next_stream), "no stream is skipped");
        debug_assert!(self.lists.early.len() <= EARLY, "more priorities are kept than the limit says");
    }
}
