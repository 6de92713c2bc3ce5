//! Comparison with another implementation of HPACK, in both directions.

use proptest::prelude::*;

use super::*;

/// A field, and the other encoder's flags for it.
type Flagged = (Vec<u8>, Vec<u8>, u8);

fn flagged() -> impl Strategy<Value = Flagged> {
    let names = [":path", ":method", "server", "etag", "cookie", "x-a", "x-b", "content-type"];
    let name = prop_oneof![
        3 => proptest::sample::select(names.map(|name| name.as_bytes().to_vec()).to_vec()),
        1 => "[a-z-]{1,30}".prop_map(String::into_bytes),
    ];
    let value = prop_oneof![
        2 => "[a-c]{0,2}".prop_map(String::into_bytes),
        2 => "[ -~]{0,80}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..60),
    ];
    let indexing = proptest::sample::select(vec![
        0,
        httlib_hpack::Encoder::WITH_INDEXING,
        httlib_hpack::Encoder::WITH_INDEXING,
        httlib_hpack::Encoder::NEVER_INDEXED,
    ]);
    let coded = httlib_hpack::Encoder::HUFFMAN_NAME | httlib_hpack::Encoder::HUFFMAN_VALUE;
    (name, value, indexing, any::<u8>()).prop_map(move |(name, value, indexing, other)| {
        let best = httlib_hpack::Encoder::BEST_FORMAT;
        (name, value, indexing | (other & coded) | if other & 0x80 == 0 { best } else { 0 })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn we_read_what_another_encoder_writes(
        size in prop_oneof![Just(4096u32), 40u32..300],
        blocks in proptest::collection::vec(proptest::collection::vec(flagged(), 0..12), 1..10),
    ) {
        let mut theirs = httlib_hpack::Encoder::with_dynamic_size(size);
        let mut ours = Decoder::new(size);
        for fields in blocks {
            let mut block = Vec::new();
            for field in fields.clone() {
                theirs.encode(field, &mut block).expect("a field");
            }
            let read = decode(&mut ours, &block).expect("a block");
            let read: Vec<_> = read.into_iter().map(|(name, value, _)| (name, value)).collect();
            let written: Vec<_> = fields.into_iter().map(|(name, value, _)| (name, value)).collect();
            assert_eq!(read, written);
        }
    }

    #[test]
    fn another_decoder_reads_what_we_write(
        size in prop_oneof![Just(4096u32), 40u32..300],
        blocks in proptest::collection::vec(proptest::collection::vec(flagged(), 0..12), 1..10),
    ) {
        let mut theirs = httlib_hpack::Decoder::with_dynamic_size(4096);
        let mut ours = Encoder::new();
        ours.set_most(size, 4096);
        for fields in blocks {
            let mut block = block(&mut ours, |encoder, out| {
                for (name, value, flags) in &fields {
                    if flags & httlib_hpack::Encoder::WITH_INDEXING != 0 {
                        encoder.field_as(name, value, Indexing::Incremental, out);
                    } else {
                        encoder.field(name, value, out);
                    }
                }
            });
            let mut read = Vec::new();
            theirs.decode(&mut block, &mut read).expect("a block");
            let read: Vec<_> = read.into_iter().map(|(name, value, _)| (name, value)).collect();
            let written: Vec<_> = fields.into_iter().map(|(name, value, _)| (name, value)).collect();
            assert_eq!(read, written);
        }
    }
}
