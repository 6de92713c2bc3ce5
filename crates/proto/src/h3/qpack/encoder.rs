//! Encoding of sections of fields, and the instructions of the peer's decoder.
//!
//! The name of a field decides whether it goes into the table, by the same rules as in HPACK. A field that is inserted is
//! written in full as well. It is named by its index as soon as the peer is known to have the entry, so that no section
//! has to wait for the encoder's stream. `date` goes in when the same value comes again, since it changes each second.

use std::collections::VecDeque;

use super::statics;
use crate::compression::encoder_table::{EncoderTable, FieldQuery, LARGEST};
use crate::compression::integer::{self, IntegerError};
use crate::compression::names::{self, Id, Policy};
use crate::compression::{FIELD_OVERHEAD, Indexing, Pseudo, string};

/// The most sections that refer to the dynamic table and are not acknowledged. Others refer to nothing.
const MOST_SECTIONS: usize = 256;

/// The length of the prefix of most sections, in bytes.
const PREFIX: usize = 2;

/// The longest instruction of a decoder, in bytes: one integer.
const LONGEST_INSTRUCTION: usize = 10;

/// An instruction of the peer's decoder that is wrong (RFC 9204 section 6): the connection ends with
/// `QPACK_DECODER_STREAM_ERROR`. The text says what is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderStreamError(pub &'static str);

/// The kind of an instruction of the peer's decoder: RFC 9204 section 4.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction {
    /// A section was decoded, or entries have arrived.
    Progress,
    /// The sections of a stream are not decoded any more, which a peer may say of any stream.
    Cancellation,
}

/// A section that the peer may not have decoded yet.
#[derive(Debug, Clone, Copy)]
struct Section {
    stream: u64,
    /// The number of entries that have to be inserted for it.
    required: u64,
    /// The lowest absolute index that it refers to.
    lowest: u64,
}

/// The table, and what the peer may still need of it.
///
/// Invariants: the peer has no entry that was not inserted (`known <= inserted`). No entry that an open section refers
/// to, or that has not arrived, is evicted.
struct Dynamic {
    table: EncoderTable,
    /// The number of entries that were ever inserted.
    inserted: u64,
    /// The number of entries that the peer is known to have: its Known Received Count.
    known: u64,
    sections: VecDeque<Section>,
}

/// The sending half of QPACK on a connection.
pub struct QpackEncoder {
    dynamic: Option<Box<Dynamic>>,
    /// The most that the entries of the table may count; 0 before the peer's settings have come.
    most: u32,
    /// The capacity that the peer was told.
    told: u32,
    /// The number of entries that the largest table of the peer could have (RFC 9204 section 4.5.1.1).
    most_entries: u64,
    /// The number of streams that may be blocked at the peer.
    blocked_streams: u64,
    /// The section that is being written.
    section: Section,
    /// The number of entries when the section began.
    base: u64,
    /// The section may refer to the table.
    may_refer: bool,
    /// The section may refer to entries that have not arrived.
    may_block: bool,
    /// Nothing is inserted for now, because the peer does not read the instructions.
    is_paused: bool,
    /// The instructions for the peer's decoder that were not taken yet.
    out: Vec<u8>,
    partial: [u8; LONGEST_INSTRUCTION],
    partial_len: u8,
}

impl Default for QpackEncoder {
    fn default() -> QpackEncoder {
        QpackEncoder::new()
    }
}

impl Dynamic {
    /// The absolute index of the entry with this number; the youngest one has number 0.
    #[inline]
    fn index(&self, number: usize) -> u64 {
        self.inserted - 1 - number as u64
    }

    /// Whether so much room can be made in a table of `most` bytes that a field of this size has it.
    fn has_room(&self, size: usize, most: usize, section: &Section) -> bool {
        let Some(rest) = most.checked_sub(size) else { return false };
        let evictions = self.table.evictions(rest) as u64;
        if evictions == 0 {
            return true;
        }
        let oldest_after = self.inserted - self.table.live() as u64 + evictions;
        let referred = self.sections.iter().map(|section| section.lowest).min().unwrap_or(u64::MAX);
        oldest_after <= self.known.min(referred).min(section.lowest)
    }

