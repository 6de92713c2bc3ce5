//! The dynamic table of what is sent: which fields the peer has in its table, so that they can be named by an index.

use super::FIELD_OVERHEAD;
use super::names::{self, Id};
use crate::ascii;

/// The largest table: places and lengths are kept in two bytes.
pub(crate) const LARGEST: u32 = 16_384;

/// The bytes of memory that the entries' texts begin with.
const FIRST_BYTES: usize = 96;
/// The number of entries with memory at first.
const FIRST_ENTRIES: usize = 8;

/// The number of fields that are kept in mind after they have come once.
const SEEN: usize = 32;

/// A field as the table looks for it.
#[derive(Clone, Copy)]
pub(crate) struct FieldQuery<'a> {
    /// The id of the name, or 0.
    pub id: Id,
    /// The name in any case.
    pub name: &'a [u8],
    pub value: &'a [u8],
    print: u64,
}

impl<'a> FieldQuery<'a> {
    #[inline(always)]
    pub(crate) fn new(id: Id, name: &'a [u8], value: &'a [u8]) -> FieldQuery<'a> {
        let seed = if id != 0 { u64::from(id) } else { ends(name) | 0x2020_2020_2020_2020 };
        let lengths = (value.len() as u64) << 8 ^ if id != 0 { 0 } else { (name.len() as u64) << 32 };
        let print = (seed ^ lengths).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        FieldQuery { id, name, value, print: (print ^ ends(value)).wrapping_mul(0xd6e8_feb8_6659_fd93) }
    }

    /// The size of the field: RFC 7541 section 4.1.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        self.name.len() + self.value.len() + FIELD_OVERHEAD
    }

    /// By this an entry is found among others.
    #[inline(always)]
    fn tag(&self) -> u8 {
        (self.print >> 56) as u8
    }

    /// A key that distinguishes most wrong ones of the entries found from the right one.
    #[inline(always)]
    fn key(&self) -> u32 {
        key(self.id, self.value.len(), (self.print >> 48) as u8)
    }
}

/// The key of an entry or a field, which is compared before their texts are.
#[inline(always)]
const fn key(id: Id, value_len: usize, check: u8) -> u32 {
    // A value that is so long that its length is cut off here is not in the table, and its text differs.
    value_len as u16 as u32 | (id as u32) << 16 | (check as u32) << 24
}

/// The first and last bytes of a text; a difference elsewhere is left to be found by comparison.
#[inline(always)]
fn ends(text: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return u64::from_le_bytes(*first).rotate_left(23) ^ u64::from_le_bytes(*last);
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    text.iter().fold(0, |ends, &byte| ends << 8 | u64::from(byte))
}

/// The id of an entry that is not to be found any more; no name has it.
const FORGOTTEN: Id = Id::MAX;

/// Whether two texts of one length are equal: without a call for most.
#[inline(always)]
fn same(one: &[u8], other: &[u8]) -> bool {
    match (one.first_chunk::<16>(), other.first_chunk::<16>(), one.last_chunk::<16>(), other.last_chunk::<16>()) {
        (Some(first), Some(others), Some(last), Some(other_last)) => {
            first == others && last == other_last && (one.len() <= 32 || one == other)
        }
        _ => ascii::same(one, other),
    }
}

/// An entry. Its name, if that is not a known one, and its value behind it are in [`EncoderTable::bytes`].
#[derive(Clone, Copy)]
struct EncoderEntry {
    /// The begin of the entry, as a distance from the first byte that was ever in the table; it wraps around.
    start: u16,
    /// The length of the name, if it is not a known one.
    name_len: u16,
    /// See [`key`].
    key: u32,
}

impl EncoderEntry {
    /// The id of its name, or 0, or [`FORGOTTEN`].
    fn id(&self) -> Id {
        (self.key >> 16) as Id
    }

    fn value_len(&self) -> usize {
        (self.key & 0xffff) as usize
    }

    fn size(&self) -> usize {
        // One of the first two is 0.
        usize::from(self.name_len) + names::known(self.id()).name.len() + self.value_len() + FIELD_OVERHEAD
    }
}

