//! Blocks that are too large.

use super::*;

fn decode_within(decoder: &mut Decoder, block: &[u8], limits: BlockLimits) -> Result<usize, DecodeError> {
    let mut collected = Collected::default();
    let result = decoder.decode(block, &limits, &mut collected);
    let total: usize = collected.0.iter().map(|(name, value, _)| name.len() + value.len()).sum();
    assert!(total <= limits.most_total && collected.0.len() <= limits.most_fields);
    result.map(|()| collected.0.len())
}

#[test]
fn fields_are_counted_however_they_are_written() {
    let limits = BlockLimits { most_fields: 3, ..AMPLE };
    for field in [&b"\x82"[..], b"\x44\x01x", b"\x04\x01x", b"\x10\x01a\x01b"] {
        assert_eq!(decode_within(&mut Decoder::new(4096), &field.repeat(3), limits), Ok(3));
        assert_eq!(decode_within(&mut Decoder::new(4096), &field.repeat(4), limits), Err(DecodeError::TooLarge));
    }
}

#[test]
fn all_of_a_field_counts() {
    // `:path: x`, in each form, and by the index that the second one gives it.
    let size = 5 + 1;
    let block = b"\x04\x01x\x44\x01x\xbe\x14\x01x";
    for (most_total, result) in [(4 * size, Ok(4)), (4 * size - 1, Err(DecodeError::TooLarge))] {
        let limits = BlockLimits { most_total, ..AMPLE };
        assert_eq!(decode_within(&mut Decoder::new(4096), block, limits), result);
    }
}

/// One byte stands for thousands, which is known as the HPACK bomb.
#[test]
fn an_index_counts_what_it_stands_for() {
    let mut decoder = Decoder::new(4096);
    let entry = [&[0x44, 0x7f, 0xa1, 0x1e][..], &[b'x'; 4000]].concat();
    let limits = BlockLimits { most_string: 8192, most_total: 32768, most_fields: 1000 };
    assert_eq!(decode_within(&mut decoder, &entry, limits), Ok(1));
    assert_eq!(decode_within(&mut decoder, &[0xbe; 8], limits), Ok(8));
    assert_eq!(decode_within(&mut decoder, &[0xbe; 1000], limits), Err(DecodeError::TooLarge));
}

#[test]
fn strings_have_a_limit_of_their_own() {
    let limits = BlockLimits { most_string: 10, ..AMPLE };
    // 16 times `0`, in 80 bits.
    for (block, result) in [
        (&b"\x04\x0a0123456789"[..], Ok(1)),
        (b"\x04\x0b0123456789x", Err(DecodeError::TooLarge)),
        (b"\x00\x0b0123456789x\x00", Err(DecodeError::TooLarge)),
        (b"\x44\x0b0123456789x", Err(DecodeError::TooLarge)),
        (b"\x04\x87\0\0\0\0\0\0\x3f", Ok(1)),
        (b"\x04\x87\0\0\0\0\0\0\x07", Err(DecodeError::TooLarge)),
        (b"\x40\x87\0\0\0\0\0\0\x07\x00", Err(DecodeError::TooLarge)),
        (b"\x04\x8a\0\0\0\0\0\0\0\0\0\0", Err(DecodeError::TooLarge)),
        (b"\x04\x94\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", Err(DecodeError::TooLarge)),
    ] {
        assert_eq!(decode_within(&mut Decoder::new(4096), block, limits), result, "{block:x?}");
    }
}

/// However much a string could become, no more memory is taken for it than the limit allows.
#[test]
fn memory_is_bounded_by_the_limits() {
    struct Nothing;
    impl FieldSink for Nothing {
        fn field(&mut self, _: DecodedField<'_>) {}
    }
    let mut long = vec![0x04];
    crate::compression::integer::write(0x80, 0x7f, 1_000_000, &mut long);
    long.resize(1_000_010, 0);
    for block in [&long[..], &[&[0x44], &long[1..]].concat()] {
        let mut decoder = Decoder::new(4096);
        let limits = BlockLimits { most_string: 500, most_total: 1000, most_fields: 10 };
        assert_eq!(decoder.decode(block, &limits, &mut Nothing), Err(DecodeError::TooLarge));
        // The table may also have got room for what follows.
        assert!(decoder.heap_bytes() < 500 + 4096 + 100, "{}", decoder.heap_bytes());
    }
}

/// A block of many long strings leaves no memory behind, and a full table takes little more than its size.
#[test]
fn memory_is_given_back() {
    let mut decoder = Decoder::new(4096);
    let mut encoder = Encoder::new();
    let value = "abcdefghij".repeat(500);
    let long = fields(&mut encoder, &[("x-long", &value)]);
    assert!(decode(&mut decoder, &long).is_ok());
    assert!(decoder.heap_bytes() < 200, "{}", decoder.heap_bytes());
    let mut most = 0;
    for number in 0..1000 {
        let value = format!("{number}{}", "y".repeat(number % 700));
        let block = block(&mut encoder, |encoder, out| {
            encoder.field_as(b"x-some", value.as_bytes(), Indexing::Incremental, out);
        });
        assert!(decode(&mut decoder, &block).is_ok());
        most = most.max(decoder.heap_bytes());
        assert!(decoder.table_size() <= 4096);
    }
    assert!(most < 4096 * 3 / 2 + 1500, "{most}");
    assert!(encoder.heap_bytes() < 4096 * 3 / 2 + 1500, "{}", encoder.heap_bytes());
    encoder.set_most(0, 4096);
    assert!(decode(&mut decoder, &fields(&mut encoder, &[])).is_ok());
    assert!(decoder.heap_bytes() < 300, "{}", decoder.heap_bytes());
}
