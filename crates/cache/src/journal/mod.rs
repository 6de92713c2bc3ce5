//! The index on the disk: a snapshot of all objects of one moment, and logs of the changes since, so that a restart
//! finds the cache warm. The files stand in the cache's folder under names that no entry can have.
//!
//! | file | what |
//! |---|---|
//! | `.freerun-index` | the snapshot: a head, then a line (`line.rs`) for each object, in the order of the queues |
//! | `.freerun-journal.N` | a log. The snapshot's generation says from which N on they are read, one after the other |
//! | `.freerun-clean` | the process ended in order, and the last log has that length |
//! | `.freerun-purges` | the purges that are under way, see [`purges`] |
//! | `.freerun-lock` | locked by the process that owns the cache |
//! | `.freerun-synced` | which purges of other machines the cache has seen; the crate `cluster` writes it |
//!
//! A snapshot is written in steps while the cache works: changes meanwhile go into a log of the new generation, which
//! is read on top of it. So a snapshot is complete whenever it has its name. Only purges are synced to the disk: after
//! a power cut the checksums show which lines are missing, and files are verified when they are first used.

pub(crate) mod line;
mod load;
pub(crate) mod purges;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::index::Entry;
use crate::index::policy::{Item, Place};
use crate::key::Key;
use line::{JournalKind, JournalObject, LINE, Line, Title};

pub(crate) use load::{LoadedJournal, lines, load};

/// The beginning of all names of files that are not entries.
pub(crate) const PREFIX: &str = ".freerun-";
const SNAPSHOT: &str = ".freerun-index";
const NEW_SNAPSHOT: &str = ".freerun-index.new";
const LOG: &str = ".freerun-journal";
const CLEAN: &str = ".freerun-clean";
/// The file whose lock shows the owner of the cache.
pub(crate) const LOCK: &str = ".freerun-lock";

/// The record of purges that are shared with other machines, and the name under which it is written.
pub const SYNCED: [&str; 2] = [".freerun-synced", ".freerun-synced.new"];

/// The permissions of these files. Their contents reveal stored responses, so they have the same permissions as these.
pub(crate) const PRIVATE: u32 = 0o600;

/// Makes a file of the journal, or empties it.
fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(path)
}

/// Number of bytes that are gathered before they are written.
const GATHERED: usize = 64 * 1024;
/// A snapshot is made when the logs have more lines than there are objects, and more than this.
const MIN_LINES: u64 = 65_536;
/// The most logs in a row: beyond them, nothing is written before a snapshot has taken their place.
pub(crate) const MAX_LOGS: u64 = 16;
/// The lines of a snapshot that are written in one step.
const STEP: usize = 8192;

const _: () = assert!(GATHERED.is_multiple_of(LINE), "only whole lines are written");
const _: () = assert!((STEP as u64) < MIN_LINES, "a snapshot of a large index is written in several steps");

/// Whether a file of this name in the cache's own folder belongs to the journal.
pub(crate) fn is_own(name: &str) -> bool {
    let numbered = name.strip_prefix(LOG).and_then(|rest| rest.strip_prefix('.'));
    numbered.is_some_and(|digits| digits.parse::<u64>().is_ok())
        || [SNAPSHOT, NEW_SNAPSHOT, CLEAN, LOCK, purges::FILE, purges::NEW_FILE].contains(&name)
        || SYNCED.contains(&name)
}

fn log_path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("{LOG}.{generation}"))
}

/// The journal of a cache, which writes changes down.
///
/// Invariants: what was gathered and what was written are whole lines. The present log is not older than the oldest that is
/// needed, nor newer by more than are looked for at a start. A snapshot has each object once.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    /// The generation of the present log.
    generation: u64,
    /// The oldest log that is still needed.
    first: u64,
    file: Option<File>,
    /// The length of the present log in bytes.
    len: u64,
    gathered: Vec<u8>,
    /// The lines in all logs.
    lines: u64,
    /// A write failed; the next snapshot repairs the journal.
    broken: bool,
    snapshot: Option<Snapshot>,
}

