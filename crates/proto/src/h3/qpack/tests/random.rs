//! What an encoder writes is what the decoder of its peer reads, whatever the fields and the sizes of the tables, and in
//! whatever order streams bring it.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Section(usize, Vec<(Vec<u8>, Vec<u8>, Indexing, bool)>),
    /// Bytes of the encoder's stream come.
    Instructions(usize),
    /// Bytes of the decoder's stream come.
    Progress(usize),
    /// The oldest section of a stream comes.
    Arrives(usize),
    /// A stream is not read any more.
    Cancel(usize),
    Pause(bool),
    Forget,
}

fn field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, Indexing, bool)> {
    let known = ["Server", "Date", "ETag", "X-Unknown", "x-unknown", "content-length", "Set-Cookie", "Vary", "a", ""];
    let name = prop_oneof![
        4 => proptest::sample::select(known.map(|name| name.as_bytes().to_vec()).to_vec()),
        1 => "[a-zA-Z-]{1,40}".prop_map(String::into_bytes),
    ];
    let value = prop_oneof![
        4 => "[a-c]{0,2}".prop_map(String::into_bytes),
        2 => "[ -~]{0,60}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0usize..600).prop_map(|len| vec![b'x'; len]),
    ];
    let indexing = proptest::sample::select(vec![Indexing::Incremental, Indexing::Without, Indexing::Never]);
    (name, value, indexing, any::<bool>())
}

fn step() -> impl Strategy<Value = Step> {
    let stream = || 0usize..6;
    prop_oneof![
        6 => (stream(), proptest::collection::vec(field(), 0..6)).prop_map(|(id, fields)| Step::Section(id, fields)),
        6 => (1usize..200).prop_map(Step::Instructions),
        6 => (1usize..6).prop_map(Step::Progress),
        8 => stream().prop_map(Step::Arrives),
        1 => stream().prop_map(Step::Cancel),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => Just(Step::Forget),
    ]
}

/// A section on its way, with its stream and its fields.
type Sent = (u64, Vec<u8>, Vec<Owned>);

fn first_bytes(queue: &mut Vec<u8>, count: usize) -> Vec<u8> {
    queue.drain(..count.min(queue.len())).collect()
}

fn run(capacity: u32, own: u32, blocked: u64, steps: Vec<Step>) {
    let (mut encoder, mut decoder) = (QpackEncoder::new(), QpackDecoder::new(capacity));
    encoder.set_most(capacity.into(), own, blocked);
    let (mut instructions, mut answers) = (Vec::new(), Vec::new());
    let mut sent: VecDeque<Sent> = VecDeque::new();
    let mut waiting: BTreeSet<u64> = BTreeSet::new();
    // A stream that was cancelled is not used any more; another one comes in its place.
    let mut numbers: Vec<u64> = (0..6).map(|number| number * 4).collect();
    let mut next_number = 24;
    // In the end everything comes.
    let streams = || (0..6).map(Step::Arrives);
    let rest = (0..sent.len() + steps.len()).flat_map(|_| streams());
    let all = steps.into_iter().chain([Step::Pause(false), Step::Instructions(usize::MAX)]).chain(rest);
    for step in all.chain([Step::Progress(usize::MAX)]) {
        match step {
            Step::Section(place, fields) => {
                let stream = numbers[place];
                let (mut out, mut expected) = (Vec::new(), Vec::new());
                let start = encoder.begin(stream, &mut out);
                for (name, value, indexing, by_policy) in fields {
                    if by_policy {
                        encoder.field(&name, &value, &mut out);
                    } else {
                        encoder.field_as(&name, &value, indexing, &mut out);
                    }
                    let is_never = !by_policy && indexing == Indexing::Never;
                    expected.push((name.to_ascii_lowercase(), value, is_never));
                }
                encoder.finish(start, &mut out);
                instructions.append(encoder.instructions());
                sent.push_back((stream, out, expected));
            }
            Step::Instructions(count) => {
                let bytes = first_bytes(&mut instructions, count);
                insert(&mut decoder, &bytes).expect("right instructions");
                decoder.report();
                waiting.clear();
            }
            Step::Progress(count) => {
                answers.append(decoder.instructions());
                let bytes = first_bytes(&mut answers, count);
                progress(&mut encoder, &bytes).expect("right instructions");
            }
            Step::Arrives(place) => {
                let stream = numbers[place];
                let Some(at) = sent.iter().position(|(of, ..)| *of == stream) else { continue };
                let (_, section, expected) = &sent[at];
                match decode(&mut decoder, stream, section).expect("a section") {
                    Some(fields) => {
                        assert_eq!(fields, *expected);
                        sent.remove(at);
                    }
                    None => {
                        waiting.insert(stream);
                        assert!(waiting.len() as u64 <= blocked, "more streams wait than may");
                    }
                }
            }
            Step::Cancel(place) => {
                let stream = std::mem::replace(&mut numbers[place], next_number);
                next_number += 4;
                let count = sent.len();
                sent.retain(|(of, ..)| *of != stream);
                if sent.len() < count {
                    decoder.cancel(stream);
                }
                waiting.remove(&stream);
            }
            Step::Pause(is_paused) => encoder.pause(is_paused),
            Step::Forget => {
                encoder.forget();
                instructions.append(encoder.instructions());
            }
        }
        encoder.check_invariants();
        assert!(decoder.table_size() <= capacity.min(own) as usize);
    }
    assert!(sent.is_empty(), "every section was decoded");
    assert_eq!(encoder.open_sections(), 0);
    assert_eq!(encoder.table_size(), decoder.table_size());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_decoder_reads_what_the_encoder_writes(
        capacity in prop_oneof![Just(4096u32), 0u32..400],
        own in prop_oneof![Just(4096u32), 0u32..400],
        blocked in 0u64..4,
        steps in proptest::collection::vec(step(), 1..100),
    ) {
        run(capacity, own, blocked, steps);
    }

    /// Any bytes end in an answer, and are taken in any split.
    #[test]
    fn any_bytes_are_taken_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
        part in 1usize..9,
    ) {
        let mut whole = QpackDecoder::new(128);
        let mut split = QpackDecoder::new(128);
        let result = insert(&mut whole, &bytes);
        let parts = bytes.chunks(part).try_for_each(|part| insert(&mut split, part));
        prop_assert_eq!(result, parts);
        prop_assert_eq!((whole.inserted(), whole.table_size()), (split.inserted(), split.table_size()));
        let _ = decode(&mut whole, 0, &bytes);
        let _ = progress(&mut QpackEncoder::new(), &bytes);
    }
}
