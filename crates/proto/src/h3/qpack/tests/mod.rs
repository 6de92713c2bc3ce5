//! Tests of the decoder and the encoder, each by itself and with each other.

mod errors;
mod policy;
mod random;
mod vectors;

use super::*;
use crate::HeaderId;

/// A field as a test compares it.
type Owned = (Vec<u8>, Vec<u8>, bool);

/// Limits that nothing passes.
const UNLIMITED: BlockLimits = BlockLimits { most_string: usize::MAX, most_total: usize::MAX, most_fields: usize::MAX };

/// Collects fields, and compares what the decoder says of each name with what can be found out about it.
#[derive(Default)]
struct Collected(Vec<Owned>);

impl FieldSink for Collected {
    fn field(&mut self, field: DecodedField<'_>) {
        assert_eq!(field.id, HeaderId::of(field.name));
        assert_eq!(field.pseudo, Pseudo::of(field.name));
        self.0.push((field.name.to_vec(), field.value.to_vec(), field.never_indexed));
    }
}

/// Takes all instructions of an encoder that are in these bytes.
fn insert(decoder: &mut QpackDecoder, mut bytes: &[u8]) -> Result<(), EncoderStreamError> {
    while decoder.instruction(&mut bytes)?.is_some() {}
    assert!(bytes.is_empty());
    Ok(())
}

/// Takes all instructions of a decoder that are in these bytes.
fn progress(encoder: &mut QpackEncoder, mut bytes: &[u8]) -> Result<Vec<Instruction>, DecoderStreamError> {
    let mut done = Vec::new();
    while let Some(instruction) = encoder.instruction(&mut bytes)? {
        done.push(instruction);
    }
    assert!(bytes.is_empty());
    encoder.check_invariants();
    Ok(done)
}

/// Decodes a section; `None` if it is blocked.
fn decode(decoder: &mut QpackDecoder, stream: u64, section: &[u8]) -> Result<Option<Vec<Owned>>, DecodeError> {
    let mut fields = Collected::default();
    Ok(match decoder.decode(stream, section, &UNLIMITED, &mut fields)? {
        DecodeOutcome::Whole => Some(fields.0),
        DecodeOutcome::Blocked(_) => {
            assert!(fields.0.is_empty(), "a blocked section has given fields");
            None
        }
    })
}

/// Encodes a section.
fn section(encoder: &mut QpackEncoder, stream: u64, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = b"x".to_vec();
    let start = encoder.begin(stream, &mut out);
    fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value.as_bytes(), &mut out));
    encoder.finish(start, &mut out);
    encoder.check_invariants();
    assert_eq!(out.remove(0), b'x');
    out
}

fn owned(name: &str, value: &str) -> Owned {
    (name.as_bytes().to_vec(), value.as_bytes().to_vec(), false)
}