/// A snapshot that is being written.
#[derive(Debug)]
struct Snapshot {
    out: BufWriter<File>,
    entries: Vec<Arc<Entry>>,
    next: usize,
    written: u64,
    sequence: u64,
}

impl Journal {
    /// Continues the journal that was loaded, in a new log.
    pub(crate) fn open(folder: &Path, loaded: &LoadedJournal) -> Journal {
        // These files are out of date now. It does not matter if they are missing or cannot be removed: the new log's
        // generation contradicts the mark.
        let _ = fs::remove_file(folder.join(CLEAN));
        let _ = fs::remove_file(folder.join(NEW_SNAPSHOT));
        let mut journal = Journal {
            folder: folder.to_owned(),
            generation: loaded.next,
            first: loaded.first,
            file: None,
            len: 0,
            gathered: Vec::new(),
            lines: loaded.lines,
            broken: false,
            snapshot: None,
        };
        if !loaded.exists {
            load::remove_logs(folder);
        }
        let old = (1..=MAX_LOGS).map_while(|back| loaded.first.checked_sub(back));
        for generation in old {
            if fs::remove_file(log_path(folder, generation)).is_err() {
                break;
            }
        }
        journal.broken = journal.create().is_err();
        journal
    }

    fn check_invariants(&self) {
        debug_assert!(self.gathered.len().is_multiple_of(LINE), "a part of a line was gathered");
        debug_assert!(self.gathered.len() < GATHERED, "the gathered lines were not written");
        debug_assert!(self.len.is_multiple_of(LINE as u64), "a part of a line was written");
        debug_assert!(self.first <= self.generation, "log {} is needed and comes later", self.first);
        debug_assert!(self.generation - self.first <= 2 * MAX_LOGS, "the next start would not find all logs");
        if let Some(snapshot) = &self.snapshot {
            debug_assert!(snapshot.next <= snapshot.entries.len(), "the snapshot goes on behind its end");
            debug_assert!(snapshot.written <= snapshot.next as u64, "the snapshot has an object twice");
        }
    }

    /// Begins the log of the current generation.
    fn create(&mut self) -> io::Result<()> {
        self.file = None;
        let path = log_path(&self.folder, self.generation);
        let mut file = create_private(&path)?;
        let title = Title { what: JournalKind::Log, generation: self.generation, first: 0, second: 0 };
        file.write_all(&Line::Title(title).encode())?;
        self.file = Some(file);
        self.len = LINE as u64;
        Ok(())
    }

    /// Writes down that an object is new, or that its lifetime has changed.
    pub(crate) fn stored(&mut self, entry: &Arc<Entry>) {
        self.add(&Line::Stored(stored(entry)));
    }

    /// Writes down that an object is gone.
    pub(crate) fn removed(&mut self, key: Key, sequence: u64) {
        self.add(&Line::Removed { key, sequence });
    }

    fn add(&mut self, line: &Line) {
        if self.broken {
            return;
        }
        self.lines += 1;
        self.gathered.extend_from_slice(&line.encode());
        if self.gathered.len() >= GATHERED {
            self.flush();
        }
        self.check_invariants();
    }

