//! A whole connection of HTTP/3, as a server and as a client: whatever the peer sends on its streams, in whatever parts it
//! comes.

use std::collections::{BTreeMap, BTreeSet};

use freerun_proto::h3::qpack::{BlockLimits, DecodeOutcome, DecodedField, FieldSink, Pseudo, QpackDecoder};
use freerun_proto::h3::{
    H3Config, H3Connection, H3ConnectionError, H3ErrorCode, H3Event, OwnStream, Priority, Role, StreamId, frame,
};

use crate::target::Target;

/// The number of streams that the connection allows.
const STREAMS: u32 = 3;
/// The number of bytes of memory that a connection may hold.
const MOST_MEMORY: usize = 48 * 1024;

/// The streams of a client, and the streams of a server; requests are in both.
const CLIENT: [u64; 8] = [2, 6, 10, 0, 4, 8, 12, 14];
const SERVER: [u64; 8] = [3, 7, 11, 0, 4, 8, 1, 15];

/// Names and values.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fields(Vec<(Vec<u8>, Vec<u8>)>);

impl FieldSink for Fields {
    fn field(&mut self, field: DecodedField<'_>) {
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}

/// An event that the owner has seen.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Head(StreamId, Fields),
    TooLarge(StreamId),
    Trailers(StreamId, Fields),
    Data(StreamId, Vec<u8>),
    End(StreamId),
    WrongLength(StreamId, u64),
    Blocked(StreamId),
    Reset(StreamId, H3ErrorCode, bool),
    Stopped(StreamId, H3ErrorCode),
    Priority(StreamId, Priority),
    Settings,
    GoneAway(u64),
}

/// Bytes of a stream that were not taken yet.
#[derive(Default)]
struct Arrived {
    bytes: Vec<u8>,
    fin: bool,
    is_blocked: bool,
}

/// A connection with an owner that does the same at the same events.
struct Run {
    machine: H3Connection,
    role: Role,
    plan: u8,
    streams: BTreeMap<StreamId, Arrived>,
    /// Streams that are over: the transport brings no more.
    over: BTreeSet<StreamId>,
    seen: Vec<Seen>,
    /// The peer's decoder.
    decoder: QpackDecoder,
    has_encoder_type: bool,
}

impl Run {
    fn new(first: u8, plan: u8) -> Run {
        let role = if first & 1 == 0 { Role::Server } else { Role::Client };
        let mut machine = H3Connection::new(&H3Config {
            role,
            max_streams: STREAMS,
            decoder_table: [0, 100, 1000, 4096][usize::from(first >> 1 & 3)],
            blocked_streams: u16::from(first >> 3 & 1) * 2,
            encoder_table: 1000,
            encoder_blocked_streams: 0,
            connect_protocol: first & 16 != 0,
            limits: BlockLimits { most_string: 200, most_total: 1000, most_fields: 20 },
            now: 0,
        });
        if role == Role::Client {
            for id in [0, 4, 8] {
                assert!(machine.open(StreamId(id)));
            }
        }
        let (streams, over, seen) = Default::default();
        let decoder = QpackDecoder::new(1000);
        Run { machine, role, plan, streams, over, seen, decoder, has_encoder_type: false }
    }

    /// Gives bytes of a stream to the machine.
    fn bytes(&mut self, id: StreamId, bytes: &[u8], fin: bool) -> Result<(), H3ConnectionError> {
        if self.over.contains(&id) {
            return Ok(());
        }
        let stream = self.streams.entry(id).or_default();
        stream.bytes.extend_from_slice(bytes);
        stream.fin |= fin;
        if stream.is_blocked { Ok(()) } else { self.receive(id) }
    }

