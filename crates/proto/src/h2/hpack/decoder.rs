//! Decoding of header blocks.

use super::statics::{self, HpackTable};
use crate::HeaderId;
use crate::compression::decoder_table::{CUT_OFF, DecoderTable, EntryName, LARGEST, Text};
use crate::compression::integer;
use crate::compression::limits::{BlockLimits, DecodeError, RemainingLimits};
use crate::compression::{DecodedField, FieldSink, Pseudo};

const NO_ENTRY: DecodeError = DecodeError::Compression("a header block names an entry that is in no table");
const LATE_UPDATE: DecodeError = DecodeError::Compression("a size update is not at the beginning of a header block");
const LARGE_UPDATE: DecodeError = DecodeError::Compression("a size update is above the limit");
const NO_UPDATE: DecodeError = DecodeError::Compression("a header block lacks the size update that has to come");

/// The beginning of a block that has nothing but size updates left to read: `001` and five bits of the size.
const UPDATE: u8 = 0x20;
const UPDATE_BITS: u8 = 0xe0;

/// The name of a literal field.
enum Name<'b> {
    Static(u8),
    /// The text of an entry of the dynamic table.
    Dynamic(usize),
    New(Text<'b>),
}

/// The receiving half of HPACK on a connection.
pub struct Decoder {
    table: DecoderTable<HpackTable>,
    /// The greatest size that the peer may choose for the table.
    most: u32,
    /// The next block has to begin with a size update to at most this.
    required: Option<u32>,
}

impl Decoder {
    /// A decoder whose table has `table_size` bytes at most, as RFC 7541 section 4.1 counts them: what
    /// SETTINGS_HEADER_TABLE_SIZE is at the beginning of a connection ([`super::INITIAL_TABLE_SIZE`]). No more than
    /// 65,535 are possible; a peer that uses more, because more was announced, makes an error.
    pub const fn new(table_size: u32) -> Decoder {
        let table = DecoderTable::new(table_size);
        Decoder { most: table.most(), table, required: None }
    }

    /// Takes over what SETTINGS_HEADER_TABLE_SIZE was announced to be, once the peer has acknowledged it. If the table
    /// may be larger now, the next block has to begin with a size update (RFC 9113 section 4.3.1).
    pub fn set_table_size(&mut self, most: u32) {
        let most = most.min(LARGEST);
        self.most = most;
        if most < self.table.most() {
            self.required = Some(self.required.map_or(most, |required| required.min(most)));
        }
    }

    /// Gives up memory beyond what the entries of the table take, for a connection that is idle.
    pub fn shrink(&mut self) {
        self.table.shrink();
    }

    /// Bytes of memory that are kept beside the decoder itself.
    pub fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    /// The size of the dynamic table's entries, in bytes, as RFC 7541 section 4.1 counts it.
    pub fn table_size(&self) -> usize {
        self.table.size()
    }

    /// Decodes a whole header block: the fragments of a HEADERS frame and of the CONTINUATION frames behind it, put
    /// together. The fields before an error were given to the sink.
    ///
    /// # Errors
    /// The block is wrong, or passes a limit. Then the table is not what the peer has, and the connection has to end.
    pub fn decode<S: FieldSink>(
        &mut self,
        block: &[u8],
        limits: &BlockLimits,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        let mut rest = block;
        let mut left = RemainingLimits::new(limits);
        if self.required.is_some() || block.first().is_some_and(|first| first & UPDATE_BITS == UPDATE) {
            rest = self.size_updates(block)?;
        }
        while let Some((&first, further)) = rest.split_first() {
            rest = match first {
                // Most fields are an index of one byte, so that nothing of the state has to leave the registers for them.
                0x80..0xff => {
                    self.indexed((first & 0x7f).into(), &mut left, sink)?;
                    further
                }
                0xff => self.far_indexed(further, &mut left, sink)?,
                0x40..0x80 => self.indexed_literal(first, further, &mut left, sink)?,
                0x20..0x40 => return Err(LATE_UPDATE),
                0x00..0x20 => self.literal(first, further, &mut left, sink)?,
            };
        }
        self.table.trim();
        Ok(())
    }

