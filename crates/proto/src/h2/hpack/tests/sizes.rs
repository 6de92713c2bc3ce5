//! Changes of the tables' sizes: RFC 7541 sections 4.2 and 6.3.

use super::*;

fn error(decoder: &mut Decoder, block: &[u8]) -> &'static str {
    match decode(decoder, block) {
        Err(DecodeError::Compression(why)) => why,
        other => panic!("{other:?} for {block:x?}"),
    }
}

const LARGE: &str = "a size update is above the limit";
const LATE: &str = "a size update is not at the beginning of a header block";
const LACKING: &str = "a header block lacks the size update that has to come";

#[test]
fn the_peer_chooses_a_size_up_to_the_limit() {
    let mut decoder = Decoder::new(100);
    assert!(decode(&mut decoder, b"\x40\x01a\x01b\x40\x01c\x01d").is_ok());
    assert_eq!(decoder.table_size(), 68);
    // 40, which leaves one entry, and 100 again.
    assert_eq!(lines(&decode(&mut decoder, b"\x3f\x09\xbe").expect("a block")), ["c: d"]);
    assert_eq!(decoder.table_size(), 34);
    assert_eq!(lines(&decode(&mut decoder, b"\x3f\x45\x40\x01e\x01f\xbf").expect("a block")), ["e: f", "c: d"]);
    assert_eq!(lines(&decode(&mut decoder, b"\x20\x3f\x45\x82").expect("a block")), [":method: GET"]);
    assert_eq!(decoder.table_size(), 0);
    assert_eq!(error(&mut decoder, b"\x3f\x46"), LARGE);
    assert_eq!(error(&mut Decoder::new(4096), b"\x3f\xe2\x1f"), LARGE);
    assert_eq!(error(&mut Decoder::new(4096), b"\x3f\xff\xff\xff\xff\xff\x0f"), LARGE);
    // No table is larger than this, whatever was announced.
    let update = |size| block(&mut Encoder::new(), |_, out| crate::compression::integer::write(0x20, 0x1f, size, out));
    assert!(decode(&mut Decoder::new(100_000), &update(65_535)).is_ok());
    assert_eq!(error(&mut Decoder::new(100_000), &update(65_536)), LARGE);
}

#[test]
fn a_late_update_is_an_error() {
    assert_eq!(error(&mut Decoder::new(4096), b"\x82\x20"), LATE);
    assert_eq!(error(&mut Decoder::new(4096), b"\x20\x82\x3f\xe1\x1f"), LATE);
}

#[test]
fn a_smaller_limit_has_to_be_answered() {
    let mut decoder = Decoder::new(4096);
    decoder.set_table_size(100);
    assert_eq!(error(&mut decoder, b"\x82"), LACKING);
    let mut decoder = Decoder::new(4096);
    decoder.set_table_size(100);
    assert_eq!(error(&mut decoder, b"\x3f\x46\x82"), LARGE);
    let mut decoder = Decoder::new(4096);
    decoder.set_table_size(100);
    assert!(decode(&mut decoder, b"\x3f\x45\x82").is_ok());
    assert!(decode(&mut decoder, b"\x82").is_ok());
    // What the peer has chosen is small enough already.
    decoder.set_table_size(100);
    assert!(decode(&mut decoder, b"\x82").is_ok());
    // A larger limit does not have to be used.
    decoder.set_table_size(1000);
    assert!(decode(&mut decoder, b"\x82").is_ok());
    assert!(decode(&mut decoder, b"\x3f\xc9\x07\x82").is_ok());
}

#[test]
fn the_lowest_limit_has_to_be_answered_first() {
    let changed = || {
        let mut decoder = Decoder::new(4096);
        decoder.set_table_size(0);
        decoder.set_table_size(100);
        decoder
    };
    assert_eq!(error(&mut changed(), b"\x3f\x45\x82"), LACKING);
    assert!(decode(&mut changed(), b"\x20\x82").is_ok());
    assert!(decode(&mut changed(), b"\x20\x3f\x45\x82").is_ok());
    // Nothing follows it yet, so the next block can have it.
    let mut decoder = changed();
    assert!(decode(&mut decoder, b"").is_ok());
    assert_eq!(error(&mut decoder, b"\x82"), LACKING);
}

#[test]
fn the_encoder_says_the_lowest_and_the_last_size() {
    let begin = |encoder: &mut Encoder| block(encoder, |_, _| ());
    let mut encoder = Encoder::new();
    assert_eq!(begin(&mut encoder), b"");
    // A larger table than ours is not used.
    encoder.set_most(65536, 4096);
    assert_eq!(begin(&mut encoder), b"");
    encoder.set_most(65536, 1024);
    assert_eq!(begin(&mut encoder), b"\x3f\xe1\x07");
    assert_eq!(begin(&mut encoder), b"");
    encoder.set_most(0, 1024);
    encoder.set_most(100, 1024);
    encoder.set_most(200, 1024);
    assert_eq!(begin(&mut encoder), b"\x20\x3f\xa9\x01");
    encoder.set_most(100, 1024);
    assert_eq!(begin(&mut encoder), b"\x3f\x45");
    encoder.set_most(300, 1024);
    encoder.set_most(100, 1024);
    assert_eq!(begin(&mut encoder), b"");
    encoder.set_most(50, 1024);
    encoder.set_most(100, 1024);
    assert_eq!(begin(&mut encoder), b"\x3f\x13\x3f\x45");
    encoder.set_most(u32::MAX, u32::MAX);
    assert_eq!(begin(&mut encoder), b"\x3f\xe1\x7f");
}

#[test]
fn without_a_table_nothing_is_indexed() {
    let mut encoder = Encoder::new();
    encoder.set_most(0, 4096);
    let first = fields(&mut encoder, &[("server", "x"), ("date", "now")]);
    assert_eq!(first[..2], [0x20, 0x0f]);
    assert_eq!(fields(&mut encoder, &[("server", "x"), ("date", "now")]), first[1..]);
    block(&mut encoder, |encoder, out| encoder.field_as(b"a", b"b", Indexing::Incremental, out));
    assert_eq!(encoder.table_size(), 0);
    let mut decoder = Decoder::new(4096);
    assert_eq!(lines(&decode(&mut decoder, &first).expect("a block")), ["server: x", "date: now"]);
}

#[test]
fn a_forgotten_table_is_empty_on_both_sides() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    // There is nothing to forget yet.
    encoder.forget();
    let message = [("Server", "freerun"), ("Vary", "Accept-Encoding"), ("X-Once", "1")];
    let first = fields(&mut encoder, &message);
    assert!(decode(&mut decoder, &first).is_ok());
    assert!(encoder.heap_bytes() > 0);
    encoder.forget();
    assert_eq!((encoder.heap_bytes(), encoder.table_size()), (0, 0));
    let again = fields(&mut encoder, &message);
    assert_eq!(again, [b"\x20\x3f\xe1\x1f", &first[..]].concat());
    assert_eq!(lines(&decode(&mut decoder, &again).expect("a block"))[1], "vary: Accept-Encoding");
    assert_eq!(decoder.table_size(), encoder.table_size());
    let third = fields(&mut encoder, &message);
    assert_eq!(third[..2], [0xbf, 0xbe]);
    assert!(decode(&mut decoder, &third).is_ok());
}
