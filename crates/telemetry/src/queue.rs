//! Spans on their way from the loops to the exporter.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crossbeam_queue::SegQueue;
use tokio::sync::Notify;

/// The most bytes of spans in a queue, however many they are.
const MAX_BYTES: usize = 16 << 20;

/// The most bytes of the spans of a batch: collectors take messages of 4 MiB by default.
pub(crate) const MAX_BATCH_BYTES: usize = 3 << 20;

const _: () = assert!(MAX_BATCH_BYTES < MAX_BYTES, "a full queue has a whole batch");

/// A queue of encoded spans, with a bound for their number and for their bytes. Loops put spans into it without waiting; the
/// exporter takes them out.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    spans: SegQueue<Box<[u8]>>,
    /// Numbers of spans and bytes, raised before a span comes in and lowered after it has left.
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// The most spans.
    most: AtomicUsize,
    /// The number of spans at which the exporter is woken.
    batch: AtomicUsize,
    /// Wakes the exporter.
    pub(crate) bell: Notify,
}

impl SpanQueue {
    /// A queue that takes nothing until [`SpanQueue::set_bounds`].
    pub(crate) fn new() -> SpanQueue {
        let zero = AtomicUsize::default;
        SpanQueue {
            spans: SegQueue::new(),
            count: zero(),
            bytes: zero(),
            most: zero(),
            batch: zero(),
            bell: Notify::new(),
        }
    }

    /// Sets the most spans, and how many make a batch.
    pub(crate) fn set_bounds(&self, most: usize, batch: usize) {
        self.most.store(most, Relaxed);
        self.batch.store(batch, Relaxed);
    }

    /// Puts a span into the queue, and wakes the exporter when a batch is there. `false`: there was no room.
    pub(crate) fn push(&self, span: Box<[u8]>) -> bool {
        let len = span.len();
        let bytes = self.bytes.fetch_add(len, Relaxed).saturating_add(len);
        let count = self.count.fetch_add(1, Relaxed) + 1;
        if count > self.most.load(Relaxed) || bytes > MAX_BYTES {
            self.left(len);
            return false;
        }
        self.spans.push(span);
        let batch = self.batch.load(Relaxed);
        if count == batch || bytes / MAX_BATCH_BYTES > (bytes - len) / MAX_BATCH_BYTES {
            self.bell.notify_one();
        }
        true
    }

    fn left(&self, len: usize) {
        let count = self.count.fetch_sub(1, Relaxed);
        let bytes = self.bytes.fetch_sub(len, Relaxed);
        debug_assert!(count > 0 && bytes >= len, "a span has left that has never come");
    }

    /// The number of spans.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Whether a whole batch is there.
    pub(crate) fn has_batch(&self) -> bool {
        self.len() >= self.batch.load(Relaxed).max(1) || self.bytes.load(Relaxed) >= MAX_BATCH_BYTES
    }

    /// Takes the next batch out; it has no spans if there are none.
    pub(crate) fn take_batch(&self) -> Vec<Box<[u8]>> {
        let most = self.batch.load(Relaxed).max(1);
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < most && bytes < MAX_BATCH_BYTES {
            let Some(span) = self.spans.pop() else { break };
            self.left(span.len());
            bytes += span.len();
            taken.push(span);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(len: usize) -> Box<[u8]> {
        vec![0; len].into()
    }

    #[test]
    fn a_queue_takes_as_many_spans_as_it_has_room_for() {
        let queue = SpanQueue::new();
        assert!(!queue.push(span(1)), "nobody exports");
        queue.set_bounds(3, 2);
        assert!(queue.push(span(1)) && !queue.has_batch());
        assert!(queue.push(span(1)) && queue.has_batch());
        assert!(queue.push(span(1)) && !queue.push(span(1)));
        assert_eq!((queue.len(), queue.take_batch().len(), queue.len()), (3, 2, 1));
        assert_eq!((queue.take_batch().len(), queue.take_batch().len()), (1, 0));
        assert_eq!(queue.bytes.load(Relaxed), 0);
    }

    #[test]
    fn bytes_have_a_bound_in_the_queue_and_in_a_batch() {
        let queue = SpanQueue::new();
        queue.set_bounds(usize::MAX, usize::MAX);
        let mebibytes = (0..100).take_while(|_| queue.push(span(1 << 20))).count();
        assert_eq!(mebibytes, MAX_BYTES >> 20);
        assert!(queue.has_batch());
        assert_eq!(queue.take_batch().len(), MAX_BATCH_BYTES >> 20);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        const EACH: usize = 2000;
        let queue = SpanQueue::new();
        queue.set_bounds(100, 10);
        let pushed = std::thread::scope(|scope| {
            let fill = || (0..EACH).filter(|_| queue.push(span(7))).count();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(fill)).collect();
            let mut taken = 0;
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                taken += queue.take_batch().len();
            }
            let pushed: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            loop {
                match queue.take_batch().len() {
                    0 => break,
                    more => taken += more,
                }
            }
            assert_eq!(taken, pushed);
            pushed
        });
        assert!(pushed >= 100 && queue.len() == 0 && queue.bytes.load(Relaxed) == 0);
    }
}
