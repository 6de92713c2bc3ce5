//! Connections that talk to each other, and to peers that break the rules.

mod ends;
mod errors;
mod exchange;
mod floods;
mod random;
mod split;

use super::frame::{self, kind, write_varint};
use super::qpack::{BlockLimits, DecodedField, FieldSink, QpackEncoder};
use super::*;

/// Names and values.
type Fields = Vec<(String, String)>;

/// Fields as text.
#[derive(Default)]
struct Collected(Fields);

impl FieldSink for Collected {
    fn field(&mut self, field: DecodedField<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.push((text(field.name), text(field.value)));
    }
}

/// An event that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Head(u64, bool, Fields),
    TooLarge(u64, bool),
    Trailers(u64, Fields),
    Data(u64, Vec<u8>),
    End(u64),
    WrongLength(u64, u64),
    Blocked(u64),
    Reset(u64, H3ErrorCode, bool),
    Stopped(u64, H3ErrorCode),
    Priority(u64, Priority),
    Settings,
    GoneAway(u64),
}

impl Seen {
    fn of(event: H3Event<'_>, sink: &mut Collected) -> Seen {
        let fields = std::mem::take(&mut sink.0);
        match event {
            H3Event::Head { stream, ends } => Seen::Head(stream.0, ends, fields),
            H3Event::TooLarge { stream, ends } => Seen::TooLarge(stream.0, ends),
            H3Event::Trailers { stream } => Seen::Trailers(stream.0, fields),
            H3Event::Data { stream, bytes } => Seen::Data(stream.0, bytes.to_vec()),
            H3Event::End { stream } => Seen::End(stream.0),
            H3Event::WrongLength { stream, missing } => Seen::WrongLength(stream.0, missing),
            H3Event::Blocked { stream } => Seen::Blocked(stream.0),
            H3Event::Reset { stream, code, by_peer } => Seen::Reset(stream.0, code, by_peer),
            H3Event::Stopped { stream, code } => Seen::Stopped(stream.0, code),
            H3Event::Priority { stream, priority } => Seen::Priority(stream.0, priority),
            H3Event::Settings => Seen::Settings,
            H3Event::GoneAway { id } => Seen::GoneAway(id),
        }
    }
}

const LIMITS: BlockLimits = BlockLimits { most_string: 8192, most_total: 32_768, most_fields: 1000 };

fn config(role: Role) -> H3Config {
    H3Config {
        role,
        max_streams: 10,
        decoder_table: 4096,
        blocked_streams: 2,
        encoder_table: 4096,
        encoder_blocked_streams: 0,
        connect_protocol: false,
        limits: LIMITS,
        now: 0,
    }
}

/// Gives bytes of a stream to a connection, and returns what it says, and the bytes that it has not taken.
fn feed_rest<'b>(
    to: &mut H3Connection,
    id: u64,
    mut bytes: &'b [u8],
    fin: bool,
    now: u64,
) -> Result<(Vec<Seen>, &'b [u8]), H3ConnectionError> {
    let (mut seen, mut sink) = (Vec::<Seen>::new(), Collected::default());
    while let Some(event) = to.receive(StreamId(id), &mut bytes, fin, now, &mut sink)? {
        let event = Seen::of(event, &mut sink);
        match (seen.last_mut(), &event) {
            (Some(Seen::Data(last, data)), Seen::Data(of, more)) if last == of => data.extend_from_slice(more),
            _ => seen.push(event),
        }
        to.check_invariants();
    }
    assert!(sink.0.is_empty(), "fields without an event would be those of the next one");
    to.check_invariants();
    Ok((seen, bytes))
}

fn feed(to: &mut H3Connection, id: u64, bytes: &[u8], fin: bool) -> Result<Vec<Seen>, H3ConnectionError> {
    let (seen, rest) = feed_rest(to, id, bytes, fin, 0)?;
    assert!(rest.is_empty(), "everything is taken");
    Ok(seen)
}

/// The code with which a connection ends.
fn code_of<T: std::fmt::Debug>(result: Result<T, H3ConnectionError>) -> H3ErrorCode {
    let error = result.expect_err("the connection ends");
    assert!(!error.what.is_empty());
    error.code
}

/// One frame as bytes.
fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(kind, payload, &mut bytes);
    bytes
}

/// A number as bytes.
fn number(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_varint(value, &mut bytes);
    bytes
}

/// Takes everything that a connection wants to write on a stream of its own.
fn written(from: &mut H3Connection, stream: OwnStream) -> Vec<u8> {
    let bytes = from.output(stream).to_vec();
    // In two parts, as QUIC may take it.
    from.wrote(stream, bytes.len() / 3);
    from.wrote(stream, bytes.len() - bytes.len() / 3);
    assert!(from.output(stream).is_empty());
    bytes
}

/// The numbers of the unidirectional streams of a client, and of a server.
const CLIENT: [u64; 3] = [2, 6, 10];
const SERVER: [u64; 3] = [3, 7, 11];

/// A connection that has the peer's settings, which are these; what it has written is gone.
fn connection_with(config: &H3Config, settings: &[(u64, u64)]) -> H3Connection {
    let mut machine = H3Connection::new(config);
    let mut payload = Vec::new();
    settings.iter().for_each(|(id, value)| settings::push(*id, *value, &mut payload));
    let control = if config.role == Role::Server { CLIENT[0] } else { SERVER[0] };
    let hello = [number(0), frame(kind::SETTINGS, &payload)].concat();
    assert_eq!(feed(&mut machine, control, &hello, false), Ok(vec![Seen::Settings]));
    assert!(machine.knows_peer());
    write_all(&mut machine);
    machine
}

fn server() -> H3Connection {
    connection_with(&config(Role::Server), &[])
}

fn client() -> H3Connection {
    connection_with(&config(Role::Client), &[])
}

/// A frame with these fields, none of which needs a table.
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let (mut encoder, mut section) = (QpackEncoder::new(), Vec::new());
    let start = encoder.begin(0, &mut section);
    fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value.as_bytes(), &mut section));
    encoder.finish(start, &mut section);
    frame(kind::HEADERS, &section)
}

const GET: &[(&str, &str)] = &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/x")];
const OK: &[(&str, &str)] = &[(":status", "200"), ("server", "x")];

fn get() -> Vec<u8> {
    headers(GET)
}

fn data(payload: &[u8]) -> Vec<u8> {
    frame(kind::DATA, payload)
}

fn fields(fields: &[(&str, &str)]) -> Fields {
    fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// Appends a response to the bytes of a stream.
fn respond(from: &mut H3Connection, id: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(from.head(StreamId(id), &mut out, |encoder, out| {
        encoder.status(200, out);
        encoder.field(b"Server", b"x", out);
    }));
    if let Some(head) = from.data(StreamId(id), body.len()) {
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(body);
    }
    out
}

/// Takes everything that a connection wants to write.
fn write_all(from: &mut H3Connection) {
    for stream in OwnStream::ALL {
        written(from, stream);
    }
}
