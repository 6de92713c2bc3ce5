//! A line of the journal: 64 bytes, always.
//!
//! | at | bytes | what (numbers are little-endian) |
//! |---|---|---|
//! | 0 | 4 | CRC-32 of the other sixty |
//! | 4 | 1 | kind: 1 stored, 2 removed, 0xf0 head of a file |
//! | 5 | 1 | flags: 1 must be revalidated, 2 no-cache, 4 foreign, 8 of the main queue |
//! | 6 | 1 | hits counted (0 to 3) |
//! | 7 | 1 | 0 |
//! | 8 | 16 | key |
//! | 24 | 8 | sequence number |
//! | 32 | 8 | length of the file |
//! | 40 | 8 | fresh until (seconds since 1970) |
//! | 48 | 4 | `stale-while-revalidate` |
//! | 52 | 4 | `stale-if-error` |
//! | 56 | 4 | when its age was zero |
//! | 60 | 4 | for a variant: a part of the key that it is a variant of |
//!
//! The head of a file begins at 8 with `frindex` and the version of the format, a digit. The kind of the file (8
//! bytes), its generation, and two numbers follow. The meaning of the two depends on the kind.

use crate::index::policy::MAX_FREQUENCY;
use crate::key::Key;
use crate::rules::Lifetime;

/// The length of a line in bytes.
pub(crate) const LINE: usize = 64;

const MAGIC: &[u8; 8] = b"frindex1";
const _: () = assert!(LINE == 4 + 60, "the checksum stands before the sixty bytes that it is of");
const STORED: u8 = 1;
const REMOVED: u8 = 2;
const TITLE: u8 = 0xf0;

const MUST_REVALIDATE: u8 = 1;
const NO_CACHE: u8 = 2;
const FOREIGN: u8 = 4;
const MAIN: u8 = 8;
const _: () = assert!(MUST_REVALIDATE | NO_CACHE | FOREIGN | MAIN == 0b1111, "each flag has a bit of its own");

/// An object, as the journal has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalObject {
    pub(crate) key: Key,
    pub(crate) size: u64,
    pub(crate) sequence: u64,
    pub(crate) lifetime: Lifetime,
    pub(crate) variant_of: u32,
    pub(crate) foreign: bool,
    pub(crate) main: bool,
    pub(crate) frequency: u8,
}

/// The kind of a journal file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum JournalKind {
    /// A snapshot: all objects of one moment. `first` is the number of its lines, `second` the sequence number.
    Snapshot = 1,
    /// A log: the changes since the snapshot.
    Log = 2,
    /// The mark of a clean end: `first` is the length of the log of that generation.
    Clean = 3,
}

/// The head of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Title {
    pub(crate) what: JournalKind,
    pub(crate) generation: u64,
    pub(crate) first: u64,
    pub(crate) second: u64,
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Stored(JournalObject),
    Removed { key: Key, sequence: u64 },
    Title(Title),
}

