//! Configurations that are being taken down.
//!
//! The thread that drops the last reference to a configuration has to take it down. A map with a million entries, or a
//! database of a gigabyte, keeps it busy for long. Without this module that thread would be an event loop, at the end
//! of the last request of an old configuration.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval at which configurations without references are taken down.
const STEP: Duration = Duration::from_secs(1);

/// Values that were replaced and may still be in use.
pub struct RetiredValues<T>(RefCell<Vec<Old<T>>>);

/// A value that was replaced.
struct Old<T> {
    value: Arc<T>,
    /// The time until which its use may go on for long; `None` once that has passed, too.
    until: Option<Instant>,
}

impl<T> RetiredValues<T> {
    /// An empty list.
    pub fn new() -> RetiredValues<T> {
        RetiredValues(RefCell::default())
    }

    /// Keeps a value until it has no other references. `until` is the time from which on [`RetiredValues::overdue`] names it.
    pub fn keep(&self, value: Arc<T>, until: Option<Instant>) {
        self.0.borrow_mut().push(Old { value, until });
    }

    /// The values whose time is up, each once.
    pub fn overdue(&self, now: Instant) -> Vec<Arc<T>> {
        let mut retired = self.0.borrow_mut();
        let late = |old: &mut Old<T>| old.until.take_if(|until| *until <= now).map(|_| old.value.clone());
        retired.iter_mut().filter_map(late).collect()
    }

    /// Takes down the values without other references, each after `tell` was told of it. `Some`: there are more; call
    /// again after this time.
    pub fn sweep(&self, tell: impl Fn(&T)) -> Option<Duration> {
        let mut retired = self.0.borrow_mut();
        let (used, unused) = retired.drain(..).partition(|old| Arc::strong_count(&old.value) > 1);
        *retired = used;
        let unused: Vec<Old<T>> = unused;
        unused.iter().for_each(|old| tell(&old.value));
        let next = retired.iter().filter_map(|old| old.until).min();
        let next = next.map_or(STEP, |until| until.saturating_duration_since(Instant::now()).min(STEP));
        (!retired.is_empty()).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{self, ThreadId};

    struct Tells(Sender<ThreadId>);

    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().id());
        }
    }

    #[test]
    fn what_others_let_go_of_is_taken_down_here() {
        let (tell, told) = channel();
        let (retired, old) = (RetiredValues::new(), Arc::new(Tells(tell)));
        retired.keep(old.clone(), None);
        assert_eq!(retired.sweep(|_| panic!("it is in use")), Some(STEP));
        thread::spawn(move || drop(old)).join().unwrap();
        assert!(told.try_recv().is_err(), "not there");
        assert_eq!(retired.sweep(|_| {}), None);
        assert_eq!(told.try_recv(), Ok(thread::current().id()));
    }

    #[test]
    fn a_value_whose_time_is_up_is_named_once() {
        let (retired, old, other) = (RetiredValues::new(), Arc::new(1), Arc::new(2));
        let now = Instant::now();
        retired.keep(old.clone(), Some(now + STEP));
        retired.keep(other.clone(), None);
        let late = |now| retired.overdue(now).iter().map(|value| **value).collect::<Vec<u32>>();
        assert!(late(now).is_empty());
        assert!(retired.sweep(|_| {}).is_some_and(|next| next <= STEP));
        assert_eq!(late(now + STEP), [1]);
        assert!(late(now + STEP).is_empty());
        assert_eq!(retired.sweep(|_| {}), Some(STEP));
        drop((old, other));
        assert_eq!(retired.sweep(|_| {}), None);
    }
}
