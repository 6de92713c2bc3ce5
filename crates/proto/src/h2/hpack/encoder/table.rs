//! The dynamic table of what is sent: which fields the peer has in its table, so that they can be named by an index.

use super::super::FIELD_OVERHEAD;
use super::names::{self, Id};

/// The largest table: places and lengths are kept in two bytes.
pub(super) const LARGEST: u32 = 16_384;

/// How many bytes of memory the entries' texts begin with.
const FIRST_BYTES: usize = 96;
/// How many entries there is memory for at first.
const FIRST_ENTRIES: usize = 8;

/// How many fields are kept in mind that have come once.
const SEEN: usize = 32;

/// A field as the table looks for it.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    /// The id of the name, or 0.
    pub id: Id,
    /// The name in any case.
    pub name: &'a [u8],
    pub value: &'a [u8],
    print: u64,
}

impl<'a> Sought<'a> {
    #[inline(always)]
    pub(super) fn new(id: Id, name: &'a [u8], value: &'a [u8]) -> Sought<'a> {
        let seed = if id != 0 { u64::from(id) } else { ends(name) | 0x2020_2020_2020_2020 };
        let lengths = (value.len() as u64) << 8 ^ if id != 0 { 0 } else { (name.len() as u64) << 32 };
        let print = (seed ^ lengths).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        Sought { id, name, value, print: (print ^ ends(value)).wrapping_mul(0xd6e8_feb8_6659_fd93) }
    }

    /// What the field counts: RFC 7541 section 4.1.
    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.name.len() + self.value.len() + FIELD_OVERHEAD
    }

    /// By this an entry is found among others. 0 is no tag.
    #[inline(always)]
    fn tag(&self) -> u8 {
        ((self.print >> 56) as u8).max(1)
    }

    /// By this most wrong ones of the entries found are told apart from the right one.
    #[inline(always)]
    fn check(&self) -> u8 {
        (self.print >> 48) as u8
    }
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

/// An entry. Its name, if that is not a known one, and its value behind it are in [`Table::bytes`].
#[derive(Clone, Copy)]
struct Entry {
    /// Where it begins, as a distance from the first byte that was ever in the table; it wraps around.
    start: u16,
    /// How long the name is in [`Table::bytes`]; 0 for a known name.
    name_len: u16,
    value_len: u16,
    id: Id,
    check: u8,
}

impl Entry {
    fn size(&self) -> usize {
        let name_len = names::known(self.id).map_or(self.name_len.into(), |known| known.name.len());
        name_len + usize::from(self.value_len) + FIELD_OVERHEAD
    }
}

/// The table. It keeps the texts of its entries, so that no field is ever taken for another one whose fingerprint is the
/// same.
pub(super) struct Table {
    /// A tag for each entry, the oldest first; 0 for one that is not to be found any more. Those that are gone come
    /// before the oldest one.
    tags: Vec<u8>,
    /// The entries, beside their tags.
    entries: Vec<Entry>,
    /// How many tags and entries are gone.
    gone: usize,
    /// Bytes of entries that are gone, then those of the others, the oldest first.
    bytes: Vec<u8>,
    /// Where the entries' bytes begin.
    begin: usize,
    /// The distance of `bytes[0]` from the first byte that was ever in the table.
    base: u16,
    /// What the entries count.
    size: usize,
    /// How many entries were ever in the table when the last one came whose successor makes it useless; or 0.
    latest: u32,
    /// How many entries have gone.
    evicted: u32,
    /// The fingerprints of fields that have come once.
    seen: [u16; SEEN],
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
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

