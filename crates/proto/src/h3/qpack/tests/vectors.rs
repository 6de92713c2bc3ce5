//! The examples of RFC 9204, appendix B.

use super::*;

#[test]
fn a_literal_field_with_the_name_of_a_static_entry() {
    let mut decoder = QpackDecoder::new(0);
    let fields = decode(&mut decoder, 0, b"\x00\x00\x51\x0b/index.html");
    assert_eq!(fields, Ok(Some(vec![owned(":path", "/index.html")])));
    assert!(decoder.instructions().is_empty(), "what refers to nothing is not acknowledged");
}

#[test]
fn the_conversation_of_the_rfc() {
    let mut decoder = QpackDecoder::new(220);
    // B.2: two entries, and a section that needs them and comes before them.
    let section = b"\x03\x81\x10\x11";
    assert_eq!(decode(&mut decoder, 4, section), Ok(None));
    assert_eq!(insert(&mut decoder, b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path"), Ok(()));
    assert_eq!((decoder.table_size(), decoder.inserted()), (106, 2));
    let fields = vec![owned(":authority", "www.example.com"), owned(":path", "/sample/path")];
    assert_eq!(decode(&mut decoder, 4, section), Ok(Some(fields)));
    assert_eq!(*decoder.instructions(), [0x84]);
    decoder.instructions().clear();
    decoder.report();
    assert!(decoder.instructions().is_empty(), "the acknowledgement has said it");
    // B.3: an entry that no section needs yet.
    assert_eq!(insert(&mut decoder, b"\x4acustom-key\x0ccustom-value"), Ok(()));
    assert_eq!(decoder.table_size(), 160);
    decoder.report();
    assert_eq!(*decoder.instructions(), [0x01]);
    decoder.instructions().clear();
    // B.4: an entry is inserted once more, and the section that needs it is cancelled.
    let section = b"\x05\x00\x80\xc1\x81";
    assert_eq!(decode(&mut decoder, 8, section), Ok(None));
    assert_eq!(insert(&mut decoder, b"\x02"), Ok(()));
    assert_eq!(decoder.table_size(), 217);
    decoder.cancel(8);
    assert_eq!(*decoder.instructions(), [0x48]);
    decoder.instructions().clear();
    let fields = vec![owned(":authority", "www.example.com"), owned(":path", "/"), owned("custom-key", "custom-value")];
    assert_eq!(decode(&mut decoder, 12, section), Ok(Some(fields)));
    // B.5: an entry goes for another one, whose name another entry has.
    assert_eq!(insert(&mut decoder, b"\x81\x0dcustom-value2"), Ok(()));
    assert_eq!((decoder.table_size(), decoder.inserted()), (215, 5));
    let fields = vec![owned("custom-key", "custom-value2"), owned("custom-key", "custom-value")];
    assert_eq!(decode(&mut decoder, 16, b"\x06\x00\x80\x82"), Ok(Some(fields)));
}

/// The instructions of the conversation in every split give the same table.
#[test]
fn instructions_may_come_in_any_split() {
    let bytes = b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path\x4acustom-key\x0ccustom-value\x02\x81\x0dcustom-value2";
    for first in 0..bytes.len() {
        for second in first..bytes.len() {
            let mut decoder = QpackDecoder::new(220);
            for part in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                assert_eq!(insert(&mut decoder, part), Ok(()));
            }
            assert_eq!((decoder.table_size(), decoder.inserted()), (215, 5));
            let fields = decode(&mut decoder, 0, b"\x06\x00\x80\x81\x82\x83");
            let names = fields.map(|fields| fields.map(|fields| fields.iter().map(|field| field.1.len()).sum()));
            assert_eq!(names, Ok(Some(13 + 15 + 12 + 12)));
        }
    }
}

/// The decoder's instructions of the conversation, as an encoder takes them.
#[test]
fn an_encoder_writes_the_conversation() {
    let mut encoder = QpackEncoder::new();
    encoder.set_most(220, 220, 1);
    let mut out = Vec::new();
    let start = encoder.begin(4, &mut out);
    encoder.field_as(b":authority", b"www.example.com", Indexing::Incremental, &mut out);
    encoder.field_as(b":path", b"/sample/path", Indexing::Incremental, &mut out);
    encoder.finish(start, &mut out);
    assert_eq!(out, b"\x03\x81\x10\x11");
    let mut decoder = QpackDecoder::new(220);
    assert_eq!(insert(&mut decoder, encoder.instructions()), Ok(()));
    encoder.instructions().clear();
    assert_eq!(encoder.table_size(), 106);
    assert_eq!(progress(&mut encoder, b"\x84"), Ok(vec![Instruction::Progress]));
    // Another section refers to the same entries, which have arrived.
    out.clear();
    let start = encoder.begin(8, &mut out);
    encoder.field_as(b":path", b"/sample/path", Indexing::Incremental, &mut out);
    encoder.finish(start, &mut out);
    assert_eq!(out, b"\x03\x00\x80");
    assert!(encoder.instructions().is_empty());
    assert_eq!(encoder.open_sections(), 1);
    assert_eq!(progress(&mut encoder, b"\x48"), Ok(vec![Instruction::Cancellation]));
    assert_eq!(encoder.open_sections(), 0);
}
