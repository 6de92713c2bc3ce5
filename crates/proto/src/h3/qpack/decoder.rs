//! Decoding of sections of fields, and the instructions of the peer's encoder.

use super::statics::{self, QpackTable};
use crate::HeaderId;
use crate::compression::decoder_table::{CUT_OFF, DecoderTable, EntryName, LARGEST, StaticTable, Text};
use crate::compression::integer::{self, IntegerError};
use crate::compression::limits::{BlockLimits, DecodeError, RemainingLimits};
use crate::compression::{DecodedField, FIELD_OVERHEAD, FieldSink, Pseudo};

const NO_ENTRY: DecodeError = DecodeError::Compression("a field section names an entry that is in no table");
const WRONG_COUNT: DecodeError = DecodeError::Compression("a field section has a wrong Required Insert Count");
const WRONG_BASE: DecodeError = DecodeError::Compression("a field section has a wrong Base");

/// The most bytes that a byte of a Huffman-coded string takes, rounded up.
const LONGEST_CODE: usize = 4;

/// An instruction of the peer's encoder that is wrong (RFC 9204 section 6): the connection ends with
/// `QPACK_ENCODER_STREAM_ERROR`. The text says what is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderStreamError(pub &'static str);

const LARGE_ENTRY: EncoderStreamError = EncoderStreamError("an entry is larger than the dynamic table");
const UNKNOWN_ENTRY: EncoderStreamError = EncoderStreamError("an instruction names an entry that is in no table");
const LARGE_INTEGER: EncoderStreamError = EncoderStreamError("an integer in an instruction is too large");
const LARGE_CAPACITY: EncoderStreamError = EncoderStreamError("the dynamic table is made larger than the limit");

/// The result of decoding a section of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeOutcome {
    /// All fields were given to the sink.
    Whole,
    /// The section needs this number of entries to have been inserted, and there are fewer: nothing was given to the
    /// sink. The stream is blocked until the encoder's stream has brought them.
    Blocked(u64),
}

/// The part of an instruction that has come.
#[derive(Debug, Default)]
struct PartialInstruction(Vec<u8>);

/// The length of an instruction.
enum InstructionLength {
    /// The instruction is complete, and has this number of bytes.
    Whole(usize),
    /// The instruction has this number of bytes, or more.
    AtLeast(usize),
}

/// The name of a literal field.
enum LiteralName<'b> {
    Static(&'static DecodedField<'static>),
    /// The name of an entry of the dynamic table.
    Dynamic(usize),
    New(Text<'b>),
}

/// The first bytes of a section: RFC 9204 section 4.5.1.
#[derive(Clone, Copy)]
struct Prefix {
    required: u64,
    base: u64,
}

/// The receiving half of QPACK on a connection.
pub struct QpackDecoder {
    table: DecoderTable<QpackTable>,
    /// The largest table that the peer may choose, in bytes.
    most: u32,
    /// The number of entries that were ever inserted.
    inserted: u64,
    /// The number of inserted entries about which the peer's encoder has been informed.
    reported: u64,
    partial: Option<Box<PartialInstruction>>,
    /// The instructions for the peer's encoder that were not taken yet.
    out: Vec<u8>,
}

impl QpackDecoder {
    /// A decoder whose table may have this many bytes: the `SETTINGS_QPACK_MAX_TABLE_CAPACITY` of this side, at most
    /// 65,535.
    pub const fn new(capacity: u32) -> QpackDecoder {
        let most = if capacity < LARGEST { capacity } else { LARGEST };
        QpackDecoder { table: DecoderTable::new(0), most, inserted: 0, reported: 0, partial: None, out: Vec::new() }
    }

    /// The largest table that the peer may choose, in bytes.
    pub const fn capacity(&self) -> u32 {
        self.most
    }

    /// The number of entries that were ever inserted.
    pub const fn inserted(&self) -> u64 {
        self.inserted
    }

    /// The size of the dynamic table's entries, in bytes, as RFC 9204 section 3.2.1 counts it.
    pub fn table_size(&self) -> usize {
        self.table.size()
    }

    /// Bytes of memory that are kept beside the decoder itself.
    pub fn heap_bytes(&self) -> usize {
        let partial = self.partial.as_ref().map_or(0, |partial| size_of_val(&**partial) + partial.0.capacity());
        self.table.heap_bytes() + partial + self.out.capacity()
    }

    /// Gives up memory beyond what the entries of the table take, for a connection that is idle.
    pub fn shrink(&mut self) {
        self.table.shrink();
        self.out.shrink_to_fit();
    }

