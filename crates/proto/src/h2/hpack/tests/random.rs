//! What the encoder writes is what the decoder reads, whatever the fields and the sizes of the tables.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Field(Vec<u8>, Vec<u8>),
    FieldAs(Vec<u8>, Vec<u8>, Indexing),
    Pseudo(Pseudo, Vec<u8>),
    Status(u16),
    /// The next block begins, after the table's size has been changed to each of these.
    Block(Vec<u32>),
    Forget,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let known = ["Server", "Date", "ETag", "X-Unknown", "x-unknown", "content-length", "Set-Cookie", "Cookie", "a", ""];
    prop_oneof![
        4 => proptest::sample::select(known.map(|name| name.as_bytes().to_vec()).to_vec()),
        1 => "[a-zA-Z-]{1,40}".prop_map(String::into_bytes),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-c]{0,2}".prop_map(String::into_bytes),
        2 => "[ -~]{0,60}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0usize..600).prop_map(|len| vec![b'x'; len]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let indexing = proptest::sample::select(vec![Indexing::Incremental, Indexing::Without, Indexing::Never]);
    let pseudo = proptest::sample::select(vec![Pseudo::Method, Pseudo::Path, Pseudo::Authority, Pseudo::Protocol]);
    let size = prop_oneof![Just(0u32), 30u32..400, Just(4096)];
    prop_oneof![
        8 => (name(), value()).prop_map(|(name, value)| Step::Field(name, value)),
        6 => (name(), value(), indexing).prop_map(|(name, value, indexing)| Step::FieldAs(name, value, indexing)),
        2 => (pseudo, value()).prop_map(|(pseudo, value)| Step::Pseudo(pseudo, value)),
        1 => (100u16..600).prop_map(Step::Status),
        3 => proptest::collection::vec(size, 0..3).prop_map(Step::Block),
        1 => Just(Step::Forget),
    ]
}

fn pseudo_name(pseudo: Pseudo) -> &'static [u8] {
    match pseudo {
        Pseudo::Method => b":method",
        Pseudo::Path => b":path",
        Pseudo::Authority => b":authority",
        _ => b":protocol",
    }
}

/// Runs the steps, and compares what was read with what was written, and the sizes of the tables, which have to agree.
fn run(first: u32, steps: Vec<Step>) {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    encoder.set_most(first, 8192);
    decoder.set_table_size(first);
    let (mut out, mut written) = (Vec::new(), Vec::new());
    let mut most = first;
    encoder.begin(&mut out);
    for step in steps.into_iter().chain([Step::Block(Vec::new())]) {
        match step {
            Step::Field(name, value) => {
                encoder.field(&name, &value, &mut out);
                written.push((name.to_ascii_lowercase(), value));
            }
            Step::FieldAs(name, value, indexing) => {
                encoder.field_as(&name, &value, indexing, &mut out);
                written.push((name.to_ascii_lowercase(), value));
            }
            Step::Pseudo(pseudo, value) => {
                encoder.pseudo(pseudo, &value, &mut out);
                written.push((pseudo_name(pseudo).to_vec(), value));
            }
            Step::Status(status) => {
                encoder.status(status, &mut out);
                written.push((b":status".to_vec(), status.to_string().into_bytes()));
            }
            Step::Forget | Step::Block(_) => {
                let read = decode(&mut decoder, &out).expect("a block");
                let read: Vec<_> = read.into_iter().map(|(name, value, _)| (name, value)).collect();
                assert_eq!(read, std::mem::take(&mut written));
                assert_eq!(decoder.table_size(), encoder.table_size());
                assert!(decoder.table_size() <= most as usize);
                out.clear();
                match step {
                    Step::Block(sizes) => sizes.into_iter().for_each(|size| {
                        encoder.set_most(size, 8192);
                        decoder.set_table_size(size);
                        most = size;
                    }),
                    _ => encoder.forget(),
                }
                encoder.begin(&mut out);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_decoder_reads_what_the_encoder_writes(
        first in prop_oneof![Just(4096u32), 0u32..300],
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        run(first, steps);
    }

    /// Any bytes end in an answer, within the limits.
    #[test]
    fn any_block_is_decoded_or_refused(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 1..8)) {
        let mut decoder = Decoder::new(128);
        for block in blocks {
            if decode(&mut decoder, &block).is_err() {
                break;
            }
            assert!(decoder.table_size() <= 128);
        }
    }
}
