//! Who writes to temporary files: a few at a time of all flows of a loop, for each file system.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many flows of a loop read for their files and write at the same time, on one file system. The others wait, each with what
/// its client has not taken, and nothing else: thousands of them would have each a piece that waits for a thread, and all of these
/// threads at work leave little of the processor to the loop. As long as these writes hang, what the others have read is what their
/// clients take; those who write to another file system do not notice.
const WRITING: usize = 3;

thread_local! {
    /// By device number. Bounded by the mounts that folders for temporary files are on.
    static OF_MOUNTS: RefCell<HashMap<u64, Arc<Semaphore>>> = RefCell::default();
}

/// Those who write to one file system.
#[derive(Clone)]
pub struct Turns(Arc<Semaphore>);

/// Permission to write, until it is dropped.
pub struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

/// This loop's turns on the file system with a device number.
pub fn of(mount: u64) -> Turns {
    OF_MOUNTS
        .with_borrow_mut(|all| Turns(all.entry(mount).or_insert_with(|| Arc::new(Semaphore::new(WRITING))).clone()))
}

impl Turns {
    /// Waits for a turn.
    pub async fn next(self) -> Turn {
        // Never closed.
        Turn { _permit: self.0.acquire_owned().await.ok() }
    }
}
