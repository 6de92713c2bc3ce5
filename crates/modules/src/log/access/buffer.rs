//! The lines that a loop has gathered for each log file, until they are handed over to the log thread.
//!
//! Handing over costs an allocation, mostly the waking of the log thread (on one core: a switch to it and back) and its
//! `writev`, about as much as a request. Lines of a file without `buffer=` therefore wait for [`SOON`]: a loop hands
//! over at most some fifty times a second and file, or each [`SOON_SIZE`] bytes, and runs no timer while nothing waits.
//! Measured with 8 to 32 connections, a request then costs about 0.5 µs more than without a log.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use freerun_http::worker::LoopState;
use freerun_runtime::log::LogFile;
use freerun_runtime::loops;

use super::setting::Buffering;

/// For how long at most a line waits where no buffer is asked for.
pub const SOON: Duration = Duration::from_millis(20);
/// Lines of a file without `buffer=` are handed over at the latest when they are this long.
pub const SOON_SIZE: usize = 64 * 1024;
/// The most that is gathered, whatever `buffer=` says: a fraction of what the log thread takes for one file, so that all
/// loops may hand over at the same time.
pub const MAX_SIZE: usize = 256 * 1024;

/// Lines not yet handed over, of one loop.
#[derive(Default)]
pub struct Buffers {
    files: RefCell<HashMap<usize, Gathered>>,
    hooked: Cell<bool>,
}

/// What waits for one file.
struct Gathered {
    /// Keeps the file, and so the key, in use.
    file: LogFile,
    lines: Vec<u8>,
    /// Bytes of whole lines. More are there only if a panic cut a line off.
    whole: usize,
    /// Whether a task waits to hand over.
    timed: bool,
}

/// Tells files apart: where a file's name is in memory, for as long as something keeps it.
fn key(file: &LogFile) -> usize {
    file.name().as_ptr().addr()
}

impl Buffers {
    /// Has this handed over when the loop wants it.
    pub fn hook(self: &Rc<Self>, home: &LoopState) {
        if !self.hooked.replace(true) {
            let buffers = self.clone();
            home.on_hand_over(move || buffers.hand_over_all());
        }
    }

    /// Appends a line. `outdated` tells whether the configuration of its request has been replaced.
    pub fn write(
        self: &Rc<Self>,
        file: &LogFile,
        buffering: Option<Buffering>,
        outdated: impl FnOnce() -> bool,
        line: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut files = self.files.borrow_mut();
        let gathered = files.entry(key(file)).or_insert_with(|| Gathered {
            file: file.clone(),
            lines: Vec::new(),
            whole: 0,
            timed: false,
        });
        let limit = buffering.map_or(SOON_SIZE, |buffering| capped(buffering.size));
        gathered.append(limit, line);
        if gathered.whole > 0 && !gathered.timed {
            let wait = match buffering {
                None => Some(SOON),
                Some(Buffering { flush: Some(flush), .. }) => Some(flush),
                Some(_) => outdated().then_some(SOON),
            };
            if let Some(wait) = wait {
                gathered.timed = true;
                let (buffers, key) = (self.clone(), key(file));
                loops::spawn(0, "writing access logs", async move {
                    tokio::time::sleep(wait).await;
                    buffers.hand_over(key);
                });
            }
        }
    }

    fn hand_over(&self, key: usize) {
        // Taken out, so that a file that is no longer in use is closed.
        if let Some(mut gathered) = self.files.borrow_mut().remove(&key) {
            gathered.hand_over();
        }
    }

    /// Hands over what all files have.
    pub fn hand_over_all(&self) {
        for (_, mut gathered) in self.files.borrow_mut().drain() {
            gathered.hand_over();
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.hand_over_all();
    }
}

fn capped(size: u64) -> usize {
    usize::try_from(size).unwrap_or(MAX_SIZE).min(MAX_SIZE)
}

impl Gathered {
    fn append(&mut self, limit: usize, line: impl FnOnce(&mut Vec<u8>)) {
        self.lines.truncate(self.whole);
        let start = self.whole;
        line(&mut self.lines);
        self.whole = self.lines.len();
        if self.whole > limit && start > 0 {
            let last = self.lines.split_off(start);
            self.whole = start;
            self.hand_over();
            self.lines = last;
            self.whole = self.lines.len();
        }
        if self.whole >= limit {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.truncate(std::mem::take(&mut self.whole));
        // What the file cannot take any more is dropped and counted there.
        self.file.write(lines);
    }
}
