//! The fields of a head one behind the other in one piece of memory, for protocols that encode them.

use std::fmt;

use freerun_conf::text_of;

use super::Field;

/// A list of fields, each a name and a value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldBlock {
    text: Vec<u8>,
    /// The ends of the name and the value of each field in the text.
    ends: Vec<(u32, u32)>,
    /// The end of the name of the field that is being written.
    name_end: u32,
}

impl FieldBlock {
    /// Removes all fields; the memory stays.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Begins a field, whose value is written by [`FieldBlock::value`].
    #[inline]
    pub fn begin(&mut self, name: &[u8]) {
        self.text.extend_from_slice(name);
        self.name_end = self.text.len() as u32;
    }

    /// Writes a part of the value of the field that has begun.
    #[inline]
    pub fn value(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.text);
    }

    /// Ends the field that has begun.
    #[inline]
    pub fn end(&mut self) {
        self.ends.push((self.name_end, self.text.len() as u32));
    }

    /// Appends a field.
    #[inline]
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.begin(name);
        self.text.extend_from_slice(value);
        self.end();
    }

    /// The fields in order: names and values.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(name, value)| {
            let (name, value) = (*name as usize, *value as usize);
            let field = (&self.text[start..name], &self.text[name..value]);
            start = value;
            field
        })
    }

    /// Number of bytes of all names and values.
    #[inline]
    pub fn text_len(&self) -> usize {
        self.text.len()
    }
}

impl fmt::Debug for FieldBlock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): (&[u8], &[u8])| (text_of(name).into_owned(), text_of(value).into_owned());
        formatter.debug_map().entries(self.iter().map(shown)).finish()
    }
}

impl FromIterator<Field> for FieldBlock {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> FieldBlock {
        let mut block = FieldBlock::default();
        fields.into_iter().for_each(|(name, value)| block.push(&name, &value));
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_out_as_they_went_in() {
        let mut block = FieldBlock::default();
        block.push(b"a", b"1");
        block.begin(b"Location");
        block.value(|text| text.extend_from_slice(b"http://"));
        block.value(|text| text.extend_from_slice(b"host"));
        block.end();
        block.push(b"empty", b"");
        let fields: Vec<_> = block.iter().collect();
        assert_eq!(fields, [(&b"a"[..], &b"1"[..]), (b"Location", b"http://host"), (b"empty", b"")]);
        assert_eq!(block.text_len(), 1 + 1 + 8 + 11 + 5);
        block.clear();
        assert_eq!(block.iter().count(), 0);
    }
}
