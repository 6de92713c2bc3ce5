//! Blocks that are wrong.

use super::*;

fn error(block: &[u8]) -> &'static str {
    error_with(&mut Decoder::new(4096), block)
}

fn error_with(decoder: &mut Decoder, block: &[u8]) -> &'static str {
    match decode(decoder, block) {
        Err(DecodeError::Compression(why)) => why,
        other => panic!("{other:?} for {block:x?}"),
    }
}

const NO_ENTRY: &str = "a header block names an entry that is in no table";
const CUT_OFF: &str = "a header block ends within a field";

#[test]
fn entries_that_are_in_no_table() {
    assert_eq!(error(&[0x80]), NO_ENTRY);
    assert_eq!(error(&[0xbe]), NO_ENTRY);
    assert_eq!(error(&[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]), NO_ENTRY);
    // As the name of a literal, of each kind.
    assert_eq!(error(&[0x7e, 1, b'a']), NO_ENTRY);
    assert_eq!(error(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 1, b'a']), NO_ENTRY);
    assert_eq!(error(&[0x0f, 0x2f, 1, b'a']), NO_ENTRY);
    assert_eq!(error(&[0x1f, 0x2f, 1, b'a']), NO_ENTRY);
    let mut decoder = Decoder::new(4096);
    assert!(decode(&mut decoder, b"\x40\x01a\x01b\xbe\x7e\x01c\xbf").is_ok());
    assert_eq!(error_with(&mut decoder, &[0xbe, 0xbf, 0xc0]), NO_ENTRY);
}

#[test]
fn an_entry_that_was_evicted_is_gone() {
    let mut decoder = Decoder::new(67);
    assert!(decode(&mut decoder, b"\x40\x01a\x01b\x40\x01c\x01d\xbe\xbf").is_err());
    let mut decoder = Decoder::new(67);
    assert_eq!(lines(&decode(&mut decoder, b"\x40\x01a\x01b\x40\x01c\x01d\xbe").expect("a block")).len(), 3);
    assert_eq!(decoder.table_size(), 34);
    // What is larger than the table empties it.
    assert!(decode(&mut decoder, &[b"\x40\x01e\x30".as_slice(), &[b'x'; 0x30]].concat()).is_ok());
    assert_eq!(decoder.table_size(), 0);
    assert_eq!(error_with(&mut decoder, &[0xbe]), NO_ENTRY);
}

#[test]
fn what_is_cut_off() {
    let whole = b"\x40\x86\xa8\xeb\x10\x64\x9c\xbf\x03abc\x0f\x10\x02de\x10\x01f\x01g";
    assert_eq!(lines(&decode(&mut Decoder::new(4096), whole).expect("a block")).len(), 3);
    let ends = [12, 17];
    for len in 1..whole.len() {
        let decoded = decode(&mut Decoder::new(4096), &whole[..len]);
        assert_eq!(decoded.is_ok(), ends.contains(&len), "{len}");
    }
    assert_eq!(error(b"\x40"), CUT_OFF);
    assert_eq!(error(b"\x40\x03ab"), CUT_OFF);
    assert_eq!(error(b"\x40\x01a"), CUT_OFF);
    assert_eq!(error(b"\x41\x83\xff"), CUT_OFF);
    assert_eq!(error(b"\xff"), "a header block ends within an integer");
    assert_eq!(error(b"\x41\x7f\xff"), "a header block ends within an integer");
}

#[test]
fn integers_that_overflow() {
    const LARGE: &str = "an integer in a header block is too large";
    assert_eq!(error(&[&[0xff][..], &[0xff; 12]].concat()), LARGE);
    assert_eq!(error(&[&[0x41, 0x7f][..], &[0x80; 10], &[0]].concat()), LARGE);
    assert_eq!(error(&[&[0x3f][..], &[0xff; 12]].concat()), LARGE);
    // This is none, but no block is that long.
    assert_eq!(error(&[0x41, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]), CUT_OFF);
}

#[test]
fn huffman_codes() {
    const PADDING: &str = "a Huffman-coded string ends with wrong padding";
    const EOS: &str = "a Huffman-coded string has EOS in it";
    let value = |code: &[u8]| {
        let block = [&[0x04, 0x80 | code.len() as u8], code].concat();
        // What is decoded into the table is no different.
        let indexed = [&[0x44, 0x80 | code.len() as u8], code].concat();
        let decoded = decode(&mut Decoder::new(4096), &block);
        assert_eq!(decoded, decode(&mut Decoder::new(4096), &indexed));
        decoded.map(|fields| fields[0].1.clone())
    };
    let wrong = |code: &[u8]| match value(code) {
        Err(DecodeError::Compression(why)) => why,
        other => panic!("{other:?} for {code:x?}"),
    };
    assert_eq!(value(&[]), Ok(vec![]));
    // `a` is 00011.
    assert_eq!(value(&[0b0001_1111]), Ok(b"a".to_vec()));
    assert_eq!(wrong(&[0b0001_1110]), PADDING);
    assert_eq!(wrong(&[0b0001_1011]), PADDING);
    assert_eq!(wrong(&[0b0001_1000]), PADDING);
    // Padding of 8 bits, which is let pass, of 11, and of a whole string.
    assert_eq!(value(&[0xff]), Ok(vec![]));
    assert_eq!(wrong(&[0b0001_1111, 0xff]), PADDING);
    assert_eq!(wrong(&[0xff, 0xff, 0xff]), PADDING);
    assert_eq!(wrong(&[0xff, 0xff, 0xff, 0xff]), EOS);
    assert_eq!(wrong(&[0xff, 0xff, 0xff, 0xfc]), EOS);
    assert_eq!(value(&[0xff, 0xff, 0xff, 0xfb]), Ok(vec![22]));
    assert_eq!(wrong(&[0xff, 0xff, 0xff, 0xfb, 0xff]), PADDING);
    assert_eq!(wrong(&[0b0001_1111, 0xff, 0xff, 0xff, 0b1110_0011]), EOS);
    // Behind and before what is decoded several bytes at a time.
    assert_eq!(wrong(&[&[0b0001_1111][..], &[0xff; 20]].concat()), EOS);
    assert_eq!(
        wrong(&[&[0b0001_1000, 0b1100_0110, 0b0011_0001, 0b1000_1100, 0b0110_0011][..], &[0xff; 4]].concat()),
        EOS
    );
    assert_eq!(wrong(&[&[0xff; 4][..], &[0; 20]].concat()), EOS);
    // Zeros, of which each five are `0`, leave two bits of it behind the last byte of sixteen.
    assert_eq!(wrong(&[0; 16]), PADDING);
    assert_eq!(value(&[0; 15]), Ok(vec![b'0'; 24]));
}

#[test]
fn a_name_may_be_any_bytes() {
    let decoded =
        decode(&mut Decoder::new(4096), b"\x00\x00\x00\x40\x03:XY\x01\x00\x10\x04Host\x02\r\n\xbe").expect("a block");
    assert_eq!(lines(&decoded), [": ", ":XY: \0", "Host; \r\n", ":XY: \0"]);
}
