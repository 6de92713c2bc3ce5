//! The file in the folder of a cache with its place in the log of purges, and the purges that other nodes have not been told. A
//! node that was off for a day goes on where it was, and a purge that could not be told outlives the process.
//!
//! | at | bytes | what (numbers are little-endian) |
//! |---|---|---|
//! | 0 | 8 | `frsynch` and the version of the format, a digit |
//! | 8 | 4 | CRC-32 of all bytes behind it |
//! | 12 | 16 | identifier of the last entry that was applied: milliseconds, number |
//! | 28 | 8 | the last time, in milliseconds since 1970, at which the log was read to its end |
//! | 36 | 4, then so many | length of the engine's mark, and the mark |
//! | | 4, then so many | length of the name of its history, and the name |
//! | | 4 | number of purges that were not told |
//! | | | for each: kind (1 prefix, 2 tag, 3 key), length of the text (4 bytes), text |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use bytes::Bytes;
use freerun_cache::cache::SYNCED;
use freerun_cache::purge::{MAX_TEXT, Purge};
use rustix::fs::{FlockOperation, flock};

use crate::log_entry::EntryId;

/// The name of the file, and the name under which it is written.
const FILE: &str = SYNCED[0];
const NEW_FILE: &str = SYNCED[1];

const MAGIC: &[u8; 8] = b"frsynch1";

/// The permissions of the file: it has keys of the cache.
const PRIVATE: u32 = 0o600;

/// The longest mark of an engine, and the longest name of its history, in bytes.
pub(crate) const MAX_MARK: usize = 64;

/// The most purges that wait to be told.
pub(crate) const MAX_UNTOLD: usize = 10_000;

/// The most bytes that the texts of these purges take.
pub(crate) const MAX_UNTOLD_TEXTS: usize = 16 << 20;

/// The place of a cache in a log of purges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PurgePlace {
    /// The last entry that was applied.
    pub(crate) applied: EntryId,
    /// The last time at which the log was read to its end, in milliseconds since 1970.
    pub(crate) read_at: u64,
    /// The mark of the engine whose log that was. It is empty as long as the cache has never followed a log.
    pub(crate) mark: Vec<u8>,
    /// The name of the engine's history.
    pub(crate) history: Vec<u8>,
}

/// The contents of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PurgeRecord {
    /// The place in the log.
    pub(crate) place: PurgePlace,
    /// The purges that other nodes have not been told, the oldest first.
    pub(crate) untold: Vec<Purge>,
}

/// The kind of a purge as a number, and its text.
pub(crate) fn parts(what: &Purge) -> (u8, &Bytes) {
    match what {
        Purge::Prefix(text) => (1, text),
        Purge::Tag(text) => (2, text),
        Purge::Key(text) => (3, text),
    }
}

/// The state of the file on the disk, which is another one when another process has written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordStamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl RecordStamp {
    /// The present state of the record of a cache. `None`: there is no file.
    pub(crate) fn of(folder: &Path) -> Option<RecordStamp> {
        let about = fs::metadata(folder.join(FILE)).ok()?;
        Some(RecordStamp { inode: about.ino(), size: about.size(), changed: (about.mtime(), about.mtime_nsec()) })
    }
}

impl PurgeRecord {
    /// Keeps other processes from writing the record of a cache, until what this returns is dropped. While the binary is being
    /// changed there are two, and each holds this for the time of a write.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn lock(folder: &Path) -> io::Result<File> {
        let file = File::open(folder)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// Writes the record; it is on the disk when this returns.
    ///
    /// # Errors
    /// The system's error; the record before is still there then.
    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        let new = folder.join(NEW_FILE);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(&new)?;
        file.write_all(&self.encode())?;
        file.sync_data()?;
        fs::rename(new, folder.join(FILE))?;
        // The name is on the disk when its folder is.
        File::open(folder)?.sync_all()
    }

    /// Reads the record of a cache. `None`: it is there and cannot be used.
    pub(crate) fn read(folder: &Path) -> Option<PurgeRecord> {
        match fs::read(folder.join(FILE)) {
            Ok(bytes) => PurgeRecord::decode(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(PurgeRecord::default()),
            Err(_) => None,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from(*MAGIC);
        out.extend_from_slice(&[0; 4]);
        let PurgePlace { applied: EntryId { milliseconds, number }, read_at, mark, history } = &self.place;
        for number in [milliseconds, number, read_at] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        // All of these are bounded where they come from.
        let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        for text in [mark, history] {
            let text = &text[..text.len().min(MAX_MARK)];
            out.extend_from_slice(&length(text.len()));
            out.extend_from_slice(text);
        }
        out.extend_from_slice(&length(self.untold.len()));
        for what in &self.untold {
            let (kind, text) = parts(what);
            out.push(kind);
            out.extend_from_slice(&length(text.len()));
            out.extend_from_slice(text);
        }
        let sum = crc32fast::hash(&out[12..]);
        out[8..12].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The record of these bytes. `None`: they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<PurgeRecord> {
        let (head, mut rest) = bytes.split_at_checked(12)?;
        if head[..8] != *MAGIC || crc32fast::hash(rest).to_le_bytes() != head[8..] {
            return None;
        }
        let applied = EntryId { milliseconds: take_u64(&mut rest)?, number: take_u64(&mut rest)? };
        let read_at = take_u64(&mut rest)?;
        let mark = take_bytes(&mut rest, MAX_MARK)?.to_vec();
        let history = take_bytes(&mut rest, MAX_MARK)?.to_vec();
        let count = take_u32(&mut rest)?;
        if count > MAX_UNTOLD {
            return None;
        }
        let mut untold = Vec::new();
        for _ in 0..count {
            let (kind, left) = rest.split_first()?;
            rest = left;
            let text = Bytes::copy_from_slice(take_bytes(&mut rest, MAX_TEXT)?);
            untold.push(match kind {
                1 => Purge::Prefix(text),
                2 => Purge::Tag(text),
                3 => Purge::Key(text),
                _ => return None,
            });
        }
        let place = PurgePlace { applied, read_at, mark, history };
        rest.is_empty().then_some(PurgeRecord { place, untold })
    }
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    let (part, left) = rest.split_first_chunk::<8>()?;
    *rest = left;
    Some(u64::from_le_bytes(*part))
}

fn take_u32(rest: &mut &[u8]) -> Option<usize> {
    let (part, left) = rest.split_first_chunk::<4>()?;
    *rest = left;
    usize::try_from(u32::from_le_bytes(*part)).ok()
}

fn take_bytes<'r>(rest: &mut &'r [u8], most: usize) -> Option<&'r [u8]> {
    let length = take_u32(rest).filter(|length| *length <= most)?;
    let (part, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> PurgeRecord {
        PurgeRecord {
            place: PurgePlace {
                applied: EntryId { milliseconds: 1_700_000_000_000, number: 3 },
                read_at: 1_700_000_000_500,
                mark: b"4f1e".to_vec(),
                history: b"a0b1".to_vec(),
            },
            untold: vec![Purge::Prefix("/a".into()), Purge::Tag("shoes".into()), Purge::Key("".into())],
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        for record in [record(), PurgeRecord::default()] {
            assert_eq!(PurgeRecord::decode(&record.encode()), Some(record));
        }
    }

    #[test]
    fn a_damaged_record_is_noticed() {
        let bytes = record().encode();
        for len in 0..bytes.len() {
            assert_eq!(PurgeRecord::decode(&bytes[..len]), None, "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PurgeRecord::decode(&damaged), None, "{bit}");
        }
    }
}
