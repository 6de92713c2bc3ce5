//! The output of a connection, judged by its peer's settings and windows.

use std::collections::{BTreeMap, BTreeSet};

use freerun_proto::h2::frame::{
    DEFAULT_FRAME_SIZE, DEFAULT_WINDOW, FRAME_HEAD, FrameHead, LARGEST_WINDOW, PREFACE, flag, kind,
};
use freerun_proto::h2::hpack::{BlockLimits, DecodedField, Decoder, FieldSink, INITIAL_TABLE_SIZE};
use freerun_proto::h2::{ConnectionError, Role};

/// The whole frames in these bytes, as far as they go.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (FrameHead, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<FRAME_HEAD>()?;
        let head = FrameHead::parse(head);
        let (payload, rest) = rest.split_at_checked(head.len as usize)?;
        bytes = rest;
        Some((head, payload))
    })
}

/// The most that a peer can have allowed with these bytes.
struct Allowed {
    frame: u32,
    initial: u64,
    windows: BTreeMap<u32, u64>,
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

impl Allowed {
    fn by(input: &[u8]) -> Allowed {
        let (frame, initial) = (DEFAULT_FRAME_SIZE, u64::from(DEFAULT_WINDOW));
        let mut allowed = Allowed { frame, initial, windows: BTreeMap::from([(0, initial)]) };
        for (head, payload) in frames(input) {
            match head.kind {
                kind::SETTINGS => {
                    for setting in payload.chunks_exact(6) {
                        let value = number(&setting[2..]);
                        match setting[1] {
                            4 => allowed.initial = allowed.initial.max(value.into()),
                            5 => allowed.frame = allowed.frame.max(value),
                            _ => {}
                        }
                    }
                }
                kind::WINDOW_UPDATE => {
                    *allowed.windows.entry(head.stream).or_default() += u64::from(number(payload) & LARGEST_WINDOW);
                }
                _ => {}
            }
        }
        allowed
    }

    fn of_stream(&self, stream: u32) -> u64 {
        self.initial + self.windows.get(&stream).copied().unwrap_or(0)
    }
}

/// The number of fields of a block.
#[derive(Default)]
struct Count(usize);

impl FieldSink for Count {
    fn field(&mut self, field: DecodedField<'_>) {
        assert!(!field.name.is_empty());
        self.0 += 1;
    }
}

/// Checks everything that was written to a peer that has sent `input`. Frames have allowed sizes, windows are kept to,
/// blocks can be decoded, and nothing follows the end of a stream.
pub fn check(role: Role, input: &[u8], output: &[u8], failure: Option<ConnectionError>) {
    let allowed = Allowed::by(input);
    let mut decoder = Decoder::new(INITIAL_TABLE_SIZE);
    let limits = BlockLimits { most_string: usize::MAX, most_total: usize::MAX, most_fields: usize::MAX };
    let output = match role {
        Role::Server => output,
        Role::Client => output.strip_prefix(PREFACE).expect("the preface comes first"),
    };
    let (mut sent, mut total, mut length) = (BTreeMap::<u32, u64>::new(), 0, 0);
    let (mut ended, mut reset) = (BTreeSet::new(), BTreeSet::new());
    let mut block: Option<(u32, Vec<u8>)> = None;
    let mut last = None;
    for (number, (head, payload)) in frames(output).enumerate() {
        length += FRAME_HEAD + payload.len();
        assert!(number > 0 || head.kind == kind::SETTINGS, "settings come first");
        assert!(head.len <= allowed.frame, "{head:?}");
        assert!(!reset.contains(&head.stream), "{head:?} behind a reset");
        assert!(block.as_ref().is_none_or(|(of, _)| (head.kind, head.stream) == (kind::CONTINUATION, *of)), "{head:?}");
        let is_ended = ended.contains(&head.stream);
        match head.kind {
            kind::DATA => {
                assert!(!is_ended, "{head:?} behind the end");
                total += u64::from(head.len);
                let of_stream = sent.entry(head.stream).or_default();
                *of_stream += u64::from(head.len);
                assert!(*of_stream <= allowed.of_stream(head.stream) && total <= allowed.windows[&0], "{head:?}");
            }
            kind::HEADERS => {
                assert!(!is_ended, "{head:?} behind the end");
                block = Some((head.stream, payload.to_vec()));
            }
            kind::CONTINUATION => block.as_mut().expect("a block has begun").1.extend_from_slice(payload),
            kind::RST_STREAM => {
                reset.insert(head.stream);
            }
            kind::WINDOW_UPDATE => assert!(self::number(payload) > 0, "a window is opened by nothing"),
            kind::SETTINGS | kind::PING | kind::GOAWAY => assert_eq!(head.stream, 0),
            other => panic!("a frame of type {other}"),
        }
        if matches!(head.kind, kind::DATA | kind::HEADERS) && head.has(flag::END_STREAM) {
            ended.insert(head.stream);
        }
        if matches!(head.kind, kind::HEADERS | kind::CONTINUATION) && head.has(flag::END_HEADERS) {
            let (_, bytes) = block.take().expect("a block has begun");
            let mut count = Count::default();
            assert_eq!(decoder.decode(&bytes, &limits, &mut count), Ok(()));
            assert!(count.0 > 0);
        }
        last = Some((head.kind, payload));
    }
    assert_eq!(length, output.len(), "whole frames");
    if let Some(failure) = failure {
        let (kind, payload) = last.expect("something was written");
        assert_eq!((kind, self::number(&payload[4..])), (kind::GOAWAY, failure.code.0), "it is told last");
    }
}
