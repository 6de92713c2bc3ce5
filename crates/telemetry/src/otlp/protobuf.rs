//! The encoding of protobuf, as far as OTLP needs it (<https://protobuf.dev/programming-guides/encoding/>).

/// The wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

/// The longest varint in bytes.
const MAX_VARINT: usize = 10;

/// A message that is being written at the end of a buffer. Fields that have the default value may be left out.
pub(super) struct MessageWriter<'o>(&'o mut Vec<u8>);

impl<'o> MessageWriter<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> MessageWriter<'o> {
        MessageWriter(out)
    }

    fn tag(&mut self, field: u32, wire: u64) {
        varint(self.0, u64::from(field) << 3 | wire);
    }

    /// An integer that is not negative, a boolean, or a value of an enumeration.
    pub(super) fn uint(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        varint(self.0, value);
    }

    /// A signed integer (`int64`).
    pub(super) fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value.cast_unsigned());
    }

    /// Eight bytes (`fixed64`).
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A floating-point number (`double`).
    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// Four bytes (`fixed32`).
    pub(super) fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, FIXED32);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes, or a text in UTF-8.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH);
        varint(self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Numbers of eight bytes (`repeated fixed64` or `double`, packed).
    pub(super) fn packed64(&mut self, field: u32, values: impl ExactSizeIterator<Item = u64>) {
        self.tag(field, LENGTH);
        varint(self.0, values.len() as u64 * 8);
        for value in values {
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// A message inside.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut MessageWriter<'_>)) {
        self.tag(field, LENGTH);
        let start = self.0.len();
        write(&mut MessageWriter(self.0));
        // The length stands before the content, which is moved by as many bytes as it has.
        let length = (self.0.len() - start) as u64;
        let end = self.0.len();
        varint(self.0, length);
        let prefix = self.0.len() - end;
        debug_assert!(prefix <= MAX_VARINT, "a number of 64 bits has ten bytes at most");
        self.0[start..].rotate_right(prefix);
    }
}

/// Writes a number, seven bits a byte, the low ones first.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The value of a field that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldValue<'b> {
    /// A varint, or a fixed number.
    Number(u64),
    /// Bytes, a text or a message.
    Bytes(&'b [u8]),
}

/// Fields of a message of somebody else, in their order. It ends early at bytes that are no field.
pub(super) struct MessageFields<'b>(pub(super) &'b [u8]);

impl<'b> Iterator for MessageFields<'b> {
    type Item = (u64, FieldValue<'b>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            VARINT => FieldValue::Number(self.varint()?),
            FIXED64 => FieldValue::Number(u64::from_le_bytes(*self.take(8)?.first_chunk()?)),
            LENGTH => {
                let length = usize::try_from(self.varint()?).ok()?;
                FieldValue::Bytes(self.take(length)?)
            }
            FIXED32 => FieldValue::Number(u32::from_le_bytes(*self.take(4)?.first_chunk()?).into()),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'b> MessageFields<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..MAX_VARINT {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f).checked_shl(7 * place as u32)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_bytes_of_the_specification() {
        let mut out = Vec::new();
        let mut message = MessageWriter::new(&mut out);
        message.uint(1, 150);
        message.bytes(2, b"testing");
        message.message(3, |inner| inner.uint(1, 150));
        let expected = [8, 0x96, 1, 0x12, 7, b't', b'e', b's', b't', b'i', b'n', b'g', 0x1a, 3, 8, 0x96, 1];
        assert_eq!(out, expected);
    }

    #[test]
    fn fields_are_read_as_they_were_written() {
        let mut out = Vec::new();
        let mut message = MessageWriter::new(&mut out);
        message.int(1, -2);
        message.fixed64(2, u64::MAX);
        message.fixed32(3, 7);
        message.double(4, 1.5);
        message.packed64(5, [1, 2].into_iter());
        let long = vec![b'x'; 300];
        message.message(600, |inner| inner.bytes(1, &long));
        let fields: Vec<_> = MessageFields(&out).collect();
        assert_eq!(fields.len(), 6);
        assert_eq!(fields[0], (1, FieldValue::Number((-2_i64).cast_unsigned())));
        assert_eq!(fields[1], (2, FieldValue::Number(u64::MAX)));
        assert_eq!(fields[2], (3, FieldValue::Number(7)));
        assert_eq!(fields[3], (4, FieldValue::Number(1.5_f64.to_bits())));
        assert!(matches!(fields[4], (5, FieldValue::Bytes(bytes)) if bytes.len() == 16));
        let (600, FieldValue::Bytes(inner)) = fields[5] else { panic!("{:?}", fields[5]) };
        assert_eq!(MessageFields(inner).next(), Some((1, FieldValue::Bytes(&long))));
    }

    #[test]
    fn bytes_that_are_no_message_end_it() {
        for wrong in
            [&b"\x80"[..], b"\x0a\x05abc", b"\x0b", b"\x09\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
        {
            assert_eq!(MessageFields(wrong).count(), 0, "{wrong:?}");
        }
    }
}