    /// Writes the gathered lines. Lines that cannot be written are lost, and the journal is broken until the next
    /// snapshot.
    pub(crate) fn flush(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let written = match &mut self.file {
            Some(file) => file.write_all(&self.gathered),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        match written {
            Ok(()) => self.len += self.gathered.len() as u64,
            Err(_) => {
                self.broken = true;
                self.file = None;
            }
        }
        self.gathered.clear();
        self.check_invariants();
    }

    /// Whether a write failed since the last snapshot.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Whether it is time for a snapshot.
    pub(crate) fn wants_snapshot(&self, entries: usize) -> bool {
        let long = self.lines > MIN_LINES.max(entries as u64) || self.generation - self.first >= MAX_LOGS;
        self.snapshot.is_none() && (long || self.broken)
    }

    /// Begins a snapshot of these objects, which [`step`](Journal::step) continues. False: it cannot be written now.
    pub(crate) fn begin_snapshot(&mut self, entries: Vec<Arc<Entry>>, sequence: u64) -> bool {
        debug_assert!(self.snapshot.is_none(), "one snapshot is written at a time");
        self.flush();
        let begun = self.try_begin(entries, sequence);
        if begun.is_err() {
            self.broken = true;
        }
        begun.is_ok()
    }

    fn try_begin(&mut self, entries: Vec<Arc<Entry>>, sequence: u64) -> io::Result<()> {
        // Changes from here on are in a log that is read on top of the snapshot. So log 1 exists only as long as there
        // is no snapshot, and the loss of a snapshot is noticed. While nothing can be written, the numbers do not grow
        // beyond those that are looked for.
        if self.generation - self.first < 2 * MAX_LOGS {
            self.generation += 1;
        }
        self.create()?;
        let file = create_private(&self.folder.join(NEW_SNAPSHOT))?;
        let mut out = BufWriter::with_capacity(GATHERED, file);
        // The head is written last.
        out.write_all(&[0; LINE])?;
        self.snapshot = Some(Snapshot { out, entries, next: 0, written: 0, sequence });
        // The log continues from here, whatever was lost before.
        self.broken = false;
        Ok(())
    }

    /// Writes the next lines of the snapshot. True: there are more lines to write.
    pub(crate) fn step(&mut self) -> bool {
        let Some(mut snapshot) = self.snapshot.take() else { return false };
        match snapshot.step() {
            Ok(true) => {
                self.snapshot = Some(snapshot);
                true
            }
            Ok(false) => {
                if self.finish_snapshot(snapshot).is_err() {
                    self.give_up();
                }
                false
            }
            Err(_) => {
                self.give_up();
                false
            }
        }
    }

    /// Gives up the snapshot, which cannot be written.
    fn give_up(&mut self) {
        self.broken = true;
        self.snapshot = None;
        let _ = fs::remove_file(self.folder.join(NEW_SNAPSHOT));
    }

    fn finish_snapshot(&mut self, snapshot: Snapshot) -> io::Result<()> {
        debug_assert!(snapshot.next == snapshot.entries.len(), "the snapshot is not complete");
        let Snapshot { out, written, sequence, .. } = snapshot;
        let file = out.into_inner().map_err(|error| error.into_error())?;
        let title =
            Title { what: JournalKind::Snapshot, generation: self.generation, first: written, second: sequence };
        std::os::unix::fs::FileExt::write_all_at(&file, &Line::Title(title).encode(), 0)?;
        fs::rename(self.folder.join(NEW_SNAPSHOT), self.folder.join(SNAPSHOT))?;
        for old in self.first..self.generation {
            let _ = fs::remove_file(log_path(&self.folder, old));
        }
        self.first = self.generation;
        debug_assert!(self.len >= LINE as u64, "the present log has no head");
        self.lines = (self.len / LINE as u64).saturating_sub(1);
        Ok(())
    }

    /// Writes everything down and marks the end as clean, if it is. True: the next process finds everything.
    pub(crate) fn end(mut self) -> bool {
        if self.snapshot.take().is_some() {
            let _ = fs::remove_file(self.folder.join(NEW_SNAPSHOT));
        }
        self.flush();
        if self.broken {
            return false;
        }
        let title = Title { what: JournalKind::Clean, generation: self.generation, first: self.len, second: 0 };
        fs::write(self.folder.join(CLEAN), Line::Title(title).encode()).is_ok()
    }
}

impl Snapshot {
    fn step(&mut self) -> io::Result<bool> {
        let end = (self.next + STEP).min(self.entries.len());
        for entry in &self.entries[self.next..end] {
            if !entry.is_gone() {
                self.out.write_all(&Line::Stored(stored(entry)).encode())?;
                self.written += 1;
            }
        }
        self.next = end;
        Ok(end < self.entries.len())
    }
}

fn stored(entry: &Arc<Entry>) -> JournalObject {
    JournalObject {
        key: entry.key(),
        size: entry.size(),
        sequence: entry.sequence(),
        lifetime: entry.lifetime(),
        variant_of: entry.variant_of(),
        foreign: entry.is_foreign(),
        main: Item::place(entry) == Place::Main,
        frequency: Item::frequency(entry),
    }
}
