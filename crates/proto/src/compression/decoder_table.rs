//! The dynamic table of what is received: RFC 7541 section 2.3.2, RFC 9204 section 3.2.

use std::marker::PhantomData;

use super::FIELD_OVERHEAD;
use super::field::{DecodedField, Pseudo};
use super::huffman;
use super::integer;
use super::limits::DecodeError;
use crate::HeaderId;

/// The largest table: lengths are kept in two bytes.
pub(crate) const LARGEST: u32 = 65_535;

/// The most memory that a table may keep beyond its entries' need, in bytes. It is enough for the strings of most
/// blocks, which are decoded behind the entries.
const SPARE: usize = 160;

/// The number of entries with memory at first.
const FIRST_ENTRIES: usize = 4;

/// The static table of a compression, by places from 1 on.
pub(crate) trait StaticTable {
    /// The entry in this place; `None` for place 0, and behind the last one.
    fn entry(place: usize) -> Option<&'static DecodedField<'static>>;
}

/// An entry. Its name, unless the static table has it, and its value behind it are in [`DecoderTable::bytes`].
#[derive(Clone, Copy)]
struct DecoderEntry {
    /// The begin of the entry, as a distance from the first byte that was ever in the table; it wraps around.
    start: u32,
    /// The length of the name in [`DecoderTable::bytes`].
    name_len: u16,
    value_len: u16,
    /// The place in the static table of an entry with the same name, or 0.
    name_place: u8,
    id: HeaderId,
    pseudo: Option<Pseudo>,
}

impl DecoderEntry {
    fn name_len<T: StaticTable>(&self) -> usize {
        T::entry(self.name_place.into()).map_or(self.name_len.into(), |entry| entry.name.len())
    }

    /// The size of the entry: RFC 7541 section 4.1.
    fn size<T: StaticTable>(&self) -> usize {
        self.name_len::<T>() + usize::from(self.value_len) + FIELD_OVERHEAD
    }
}

/// A string that was read.
pub(crate) enum Text<'b> {
    /// The text stands in the block as it is.
    Plain(&'b [u8]),
    /// The text was decoded to the end of the work area, and has this length.
    Worked(usize),
}

/// The end of a block within a field.
pub(crate) const CUT_OFF: DecodeError = DecodeError::Compression("a header block ends within a field");

/// The name of a field that is about to be put into the table.
#[derive(Clone, Copy)]
pub(crate) enum EntryName {
    /// The name of the entry in this place of the static table.
    Static(u8),
    /// The name has this length, and begins where the work area begins.
    InWork(usize),
}

/// The table. Behind the entries it has a work area, in which the strings of a block are put together.
pub(crate) struct DecoderTable<T> {
    /// Bytes of entries that are gone, then the bytes of the entries, the oldest first, then the work area.
    bytes: Vec<u8>,
    /// The begin of the entries' bytes.
    begin: usize,
    /// The end of the entries' bytes, and the begin of the work area.
    end: usize,
    /// The distance of `bytes[0]` from the first byte that was ever in the table.
    base: u32,
    /// Entries that are gone, then the others, the oldest first.
    entries: Vec<DecoderEntry>,
    /// The number of entries that are gone.
    gone: usize,
    /// The size of the entries.
    size: usize,
    /// The most that the entries may count.
    most: usize,
    statics: PhantomData<T>,
}

impl<T: StaticTable> DecoderTable<T> {
    pub(crate) const fn new(most: u32) -> DecoderTable<T> {
        let most = if most < LARGEST { most } else { LARGEST };
        DecoderTable {
            bytes: Vec::new(),
            begin: 0,
            end: 0,
            base: 0,
            entries: Vec::new(),
            gone: 0,
            size: 0,
            most: most as usize,
            statics: PhantomData,
        }
    }

    /// The most that the entries may count.
    pub(crate) const fn most(&self) -> u32 {
        self.most as u32
    }