    fn receive(&mut self, id: StreamId) -> Result<(), H3ConnectionError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let (bytes, fin) = (std::mem::take(&mut stream.bytes), stream.fin);
        stream.is_blocked = false;
        let (mut rest, mut sink) = (&bytes[..], Fields::default());
        while let Some(event) = self.machine.receive(id, &mut rest, fin, 0, &mut sink)? {
            let fields = std::mem::take(&mut sink);
            self.take(event, fields);
            self.machine.check_invariants();
            if self.over.contains(&id) {
                return Ok(());
            }
        }
        assert!(sink.0.is_empty(), "fields without an event would be those of the next one");
        let stream = self.streams.entry(id).or_default();
        assert!(rest.is_empty() || stream.is_blocked, "everything is taken");
        stream.bytes = rest.to_vec();
        if fin && !stream.is_blocked {
            self.over.insert(id);
        }
        Ok(())
    }

    fn take(&mut self, event: H3Event<'_>, fields: Fields) {
        let seen = match event {
            H3Event::Head { stream, ends } => {
                self.seen.push(Seen::Head(stream, fields));
                self.begin(stream);
                if !ends {
                    return;
                }
                self.answer(stream);
                Seen::End(stream)
            }
            H3Event::TooLarge { stream, ends } => {
                self.begin(stream);
                if ends {
                    self.answer(stream);
                }
                Seen::TooLarge(stream)
            }
            H3Event::Trailers { stream } => Seen::Trailers(stream, fields),
            H3Event::Data { stream, bytes } => {
                assert!(!bytes.is_empty());
                if let Some(Seen::Data(of, data)) = self.seen.last_mut()
                    && *of == stream
                {
                    return data.extend_from_slice(bytes);
                }
                Seen::Data(stream, bytes.to_vec())
            }
            H3Event::End { stream } => {
                self.answer(stream);
                Seen::End(stream)
            }
            H3Event::WrongLength { stream, missing } => {
                self.forget_data(stream);
                self.answer(stream);
                Seen::WrongLength(stream, missing)
            }
            H3Event::Blocked { stream } => {
                self.streams.entry(stream).or_default().is_blocked = true;
                Seen::Blocked(stream)
            }
            H3Event::Reset { stream, code, by_peer } => {
                self.forget_data(stream);
                self.over.insert(stream);
                self.machine.release(stream);
                Seen::Reset(stream, code, by_peer)
            }
            H3Event::Stopped { stream, code } => Seen::Stopped(stream, code),
            H3Event::Priority { stream, priority } => {
                assert_eq!(self.machine.priority(stream), priority);
                Seen::Priority(stream, priority)
            }
            H3Event::Settings => {
                if self.role == Role::Client {
                    [0, 4, 8].into_iter().for_each(|id| self.ask(StreamId(id)));
                }
                Seen::Settings
            }
            H3Event::GoneAway { id } => {
                while let Some(stream) = self.machine.take_unprocessed() {
                    assert!(stream.0 >= id);
                    self.over.insert(stream);
                    self.machine.release(stream);
                }
                Seen::GoneAway(id)
            }
        };
        self.seen.push(seen);
    }

    /// Forgets the bytes of a body: how many come before it is known to be wrong depends on the parts.
    fn forget_data(&mut self, of: StreamId) {
        if matches!(self.seen.last(), Some(Seen::Data(stream, _)) if *stream == of) {
            self.seen.pop();
        }
    }

    // ---- what the owner does -------------------------------------------------------------------------------------------

    fn begin(&mut self, id: StreamId) {
        match (self.plan ^ id.0 as u8 >> 2) & 7 {
            1 => self.machine.expect(id, 5),
            2 => self.machine.stop_at_end(id, H3ErrorCode::H3_MESSAGE_ERROR),
            3 => self.machine.stay_open(id),
            4 if self.role == Role::Server => self.answer(id),
            5 => {
                self.machine.announce_end();
                self.machine.finish();
            }
            6 => {
                let _ = self.machine.reset(id, 0);
                self.over.insert(id);
            }
            _ => {}
        }
    }

    fn ask(&mut self, id: StreamId) {
        let mut out = Vec::new();
        self.machine.head(id, &mut out, |encoder, out| {
            encoder.pseudo(Pseudo::Method, b"GET", out);
            encoder.pseudo(Pseudo::Path, b"/path", out);
        });
        self.check(id, &out);
        let _ = self.machine.end(id);
    }

    /// Sends a response; a client's owner is done with the stream.
    fn answer(&mut self, id: StreamId) {
        if self.role == Role::Server {
            let mut out = Vec::new();
            self.machine.head(id, &mut out, |encoder, out| {
                encoder.status(200, out);
                encoder.field(b"server", b"freerun", out);
                encoder.field(b"x-id", &id.0.to_le_bytes(), out);
            });
            if let Some(head) = self.machine.data(id, 3) {
                out.extend_from_slice(head.as_bytes());
                out.extend_from_slice(b"abc");
            }
            self.machine.trailers(id, &mut out, |encoder, out| encoder.field(b"x-sum", b"1", out));
            self.check(id, &out);
            if self.machine.end(id).is_some() {
                self.over.insert(id);
            }
        }
        self.machine.release(id);
    }

    /// Reads the bytes of a message as the peer would.
    fn check(&mut self, id: StreamId, mut bytes: &[u8]) {
        self.write();
        while !bytes.is_empty() {
            let kind = frame::read_varint(&mut bytes).expect("the type of a frame");
            let len = frame::read_varint(&mut bytes).expect("the length of a frame") as usize;
            let (payload, rest) = bytes.split_at(len);
            bytes = rest;
            if kind == frame::kind::HEADERS {
                let limits = BlockLimits { most_string: 100, most_total: 1000, most_fields: 10 };
                let result = self.decoder.decode(id.0, payload, &limits, &mut Fields::default());
                assert_eq!(result, Ok(DecodeOutcome::Whole), "the peer has nothing to wait for");
            } else {
                assert_eq!((kind, payload), (frame::kind::DATA, &b"abc"[..]));
            }
        }
    }

    /// Writes what the machine wants to write on its own streams.
    fn write(&mut self) {
        while let Some(stream) = self.machine.wants_to_write() {
            let bytes = self.machine.output(stream).to_vec();
            self.machine.wrote(stream, bytes.len());
            if stream == OwnStream::Encoder {
                let mut rest = &bytes[..];
                if !std::mem::replace(&mut self.has_encoder_type, true) {
                    assert_eq!(frame::read_varint(&mut rest), Some(frame::stream_type::ENCODER));
                }
                while self.decoder.instruction(&mut rest).expect("right instructions").is_some() {}
            }
        }
    }

    /// Goes on with streams that were blocked.
    fn unblock(&mut self) -> Result<(), H3ConnectionError> {
        let mut unblocked = Vec::new();
        while let Some(stream) = self.machine.take_unblocked() {
            unblocked.push(stream);
        }
        unblocked.sort();
        unblocked.into_iter().try_for_each(|stream| self.receive(stream))
    }
}

