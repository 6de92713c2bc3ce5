//! Limits the writers of temporary files: a few flows of a loop at a time for each file system.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of flows of a loop that read for their files and write at the same time, on one file system.
///
/// The others wait, and each holds only the bytes that its client has not taken. Otherwise each of thousands of flows
/// would have a piece that waits for a thread. With all these threads at work the loop would get little of the
/// processor. While the writes hang, the other flows read only as much as their clients take; flows that write to
/// another file system are not affected.
const WRITING: usize = 3;

thread_local! {
    /// The semaphores, by device number. Their number is bounded by the mounts that folders for temporary files are on.
    static OF_MOUNTS: RefCell<HashMap<u64, Arc<Semaphore>>> = RefCell::default();
}

/// The turns for writing to one file system.
#[derive(Clone)]
pub struct Turns(Arc<Semaphore>);

/// A permit to write, until it is dropped.
pub struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

/// The turns of this loop for the file system with this device number.
pub fn of(mount: u64) -> Turns {
    OF_MOUNTS
        .with_borrow_mut(|all| Turns(all.entry(mount).or_insert_with(|| Arc::new(Semaphore::new(WRITING))).clone()))
}

impl Turns {
    /// Waits for a turn.
    pub async fn next(self) -> Turn {
        // The semaphore is never closed.
        Turn { _permit: self.0.acquire_owned().await.ok() }
    }
}
