//! Random identifiers of traces and spans (W3C Trace Context sections 3.2.2.3 and 3.2.2.4).

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

use freerun_proto::trace_context::{SpanId, TraceId};
use freerun_upstream::random::Random;

thread_local! {
    /// The generator of this thread. Its seed comes from the system, by the keys that the standard library asks for.
    static RANDOM: RefCell<Random> = RefCell::new(Random::seeded(RandomState::new().hash_one(0)));
    /// A second one: the two halves of an identifier must not follow from each other.
    static OTHER: RefCell<Random> = RefCell::new(Random::seeded(RandomState::new().hash_one(1)));
}

/// A new identifier of a trace.
pub fn new_trace_id() -> TraceId {
    loop {
        let high = RANDOM.with_borrow_mut(Random::number).to_be_bytes();
        let low = OTHER.with_borrow_mut(Random::number).to_be_bytes();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high);
        id[8..].copy_from_slice(&low);
        if id != [0; 16] {
            return id;
        }
    }
}

/// A new identifier of a span.
pub fn new_span_id() -> SpanId {
    loop {
        let id = RANDOM.with_borrow_mut(Random::number).to_be_bytes();
        if id != [0; 8] {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn identifiers_of_all_threads_differ() {
        let make = || (0..1000).map(|_| (new_trace_id(), new_span_id())).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(make)).collect();
        let all: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(all.iter().map(|(trace, _)| trace).collect::<HashSet<_>>().len(), 4000);
        assert_eq!(all.iter().map(|(_, span)| span).collect::<HashSet<_>>().len(), 4000);
    }
}
