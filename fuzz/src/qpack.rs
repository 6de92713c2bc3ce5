//! Instructions and sections of fields of HTTP/3.

use freerun_proto::HeaderId;
use freerun_proto::h3::qpack::{
    BlockLimits, DecodeError, DecodeOutcome, DecodedField, EncoderStreamError, FieldSink, Indexing, Pseudo,
    QpackDecoder, QpackEncoder,
};

use crate::choice;
use crate::target::Target;
use crate::targets::owned;

/// Fields that were decoded: name, value, and whether they are never to be indexed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fields(Vec<(Vec<u8>, Vec<u8>, bool)>);

impl FieldSink for Fields {
    fn field(&mut self, field: DecodedField<'_>) {
        assert_eq!(field.id, HeaderId::of(field.name));
        assert_eq!(field.pseudo, Pseudo::of(field.name));
        self.0.push((field.name.to_vec(), field.value.to_vec(), field.never_indexed));
    }
}

/// An encoder and the decoder of its peer.
struct Pair {
    encoder: QpackEncoder,
    decoder: QpackDecoder,
    /// All fields are to go into the table.
    all: bool,
}

/// Takes all instructions that are in these bytes, in parts of this size.
fn insert(decoder: &mut QpackDecoder, bytes: &[u8], part: usize) -> Result<(), EncoderStreamError> {
    for mut part in bytes.chunks(part) {
        while let Some(work) = decoder.instruction(&mut part)? {
            assert!(work > 0, "work is free");
        }
        assert!(part.is_empty(), "everything is taken");
    }
    Ok(())
}

/// Instructions, sections and answers on one connection. There is no panic, tables and fields are within
/// their limits, memory is bounded by the table, and instructions mean the same however they are split. Fields come back
/// when they are encoded and decoded again. Each part begins with a byte that says what it is, and one with its length.
pub fn conversation(data: &[u8]) {
    let (options, mut rest) = choice(data);
    let capacity = [0, 100, 300, 4096][usize::from(options & 3)];
    let limits = BlockLimits {
        most_string: if options & 4 == 0 { 200 } else { 8192 },
        most_total: if options & 8 == 0 { 1000 } else { 32768 },
        most_fields: if options & 16 == 0 { 10 } else { 1000 },
    };
    let parts = if options & 32 == 0 { 1 } else { 7 };
    let (mut decoder, mut split) = (QpackDecoder::new(capacity), QpackDecoder::new(capacity));
    let mut pair = Pair { encoder: QpackEncoder::new(), decoder: QpackDecoder::new(300), all: options & 64 != 0 };
    pair.encoder.set_most(300, 4096, u64::from(options >> 7));
    while let Some((&[kind, len], behind)) = rest.split_first_chunk() {
        let (bytes, behind) = behind.split_at(usize::from(len).min(behind.len()));
        rest = behind;
        match kind & 3 {
            0 => {
                let result = insert(&mut decoder, bytes, bytes.len().max(1));
                assert_eq!(insert(&mut split, bytes, parts), result, "in parts of {parts} bytes");
                assert_eq!((decoder.inserted(), decoder.table_size()), (split.inserted(), split.table_size()));
                if result.is_err() {
                    return;
                }
            }
            1 | 2 => {
                if !section(&mut decoder, u64::from(kind >> 2), bytes, &limits, &mut pair) {
                    return;
                }
            }
            _ => {
                let mut encoder = QpackEncoder::new();
                encoder.set_most(4096, 4096, 10);
                for stream in 0..4 {
                    let mut out = Vec::new();
                    let start = encoder.begin(stream, &mut out);
                    encoder.field_as(b"a", &[stream as u8], Indexing::Incremental, &mut out);
                    encoder.finish(start, &mut out);
                }
                let mut bytes = bytes;
                while let Ok(Some(_)) = encoder.instruction(&mut bytes) {
                    encoder.check_invariants();
                }
            }
        }
        assert!(decoder.table_size() <= capacity as usize);
        // Half as much as the entries take, the part of an instruction, and what entries without texts cost beside them.
        let most = decoder.table_size() * 2 + capacity as usize * 9 + 2500;
        assert!(decoder.heap_bytes() <= most, "{}", decoder.heap_bytes());
        decoder.report();
        decoder.instructions().clear();
    }
}