/// The table. It keeps the texts of its entries, so that no field is ever taken for another one whose fingerprint is the
/// same.
pub(crate) struct EncoderTable {
    /// A tag for each entry, in the same places, and zeros up to a multiple of eight.
    tags: Vec<[u8; 8]>,
    /// Entries that are gone, then the others, the oldest first.
    entries: Vec<EncoderEntry>,
    /// The number of entries that are gone.
    gone: usize,
    /// Bytes of entries that are gone, then the bytes of the others, the oldest first.
    bytes: Vec<u8>,
    /// The begin of the entries' bytes.
    begin: usize,
    /// The distance of `bytes[0]` from the first byte that was ever in the table.
    base: u16,
    /// The size of the entries.
    size: usize,
    /// The number of entries that were ever in the table when the last one came whose successor makes it useless; or 0.
    latest: u32,
    /// The number of entries that have gone.
    evicted: u32,
    /// The fingerprints of fields that have come once.
    seen: [u16; SEEN],
}

impl EncoderTable {
    pub(crate) fn new() -> EncoderTable {
        EncoderTable {
            tags: Vec::new(),
            entries: Vec::new(),
            gone: 0,
            bytes: Vec::new(),
            begin: 0,
            base: 0,
            size: 0,
            latest: 0,
            evicted: 0,
            seen: [0; SEEN],
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The size of the entries.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.tags.capacity() * 8 + self.entries.capacity() * size_of::<EncoderEntry>() + self.bytes.capacity()
    }

    /// The number of the entry that is this field; the youngest one has number 0.
    #[inline(always)]
    pub(crate) fn find(&self, sought: &FieldQuery<'_>) -> Option<usize> {
        const ONES: u64 = 0x0101_0101_0101_0101;
        const HIGHS: u64 = 0x8080_8080_8080_8080;
        let tags = ONES * u64::from(sought.tag());
        for (at, word) in self.tags.iter().enumerate().skip(self.gone / 8) {
            let differ = u64::from_le_bytes(*word) ^ tags;
            // The highest bit of each byte that is the tag; perhaps also of bytes above the first such one.
            let mut found = differ.wrapping_sub(ONES) & !differ & HIGHS;
            while found != 0 {
                let place = at * 8 + found.trailing_zeros() as usize / 8;
                if place >= self.gone && self.entries.get(place).is_some_and(|entry| self.is(entry, sought)) {
                    return Some(self.entries.len() - 1 - place);
                }
                found &= found - 1;
            }
        }
        None
    }

    /// Whether an entry is the field. Fields that differ may have the same fingerprint, so the texts are compared.
    #[inline(always)]
    fn is(&self, entry: &EncoderEntry, sought: &FieldQuery<'_>) -> bool {
        if entry.key != sought.key() {
            return false;
        }
        let start = usize::from(entry.start.wrapping_sub(self.base)) + usize::from(entry.name_len);
        let Some(value) = self.bytes.get(start..start + sought.value.len()) else { return false };
        same(value, sought.value) && (sought.id != 0 || self.has_name(entry, sought.name))
    }

    /// Whether an entry, whose name is not a known one, has this name.
    #[inline(never)]
    fn has_name(&self, entry: &EncoderEntry, name: &[u8]) -> bool {
        let start = usize::from(entry.start.wrapping_sub(self.base));
        let own = self.bytes.get(start..start + usize::from(entry.name_len));
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    }

    /// Whether a field has come before, as far as that is known; from now on it has.
    #[inline]
    pub(crate) fn has_seen(&mut self, sought: &FieldQuery<'_>) -> bool {
        let seen = &mut self.seen[(sought.print >> 40) as usize % SEEN];
        let print = (sought.print >> 24) as u16 | 1;
        std::mem::replace(seen, print) == print
    }

    /// Puts a field into the table. The entries may count `most`, and so may the field.
    pub(crate) fn insert(&mut self, sought: &FieldQuery<'_>, latest: bool, most: usize) {
        let size = sought.size();
        self.evict(most.saturating_sub(size));
        if latest {
            self.forget_latest();
        }
        let name = if sought.id == 0 { sought.name } else { b"" };
        self.make_room(name.len() + sought.value.len());
        let start = self.base.wrapping_add(self.bytes.len() as u16);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(sought.value);
        let place = self.entries.len();
        // There is room for both.
        if place.is_multiple_of(8) {
            self.tags.push([0; 8]);
        }
        self.tags[place / 8][place % 8] = sought.tag();
        self.entries.push(EncoderEntry { start, name_len: name.len() as u16, key: sought.key() });
        self.size += size;
        if latest {
            self.latest = self.evicted.wrapping_add(self.live() as u32);
        }
    }

    /// The number of entries that have to go until the others count no more than `most`.
    pub(crate) fn evictions(&self, most: usize) -> usize {
        let mut size = self.size;
        let entries = self.entries.get(self.gone..).unwrap_or_default();
        let must_go = |entry: &&EncoderEntry| {
            let goes = size > most;
            size = size.saturating_sub(entry.size());
            goes
        };
        entries.iter().take_while(must_go).count()
    }

    /// Makes the entry with this number impossible to find, because a younger one takes its place. It counts what it did
    /// before.
    pub(crate) fn hide(&mut self, number: usize) {
        let Some(place) = self.entries.len().checked_sub(number + 1) else { return };
        if place >= self.gone {
            let entry = &mut self.entries[place];
            entry.name_len += names::known(entry.id()).name.len() as u16;
            entry.key = key(FORGOTTEN, entry.value_len(), 0);
        }
    }

    /// The number of entries.
    pub(crate) fn live(&self) -> usize {
        self.entries.len() - self.gone
    }

    /// Makes the last entry whose successor makes it useless impossible to find. Its bytes are free at once if they are
    /// the last ones. They are so on a connection where the other fields stay the same.
    fn forget_latest(&mut self) {
        let place = self.latest.wrapping_sub(self.evicted).wrapping_sub(1) as usize;
        if self.latest == 0 || place >= self.live() {
            return;
        }
        let is_last = place + 1 == self.live();
        let entry = &mut self.entries[self.gone + place];
        // It counts what it did before.
        entry.name_len = names::known(entry.id()).name.len() as u16;
        entry.key = key(FORGOTTEN, entry.value_len(), 0);
        if is_last {
            self.bytes.truncate(entry.start.wrapping_sub(self.base).into());
        }
    }

    /// Makes room for one more entry with a text of this length.
    fn make_room(&mut self, len: usize) {
        if self.entries.len() == self.entries.capacity() {
            // The tags move by whole groups.
            let groups = self.gone / 8;
            if self.gone * 4 >= self.entries.len() && groups > 0 {
                self.tags.drain(..groups);
                self.entries.drain(..groups * 8);
                self.gone -= groups * 8;
            } else {
                let more = FIRST_ENTRIES.max(self.entries.len() / 2).next_multiple_of(8);
                self.entries.reserve_exact(more);
                self.tags.reserve_exact(more / 8);
            }
        }
        if self.bytes.capacity() - self.bytes.len() < len {
            // What is moved is at most twice as long as what has gone since the last time.
            if self.begin * 2 >= self.bytes.len() - self.begin {
                self.bytes.drain(..self.begin);
                self.base = self.base.wrapping_add(self.begin as u16);
                self.begin = 0;
            }
            if self.bytes.capacity() - self.bytes.len() < len {
                self.bytes.reserve_exact(len.max(FIRST_BYTES).max(self.bytes.len() / 4));
            }
        }
    }

    /// Lets the oldest entries go until the others count no more than `most`.
    pub(crate) fn evict(&mut self, most: usize) {
        while self.size > most
            && let Some(entry) = self.entries.get(self.gone)
        {
            self.size -= entry.size();
            self.gone += 1;
            self.evicted = self.evicted.wrapping_add(1);
            let next = self.entries.get(self.gone).map(|next| next.start.wrapping_sub(self.base).into());
            self.begin = next.unwrap_or(self.bytes.len());
        }
    }
}
