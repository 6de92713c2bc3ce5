//! The lines that a loop has gathered for each log file, until they are handed over to the log thread.
//!
//! Handing over costs an allocation, mostly the waking of the log thread (on one core: a switch to it and back) and its
//! `writev`, about as much as a request. Lines of a file without `buffer=` therefore wait for [`SOON`]: a loop hands
//! over at most some fifty times a second and file, or each [`SOON_SIZE`] bytes, and runs no timer while nothing waits.
//! A line costs the loop about a thousand instructions then. Where a file has no room for more, its lines are counted and not
//! made.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::time::Duration;

use freerun_runtime::log::{Destination, LogFile};
use freerun_runtime::loops;
use freerun_serve::loop_local::AddressHasher;
use freerun_serve::loop_state::LoopState;

use freerun_serve::access_log::Buffering;

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
    /// By where a file's name is in memory, for as long as something keeps it.
    files: RefCell<HashMap<usize, Gathered, BuildHasherDefault<AddressHasher>>>,
    /// Those that are opened by name.
    named: RefCell<HashMap<Box<[u8]>, Gathered>>,
    hooked: Cell<bool>,
}

/// Tells files apart.
enum Key {
    File(usize),
    Named(Box<[u8]>),
}

/// What waits for one file.
struct Gathered {
    /// Keeps the file, and so the key, in use.
    file: LogFile,
    lines: Vec<u8>,
    /// Bytes of whole lines. More are there only if a panic cut a line off.
    whole: usize,
    /// Lines that were not written because the file takes no more, and that it has not been told of.
    lost: u64,
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
    pub fn hook(self: &Rc<Self>, loop_state: &LoopState) {
        if !self.hooked.replace(true) {
            let buffers = self.clone();
            loop_state.modules.on_hand_over(move || buffers.hand_over_all());
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
        self.gather(file, wait, |gathered| {
            gathered.gzip = buffering.and_then(|buffering| buffering.gzip);
            gathered.append(limit, line);
        });
    }

    /// Appends a message to a syslog server.
    pub fn send(self: &Rc<Self>, server: &LogFile, message: impl FnOnce(&mut Vec<u8>)) {
        self.gather(server, || Some(SOON), |gathered| gathered.append_message(message));
    }

    /// Appends a line for a file that is opened by its name. `file` is the log that takes such lines.
    pub fn write_named(self: &Rc<Self>, file: &LogFile, to: Destination, line: impl FnOnce(&mut Vec<u8>)) {
        let mut files = self.named.borrow_mut();
        if files.len() >= MAX_NAMED && !files.contains_key(&*to.path) {
            hand_over_these(&mut files);
        }
        let gathered = match files.get_mut(&*to.path) {
            Some(gathered) => gathered,
            None => files.entry(to.path.as_slice().into()).or_insert_with(|| Gathered::new(file)),
        };
        // Lines keep their order, whatever document root they come with.
        if gathered.to.as_deref() != Some(&to) {
            gathered.write();
            gathered.to = Some(Box::new(to));
        }
        gathered.append_here(line);
        let path = |gathered: &Gathered| gathered.to.as_ref().map(|to| to.path.as_slice().into()).unwrap_or_default();
        self.come_back(gathered, |gathered| Key::Named(path(gathered)), || Some(SOON));
    }

    /// Gathers for one file, and has it handed over when that has been kept for the time that `wait` says.
    fn gather(
        self: &Rc<Self>,
        file: &LogFile,
        wait: impl FnOnce() -> Option<Duration>,
        append: impl FnOnce(&mut Gathered),
    ) {
        let key = file.name().as_ptr().addr();
        let mut files = self.files.borrow_mut();
        let gathered = match files.get_mut(&key) {
            Some(gathered) => gathered,
            None => files.entry(key).or_insert_with(|| Gathered::new(file)),
        };
        append(gathered);
        self.come_back(gathered, |_| Key::File(key), wait);
    }

    /// Sees to it that what was gathered is handed over in time.
    #[inline]
    fn come_back(
        self: &Rc<Self>,
        gathered: &mut Gathered,
        key: impl FnOnce(&Gathered) -> Key,
        wait: impl FnOnce() -> Option<Duration>,
    ) {
        if gathered.timed || (gathered.whole == 0 && gathered.lost == 0) {
            return;
        }
        if let Some(wait) = if gathered.lost > 0 { Some(SOON) } else { wait() } {
            gathered.timed = true;
            let (buffers, key) = (self.clone(), key(gathered));
            loops::spawn(0, "writing access logs", async move {
                freerun_runtime::timer::sleep(wait).await;
                buffers.hand_over(&key);
            });
        }
    }

    fn hand_over(&self, key: &Key) {
        // Taken out, so that a file that is no longer in use is closed.
        let gathered = match key {
            Key::File(key) => self.files.borrow_mut().remove(key),
            Key::Named(path) => self.named.borrow_mut().remove(path),
        };
        if let Some(mut gathered) = gathered {
            gathered.write();
        }
    }

    /// Hands over what all files have.
    pub fn hand_over_all(&self) {
        hand_over_these(&mut self.files.borrow_mut());
        hand_over_these(&mut self.named.borrow_mut());
    }
}

fn hand_over_these<K, S>(files: &mut HashMap<K, Gathered, S>) {
    for (_, mut gathered) in files.drain() {
        gathered.write();
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
    fn new(file: &LogFile) -> Gathered {
        Gathered {
            file: file.clone(),
            lines: Vec::new(),
            whole: 0,
            lost: 0,
            ends: Vec::new(),
            gzip: None,
            to: None,
            timed: false,
        }
    }

    /// Whether a line is lost: the file has so much to write that this many bytes more would be dropped, so they are not made
    /// in the first place.
    #[inline]
    fn loses(&mut self, limit: usize) -> bool {
        let loses = self.whole == 0 && !self.file.has_room(limit);
        self.lost += u64::from(loses);
        loses
    }

    /// Appends a line, and says where it begins.
    #[inline]
    fn append_whole(&mut self, line: impl FnOnce(&mut Vec<u8>)) -> usize {
        self.lines.truncate(self.whole);
        let start = self.whole;
        line(&mut self.lines);
        self.whole = self.lines.len();
        start
    }

    #[inline]
    fn append(&mut self, limit: usize, line: impl FnOnce(&mut Vec<u8>)) {
        if self.loses(limit) {
            return;
        }
        let start = self.append_whole(line);
        if self.whole >= limit {
            self.filled(limit, start);
        }
    }

    /// Hands over what a line that begins at `start` has filled.
    #[cold]
    fn filled(&mut self, limit: usize, start: usize) {
        let mut last = Vec::with_capacity(limit);
        if self.whole > limit && start > 0 {
            last.extend_from_slice(&self.lines[start..]);
            self.whole = start;
        }
        self.write();
        self.lines = last;
        self.whole = self.lines.len();
        if self.whole >= limit {
            self.write();
        }
    }

    /// Appends a line of a file that is opened by its name.
    fn append_here(&mut self, line: impl FnOnce(&mut Vec<u8>)) {
        if self.loses(SOON_SIZE) {
            return;
        }
        self.append_whole(line);
        if self.whole >= SOON_SIZE {
            self.write();
        }
    }

    fn append_message(&mut self, message: impl FnOnce(&mut Vec<u8>)) {
        if self.loses(SOON_SIZE) {
            return;
        }
        self.append_whole(message);
        self.ends.push(self.whole);
        if self.whole >= SOON_SIZE {
            self.write();
        }
    }

    /// Hands over. What the file cannot take any more is dropped and counted there.
    fn write(&mut self) {
        if self.lost > 0 {
            self.file.lose(std::mem::take(&mut self.lost));
        }
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