    /// Reads the size updates at the beginning of a block.
    #[inline(never)]
    fn size_updates<'b>(&mut self, mut rest: &'b [u8]) -> Result<&'b [u8], DecodeError> {
        while let Some((&first, further)) = rest.split_first()
            && first & UPDATE_BITS == UPDATE
        {
            rest = further;
            let size = integer::read(first, !UPDATE_BITS, &mut rest)?;
            let size = u32::try_from(size).ok().filter(|&size| size <= self.most).ok_or(LARGE_UPDATE)?;
            self.required = self.required.filter(|&required| size > required);
            self.table.set_most(size);
        }
        // A block without fields is no field block, so there may be another one to begin with the update.
        if self.required.is_some() && !rest.is_empty() { Err(NO_UPDATE) } else { Ok(rest) }
    }

    /// Hands over the field with an index: RFC 7541 section 6.1.
    #[inline(always)]
    fn indexed<S: FieldSink>(&self, index: usize, left: &mut RemainingLimits, sink: &mut S) -> Result<(), DecodeError> {
        let field = match statics::entry(index) {
            Some(entry) => *entry,
            // An index of 0 wraps around to an index that is in no table.
            None => self.table.get(index.wrapping_sub(statics::ENTRIES + 1)).ok_or(NO_ENTRY)?,
        };
        left.count(field.name.len(), field.value.len())?;
        sink.field(field);
        Ok(())
    }

    /// Reads an index that takes more than a byte.
    #[inline(never)]
    fn far_indexed<'b, S: FieldSink>(
        &self,
        mut rest: &'b [u8],
        left: &mut RemainingLimits,
        sink: &mut S,
    ) -> Result<&'b [u8], DecodeError> {
        let index = integer::read(0x7f, 0x7f, &mut rest)?;
        self.indexed(usize::try_from(index).map_err(|_| NO_ENTRY)?, left, sink)?;
        Ok(rest)
    }

    /// Reads a literal field that goes into the table: RFC 7541 section 6.2.1.
    #[inline(never)]
    fn indexed_literal<'b, S: FieldSink>(
        &mut self,
        first: u8,
        mut rest: &'b [u8],
        left: &mut RemainingLimits,
        sink: &mut S,
    ) -> Result<&'b [u8], DecodeError> {
        // The strings are put together where the entry will have them.
        let name = match self.name(first, 0x3f, &mut rest, left)? {
            Name::Static(index) => EntryName::Static(index),
            Name::Dynamic(number) => match self.table.name_place(number) {
                Some(index) => EntryName::Static(index),
                None => {
                    self.table.copy_name(number, rest.len());
                    EntryName::InWork(self.table.worked().len())
                }
            },
            Name::New(Text::Worked(len)) => EntryName::InWork(len),
            Name::New(Text::Plain(text)) => {
                self.table.work(text.len(), rest.len()).extend_from_slice(text);
                EntryName::InWork(text.len())
            }
        };
        if let Text::Plain(text) = self.string(&mut rest, left)? {
            self.table.work(text.len(), rest.len()).extend_from_slice(text);
        }
        let worked = self.table.worked();
        let (name_text, value, known) = match name {
            EntryName::Static(index) => {
                let entry = statics::entry(index.into()).ok_or(NO_ENTRY)?;
                (entry.name, worked, Some((entry.id, entry.pseudo)))
            }
            EntryName::InWork(len) => (&worked[..len], &worked[len..], None),
        };
        left.count(name_text.len(), value.len())?;
        let (id, pseudo) = known.unwrap_or_else(|| (HeaderId::of(name_text), Pseudo::of(name_text)));
        sink.field(DecodedField { name: name_text, value, id, pseudo, never_indexed: false });
        self.table.insert(name, id, pseudo);
        Ok(rest)
    }

    /// Reads a literal field that does not go into the table: RFC 7541 sections 6.2.2 and 6.2.3.
    #[inline(never)]
    fn literal<'b, S: FieldSink>(
        &mut self,
        first: u8,
        mut rest: &'b [u8],
        left: &mut RemainingLimits,
        sink: &mut S,
    ) -> Result<&'b [u8], DecodeError> {
        let name = self.name(first, 0x0f, &mut rest, left)?;
        let value = self.string(&mut rest, left)?;
        let worked = self.table.worked();
        let (value, before) = match value {
            Text::Plain(text) => (text, worked),
            Text::Worked(len) => {
                let (before, value) = worked.split_at(worked.len() - len);
                (value, before)
            }
        };
        let (name, id, pseudo) = match name {
            Name::Static(index) => statics::entry(index.into()).map(|entry| (entry.name, entry.id, entry.pseudo)),
            Name::Dynamic(number) => self.table.get(number).map(|entry| (entry.name, entry.id, entry.pseudo)),
            Name::New(text) => {
                let name = match text {
                    Text::Plain(text) => text,
                    Text::Worked(_) => before,
                };
                Some((name, HeaderId::of(name), Pseudo::of(name)))
            }
        }
        .ok_or(NO_ENTRY)?;
        left.count(name.len(), value.len())?;
        sink.field(DecodedField { name, value, id, pseudo, never_indexed: first & 0x10 != 0 });
        self.table.drop_work();
        Ok(rest)
    }

    /// Reads the name of a literal field.
    #[inline]
    fn name<'b>(
        &mut self,
        first: u8,
        mask: u8,
        rest: &mut &'b [u8],
        left: &RemainingLimits,
    ) -> Result<Name<'b>, DecodeError> {
        match usize::try_from(integer::read(first, mask, rest)?).map_err(|_| NO_ENTRY)? {
            0 => self.string(rest, left).map(Name::New),
            index @ 1..=statics::ENTRIES => Ok(Name::Static(index as u8)),
            index => {
                let number = index - statics::ENTRIES - 1;
                if self.table.get(number).is_some() { Ok(Name::Dynamic(number)) } else { Err(NO_ENTRY) }
            }
        }
    }

    /// Reads a string: RFC 7541 section 5.2.
    #[inline]
    fn string<'b>(&mut self, rest: &mut &'b [u8], left: &RemainingLimits) -> Result<Text<'b>, DecodeError> {
        let (&first, further) = rest.split_first().ok_or(CUT_OFF)?;
        *rest = further;
        self.table.string(first, 0x7f, rest, left.string())
    }
}