    /// The instructions for the peer's encoder. Whoever writes them on the decoder's stream takes them out.
    pub fn instructions(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    // ---- the encoder's stream --------------------------------------------------------------------------------------

    /// Takes an instruction from the bytes of the peer's encoder stream, and carries it out. Returns a measure of the
    /// work: the number of bytes that were received and copied. `None` if more bytes are needed; all of them are taken
    /// then.
    ///
    /// # Errors
    /// The instruction is wrong.
    pub fn instruction(&mut self, bytes: &mut &[u8]) -> Result<Option<u32>, EncoderStreamError> {
        if self.partial.is_some() {
            return self.continued(bytes);
        }
        match self.measure(bytes)? {
            InstructionLength::Whole(len) => {
                let (instruction, rest) = bytes.split_at(len);
                *bytes = rest;
                self.carry_out(instruction).map(Some)
            }
            InstructionLength::AtLeast(_) => {
                if !bytes.is_empty() {
                    self.partial = Some(Box::new(PartialInstruction(bytes.to_vec())));
                    *bytes = &[];
                }
                self.table.trim();
                Ok(None)
            }
        }
    }

    /// Goes on with an instruction that has come in part.
    fn continued(&mut self, bytes: &mut &[u8]) -> Result<Option<u32>, EncoderStreamError> {
        let Some(mut partial) = self.partial.take() else { return Ok(None) };
        loop {
            let missing = match self.measure(&partial.0)? {
                InstructionLength::Whole(_) => return self.carry_out(&partial.0).map(Some),
                InstructionLength::AtLeast(len) => len.saturating_sub(partial.0.len()).max(1),
            };
            if bytes.is_empty() {
                self.partial = Some(partial);
                return Ok(None);
            }
            let (more, rest) = bytes.split_at(missing.min(bytes.len()));
            partial.0.extend_from_slice(more);
            *bytes = rest;
        }
    }

    /// Finds out how long the instruction at the beginning of these bytes is.
    fn measure(&self, bytes: &[u8]) -> Result<InstructionLength, EncoderStreamError> {
        let Some((&first, mut rest)) = bytes.split_first() else { return Ok(InstructionLength::AtLeast(1)) };
        let more = Ok(InstructionLength::AtLeast(bytes.len() + 1));
        let longest = (self.table.most() as usize).saturating_mul(LONGEST_CODE);
        let mask = if first & 0x80 != 0 { 0x3f } else { 0x1f };
        let number = match integer::read(first, mask, &mut rest) {
            Ok(number) => number,
            Err(IntegerError::Truncated) => return more,
            Err(IntegerError::Overflow) => return Err(LARGE_INTEGER),
        };
        if first & 0xc0 == 0 {
            // A new capacity, or a duplicate.
            return Ok(InstructionLength::Whole(bytes.len() - rest.len()));
        }
        if first & 0x80 == 0 {
            let len = usize::try_from(number).ok().filter(|len| *len <= longest).ok_or(LARGE_ENTRY)?;
            let before = bytes.len() - rest.len();
            let Some(behind) = rest.get(len..) else { return Ok(InstructionLength::AtLeast(before + len + 1)) };
            rest = behind;
        }
        let Some((&first, mut value)) = rest.split_first() else { return more };
        let len = match integer::read(first, 0x7f, &mut value) {
            Ok(len) => len,
            Err(IntegerError::Truncated) => return more,
            Err(IntegerError::Overflow) => return Err(LARGE_INTEGER),
        };
        let len = usize::try_from(len).ok().filter(|len| *len <= longest).ok_or(LARGE_ENTRY)?;
        let whole = bytes.len() - value.len() + len;
        Ok(if value.len() < len { InstructionLength::AtLeast(whole) } else { InstructionLength::Whole(whole) })
    }

    /// Carries out an instruction that has come whole: RFC 9204 section 4.3.
    fn carry_out(&mut self, instruction: &[u8]) -> Result<u32, EncoderStreamError> {
        let Some((&first, mut rest)) = instruction.split_first() else { return Ok(0) };
        let result = match first {
            0x80.. => self.insert_with_name(first, &mut rest),
            0x40..0x80 => self.insert_new(first, &mut rest),
            0x20..0x40 => self.set_capacity(first, &mut rest).map(|()| 0),
            0x00..0x20 => self.duplicate(first, &mut rest),
        };
        if result.is_err() {
            self.table.drop_work();
        }
        let copied = result?;
        debug_assert!(rest.is_empty(), "an instruction was measured wrong");
        Ok(u32::try_from(instruction.len() + copied).unwrap_or(u32::MAX))
    }

    fn set_capacity(&mut self, first: u8, rest: &mut &[u8]) -> Result<(), EncoderStreamError> {
        let capacity = integer::read(first, 0x1f, rest).map_err(|_| LARGE_INTEGER)?;
        let capacity = u32::try_from(capacity).ok().filter(|size| *size <= self.most).ok_or(LARGE_CAPACITY)?;
        self.table.set_most(capacity);
        Ok(())
    }

    /// Inserts a field whose name another entry has.
    fn insert_with_name(&mut self, first: u8, rest: &mut &[u8]) -> Result<usize, EncoderStreamError> {
        let index = integer::read(first, 0x3f, rest).map_err(|_| LARGE_INTEGER)?;
        let index = usize::try_from(index).map_err(|_| UNKNOWN_ENTRY)?;
        if first & 0x40 != 0 {
            let entry = statics::entry(index).ok_or(UNKNOWN_ENTRY)?;
            let copied = self.append_string(rest)?;
            return self.insert(EntryName::Static(index as u8 + 1), Some(entry)).map(|()| copied);
        }
        let name = self.name_of(index, rest.len())?;
        self.append_string(rest)?;
        let copied = self.table.worked().len();
        self.insert(name, None).map(|()| copied)
    }

    /// Inserts a field with a name of its own.
    fn insert_new(&mut self, first: u8, rest: &mut &[u8]) -> Result<usize, EncoderStreamError> {
        let most = self.table.most() as usize;
        let text = self.table.string(first, 0x1f, rest, most).map_err(string_error)?;
        let name_len = self.append(text, rest.len());
        let value_len = self.append_string(rest)?;
        self.insert(EntryName::InWork(name_len), None).map(|()| name_len + value_len)
    }

    /// Inserts an entry once more.
    fn duplicate(&mut self, first: u8, rest: &mut &[u8]) -> Result<usize, EncoderStreamError> {
        let index = integer::read(first, 0x1f, rest).map_err(|_| LARGE_INTEGER)?;
        let number = usize::try_from(index).map_err(|_| UNKNOWN_ENTRY)?;
        let name = self.name_of(number, 0)?;
        self.table.copy_value(number);
        let copied = self.table.worked().len();
        self.insert(name, None).map(|()| copied)
    }

    /// The name of the entry with this number, for a new entry; unless the static table has it, it is in the work area.
    fn name_of(&mut self, number: usize, room: usize) -> Result<EntryName, EncoderStreamError> {
        if self.table.get(number).is_none() {
            return Err(UNKNOWN_ENTRY);
        }
        if let Some(place) = self.table.name_place(number) {
            return Ok(EntryName::Static(place));
        }
        self.table.copy_name(number, room);
        Ok(EntryName::InWork(self.table.worked().len()))
    }

    /// Reads a string to the end of the work area, and says how long it is.
    fn append_string(&mut self, rest: &mut &[u8]) -> Result<usize, EncoderStreamError> {
        let Some((&first, further)) = rest.split_first() else { return Err(string_error(CUT_OFF)) };
        *rest = further;
        let most = self.table.most() as usize;
        let text = self.table.string(first, 0x7f, rest, most).map_err(string_error)?;
        Ok(self.append(text, rest.len()))
    }

    fn append(&mut self, text: Text<'_>, room: usize) -> usize {
        match text {
            Text::Worked(len) => len,
            Text::Plain(text) => {
                self.table.work(text.len(), room).extend_from_slice(text);
                text.len()
            }
        }
    }

    /// Makes an entry of the work area.
    fn insert(
        &mut self,
        name: EntryName,
        known: Option<&'static DecodedField<'static>>,
    ) -> Result<(), EncoderStreamError> {
        let worked = self.table.worked();
        let (name_len, id, pseudo) = match (name, known) {
            (_, Some(entry)) => (entry.name.len(), entry.id, entry.pseudo),
            (EntryName::Static(place), None) => {
                let entry = QpackTable::entry(place.into()).ok_or(UNKNOWN_ENTRY)?;
                (entry.name.len(), entry.id, entry.pseudo)
            }
            (EntryName::InWork(len), None) => {
                let text = &worked[..len];
                (0, HeaderId::of(text), Pseudo::of(text))
            }
        };
        if name_len + worked.len() + FIELD_OVERHEAD > self.table.most() as usize {
            return Err(LARGE_ENTRY);
        }
        self.table.insert(name, id, pseudo);
        self.inserted += 1;
        Ok(())
    }

    /// Informs the peer's encoder about all entries that were inserted (RFC 9204 section 4.4.3).
    pub fn report(&mut self) {
        debug_assert!(self.reported <= self.inserted, "an entry was reported that is not there");
        let news = self.inserted - self.reported;
        if news > 0 {
            integer::write(0x00, 0x3f, usize::try_from(news).unwrap_or(usize::MAX), &mut self.out);
            self.reported = self.inserted;
        }
    }

    /// Informs the peer's encoder that sections of this stream are not decoded any more (RFC 9204 section 4.4.2).
    pub fn cancel(&mut self, stream: u64) {
        if self.most > 0 {
            integer::write(0x40, 0x3f, usize::try_from(stream).unwrap_or(usize::MAX), &mut self.out);
        }
    }

    // ---- sections --------------------------------------------------------------------------------------------------

    /// Decodes a whole section of fields of this stream. The fields before an error were given to the sink.
    ///
    /// # Errors
    /// The section is wrong, which is a connection error of type `QPACK_DECOMPRESSION_FAILED`; or it passes a limit.
    /// Then the decoder can still be used, but the stream is to be [cancelled](QpackDecoder::cancel).
    pub fn decode<S: FieldSink>(
        &mut self,
        stream: u64,
        section: &[u8],
        limits: &BlockLimits,
        sink: &mut S,
    ) -> Result<DecodeOutcome, DecodeError> {
        let mut rest = section;
        let prefix = self.prefix(&mut rest)?;
        if prefix.required > self.inserted {
            return Ok(DecodeOutcome::Blocked(prefix.required));
        }
        let mut left = RemainingLimits::new(limits);
        while let Some((&first, further)) = rest.split_first() {
            rest = further;
            let result = match first {
                0xc0.. => self.indexed_static(first, &mut rest, &mut left, sink),
                0x80..0xc0 => self.indexed(first, prefix, &mut rest, &mut left, sink),
                0x20..0x80 => self.literal(first, prefix, &mut rest, &mut left, sink),
                0x10..0x20 => self.indexed(first, prefix, &mut rest, &mut left, sink),
                0x00..0x10 => self.literal(first, prefix, &mut rest, &mut left, sink),
            };
            if let Err(error) = result {
                self.table.drop_work();
                return Err(error);
            }
        }
        self.table.trim();
        if prefix.required > 0 {
            integer::write(0x80, 0x7f, usize::try_from(stream).unwrap_or(usize::MAX), &mut self.out);
            self.reported = self.reported.max(prefix.required);
        }
        Ok(DecodeOutcome::Whole)
    }

    /// Reads the prefix of a section: RFC 9204 sections 4.5.1.1 and 4.5.1.2.
    fn prefix(&self, rest: &mut &[u8]) -> Result<Prefix, DecodeError> {
        let (&first, further) = rest.split_first().ok_or(CUT_OFF)?;
        *rest = further;
        let encoded = integer::read(first, 0xff, rest)?;
        let (&first, further) = rest.split_first().ok_or(CUT_OFF)?;
        *rest = further;
        let delta = integer::read(first, 0x7f, rest)?;
        let required = self.required(encoded)?;
        let base = if first & 0x80 == 0 {
            required.checked_add(delta)
        } else {
            required.checked_sub(delta).and_then(|base| base.checked_sub(1))
        };
        Ok(Prefix { required, base: base.ok_or(WRONG_BASE)? })
    }

    /// The Required Insert Count; only its last bits are sent.
    fn required(&self, encoded: u64) -> Result<u64, DecodeError> {
        if encoded == 0 {
            return Ok(0);
        }
        let most_entries = u64::from(self.most) / FIELD_OVERHEAD as u64;
        let range = 2 * most_entries;
        if encoded > range {
            return Err(WRONG_COUNT);
        }
        let greatest = self.inserted + most_entries;
        let mut required = greatest / range * range + encoded - 1;
        if required > greatest {
            required = required.checked_sub(range).ok_or(WRONG_COUNT)?;
        }
        if required == 0 { Err(WRONG_COUNT) } else { Ok(required) }
    }

    /// The number of the entry with this absolute index, for the table; the section may not refer to later ones than it
    /// has said.
    #[inline]
    fn number(&self, index: Option<u64>, prefix: Prefix) -> Result<usize, DecodeError> {
        let index = index.filter(|index| *index < prefix.required).ok_or(NO_ENTRY)?;
        debug_assert!(prefix.required <= self.inserted, "a section was decoded too early");
        usize::try_from(self.inserted - 1 - index).map_err(|_| NO_ENTRY)
    }

    #[inline]
    fn indexed_static<S: FieldSink>(
        &self,
        first: u8,
        rest: &mut &[u8],
        left: &mut RemainingLimits,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        let index = usize::try_from(integer::read(first, 0x3f, rest)?).map_err(|_| NO_ENTRY)?;
        let field = statics::entry(index).ok_or(NO_ENTRY)?;
        left.count(field.name.len(), field.value.len())?;
        sink.field(*field);
        Ok(())
    }

    /// Hands over the field of an entry of the dynamic table: RFC 9204 sections 4.5.2 and 4.5.3.
    fn indexed<S: FieldSink>(
        &self,
        first: u8,
        prefix: Prefix,
        rest: &mut &[u8],
        left: &mut RemainingLimits,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        let index = if first & 0x80 != 0 {
            prefix.before_base(integer::read(first, 0x3f, rest)?)
        } else {
            prefix.behind_base(integer::read(first, 0x0f, rest)?)
        };
        let field = self.table.get(self.number(index, prefix)?).ok_or(NO_ENTRY)?;
        left.count(field.name.len(), field.value.len())?;
        sink.field(field);
        Ok(())
    }

    /// Reads a literal field: RFC 9204 sections 4.5.4 to 4.5.6.
    #[inline(never)]
    fn literal<S: FieldSink>(
        &mut self,
        first: u8,
        prefix: Prefix,
        rest: &mut &[u8],
        left: &mut RemainingLimits,
        sink: &mut S,
    ) -> Result<(), DecodeError> {
        let (name, never_indexed) = match first {
            0x40.. => {
                let index = integer::read(first, 0x0f, rest)?;
                let name = if first & 0x10 != 0 {
                    let index = usize::try_from(index).map_err(|_| NO_ENTRY)?;
                    LiteralName::Static(statics::entry(index).ok_or(NO_ENTRY)?)
                } else {
                    LiteralName::Dynamic(self.number(prefix.before_base(index), prefix)?)
                };
                (name, first & 0x20 != 0)
            }
            0x20..0x40 => (LiteralName::New(self.table.string(first, 0x07, rest, left.string())?), first & 0x10 != 0),
            _ => {
                let index = integer::read(first, 0x07, rest)?;
                (LiteralName::Dynamic(self.number(prefix.behind_base(index), prefix)?), first & 0x08 != 0)
            }
        };
        let (&first, further) = rest.split_first().ok_or(CUT_OFF)?;
        *rest = further;
        let value = self.table.string(first, 0x7f, rest, left.string())?;
        let worked = self.table.worked();
        let (value, before) = match value {
            Text::Plain(text) => (text, worked),
            Text::Worked(len) => {
                let (before, value) = worked.split_at(worked.len() - len);
                (value, before)
            }
        };
        let (name, id, pseudo) = match name {
            LiteralName::Static(entry) => (entry.name, entry.id, entry.pseudo),
            LiteralName::Dynamic(number) => {
                let entry = self.table.get(number).ok_or(NO_ENTRY)?;
                (entry.name, entry.id, entry.pseudo)
            }
            LiteralName::New(text) => {
                let name = match text {
                    Text::Plain(text) => text,
                    Text::Worked(_) => before,
                };
                (name, HeaderId::of(name), Pseudo::of(name))
            }
        };
        left.count(name.len(), value.len())?;
        sink.field(DecodedField { name, value, id, pseudo, never_indexed });
        self.table.drop_work();
        Ok(())
    }
}

impl Prefix {
    /// The absolute index of an entry that is counted back from the base.
    #[inline]
    fn before_base(self, index: u64) -> Option<u64> {
        self.base.checked_sub(index)?.checked_sub(1)
    }

    /// The absolute index of an entry that is counted from the base on.
    #[inline]
    fn behind_base(self, index: u64) -> Option<u64> {
        self.base.checked_add(index)
    }
}

fn string_error(error: DecodeError) -> EncoderStreamError {
    match error {
        DecodeError::TooLarge => LARGE_ENTRY,
        DecodeError::Compression(what) => EncoderStreamError(what),
    }
}