/// Decodes a section; false if the connection is over.
fn section(decoder: &mut QpackDecoder, stream: u64, bytes: &[u8], limits: &BlockLimits, pair: &mut Pair) -> bool {
    let mut fields = Fields::default();
    let result = decoder.decode(stream, bytes, limits, &mut fields);
    let total: usize = fields.0.iter().map(|(name, value, _)| name.len() + value.len()).sum();
    assert!(fields.0.len() <= limits.most_fields && total <= limits.most_total);
    assert!(fields.0.iter().all(|(name, value, _)| name.len().max(value.len()) <= limits.most_string));
    match result {
        Ok(DecodeOutcome::Whole) => again(pair, stream, &fields),
        Ok(DecodeOutcome::Blocked(required)) => {
            assert!(required > decoder.inserted() && fields.0.is_empty());
            decoder.cancel(stream);
        }
        Err(DecodeError::TooLarge) => decoder.cancel(stream),
        Err(DecodeError::Compression(why)) => {
            assert!(!why.is_empty());
            return false;
        }
    }
    true
}

/// Encodes fields and decodes them again.
fn again(pair: &mut Pair, stream: u64, fields: &Fields) {
    let Pair { encoder, decoder, all } = pair;
    let mut section = Vec::new();
    let start = encoder.begin(stream, &mut section);
    for (name, value, never) in &fields.0 {
        match (never, &all) {
            (true, _) => encoder.field_as(name, value, Indexing::Never, &mut section),
            (false, true) => encoder.field_as(name, value, Indexing::Incremental, &mut section),
            (false, false) => encoder.field(name, value, &mut section),
        }
    }
    encoder.finish(start, &mut section);
    encoder.check_invariants();
    let instructions = std::mem::take(encoder.instructions());
    assert_eq!(insert(decoder, &instructions, 5), Ok(()));
    let limits = BlockLimits { most_string: usize::MAX, most_total: usize::MAX, most_fields: usize::MAX };
    let mut decoded = Fields::default();
    assert_eq!(decoder.decode(stream, &section, &limits, &mut decoded), Ok(DecodeOutcome::Whole));
    assert_eq!(decoder.table_size(), encoder.table_size());
    let expected = fields.0.iter().map(|(name, value, never)| (name.to_ascii_lowercase(), value.clone(), *never));
    assert_eq!(decoded, Fields(expected.collect()));
    // Some sections are acknowledged late.
    if stream % 3 != 0 {
        decoder.report();
        let answers = std::mem::take(decoder.instructions());
        let mut rest = &answers[..];
        while encoder.instruction(&mut rest).expect("right instructions").is_some() {}
        encoder.check_invariants();
    }
}

/// Runs [`conversation`]; the first examples come from RFC 9204, appendix B.
pub static QPACK: Target = Target {
    name: "qpack",
    body: conversation,
    seeds: || {
        owned(&[
            b"\x02\x01\x0f\x00\x00\x51\x0b/index.html\x00\x23\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path\x11\x04\
              \x03\x81\x10\x11\x00\x18\x4acustom-key\x0ccustom-value\x00\x01\x02\x21\x05\x05\x00\x80\xc1\x81\x00\x0f\x81\x0d\
              custom-value2\x01\x04\x06\x00\x80\x82",
            b"\x5f\x00\x0b\x3f\xe1\x1f\x41a\x01b\x41c\x01d\x01\x06\x03\x00\x80\x81\x10\x80\x01\x05\x00\x00\xd1\xd7\xc1\x03\x04\
              \x80\x81\x82\x01",
            b"\xc3\x00\x11\x3f\xe1\x1f\xc1\x82\x60\x7f\x5c\x02xy\x01a\x02\x00\x00\x01\x0a\x05\x81\x00\x01\x10\x42\x01x\x00\x01y",
            b"\x9d\x01\x12\x00\x00\x37\x02cookie-x\x03a=b\x50\x01a\x5f\x1d\x01x\x03\x03\x44\x00\x01",
        ])
    },
    words: &[
        b"\x00\x03\x3f\xe1\x1f",
        b"\x00\x04\x41a\x01b",
        b"\x00\x04\xc1\x02/x",
        b"\x00\x01\x00",
        b"\x00\x01\x02",
        b"\x01\x03\x02\x00\x80",
        b"\x01\x04\x03\x00\x80\x81",
        b"\x05\x03\x02\x80\x10",
        b"\x03\x02\x80\x81",
        b"\x01\x05\x00\x00\x51\x01/",
        b"\x8a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x7f\x80\x80\x80\x00",
    ],
};