impl Line {
    /// The line's bytes.
    pub(crate) fn encode(&self) -> [u8; LINE] {
        let mut out = [0; LINE];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        match self {
            Line::Stored(stored) => {
                debug_assert!(stored.frequency <= MAX_FREQUENCY, "{} hits were counted", stored.frequency);
                let lifetime = &stored.lifetime;
                let flag = |set: bool, flag: u8| if set { flag } else { 0 };
                let flags = flag(lifetime.must_revalidate, MUST_REVALIDATE)
                    | flag(lifetime.no_cache, NO_CACHE)
                    | flag(stored.foreign, FOREIGN)
                    | flag(stored.main, MAIN);
                put(4, &[STORED, flags, stored.frequency]);
                put(8, &stored.key.0);
                put(24, &stored.sequence.to_le_bytes());
                put(32, &stored.size.to_le_bytes());
                put(40, &lifetime.fresh_until.to_le_bytes());
                put(48, &lifetime.stale_while_revalidate.to_le_bytes());
                put(52, &lifetime.stale_if_error.to_le_bytes());
                put(56, &short(lifetime.born));
                put(60, &stored.variant_of.to_le_bytes());
            }
            Line::Removed { key, sequence } => {
                put(4, &[REMOVED]);
                put(8, &key.0);
                put(24, &sequence.to_le_bytes());
            }
            Line::Title(title) => {
                put(4, &[TITLE]);
                put(8, MAGIC);
                put(16, &(title.what as u64).to_le_bytes());
                put(24, &title.generation.to_le_bytes());
                put(32, &title.first.to_le_bytes());
                put(40, &title.second.to_le_bytes());
            }
        }
        let sum = crc32fast::hash(&out[4..]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a line. `None`: it is damaged, or of another version.
    pub(crate) fn decode(bytes: &[u8; LINE]) -> Option<Line> {
        if crc32fast::hash(&bytes[4..]) != number(bytes, 0) as u32 {
            return None;
        }
        let mut key = Key([0; 16]);
        key.0.copy_from_slice(&bytes[8..24]);
        let flags = bytes[5];
        let has = |flag: u8| flags & flag != 0;
        match bytes[4] {
            STORED => Some(Line::Stored(JournalObject {
                key,
                size: number(bytes, 32),
                sequence: number(bytes, 24),
                lifetime: Lifetime {
                    fresh_until: number(bytes, 40),
                    born: number(bytes, 56) & u64::from(u32::MAX),
                    stale_while_revalidate: number(bytes, 48) as u32,
                    stale_if_error: (number(bytes, 48) >> 32) as u32,
                    must_revalidate: has(MUST_REVALIDATE),
                    no_cache: has(NO_CACHE),
                },
                variant_of: (number(bytes, 56) >> 32) as u32,
                foreign: has(FOREIGN),
                main: has(MAIN),
                frequency: bytes[6],
            })),
            REMOVED => Some(Line::Removed { key, sequence: number(bytes, 24) }),
            TITLE if bytes[8..16] == *MAGIC => {
                let what = match number(bytes, 16) {
                    1 => JournalKind::Snapshot,
                    2 => JournalKind::Log,
                    3 => JournalKind::Clean,
                    _ => return None,
                };
                let (generation, first, second) = (number(bytes, 24), number(bytes, 32), number(bytes, 40));
                Some(Line::Title(Title { what, generation, first, second }))
            }
            _ => None,
        }
    }
}

/// A time in four little-endian bytes.
fn short(time: u64) -> [u8; 4] {
    u32::try_from(time).unwrap_or(u32::MAX).to_le_bytes()
}

/// The eight-byte number at a place.
fn number(bytes: &[u8; LINE], at: usize) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_line() -> impl Strategy<Value = Line> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<[u32; 4]>());
        let stored =
            (any::<[u8; 16]>(), numbers, any::<[bool; 4]>(), 0..4_u8).prop_map(|(key, numbers, flags, hits)| {
                let (size, sequence, fresh_until, [born, swr, sie, variant_of]) = numbers;
                let lifetime = Lifetime {
                    fresh_until,
                    born: born.into(),
                    stale_while_revalidate: swr,
                    stale_if_error: sie,
                    must_revalidate: flags[0],
                    no_cache: flags[1],
                };
                let (key, foreign, main, frequency) = (Key(key), flags[2], flags[3], hits);
                Line::Stored(JournalObject { key, size, sequence, lifetime, variant_of, foreign, main, frequency })
            });
        let removed =
            (any::<[u8; 16]>(), any::<u64>()).prop_map(|(key, sequence)| Line::Removed { key: Key(key), sequence });
        let what = prop_oneof![Just(JournalKind::Snapshot), Just(JournalKind::Log), Just(JournalKind::Clean)];
        let title = (what, any::<[u64; 3]>())
            .prop_map(|(what, [generation, first, second])| Line::Title(Title { what, generation, first, second }));
        prop_oneof![stored, removed, title]
    }

    proptest! {
        #[test]
        fn a_line_comes_back_as_it_was(line in any_line()) {
            prop_assert_eq!(Line::decode(&line.encode()), Some(line));
        }

        #[test]
        fn a_flipped_bit_is_noticed(line in any_line(), bit in 0..LINE * 8) {
            let mut bytes = line.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Line::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_do(bytes in any::<[u8; 32]>(), kind in any::<u8>()) {
            let mut line = [0; LINE];
            line[32..].copy_from_slice(&bytes);
            line[4] = kind;
            let sum = crc32fast::hash(&line[4..]);
            line[..4].copy_from_slice(&sum.to_le_bytes());
            let _ = Line::decode(&line);
        }
    }

    #[test]
    fn another_versions_line_is_none_of_ours() {
        let title = Line::Title(Title { what: JournalKind::Log, generation: 1, first: 0, second: 0 });
        let mut bytes = title.encode();
        bytes[15] = b'2';
        let sum = crc32fast::hash(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Line::decode(&bytes), None);
        assert_eq!(Line::decode(&[0; LINE]), None);
    }
}
