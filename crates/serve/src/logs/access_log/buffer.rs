//! The lines that a loop has gathered for each log file, until they are handed over to the log thread.
//!
//! A hand-over costs an allocation, usually the waking of the log thread (on one core: a switch to it and back) and its
//! `writev`, about as much as a request. Lines of a file without `buffer=` therefore wait for [`SOON`]. A loop hands over
//! at most some fifty times a second for each file, or each [`SOON_SIZE`] bytes, and runs no timer while no lines wait. A line costs the loop about a thousand instructions then. If a file has no room for more, its lines are
//! counted but not made. Lines of files that are opened by their names wait for no more than other tasks that are ready.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::time::Duration;

use freerun_runtime::log::{Destination, LogFile};
use freerun_runtime::loops;

use super::setting::Buffering;
use crate::loops::local::AddressHasher;
use crate::loops::state::LoopState;

/// The longest time that a line waits if the directive has no `buffer=`.
pub const SOON: Duration = Duration::from_millis(20);
/// The number of bytes at which the lines of a file without `buffer=` are handed over at the latest.
pub const SOON_SIZE: usize = 64 * 1024;
/// The most bytes that are gathered, whatever `buffer=` says: a fraction of the log thread's limit for one file, so
/// that all loops may hand over at the same time.
pub const MAX_SIZE: usize = 256 * 1024;

/// The most files with variables in their paths for which lines are gathered at the same time.
pub const MAX_NAMED: usize = 1024;

/// The lines of one loop that are not handed over yet.
#[derive(Default)]
pub struct Buffers {
    /// The lines by the address of a file's name in memory, which stays valid as long as the name is referenced.
    files: RefCell<HashMap<usize, GatheredLines, BuildHasherDefault<AddressHasher>>>,
    /// The lines of files that are opened by name.
    named: RefCell<HashMap<Box<[u8]>, GatheredLines>>,
    hooked: Cell<bool>,
}

/// The identity of a file.
enum FileKey {
    File(usize),
    Named(Box<[u8]>),
}

/// The lines that wait for one file.
struct GatheredLines {
    /// The file; the reference keeps the key valid.
    file: LogFile,
    lines: Vec<u8>,
    /// The number of bytes of whole lines. There are more bytes only if a panic cut a line off.
    whole: usize,
    /// The number of lines that were dropped because the file accepts no more, and not reported to it yet.
    lost: u64,
    /// The ends of the messages, if these are messages.
    ends: Vec<usize>,
    /// The level of compression.
    gzip: Option<u8>,
    /// The file to open, if it is opened by its name.
    to: Option<Box<Destination>>,
    /// Whether a task waits to hand over.
    timed: bool,
}

impl Buffers {
    /// Registers the hand-over with the loop.
    pub fn hook(self: &Rc<Self>, loop_state: &LoopState) {
        if !self.hooked.replace(true) {
            let buffers = self.clone();
            loop_state.modules.on_hand_over(move || buffers.hand_over_all());
        }
    }

    /// Appends a line. `outdated`: whether the configuration of its request has been replaced.
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

    /// Appends a line for a file that is opened by its name. `file` is the log for such lines; `about` says whom the line is
    /// about, for the error log.
    pub fn write_named(
        self: &Rc<Self>,
        file: &LogFile,
        to: Destination,
        about: impl FnOnce() -> String,
        line: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut files = self.named.borrow_mut();
        if files.len() >= MAX_NAMED && !files.contains_key(&*to.path) {
            hand_over_these(&mut files);
        }
        let gathered = match files.get_mut(&*to.path) {
            Some(gathered) => gathered,
            None => files.entry(to.path.as_slice().into()).or_insert_with(|| GatheredLines::new(file)),
        };
        // Lines keep their order, whatever document root they come with.
        if !gathered.to.as_ref().is_some_and(|known| known.is_same_file(&to)) {
            gathered.write();
        }
        if gathered.lines.is_empty() {
            gathered.to = Some(Box::new(Destination { about: about(), ..to }));
        }
        gathered.append_here(line);
        let path =
            |gathered: &GatheredLines| gathered.to.as_ref().map(|to| to.path.as_slice().into()).unwrap_or_default();
        // The files are opened and closed as lines come: a folder that is moved away takes no line that comes after it.
        self.come_back(gathered, |gathered| FileKey::Named(path(gathered)), || Some(Duration::ZERO));
    }

    /// Gathers lines for one file, and hands them over at the latest after the time `wait`.
    fn gather(
        self: &Rc<Self>,
        file: &LogFile,
        wait: impl FnOnce() -> Option<Duration>,
        append: impl FnOnce(&mut GatheredLines),
    ) {
        let key = file.name().as_ptr().addr();
        let mut files = self.files.borrow_mut();
        let gathered = match files.get_mut(&key) {
            Some(gathered) => gathered,
            None => files.entry(key).or_insert_with(|| GatheredLines::new(file)),
        };
        append(gathered);
        self.come_back(gathered, |_| FileKey::File(key), wait);
    }

    /// Makes sure that the gathered lines are handed over in time.
    #[inline]
    fn come_back(
        self: &Rc<Self>,
        gathered: &mut GatheredLines,
        key: impl FnOnce(&GatheredLines) -> FileKey,
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

    fn hand_over(&self, key: &FileKey) {
        // Taken out, so that a file that is no longer in use is closed.
        let gathered = match key {
            FileKey::File(key) => self.files.borrow_mut().remove(key),
            FileKey::Named(path) => self.named.borrow_mut().remove(path),
        };
        if let Some(mut gathered) = gathered {
            gathered.write();
        }
    }

    /// Hands over the lines of all files.
    pub fn hand_over_all(&self) {
        hand_over_these(&mut self.files.borrow_mut());
        hand_over_these(&mut self.named.borrow_mut());
    }
}

fn hand_over_these<K, S>(files: &mut HashMap<K, GatheredLines, S>) {
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

impl GatheredLines {
    fn new(file: &LogFile) -> GatheredLines {
        GatheredLines {
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

    /// Whether a line of this many bytes would be dropped, because the file has too much to write. Such a line is not made
    /// in the first place.
    #[inline]
    fn loses(&mut self, limit: usize) -> bool {
        let loses = self.whole == 0 && !self.file.has_room(limit);
        self.lost += u64::from(loses);
        loses
    }

    /// Appends a line, and returns where it begins.
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

    /// Hands over the lines after the line that begins at `start` has filled the buffer.
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

    /// Hands the lines over. Lines that the file cannot accept any more are dropped and counted there.
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
                self.file.write_compressed(lines, level);
            }
            (None, None) => {
                self.file.write(lines);
            }
        }
    }
}