    /// The size of the entries.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<DecoderEntry>()
    }

    /// Changes what the entries may count, at most [`LARGEST`]; those for which there is no room go.
    pub(crate) fn set_most(&mut self, most: u32) {
        self.most = most.min(LARGEST) as usize;
        self.evict(self.most);
    }

    /// The entry with this number; the youngest has number 0.
    #[inline(always)]
    fn entry(&self, number: usize) -> Option<&DecoderEntry> {
        // Those that are gone are not in the part that is looked at, and a number that is too large wraps around.
        let entries = self.entries.get(self.gone..)?;
        entries.get(entries.len().wrapping_sub(number).wrapping_sub(1))
    }

    /// The field of the entry with this number.
    #[inline(always)]
    pub(crate) fn get(&self, number: usize) -> Option<DecodedField<'_>> {
        let entry = self.entry(number)?;
        let start = entry.start.wrapping_sub(self.base) as usize;
        let (name_len, value_len) = (usize::from(entry.name_len), usize::from(entry.value_len));
        let (own_name, value) = self.bytes.get(start..start + name_len + value_len)?.split_at(name_len);
        let name = match entry.name_place {
            0 => own_name,
            place => T::entry(place.into())?.name,
        };
        Some(DecodedField { name, value, id: entry.id, pseudo: entry.pseudo, never_indexed: false })
    }

    /// The place in the static table of an entry with the same name as the entry with this number.
    pub(crate) fn name_place(&self, number: usize) -> Option<u8> {
        Some(self.entry(number)?.name_place).filter(|&place| place != 0)
    }

    /// The work area as a vector's end, with room for `len` more bytes: what is appended to the vector, is in the area.
    /// Where memory has to be got, it is enough for `block` bytes, which are to follow.
    pub(crate) fn work(&mut self, len: usize, block: usize) -> &mut Vec<u8> {
        if self.bytes.capacity() - self.bytes.len() < len {
            self.make_room(len, block);
        }
        &mut self.bytes
    }

    /// The contents of the work area.
    #[inline(always)]
    pub(crate) fn worked(&self) -> &[u8] {
        &self.bytes[self.end..]
    }

    /// Reads a string (RFC 7541 section 5.2, RFC 9204 section 4.1.2) of at most `most` bytes. Its length begins in the
    /// bits `mask` of the byte `first`, and the bit above them says whether it is Huffman-coded; `rest` is what follows.
    #[inline(always)]
    pub(crate) fn string<'b>(
        &mut self,
        first: u8,
        mask: u8,
        rest: &mut &'b [u8],
        most: usize,
    ) -> Result<Text<'b>, DecodeError> {
        let len = integer::read(first, mask, rest)?;
        let len = usize::try_from(len).map_err(|_| CUT_OFF)?;
        let (text, behind) = rest.split_at_checked(len).ok_or(CUT_OFF)?;
        *rest = behind;
        if first & (mask + 1) == 0 {
            return if len <= most { Ok(Text::Plain(text)) } else { Err(DecodeError::TooLarge) };
        }
        self.huffman(text, most, behind.len()).map(Text::Worked)
    }

    /// Decodes a string to the end of the work area, and says how long it is.
    fn huffman(&mut self, text: &[u8], most: usize, block: usize) -> Result<usize, DecodeError> {
        // Where the room comes from is said here, so that the vector has no reason to choose how much more it takes.
        let room = huffman::longest(text.len()).min(most) + huffman::SPARE;
        let work = self.work(room, block);
        let before = work.len();
        huffman::decode(text, most, work)?;
        Ok(work.len() - before)
    }

    /// Appends the name of the entry with this number to the work area.
    pub(crate) fn copy_name(&mut self, number: usize, block: usize) {
        let len = self.get(number).map_or(0, |entry| entry.name.len());
        self.work(len, block);
        // The place is looked up afterwards, since making room moves the entries.
        let Some(entry) = self.entries.len().checked_sub(number + 1).and_then(|at| self.entries.get(at)) else {
            return;
        };
        let start = entry.start.wrapping_sub(self.base) as usize;
        self.bytes.extend_from_within(start..start + usize::from(entry.name_len));
    }

    /// Appends the value of the entry with this number to the work area.
    pub(crate) fn copy_value(&mut self, number: usize) {
        let len = self.get(number).map_or(0, |entry| entry.value.len());
        self.work(len, 0);
        let Some(entry) = self.entries.len().checked_sub(number + 1).and_then(|at| self.entries.get(at)) else {
            return;
        };
        let start = entry.start.wrapping_sub(self.base) as usize + usize::from(entry.name_len);
        self.bytes.extend_from_within(start..start + usize::from(entry.value_len));
    }

    #[inline(never)]
    fn make_room(&mut self, len: usize, block: usize) {
        // What is moved is at most four times as long as what has gone since the last time.
        if self.begin * 4 >= self.bytes.len() - self.begin {
            self.close_gap();
        }
        if self.bytes.capacity() - self.bytes.len() < len {
            // A string is seldom more than a third longer than its code.
            let hoped = (block + block / 3).min(self.most);
            self.bytes.reserve_exact((len + hoped).max(self.bytes.len() / 8));
        }
    }

    /// Moves the entries to where those were that are gone.
    fn close_gap(&mut self) {
        self.bytes.copy_within(self.begin.., 0);
        self.bytes.truncate(self.bytes.len() - self.begin);
        self.end -= self.begin;
        self.base = self.base.wrapping_add(self.begin as u32);
        self.begin = 0;
    }

    /// Empties the work area.
    #[inline(always)]
    pub(crate) fn drop_work(&mut self) {
        self.bytes.truncate(self.end);
    }

    /// Makes an entry of the work area, in which the name is, unless the static table has it, and then the value. Older
    /// entries go where it needs their room; if it is larger than the whole table, all go and it does not come in
    /// (RFC 7541 section 4.4).
    pub(crate) fn insert(&mut self, name: EntryName, id: HeaderId, pseudo: Option<Pseudo>) {
        let (name_place, name_len) = match name {
            EntryName::Static(place) => (place, 0),
            EntryName::InWork(len) => (0, len),
        };
        let value_len = self.worked().len() - name_len;
        let counted = T::entry(name_place.into()).map_or(name_len, |entry| entry.name.len());
        let size = counted + value_len + FIELD_OVERHEAD;
        if size > self.most {
            self.evict(0);
            self.drop_work();
            return;
        }
        self.evict(self.most - size);
        let start = self.base.wrapping_add(self.end as u32);
        // Both are less than `most`, and that is at most `LARGEST`.
        let (name_len, value_len) = (name_len as u16, value_len as u16);
        if self.entries.len() == self.entries.capacity() {
            self.make_room_for_entry();
        }
        self.entries.push(DecoderEntry { start, name_len, value_len, name_place, id, pseudo });
        self.size += size;
        self.end = self.bytes.len();
    }

    #[inline(never)]
    fn make_room_for_entry(&mut self) {
        if self.gone * 4 >= self.entries.len() {
            self.drop_gone_entries();
        }
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact((self.entries.len() / 2).max(FIRST_ENTRIES));
        }
    }

    /// Gives up memory beyond what the entries take.
    pub(crate) fn shrink(&mut self) {
        self.drop_work();
        self.close_gap();
        self.drop_gone_entries();
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    fn drop_gone_entries(&mut self) {
        self.entries.drain(..self.gone);
        self.gone = 0;
    }

    /// Lets the oldest entries go until the others count no more than `most`.
    #[inline]
    fn evict(&mut self, most: usize) {
        while self.size > most
            && let Some(entry) = self.entries.get(self.gone)
        {
            self.gone += 1;
            self.size -= entry.size::<T>();
            self.begin += usize::from(entry.name_len) + usize::from(entry.value_len);
        }
    }

    /// Gives memory back at the end of a block, if it is much more than the entries need. A full table keeps what it
    /// takes to let the gap grow at its beginning ([`DecoderTable::make_room`]).
    #[inline]
    pub(crate) fn trim(&mut self) {
        let live = self.end - self.begin;
        if self.bytes.capacity() > live + live / 2 + SPARE {
            self.give_back();
        }
    }

    #[inline(never)]
    fn give_back(&mut self) {
        self.close_gap();
        self.bytes.shrink_to(self.bytes.len() + SPARE / 4);
        if self.entries.capacity() > 8 && self.entries.capacity() / 4 > self.entries.len() - self.gone {
            self.drop_gone_entries();
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }
}