/// Gives the records of an input to a connection, in parts of this size, and returns what was seen.
fn run(first: u8, plan: u8, mut records: &[u8], part: usize) -> (Vec<Seen>, Option<H3ConnectionError>) {
    let mut run = Run::new(first, plan);
    let ids = if run.role == Role::Server { CLIENT } else { SERVER };
    while let Some((&[what, len], rest)) = records.split_first_chunk() {
        let (bytes, rest) = rest.split_at(usize::from(len).min(rest.len()));
        records = rest;
        let id = StreamId(ids[usize::from(what & 7)]);
        let code = H3ErrorCode::H3_REQUEST_CANCELLED;
        let result = match what >> 3 & 7 {
            0 if !run.over.contains(&id) => run.machine.peer_resets(id, code, 0).map(|event| {
                run.over.insert(id);
                event
            }),
            1 => run.machine.peer_stops(id, code, 0),
            _ => {
                let fin = what & 0x40 != 0;
                let mut parts = bytes.chunks(part).peekable();
                let mut result = Ok(());
                if bytes.is_empty() {
                    result = run.bytes(id, &[], fin);
                }
                while let Some(bytes) = parts.next()
                    && result.is_ok()
                {
                    result = run.bytes(id, bytes, fin && parts.peek().is_none());
                }
                result.map(|()| None)
            }
        };
        let result = result.and_then(|event| {
            event.into_iter().for_each(|event| run.take(event, Fields::default()));
            run.unblock()
        });
        run.write();
        run.machine.check_invariants();
        let machine = &run.machine;
        assert!(machine.open_streams() <= STREAMS as usize && machine.used_streams() <= 2 * STREAMS as usize);
        assert!(machine.heap_bytes() <= MOST_MEMORY, "{} bytes", machine.heap_bytes());
        if let Err(failure) = result {
            assert_eq!(machine.failure(), Some(failure));
            assert!(machine.open_streams() == 0 && machine.is_reset(id) && !failure.what.is_empty());
            return (run.seen, Some(failure));
        }
    }
    run.machine.shrink(plan & 8 != 0);
    run.machine.check_invariants();
    (run.seen, run.machine.failure())
}

