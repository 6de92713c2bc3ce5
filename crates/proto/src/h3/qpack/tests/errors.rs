//! Sections and instructions that are wrong, and those that pass a limit.

use super::*;

/// A decoder with two entries: `a: b`, then `c: d`.
fn filled() -> QpackDecoder {
    let mut decoder = QpackDecoder::new(256);
    assert_eq!(insert(&mut decoder, b"\x3f\xe1\x01\x41a\x01b\x41c\x01d"), Ok(()));
    decoder
}

#[test]
fn wrong_sections_are_refused() {
    for section in [
        &b""[..],
        b"\x00",
        b"\xff",
        b"\x00\xff",
        // No Required Insert Count is greater than twice the number of entries, or 0 in the end.
        b"\x12\x00",
        b"\x10\x00",
        // The base is below 0.
        b"\x03\x82",
        b"\x00\x80",
        // An entry that is in no table, or that the section has not announced.
        b"\x00\x00\xff\x24",
        b"\x00\x00\x80",
        b"\x02\x00\x81",
        b"\x02\x00\x10",
        b"\x02\x01\x80",
        b"\x00\x00\x00\x01x",
        b"\x03\x00\x42\x01x",
        // It ends within a field.
        b"\x00\x00\x51",
        b"\x00\x00\x51\x02x",
        b"\x00\x00\x23ab",
        b"\x00\x00\x21a",
        b"\x00\x00\x27",
        // Huffman codes with wrong padding, and with EOS.
        b"\x00\x00\x51\x81\x00",
        b"\x00\x00\x51\x84\xff\xff\xff\xff",
        b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let result = decode(&mut filled(), 0, section);
        assert!(matches!(result, Err(DecodeError::Compression(_))), "{} {result:?}", section.escape_ascii());
    }
}

#[test]
fn the_required_insert_count_wraps() {
    let mut decoder = QpackDecoder::new(64);
    assert_eq!(insert(&mut decoder, b"\x3f\x21"), Ok(()));
    for number in 1..100u64 {
        assert_eq!(insert(&mut decoder, b"\x41a\x01b"), Ok(()));
        assert_eq!(decoder.inserted(), number);
        // Two entries at most, so four values.
        let encoded = number % 4 + 1;
        assert_eq!(decode(&mut decoder, 0, &[encoded as u8, 0, 0x80]), Ok(Some(vec![owned("a", "b")])));
        let next = (number + 1) % 4 + 1;
        assert_eq!(decode(&mut decoder, 0, &[next as u8, 0, 0x80]), Ok(None), "the next entry may come");
    }
}

#[test]
fn wrong_instructions_are_refused() {
    for instructions in [
        // More capacity than was allowed.
        &b"\x3f\xe2\x01"[..],
        // Names in no table.
        b"\xff\x24\x01a",
        b"\x82\x01a",
        b"\x02",
        // More than the table has room for.
        b"\x3f\x05\x41a\x05bcdef",
        b"\x3f\x05\x45bcdef\x01a",
        b"\x20\x41a\x01a",
        b"\x41a\x7f\xff\x7f",
        b"\x5f\xff\x7f",
        // Huffman codes with wrong padding.
        b"\x61\x00\x01a",
        b"\x41a\x81\x00",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let result = insert(&mut filled(), instructions);
        assert!(result.is_err(), "{}", instructions.escape_ascii());
        // The first error is found at the same place when the bytes come one by one.
        let (mut decoder, mut single) = (filled(), Ok(()));
        for byte in instructions {
            single = single.and_then(|()| insert(&mut decoder, &[*byte]));
        }
        assert_eq!(single, result);
    }
    assert!(insert(&mut QpackDecoder::new(0), b"\x21").is_err(), "there is no table");
    assert_eq!(insert(&mut QpackDecoder::new(0), b"\x20"), Ok(()));
}

#[test]
fn wrong_acknowledgements_are_refused() {
    let filled = || {
        let mut encoder = QpackEncoder::new();
        encoder.set_most(256, 256, 10);
        let mut out = Vec::new();
        let start = encoder.begin(4, &mut out);
        encoder.field_as(b"a", b"b", Indexing::Incremental, &mut out);
        encoder.finish(start, &mut out);
        encoder
    };
    for instructions in [
        &b"\x80"[..],
        b"\x00",
        b"\x02",
        b"\x84\x84",
        b"\x01\x01",
        b"\x84\x01",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        assert!(progress(&mut filled(), instructions).is_err(), "{}", instructions.escape_ascii());
    }
    assert!(progress(&mut QpackEncoder::new(), b"\x01").is_err());
    let (done, cancelled) = (Instruction::Progress, Instruction::Cancellation);
    assert_eq!(progress(&mut filled(), b"\x01\x84\x7f\x80\x01"), Ok(vec![done, done, cancelled]));
}

#[test]
fn limits_hold_for_whatever_a_byte_stands_for() {
    let limits = BlockLimits { most_string: 20, most_total: 40, most_fields: 3 };
    let decode = |section: &[u8]| {
        let mut fields = Collected::default();
        let result = filled().decode(0, section, &limits, &mut fields);
        (result, fields.0.len())
    };
    assert_eq!(decode(b"\x03\x00\x80\x81\x80"), (Ok(DecodeOutcome::Whole), 3));
    assert_eq!(decode(b"\x03\x00\x80\x81\x80\x81"), (Err(DecodeError::TooLarge), 3));
    // `:authority` and a value of the longest kind, and one byte more.
    assert_eq!(decode(b"\x00\x00\x50\x1401234567890123456789"), (Ok(DecodeOutcome::Whole), 1));
    assert_eq!(decode(b"\x00\x00\x50\x15012345678901234567890"), (Err(DecodeError::TooLarge), 0));
    // Each zero has five bits.
    let coded = b"\x00\x00\x50\x90\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07";
    assert_eq!(decode(coded), (Err(DecodeError::TooLarge), 0));
    assert_eq!(decode(b"\x00\x00\xf4\xf4"), (Err(DecodeError::TooLarge), 1), "the sum of static entries counts");
}

/// What is kept of an instruction that does not end is bounded by the table.
#[test]
fn an_instruction_that_does_not_end_takes_bounded_memory() {
    let mut decoder = QpackDecoder::new(4096);
    assert_eq!(insert(&mut decoder, b"\x3f\xe1\x1f\x41a\x7f\x80\x7f"), Ok(()));
    for _ in 0..16_000 {
        assert_eq!(insert(&mut decoder, b"x"), Ok(()));
    }
    assert!(decoder.heap_bytes() < 64 * 1024, "{}", decoder.heap_bytes());
    assert!((0..1000).any(|_| insert(&mut decoder, b"x").is_err()), "the entry has no room in the table");
}