    /// The number of streams that the peer may have blocked, but for this one; and whether this one may be blocked.
    fn blocked(&self, stream: u64) -> (u64, bool) {
        let open = || self.sections.iter().filter(|section| section.required > self.known);
        let is_first = |at: usize, of: u64| !open().take(at).any(|section| section.stream == of);
        let others =
            open().enumerate().filter(|(at, section)| section.stream != stream && is_first(*at, section.stream));
        (others.count() as u64, open().any(|section| section.stream == stream))
    }
}

impl QpackEncoder {
    /// An encoder without a dynamic table, which is what there is before the peer's settings have come.
    pub const fn new() -> QpackEncoder {
        QpackEncoder {
            dynamic: None,
            most: 0,
            told: 0,
            most_entries: 0,
            blocked_streams: 0,
            section: Section { stream: 0, required: 0, lowest: u64::MAX },
            base: 0,
            may_refer: false,
            may_block: false,
            is_paused: false,
            out: Vec::new(),
            partial: [0; LONGEST_INSTRUCTION],
            partial_len: 0,
        }
    }

    /// Takes over the peer's `SETTINGS_QPACK_MAX_TABLE_CAPACITY`, and how large the table may be by our own choice; the
    /// lesser is used, and never more than 16,384. `blocked_streams` is how many streams may be blocked at the peer; by
    /// 0, none ever is.
    pub fn set_most(&mut self, peer: u64, own_bound: u32, blocked_streams: u64) {
        self.most_entries = peer / FIELD_OVERHEAD as u64;
        self.most = u32::try_from(peer).unwrap_or(u32::MAX).min(own_bound).min(LARGEST);
        self.blocked_streams = blocked_streams;
    }

