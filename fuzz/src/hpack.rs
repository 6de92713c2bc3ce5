//! Header blocks of HTTP/2.

use freerun_proto::HeaderId;
use freerun_proto::h2::hpack::{BlockLimits, DecodeError, DecodedField, Decoder, Encoder, FieldSink, Indexing, Pseudo};

use crate::choice;

/// Fields that were decoded: name, value, and whether they are never to be indexed.
#[derive(Default)]
struct Fields(Vec<(Vec<u8>, Vec<u8>, bool)>);

impl FieldSink for Fields {
    fn field(&mut self, field: DecodedField<'_>) {
        assert_eq!(field.id, HeaderId::of(field.name));
        assert_eq!(field.pseudo, Pseudo::of(field.name));
        self.0.push((field.name.to_vec(), field.value.to_vec(), field.never_indexed));
    }
}

impl Fields {
    fn total(&self) -> usize {
        self.0.iter().map(|(name, value, _)| name.len() + value.len()).sum()
    }
}

/// Header blocks of one connection. There is no panic, tables and fields are within their limits, and memory is bounded
/// by the table. Fields come back when they are encoded and decoded again. Each block begins with a byte that says how
/// long it is.
pub fn blocks(data: &[u8]) {
    let (options, mut rest) = choice(data);
    let size = [0, 40, 100, 4096][usize::from(options & 3)];
    let limits = BlockLimits {
        most_string: if options & 4 == 0 { 200 } else { 8192 },
        most_total: if options & 8 == 0 { 1000 } else { 32768 },
        most_fields: if options & 16 == 0 { 10 } else { 1000 },
    };
    let lowered = if options & 32 == 0 { size } else { size / 2 };
    let mut decoder = Decoder::new(size);
    let (mut encoder, mut other) = (Encoder::new(), Decoder::new(4096));
    let own = if options & 64 == 0 { 256 } else { 4096 };
    encoder.set_most(4096, own);
    let mut numbers = 0;
    while let Some((&len, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(usize::from(len).min(behind.len()));
        rest = behind;
        let mut fields = Fields::default();
        let result = decoder.decode(block, &limits, &mut fields);
        assert!(fields.0.len() <= limits.most_fields && fields.total() <= limits.most_total);
        assert!(fields.0.iter().all(|(name, value, _)| name.len().max(value.len()) <= limits.most_string));
        assert!(decoder.table_size() <= size as usize);
        match result {
            Ok(()) => {}
            Err(DecodeError::Compression(why)) => return assert!(!why.is_empty()),
            Err(DecodeError::TooLarge) => return,
        }
        // Half as much as the entries take, a few hundred bytes, and what entries without texts cost beside them.
        assert!(decoder.heap_bytes() <= decoder.table_size() * 2 + 600, "{}", decoder.heap_bytes());
        if numbers == 1 {
            decoder.set_table_size(lowered);
        }
        again(&mut encoder, &mut other, &fields, options & 128 != 0);
        assert!(encoder.table_size() <= own as usize);
        numbers += 1;
        if numbers % 4 == 0 {
            encoder.forget();
        }
    }
}

/// Encodes fields and decodes them again.
fn again(encoder: &mut Encoder, decoder: &mut Decoder, fields: &Fields, all: bool) {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    for (name, value, never) in &fields.0 {
        match (never, all) {
            (true, _) => encoder.field_as(name, value, Indexing::Never, &mut block),
            (false, true) => encoder.field_as(name, value, Indexing::Incremental, &mut block),
            (false, false) => encoder.field(name, value, &mut block),
        }
    }
    let limits = BlockLimits { most_string: usize::MAX, most_total: usize::MAX, most_fields: usize::MAX };
    let mut decoded = Fields::default();
    assert_eq!(decoder.decode(&block, &limits, &mut decoded), Ok(()));
    assert_eq!(decoder.table_size(), encoder.table_size());
    assert_eq!(decoded.0.len(), fields.0.len());
    for (decoded, (name, value, never)) in decoded.0.iter().zip(&fields.0) {
        assert_eq!((&decoded.0, &decoded.1), (&name.to_ascii_lowercase(), value));
        assert!(decoded.2 || !never);
    }
}
