//! Connections that talk to each other, and to peers that break the rules.

mod clients;
mod errors;
mod exchange;
mod floods;
mod unended;

use std::io::IoSlice;

use super::frame::{self, FRAME_HEAD, FrameHead, flag, kind};
use super::hpack::{BlockLimits, DecodedField, Encoder, FieldSink, Pseudo};
use super::{Config, Connection, ConnectionError, ErrorCode, Event, Role, Slot};

/// Fields as text.
#[derive(Default)]
struct Collected(Vec<(String, String)>);

impl FieldSink for Collected {
    fn field(&mut self, field: DecodedField<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.push((text(field.name), text(field.value)));
    }
}

/// An event that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Head(Slot, bool, Vec<(String, String)>),
    Trailers(Slot, Vec<(String, String)>),
    Data(Slot, Vec<u8>),
    End(Slot),
    WrongLength(Slot, u64),
    Reset(Slot, ErrorCode, bool),
    Settings,
    Pong([u8; 8]),
    LastCallAnswered,
    GoneAway(u32, ErrorCode),
}

fn config(role: Role) -> Config {
    Config {
        role,
        max_streams: 10,
        initial_window: 65_535,
        chunk: 16_384,
        connect_protocol: false,
        limits: BlockLimits { most_string: 8192, most_total: 32_768, most_fields: 1000 },
        now: 0,
    }
}

/// Gives bytes to a connection, in parts of this size.
fn feed_split(to: &mut Connection, bytes: &[u8], part: usize, now: u64) -> Result<Vec<Seen>, ConnectionError> {
    let mut seen: Vec<Seen> = Vec::new();
    let mut sink = Collected::default();
    for part in bytes.chunks(part.max(1)) {
        let mut part = part;
        while let Some(event) = to.receive(&mut part, now, &mut sink)? {
            let event = match event {
                Event::Head { slot, ends } => Seen::Head(slot, ends, std::mem::take(&mut sink.0)),
                Event::Trailers { slot } => Seen::Trailers(slot, std::mem::take(&mut sink.0)),
                Event::Data { slot, bytes } => {
                    assert!(!bytes.is_empty());
                    if let Some(Seen::Data(last, data)) = seen.last_mut()
                        && *last == slot
                    {
                        data.extend_from_slice(bytes);
                        continue;
                    }
                    Seen::Data(slot, bytes.to_vec())
                }
                Event::End { slot } => Seen::End(slot),
                Event::WrongLength { slot, missing } => Seen::WrongLength(slot, missing),
                Event::Reset { slot, code, by_peer } => Seen::Reset(slot, code, by_peer),
                Event::Settings => Seen::Settings,
                Event::Pong(data) => Seen::Pong(data),
                Event::LastCallAnswered => Seen::LastCallAnswered,
                Event::GoneAway { last, code } => Seen::GoneAway(last, code),
            };
            seen.push(event);
        }
        assert!(part.is_empty(), "everything is taken");
        to.check_invariants();
    }
    Ok(seen)
}

fn feed(to: &mut Connection, bytes: &[u8]) -> Result<Vec<Seen>, ConnectionError> {
    feed_split(to, bytes, usize::MAX, 0)
}

/// Takes everything that a connection wants to write.
fn written(from: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        from.fill(1000);
        if from.pending() == 0 {
            return all;
        }
        let mut parts = [IoSlice::new(&[]); 4];
        let count = from.parts(&mut parts);
        let bytes: Vec<u8> = parts[..count].iter().flat_map(|part| part.iter().copied()).collect();
        from.wrote(bytes.len());
        from.check_invariants();
        all.extend(bytes);
    }
}

/// The frames in these bytes.
fn frames(mut bytes: &[u8]) -> Vec<(FrameHead, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<FRAME_HEAD>() {
        let head = FrameHead::parse(head);
        let (payload, rest) = rest.split_at(head.len as usize);
        frames.push((head, payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty());
    frames
}

/// One frame as bytes.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = FrameHead { len: payload.len() as u32, kind, flags, stream }.bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A server that has the client's preface and settings, with an encoder for requests; what it has written is gone.
fn server_with(config: &Config) -> (Connection, Encoder) {
    let mut server = Connection::new(config);
    let mut hello = frame::PREFACE.to_vec();
    hello.extend(frame(kind::SETTINGS, 0, 0, &[]));
    hello.extend(frame(kind::SETTINGS, flag::ACK, 0, &[]));
    assert_eq!(feed(&mut server, &hello), Ok(vec![Seen::Settings]));
    written(&mut server);
    (server, Encoder::new())
}

fn server() -> (Connection, Encoder) {
    server_with(&config(Role::Server))
}

/// The fields of a request.
fn request_block(encoder: &mut Encoder, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    encoder.pseudo(Pseudo::Method, b"GET", &mut block);
    encoder.pseudo(Pseudo::Scheme, b"http", &mut block);
    encoder.pseudo(Pseudo::Path, path.as_bytes(), &mut block);
    encoder.pseudo(Pseudo::Authority, b"a", &mut block);
    block
}

/// A request in one frame.
fn request(encoder: &mut Encoder, id: u32, ends: bool) -> Vec<u8> {
    let flags = flag::END_HEADERS | if ends { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flags, id, &request_block(encoder, "/"))
}

/// Begins a request, and returns its slot.
fn begin(server: &mut Connection, encoder: &mut Encoder, id: u32, ends: bool) -> Slot {
    match &feed(server, &request(encoder, id, ends)).unwrap()[..] {
        [Seen::Head(slot, ended, _)] => {
            assert_eq!(*ended, ends);
            *slot
        }
        other => panic!("{other:?}"),
    }
}

/// Answers with a head and a body.
fn answer(server: &mut Connection, slot: Slot, body: &[u8]) {
    server.head(slot, body.is_empty(), |encoder, out| encoder.status(200, out));
    if !body.is_empty() {
        server.data(slot, body.to_vec().into(), true);
    }
}

/// The kinds of frames, their streams, and whether they end one.
fn shape(bytes: &[u8]) -> Vec<(u8, u32, usize, bool)> {
    let shape = |(head, payload): &(FrameHead, Vec<u8>)| {
        let ends = matches!(head.kind, kind::DATA | kind::HEADERS) && head.has(flag::END_STREAM);
        (head.kind, head.stream, payload.len(), ends)
    };
    frames(bytes).iter().map(shape).collect()
}