    /// Stops insertions, or lets them go on: instructions are not to pile up if the peer does not read them.
    #[inline]
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// The instructions for the peer's decoder. Whoever writes them on the encoder's stream takes them out. They should
    /// be sent before the sections that were encoded meanwhile.
    #[inline]
    pub fn instructions(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Drops the table and its memory, for a connection that is idle, if the peer needs none of it. Its table is emptied,
    /// too.
    pub fn forget(&mut self) {
        let Some(dynamic) = &mut self.dynamic else { return };
        if dynamic.sections.is_empty() && dynamic.known == dynamic.inserted && self.told > 0 {
            integer::write(0x20, 0x1f, 0, &mut self.out);
            self.told = 0;
            dynamic.table = EncoderTable::new();
            dynamic.sections = VecDeque::new();
        }
    }

    /// Bytes of memory that are kept beside the encoder itself.
    pub fn heap_bytes(&self) -> usize {
        let of_table =
            |dynamic: &Dynamic| dynamic.table.heap_bytes() + dynamic.sections.capacity() * size_of::<Section>();
        let dynamic = self.dynamic.as_ref().map_or(0, |dynamic| size_of::<Dynamic>() + of_table(dynamic));
        dynamic + self.out.capacity()
    }

    /// The size of the dynamic table's entries, in bytes, as RFC 9204 section 3.2.1 counts it.
    pub fn table_size(&self) -> usize {
        self.dynamic.as_ref().map_or(0, |dynamic| dynamic.table.size())
    }

    /// The number of entries that were ever inserted.
    pub fn inserted(&self) -> u64 {
        self.dynamic.as_ref().map_or(0, |dynamic| dynamic.inserted)
    }

    /// The number of sections that refer to the table and are not acknowledged.
    pub fn open_sections(&self) -> usize {
        self.dynamic.as_ref().map_or(0, |dynamic| dynamic.sections.len())
    }

    /// Asserts the invariants.
    pub fn check_invariants(&self) {
        let Some(dynamic) = &self.dynamic else { return };
        debug_assert!(dynamic.known <= dynamic.inserted, "the peer has entries that were not inserted");
        debug_assert!(dynamic.sections.len() <= MOST_SECTIONS, "more sections are open than the limit says");
        debug_assert!(dynamic.table.size() <= self.most as usize, "the table is too large");
        let oldest = dynamic.inserted - dynamic.table.live() as u64;
        debug_assert!(oldest <= dynamic.known, "an entry that has not arrived is gone");
        for section in &dynamic.sections {
            debug_assert!(oldest <= section.lowest, "an entry is gone that a section refers to");
            debug_assert!(section.lowest < section.required && section.required <= dynamic.inserted, "no entry is it");
        }
    }

    // ---- the decoder's stream --------------------------------------------------------------------------------------

    /// Takes an instruction from the bytes of the peer's decoder stream, and carries it out. `None` if more bytes are
    /// needed; all of them are taken then.
    ///
    /// # Errors
    /// The instruction is wrong.
    pub fn instruction(&mut self, bytes: &mut &[u8]) -> Result<Option<Instruction>, DecoderStreamError> {
        while let Some((&byte, rest)) = bytes.split_first() {
            let len = usize::from(self.partial_len);
            let Some(place) = self.partial.get_mut(len) else { return Err(LARGE_INTEGER) };
            *place = byte;
            *bytes = rest;
            self.partial_len += 1;
            let first = self.partial[0];
            let mask = if first & 0x80 != 0 { 0x7f } else { 0x3f };
            match integer::read(first, mask, &mut &self.partial[1..=len]) {
                Ok(number) => {
                    self.partial_len = 0;
                    return self.carry_out(first, number).map(Some);
                }
                Err(IntegerError::Truncated) => {}
                Err(IntegerError::Overflow) => return Err(LARGE_INTEGER),
            }
        }
        Ok(None)
    }

    fn carry_out(&mut self, first: u8, number: u64) -> Result<Instruction, DecoderStreamError> {
        match first {
            0x80.. => self.acknowledge(number).map(|()| Instruction::Progress),
            0x40..0x80 => {
                if let Some(dynamic) = &mut self.dynamic {
                    dynamic.sections.retain(|section| section.stream != number);
                }
                Ok(Instruction::Cancellation)
            }
            0x00..0x40 => self.increment(number).map(|()| Instruction::Progress),
        }
    }

    /// The oldest section of a stream was decoded.
    fn acknowledge(&mut self, stream: u64) -> Result<(), DecoderStreamError> {
        const UNKNOWN: DecoderStreamError = DecoderStreamError("a section is acknowledged that was not sent");
        let dynamic = self.dynamic.as_mut().ok_or(UNKNOWN)?;
        let at = dynamic.sections.iter().position(|section| section.stream == stream).ok_or(UNKNOWN)?;
        let section = dynamic.sections.remove(at).ok_or(UNKNOWN)?;
        dynamic.known = dynamic.known.max(section.required);
        Ok(())
    }

    /// Further entries have arrived.
    fn increment(&mut self, count: u64) -> Result<(), DecoderStreamError> {
        const WRONG: DecoderStreamError = DecoderStreamError("more entries have arrived than were sent, or none");
        let dynamic = self.dynamic.as_mut().ok_or(WRONG)?;
        let known = dynamic.known.checked_add(count).filter(|known| count > 0 && *known <= dynamic.inserted);
        dynamic.known = known.ok_or(WRONG)?;
        Ok(())
    }

    // ---- sections --------------------------------------------------------------------------------------------------

    /// Begins a section of this stream, which is appended to `out` by the calls that follow, and returns its begin for
    /// [`QpackEncoder::finish`].
    #[inline]
    pub fn begin(&mut self, stream: u64, out: &mut Vec<u8>) -> usize {
        self.section = Section { stream, required: 0, lowest: u64::MAX };
        self.may_refer = self.most > 0;
        self.may_block = false;
        if let Some(dynamic) = &self.dynamic {
            self.base = dynamic.inserted;
            self.may_refer &= dynamic.sections.len() < MOST_SECTIONS;
        }
        if self.blocked_streams > 0 && self.may_refer {
            let (others, is_blocked) = self.dynamic.as_ref().map_or((0, false), |dynamic| dynamic.blocked(stream));
            self.may_block = is_blocked || others < self.blocked_streams;
        }
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX]);
        start
    }

    /// Ends the section: writes its prefix, for which [`QpackEncoder::begin`] has left room.
    #[inline]
    pub fn finish(&mut self, start: usize, out: &mut Vec<u8>) {
        let Section { required, .. } = self.section;
        if required == 0 {
            // A section that refers to nothing begins with zeros.
            return;
        }
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.sections.push_back(self.section);
        }
        let encoded = required % (2 * self.most_entries).max(1) + 1;
        match (out.get_mut(start..start + PREFIX), self.base.checked_sub(required)) {
            (Some(prefix), Some(delta @ 0..0x7f)) if encoded < 0xff => {
                prefix.copy_from_slice(&[encoded as u8, delta as u8]);
            }
            _ => self.write_prefix(encoded, start, out),
        }
    }

    /// Writes a prefix for which other bytes may have to move.
    #[inline(never)]
    fn write_prefix(&self, encoded: u64, start: usize, out: &mut Vec<u8>) {
        let Section { required, .. } = self.section;
        let mut prefix = Vec::new();
        integer::write(0, 0xff, encoded as usize, &mut prefix);
        match self.base.checked_sub(required) {
            Some(delta) => integer::write(0, 0x7f, delta as usize, &mut prefix),
            None => integer::write(0x80, 0x7f, (required - self.base - 1) as usize, &mut prefix),
        }
        out.splice(start..start + PREFIX, prefix);
    }

    /// Writes `:status`.
    #[inline]
    pub fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        let index = match status {
            103 => 24,
            200 => 25,
            304 => 26,
            404 => 27,
            503 => 28,
            _ => return self.known(names::STATUS, &names::status_value(status), out),
        };
        out.push(0xc0 | index);
    }

    /// Writes a field, whose name may be in any case. Whether it goes into the table is decided by its name and length.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match names::look_up(name) {
            0 => self.choose(0, name, Policy::Repeated, value, out),
            id => self.known(id, value, out),
        }
    }

    /// Writes a field in the way that is asked for. What has no room in the table does not go into it either.
    pub fn field_as(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let id = names::look_up(name);
        match indexing {
            Indexing::Incremental => {
                let sought = FieldQuery::new(id, name, value);
                self.indexed(&sought, Policy::Common, self.most as usize, out);
            }
            Indexing::Without | Indexing::Never => literal(indexing, id, name, value, out),
        }
    }

    /// Writes a pseudo-header field; a request has several. For [`Pseudo::Unknown`], which has no name, nothing is
    /// written.
    pub fn pseudo(&mut self, pseudo: Pseudo, value: &[u8], out: &mut Vec<u8>) {
        let id = match pseudo {
            Pseudo::Authority => names::AUTHORITY,
            Pseudo::Method => names::METHOD,
            Pseudo::Path => names::PATH,
            Pseudo::Scheme => names::SCHEME,
            Pseudo::Protocol => names::PROTOCOL,
            Pseudo::Status => names::STATUS,
            Pseudo::Unknown => return,
        };
        self.known(id, value, out);
    }

    /// Writes a field with a known name.
    #[inline]
    fn known(&mut self, id: Id, value: &[u8], out: &mut Vec<u8>) {
        if let Some(index) = statics::find(id, value) {
            return integer::write(0xc0, 0x3f, index, out);
        }
        let known = names::known(id);
        self.choose(id, known.name.as_bytes(), known.policy, value, out);
    }

    #[inline(never)]
    fn choose(&mut self, id: Id, name: &[u8], policy: Policy, value: &[u8], out: &mut Vec<u8>) {
        match policy {
            Policy::Common | Policy::Latest | Policy::Repeated if self.may_refer => {
                let sought = FieldQuery::new(id, name, value);
                self.indexed(&sought, policy, self.most as usize / 4, out);
            }
            _ => literal(Indexing::Without, id, name, value, out),
        }
    }

    /// Writes a field by its index, if the peer has it or the section may wait for it; otherwise in full. Then it also
    /// goes into the table, if it counts no more than `most` and the policy says so.
    fn indexed(&mut self, sought: &FieldQuery<'_>, policy: Policy, most: usize, out: &mut Vec<u8>) {
        if sought.size() <= most && self.may_refer {
            let found = self.dynamic.as_ref().and_then(|dynamic| {
                let number = dynamic.table.find(sought)?;
                Some((number, dynamic.index(number), dynamic.known))
            });
            let index = match found {
                Some((number, index, known)) => {
                    if index < known || self.may_block {
                        self.refer_to(index);
                        self.renew(number, sought, most);
                    }
                    Some(index).filter(|index| *index < known || self.may_block)
                }
                None => self.insert(sought, policy).filter(|_| self.may_block).inspect(|index| self.refer_to(*index)),
            };
            if let Some(index) = index {
                return self.write_index(index, out);
            }
        }
        literal(Indexing::Without, sought.id, sought.name, sought.value, out);
    }

    /// Notes that the section refers to an entry.
    fn refer_to(&mut self, index: u64) {
        self.section.required = self.section.required.max(index + 1);
        self.section.lowest = self.section.lowest.min(index);
    }

    /// Writes a reference to an entry: RFC 9204 sections 4.5.2 and 4.5.3.
    fn write_index(&self, index: u64, out: &mut Vec<u8>) {
        match self.base.checked_sub(index + 1) {
            Some(relative) => integer::write(0x80, 0x3f, relative as usize, out),
            None => integer::write(0x10, 0x0f, (index - self.base) as usize, out),
        }
    }

    /// Puts a field into the table, if the policy says so and there is room; returns its absolute index.
    #[inline(never)]
    fn insert(&mut self, sought: &FieldQuery<'_>, policy: Policy) -> Option<u64> {
        if self.is_paused {
            return None;
        }
        let dynamic = self.dynamic.get_or_insert_with(|| {
            Box::new(Dynamic { table: EncoderTable::new(), inserted: 0, known: 0, sections: VecDeque::new() })
        });
        if policy != Policy::Common && !dynamic.table.has_seen(sought) {
            return None;
        }
        if !dynamic.has_room(sought.size(), self.most as usize, &self.section) {
            return None;
        }
        if self.told != self.most {
            integer::write(0x20, 0x1f, self.most as usize, &mut self.out);
            self.told = self.most;
        }
        match statics::first(sought.id) {
            Some(index) => integer::write(0xc0, 0x3f, index, &mut self.out),
            None => string::write::<true>(0x40, 0x1f, sought.name, &mut self.out),
        }
        string::write::<false>(0, 0x7f, sought.value, &mut self.out);
        dynamic.table.insert(sought, policy == Policy::Latest, self.most as usize);
        dynamic.inserted += 1;
        Some(dynamic.inserted - 1)
    }

    /// Inserts an entry once more that would soon have to make room for others, though it is still in use (RFC 9204
    /// section 2.1.1.1).
    fn renew(&mut self, number: usize, sought: &FieldQuery<'_>, most: usize) {
        let Some(dynamic) = &mut self.dynamic else { return };
        let (live, size, whole) = (dynamic.table.live(), dynamic.table.size(), self.most as usize);
        let is_old = live - 1 - number.min(live - 1) < live / 4 && size > whole / 4 * 3;
        if !is_old || self.is_paused || sought.size() > most || !dynamic.has_room(sought.size(), whole, &self.section) {
            return;
        }
        integer::write(0x00, 0x1f, number, &mut self.out);
        dynamic.table.hide(number);
        dynamic.table.insert(sought, false, whole);
        dynamic.inserted += 1;
    }
}

const LARGE_INTEGER: DecoderStreamError = DecoderStreamError("an integer in an instruction is too large");

/// Writes a field in full: RFC 9204 sections 4.5.4 and 4.5.6.
#[inline(never)]
fn literal(indexing: Indexing, id: Id, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let is_never = indexing == Indexing::Never;
    match statics::first(id) {
        Some(index) => integer::write(if is_never { 0x70 } else { 0x50 }, 0x0f, index, out),
        None => string::write::<true>(if is_never { 0x30 } else { 0x20 }, 0x07, name, out),
    }
    string::write::<false>(0, 0x7f, value, out);
}