/// A connection, whose owner answers or asks in ways that the first bytes choose, and its peer's streams. There is no
/// panic, the events are the same however the bytes are split, and the peer can read what is written.
fn connection(data: &[u8]) {
    let Some((&[first, second], records)) = data.split_first_chunk() else { return };
    let whole = run(first, second & 15, records, usize::MAX);
    let part = [1, 2, 3, 7][usize::from(second >> 4 & 3)];
    assert_eq!(run(first, second & 15, records, part), whole, "in parts of {part} bytes");
}

/// A record of an input: bytes of a stream, and whether they are its last ones.
fn record(stream: u8, fin: bool, bytes: &[u8]) -> Vec<u8> {
    [&[stream | 0x10 | u8::from(fin) << 6, bytes.len() as u8], bytes].concat()
}

/// The bytes of peers that keep to the rules, each behind the two bytes of options.
fn seeds() -> Vec<Vec<u8>> {
    let get = b"\x01\x08\x00\x00\xd1\xd7\x50\x01a\xc1";
    let waiting = b"\x01\x08\x02\x00\xd1\xd7\x50\x01a\x80";
    let ok = b"\x01\x03\x00\x00\xd9";
    let settings = record(0, false, b"\x00\x04\x06\x01\x44\x00\x07\x40\x64");
    let mut seeds = Vec::new();
    for plan in 0..8 {
        let body = [&get[..], b"\x00\x05hello\x21\x01x"].concat();
        let trailers = [&body[..], b"\x01\x06\x00\x00\x21a\x01b"].concat();
        let first = [&settings[..], &record(3, true, get), &record(4, true, &body), &record(5, true, &trailers)];
        let goaway = record(0, false, b"\x07\x01\x00\x80\x0f\x07\x00\x05\x04u=1\x0d\x01\x07");
        seeds.push([&[0x0e, plan][..], &first.concat(), &goaway, &record(6, false, get), &[0x06, 0, 0x0b, 0]].concat());
        let instructions = record(1, false, b"\x02\x3f\xe1\x03\xc1\x02/x");
        let acknowledged = record(2, false, b"\x03\x01\x84");
        let blocked = [&settings[..], &record(3, false, waiting), &instructions, &record(3, true, b"\x00\x01x")];
        seeds.push([&[0x0c, plan | 0x10][..], &blocked.concat(), &record(4, true, get), &acknowledged].concat());
        let response = [&b"\x01\x04\x00\x00\xff\x00"[..], &ok[..], b"\x00\x05hello"].concat();
        let answers = [&settings[..], &record(3, true, &response), &record(4, true, ok), &instructions];
        let goaway = record(0, false, b"\x07\x01\x08");
        seeds.push([&[0x0f, plan | 0x20][..], &answers.concat(), &goaway, &record(5, true, ok)].concat());
    }
    seeds
}

/// Runs [`connection`].
pub static HTTP3: Target = Target {
    name: "http3",
    body: connection,
    seeds,
    words: &[
        b"\x53\x0a\x01\x08\x00\x00\xd1\xd7\x50\x01a\xc1",
        b"\x14\x0a\x01\x08\x00\x00\xd1\xd7\x50\x01a\xc1",
        b"\x15\x0a\x01\x08\x02\x00\xd1\xd7\x50\x01a\x80",
        b"\x53\x05\x01\x03\x00\x00\xd9",
        b"\x53\x03\x00\x01x",
        b"\x14\x02\x00\x00",
        b"\x13\x02\x21\x00",
        b"\x11\x04\xc1\x02/y",
        b"\x11\x01\x00",
        b"\x12\x01\x01",
        b"\x10\x03\x07\x01\x04",
        b"\x10\x03\x0d\x01\x02",
        b"\x10\x08\x80\x0f\x07\x00\x03\x04u=",
        b"\x03\x00",
        b"\x0c\x00",
        b"\x54\x00",
        b"\x40\x01",
    ],
};
