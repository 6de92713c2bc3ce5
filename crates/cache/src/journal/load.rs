//! Reading the journal. The files may contain anything: at worst the cache starts cold.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::line::{JournalKind, LINE, Line, Title};
use super::{CLEAN, MAX_LOGS, SNAPSHOT, log_path};

/// Number of bytes that are read at a time: a whole number of lines.
const PIECE: usize = 1 << 20;
const _: () = assert!(PIECE.is_multiple_of(LINE), "a line does not lie in two pieces, but for the file's last one");

/// The result of reading a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LoadedJournal {
    /// There is a journal at all.
    pub(crate) exists: bool,
    /// Every line of it could be read, and no file is missing.
    pub(crate) intact: bool,
    /// The process that wrote the journal ended in order: nothing is missing at its end, either.
    pub(crate) clean: bool,
    /// The generation for the next log.
    pub(crate) next: u64,
    /// The oldest log that is needed.
    pub(crate) first: u64,
    /// Lines in logs.
    pub(crate) lines: u64,
    /// The highest sequence number.
    pub(crate) sequence: u64,
}

/// The number of lines in the journal of a folder, by the lengths of its files.
pub(crate) fn lines(folder: &Path) -> u64 {
    let length = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len() / LINE as u64);
    let snapshot = folder.join(SNAPSHOT);
    let mut head = [0; LINE];
    let title = File::open(&snapshot).and_then(|mut file| file.read_exact(&mut head)).ok().and(Line::decode(&head));
    let first = match title {
        Some(Line::Title(title)) => title.generation,
        _ => 1,
    };
    let logs = (first..).take(MAX_LOGS as usize).map(|generation| length(&log_path(folder, generation)));
    length(&snapshot) + logs.take_while(|lines| *lines > 0).sum::<u64>()
}

/// Reads the journal of a folder, and passes its lines to `each` in their order; a line about a key replaces earlier
/// ones about it.
pub(crate) fn load(folder: &Path, mut each: impl FnMut(&Line)) -> LoadedJournal {
    let mut loaded = LoadedJournal { intact: true, first: 1, ..LoadedJournal::default() };
    let mut lines = 0;
    let mut sequence = 0;
    let mut take = |line: &Line| {
        match line {
            Line::Stored(stored) => sequence = sequence.max(stored.sequence),
            Line::Removed { sequence: own, .. } => sequence = sequence.max(*own),
            Line::Title(_) => return,
        }
        lines += 1;
        each(line);
    };
    let mut in_snapshot = 0;
    match read(&folder.join(SNAPSHOT), JournalKind::Snapshot, &mut take) {
        Ok(file) => {
            loaded.exists = true;
            loaded.intact = file.intact && file.title.first == file.lines;
            loaded.first = file.title.generation;
            loaded.sequence = file.title.second;
            in_snapshot = file.lines;
        }
        Err(MissingLog::NotThere) => {}
        Err(MissingLog::Worthless) => {
            loaded.exists = true;
            loaded.intact = false;
            // It is not known where the logs begin, so they are looked for.
            loaded.first = first_log(folder);
        }
    }
    loaded.next = loaded.first;
    let mut last = None;
    // This is a few more than ever exist.
    for generation in (loaded.first..).take(2 * MAX_LOGS as usize + 1) {
        match read(&log_path(folder, generation), JournalKind::Log, &mut take) {
            Ok(file) => {
                loaded.exists = true;
                loaded.intact &= file.intact && file.title.generation == generation;
                last = Some((generation, file.len));
            }
            Err(MissingLog::NotThere) => break,
            Err(MissingLog::Worthless) => loaded.intact = false,
        }
        loaded.next = generation + 1;
    }
    debug_assert!(lines >= in_snapshot, "the snapshot has more lines than were read");
    loaded.lines = lines - in_snapshot;
    loaded.sequence = loaded.sequence.max(sequence);
    loaded.clean = loaded.intact && last.is_some() && is_clean(folder, last);
    debug_assert!(last.is_none_or(|(generation, _)| generation < loaded.next), "a log that was read is written to");
    debug_assert!(loaded.first <= loaded.next, "the next log would be older than those that are needed");
    loaded
}

/// The content of one file.
struct Content {
    title: Title,
    intact: bool,
    lines: u64,
    len: u64,
}

enum MissingLog {
    NotThere,
    /// The file has no valid head, or cannot be read.
    Worthless,
}

fn read(path: &Path, what: JournalKind, each: &mut impl FnMut(&Line)) -> Result<Content, MissingLog> {
    let mut file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MissingLog::NotThere,
        _ => MissingLog::Worthless,
    })?;
    let mut content: Option<Content> = None;
    let mut piece = vec![0; PIECE];
    let (mut kept, mut len) = (0, 0_u64);
    loop {
        let read = match file.read(&mut piece[kept..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => {
                let content = content.as_mut().ok_or(MissingLog::Worthless)?;
                content.intact = false;
                0
            }
        };
        len += read as u64;
        let filled = kept + read;
        let (lines, rest) = piece[..filled].as_chunks::<LINE>();
        for bytes in lines {
            let line = Line::decode(bytes);
            match (&mut content, line) {
                (None, Some(Line::Title(title))) if title.what == what => {
                    content = Some(Content { title, intact: true, lines: 0, len: 0 });
                }
                (None, _) => return Err(MissingLog::Worthless),
                // A damaged line is skipped: the walk finds the object that it was about.
                (Some(content), None | Some(Line::Title(_))) => content.intact = false,
                (Some(content), Some(line)) => {
                    content.lines += 1;
                    each(&line);
                }
            }
        }
        if read == 0 {
            let mut content = content.ok_or(MissingLog::Worthless)?;
            content.intact &= rest.is_empty();
            content.len = len;
            return Ok(content);
        }
        let (begin, left) = (filled - rest.len(), rest.len());
        piece.copy_within(begin..filled, 0);
        kept = left;
    }
}

/// Whether the mark of a clean end is about this last log.
fn is_clean(folder: &Path, last: Option<(u64, u64)>) -> bool {
    let Ok(bytes) = fs::read(folder.join(CLEAN)) else { return false };
    let Ok(bytes) = <&[u8; LINE]>::try_from(&bytes[..]) else { return false };
    match Line::decode(bytes) {
        Some(Line::Title(title)) => title.what == JournalKind::Clean && Some((title.generation, title.first)) == last,
        _ => false,
    }
}

/// The numbers of the logs in the folder.
fn logs(folder: &Path) -> impl Iterator<Item = u64> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix(super::LOG)?.strip_prefix('.')?.parse().ok())
}

/// The lowest number of a log in the folder.
fn first_log(folder: &Path) -> u64 {
    logs(folder).min().unwrap_or(1)
}

/// Removes logs whose snapshot is lost: they are of no use without it.
pub(super) fn remove_logs(folder: &Path) {
    for generation in logs(folder) {
        let _ = fs::remove_file(log_path(folder, generation));
    }
}