    pub(super) fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// What the entries count.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.tags.capacity() + self.entries.capacity() * size_of::<Entry>() + self.bytes.capacity()
    }

    /// The number of the entry that is this field; the youngest one has number 0.
    #[inline]
    pub(super) fn find(&self, sought: &Sought<'_>) -> Option<usize> {
        const ONES: u64 = 0x0101_0101_0101_0101;
        const HIGHS: u64 = 0x8080_8080_8080_8080;
        let tags = &self.tags[self.gone..];
        let tag = sought.tag();
        let (words, rest) = tags.as_chunks::<8>();
        for (at, word) in words.iter().enumerate() {
            let differ = u64::from_le_bytes(*word) ^ (ONES * u64::from(tag));
            // The highest bit of each byte that is the tag; perhaps also of bytes above the first such one.
            let mut found = differ.wrapping_sub(ONES) & !differ & HIGHS;
            while found != 0 {
                let place = at * 8 + found.trailing_zeros() as usize / 8;
                if self.is(place, sought) {
                    return Some(tags.len() - 1 - place);
                }
                found &= found - 1;
            }
        }
        for (at, &other) in rest.iter().enumerate() {
            let place = words.len() * 8 + at;
            if other == tag && self.is(place, sought) {
                return Some(tags.len() - 1 - place);
            }
        }
        None
    }

    /// Whether the entry at this place, counted from the oldest one, is the field.
    #[inline]
    fn is(&self, place: usize, sought: &Sought<'_>) -> bool {
        let entry = self.entries[self.gone + place];
        // A tag may have been found wrongly, and an entry without one has no text any more.
        if entry.check != sought.check() || entry.id != sought.id || self.tags[self.gone + place] == 0 {
            return false;
        }
        let (start, name_len) = (usize::from(entry.start.wrapping_sub(self.base)), usize::from(entry.name_len));
        let Some(text) = self.bytes.get(start..start + name_len + usize::from(entry.value_len)) else { return false };
        let (name, value) = text.split_at(name_len);
        crate::ascii::same(value, sought.value) && (entry.id != 0 || name.eq_ignore_ascii_case(sought.name))
    }

    /// Whether a field has come before, as far as that is known; from now on it has.
    #[inline]
    pub(super) fn has_seen(&mut self, sought: &Sought<'_>) -> bool {
        let seen = &mut self.seen[(sought.print >> 40) as usize % SEEN];
        let print = (sought.print >> 24) as u16 | 1;
        std::mem::replace(seen, print) == print
    }

    /// Puts a field into the table, of which the entries may count `most`; the field may not count more.
    pub(super) fn insert(&mut self, sought: &Sought<'_>, latest: bool, most: usize) {
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
        self.tags.push(sought.tag());
        // All of these are less than `LARGEST`.
        let (name_len, value_len) = (name.len() as u16, sought.value.len() as u16);
        self.entries.push(Entry { start, name_len, value_len, id: sought.id, check: sought.check() });
        self.size += size;
        if latest {
            self.latest = self.evicted.wrapping_add(self.live() as u32);
        }
    }

    /// How many entries there are.
    fn live(&self) -> usize {
        self.entries.len() - self.gone
    }

    /// Makes the last entry whose successor makes it useless one that is not found. Its bytes are free at once if they are
    /// the last ones, which they are on a connection whose other fields stay the same.
    fn forget_latest(&mut self) {
        let place = self.latest.wrapping_sub(self.evicted).wrapping_sub(1) as usize;
        if self.latest == 0 || place >= self.live() {
            return;
        }
        let at = self.gone + place;
        self.tags[at] = 0;
        if place + 1 == self.live() {
            self.bytes.truncate(self.entries[at].start.wrapping_sub(self.base).into());
        }
    }

    /// Sees to it that there is room for one more entry with a text of this length.
    fn make_room(&mut self, len: usize) {
        if self.entries.len() == self.entries.capacity() {
            if self.gone * 4 >= self.entries.len() {
                self.tags.drain(..self.gone);
                self.entries.drain(..self.gone);
                self.gone = 0;
            }
            if self.entries.len() == self.entries.capacity() {
                let more = FIRST_ENTRIES.max(self.entries.len() / 2);
                self.tags.reserve_exact(more);
                self.entries.reserve_exact(more);
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
    pub(super) fn evict(&mut self, most: usize) {
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
