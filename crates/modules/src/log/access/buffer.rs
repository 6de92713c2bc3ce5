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
use freerun_runtime::log::{Destination, LogFile};
use freerun_runtime::loops;

use super::setting::Buffering;

/// For how long at most a line waits where no buffer is asked for.
pub const SOON: Duration = Duration::from_millis(20);
/// Lines of a file without `buffer=` are handed over at the latest when they are this long.
pub const SOON_SIZE: usize = 64 * 1024;
/// The most that is gathered, whatever `buffer=` says: a fraction of what the log thread takes for one file, so that all
/// loops may hand over at the same time.
pub const MAX_SIZE: usize = 256 * 1024;

/// Of how many files with variables in their paths lines are gathered at the same time.
pub const MAX_NAMED: usize = 1024;

/// Lines not yet handed over, of one loop.
#[derive(Default)]
pub struct Buffers {
    files: RefCell<HashMap<Key, Gathered>>,
    hooked: Cell<bool>,
}

/// Tells files apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// Where a file's name is in memory, for as long as something keeps it.
    File(usize),
    /// A file that is opened by its name.
    Named(Box<[u8]>),
}

impl Key {
    fn of(file: &LogFile) -> Key {
        Key::File(file.name().as_ptr().addr())
    }
}

/// What waits for one file.
struct Gathered {
    /// Keeps the file, and so the key, in use.
    file: LogFile,
    lines: Vec<u8>,
    /// Bytes of whole lines. More are there only if a panic cut a line off.
    whole: usize,
    /// Where messages end, if these are messages.
    ends: Vec<usize>,
    /// The level to pack at.
    gzip: Option<u8>,
    /// The file, if it is to be opened by its name.
    to: Option<Box<Destination>>,
    /// Whether a task waits to hand over.
    timed: bool,
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
        let limit = buffering.map_or(SOON_SIZE, |buffering| capped(buffering.size));
        let wait = move || match buffering {
            None => Some(SOON),
            Some(Buffering { flush: Some(flush), .. }) => Some(flush),
            Some(_) => outdated().then_some(SOON),
        };
        self.gather(Key::of(file), file, wait, |gathered| {
            gathered.gzip = buffering.and_then(|buffering| buffering.gzip);
            gathered.append(limit, line);
        });
    }

    /// Appends a message to a syslog server.
    pub fn send(self: &Rc<Self>, server: &LogFile, message: impl FnOnce(&mut Vec<u8>)) {
        self.gather(Key::of(server), server, || Some(SOON), |gathered| gathered.append_message(message));
    }

    /// Appends a line for a file that is opened by its name. `file` is the log that takes such lines.
    pub fn write_named(self: &Rc<Self>, file: &LogFile, to: Destination, line: impl FnOnce(&mut Vec<u8>)) {
        let key = Key::Named(to.path.as_slice().into());
        let is_full = {
            let files = self.files.borrow();
            files.len() >= MAX_NAMED && !files.contains_key(&key)
        };
        if is_full {
            self.hand_over_named();
        }
        self.gather(
            key,
            file,
            || Some(SOON),
            |gathered| {
                // Lines keep their order, whatever document root they come with.
                if gathered.to.as_deref() != Some(&to) {
                    gathered.write();
                    gathered.to = Some(Box::new(to));
                }
                gathered.append_whole(line);
                if gathered.whole >= SOON_SIZE {
                    gathered.write();
                }
            },
        );
    }

    /// Gathers for one file, and has it handed over when that has been kept for the time that `wait` says.
    fn gather(
        self: &Rc<Self>,
        key: Key,
        file: &LogFile,
        wait: impl FnOnce() -> Option<Duration>,
        append: impl FnOnce(&mut Gathered),
    ) {
        let mut files = self.files.borrow_mut();
        let gathered = match files.get_mut(&key) {
            Some(gathered) => gathered,
            None => files.entry(key.clone()).or_insert_with(|| Gathered {
                file: file.clone(),
                lines: Vec::new(),
                whole: 0,
                ends: Vec::new(),
                gzip: None,
                to: None,
                timed: false,
            }),
        };
        append(gathered);
        if gathered.whole > 0
            && !gathered.timed
            && let Some(wait) = wait()
        {
            gathered.timed = true;
            let buffers = self.clone();
            loops::spawn(0, "writing access logs", async move {
                tokio::time::sleep(wait).await;
                buffers.hand_over(&key);
            });
        }
    }

    fn hand_over(&self, key: &Key) {
        // Taken out, so that a file that is no longer in use is closed.
        if let Some(mut gathered) = self.files.borrow_mut().remove(key) {
            gathered.write();
        }
    }

    fn hand_over_named(&self) {
        for (_, mut gathered) in self.files.borrow_mut().extract_if(|key, _| matches!(key, Key::Named(_))) {
            gathered.write();
        }
    }

    /// Hands over what all files have.
    pub fn hand_over_all(&self) {
        for (_, mut gathered) in self.files.borrow_mut().drain() {
            gathered.write();
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
    /// Appends a line, and says where it begins.
    fn append_whole(&mut self, line: impl FnOnce(&mut Vec<u8>)) -> usize {
        self.lines.truncate(self.whole);
        let start = self.whole;
        line(&mut self.lines);
        self.whole = self.lines.len();
        start
    }

    fn append(&mut self, limit: usize, line: impl FnOnce(&mut Vec<u8>)) {
        let start = self.append_whole(line);
        if self.whole > limit && start > 0 {
            let last = self.lines.split_off(start);
            self.whole = start;
            self.write();
            self.lines = last;
            self.whole = self.lines.len();
        }
        if self.whole >= limit {
            self.write();
        }
    }

    fn append_message(&mut self, message: impl FnOnce(&mut Vec<u8>)) {
        self.append_whole(message);
        self.ends.push(self.whole);
        if self.whole >= SOON_SIZE {
            self.write();
        }
    }

    /// Hands over. What the file cannot take any more is dropped and counted there.
    fn write(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.truncate(std::mem::take(&mut self.whole));
        let ends = std::mem::take(&mut self.ends);
        if lines.is_empty() {
            return;
        }
        match (&self.to, self.gzip) {
            _ if !ends.is_empty() => self.file.write_messages(lines, &ends),
            (Some(to), _) => {
                self.file.write_named(to.as_ref().clone(), lines);
            }
            (None, Some(level)) => {
                self.file.write_packed(lines, level);
            }
            (None, None) => {
                self.file.write(lines);
            }
        }
    }
}
