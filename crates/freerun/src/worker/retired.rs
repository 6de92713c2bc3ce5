//! Configurations that are being taken down.
//!
//! The thread that drops the last reference to one has to take it down: a map with a million entries, or a database of
//! a gigabyte, keeps it busy for long. Without this module that thread would be an event loop, at the end of the last
//! request of an old configuration.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// How long a configuration that is not used any more may stay in memory.
const STEP: Duration = Duration::from_secs(1);

/// Values that were replaced and may still be in use.
pub struct Retired<T>(RefCell<Vec<Arc<T>>>);

impl<T> Retired<T> {
    /// An empty list.
    pub fn new() -> Retired<T> {
        Retired(RefCell::default())
    }

    /// Keeps a value until it has no other references.
    pub fn keep(&self, old: Arc<T>) {
        self.0.borrow_mut().push(old);
    }

    /// Takes down the values without other references, each after `tell` was told of it. `Some`: there are more; call
    /// again after this time.
    pub fn sweep(&self, tell: impl Fn(&T)) -> Option<Duration> {
        let mut retired = self.0.borrow_mut();
        let (used, unused) = retired.drain(..).partition(|old| Arc::strong_count(old) > 1);
        *retired = used;
        let unused: Vec<Arc<T>> = unused;
        unused.iter().for_each(|old| tell(old));
        (!retired.is_empty()).then_some(STEP)
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
        let (retired, old) = (Retired::new(), Arc::new(Tells(tell)));
        retired.keep(old.clone());
        assert_eq!(retired.sweep(|_| panic!("it is in use")), Some(STEP));
        thread::spawn(move || drop(old)).join().unwrap();
        assert!(told.try_recv().is_err(), "not there");
        assert_eq!(retired.sweep(|_| {}), None);
        assert_eq!(told.try_recv(), Ok(thread::current().id()));
    }
}
