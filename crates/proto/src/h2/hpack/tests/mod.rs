//! Tests of the decoder and the encoder, each by itself and with each other.

mod errors;
mod limits;
mod peer;
mod policy;
mod random;
mod sizes;
mod vectors;

use super::*;

/// A field as a test compares it.
type Owned = (Vec<u8>, Vec<u8>, bool);

/// Collects fields, and compares what the decoder says of each name with what can be found out about it.
#[derive(Default)]
pub(super) struct Collected(Vec<Owned>);

impl FieldSink for Collected {
    fn field(&mut self, field: DecodedField<'_>) {
        assert_eq!(field.id, crate::HeaderId::of(field.name));
        assert_eq!(field.pseudo, Pseudo::of(field.name));
        self.0.push((field.name.to_vec(), field.value.to_vec(), field.never_indexed));
    }
}

/// Limits that no test means to reach.
pub(super) const AMPLE: BlockLimits = BlockLimits { most_string: 100_000, most_total: 1_000_000, most_fields: 10_000 };

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Owned>, DecodeError> {
    let mut collected = Collected::default();
    decoder.decode(block, &AMPLE, &mut collected).map(|()| collected.0)
}

/// Fields as `name: value`, or `name; value` for one that is never to be indexed.
fn lines(fields: &[Owned]) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mark = |never| if never { "; " } else { ": " };
    fields.iter().map(|(name, value, never)| text(name) + mark(*never) + &text(value)).collect()
}

/// Bytes of hexadecimal digits, between which there may be spaces.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// A block of the fields that `write` writes.
fn block(encoder: &mut Encoder, write: impl FnOnce(&mut Encoder, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    write(encoder, &mut out);
    out
}

/// A block of fields, of which the encoder decides how to write them.
fn fields(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
    block(encoder, |encoder, out| {
        fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value.as_bytes(), out));
    })
}
