//! A connection with an owner that does the same at the same events.

use std::collections::BTreeMap;
use std::io::IoSlice;

use bytes::Bytes;
use freerun_proto::h2::frame::{DEFAULT_WINDOW, LARGEST_WINDOW, PREFACE};
use freerun_proto::h2::hpack::{BlockLimits, DecodedField, FieldSink, Pseudo};
use freerun_proto::h2::{Config, Connection, ConnectionError, ErrorCode, Event, MemoryPool, Role, Slot};

use super::output;

/// The number of streams that the connection allows.
const STREAMS: u32 = 6;

/// The number of bytes of memory that a connection may hold when everything is written: the rest of a frame, the tables
/// of header compression, and the streams.
const MOST_MEMORY: usize = 64 * 1024;

/// The options that the first bytes of an input choose.
pub struct Options {
    pub role: Role,
    pub window: u32,
    pub chunk: u32,
    pub plan: u8,
}

/// The moment when the owner writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pump {
    /// At each event but parts of bodies: at the same places, however the bytes are split.
    Events,
    /// Behind each part.
    Parts,
}

/// An event that the owner has seen.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Head(Slot, bool, Fields),
    Trailers(Slot, Fields),
    Data(Slot, Vec<u8>),
    End(Slot),
    WrongLength(Slot),
    Reset(Slot, ErrorCode, bool),
    Settings,
    Pong([u8; 8]),
    LastCallAnswered,
    GoneAway(u32, ErrorCode),
}

/// Names and values.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fields(Vec<(Vec<u8>, Vec<u8>)>);

impl FieldSink for Fields {
    fn field(&mut self, field: DecodedField<'_>) {
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}

/// The owner's work on a stream.
struct Owner {
    /// Which of the ways.
    plan: u8,
    /// The peer has sent everything.
    ended: bool,
    sent_head: bool,
    /// The number of bytes that are still to be sent.
    left: usize,
}

/// The outcome of a run: all events, and its end.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    seen: Vec<Seen>,
    failure: Option<ConnectionError>,
}

struct Run<'o> {
    options: &'o Options,
    machine: Connection,
    spare: MemoryPool,
    owners: BTreeMap<usize, (Slot, Owner)>,
    /// Bytes of a body that the machine was not told to be read.
    unread: Option<(Slot, usize)>,
    seen: Vec<Seen>,
    output: Vec<u8>,
    opened: u8,
}

/// Gives the bytes to a connection, in parts of this size, and checks what must hold.
pub fn run(options: &Options, bytes: &[u8], part: usize, pump: Pump) -> Outcome {
    let config = Config {
        role: options.role,
        max_streams: STREAMS,
        initial_window: options.window,
        chunk: options.chunk,
        connect_protocol: options.plan & 8 != 0,
        limits: BlockLimits { most_string: 200, most_total: 1000, most_fields: 20 },
        now: 0,
    };
    let machine = Connection::new(&config);
    let (owners, unread, seen, output, opened) = Default::default();
    let mut run = Run { options, machine, spare: MemoryPool::default(), owners, unread, seen, output, opened };
    run.ask();
    run.write();
    let mut failure = match options.role {
        Role::Server => run.receive(PREFACE, pump).err(),
        Role::Client => None,
    };
    assert_eq!(failure, None, "the preface is right");
    for part in bytes.chunks(part.max(1)) {
        if let Err(error) = run.receive(part, pump) {
            failure = Some(error);
            break;
        }
        if pump == Pump::Parts {
            run.act();
        }
    }
    run.end(failure);
    output::check(options.role, bytes, &run.output, failure);
    Outcome { seen: run.seen, failure }
}

impl Run<'_> {
    fn receive(&mut self, mut part: &[u8], pump: Pump) -> Result<(), ConnectionError> {
        let mut sink = Fields::default();
        while let Some(event) = self.machine.receive(&mut part, 0, &mut sink)? {
            let fields = std::mem::take(&mut sink);
            if let Event::Data { slot, bytes } = event {
                assert!(!bytes.is_empty());
                self.data(slot, bytes);
                continue;
            }
            self.take(event, fields);
            if pump == Pump::Events {
                self.act();
            }
        }
        assert!(part.is_empty(), "everything is taken");
        assert!(sink.0.is_empty(), "fields without an event would be those of the next one");
        Ok(())
    }

    /// Keeps bytes of a body. Consecutive bytes of one stream are read together, at the next event.
    fn data(&mut self, slot: Slot, bytes: &[u8]) {
        if let (Some((of, unread)), Some(Seen::Data(_, data))) = (&mut self.unread, self.seen.last_mut())
            && *of == slot
        {
            *unread += bytes.len();
            data.extend_from_slice(bytes);
            return;
        }
        self.read();
        self.unread = Some((slot, bytes.len()));
        self.seen.push(Seen::Data(slot, bytes.to_vec()));
    }

    fn read(&mut self) {
        if let Some((slot, count)) = self.unread.take()
            && self.owners.contains_key(&slot.index())
        {
            self.machine.consumed(slot, count);
        }
    }

    /// Forgets the bytes of a body: how many come before it is known to be wrong depends on the parts.
    fn forget_data(&mut self, of: Slot) {
        if matches!(self.seen.last(), Some(Seen::Data(slot, _)) if *slot == of) {
            self.seen.pop();
            self.unread = None;
        }
    }

    fn take(&mut self, event: Event<'_>, fields: Fields) {
        if let Event::WrongLength { slot, .. } | Event::Reset { slot, by_peer: false, .. } = event {
            self.forget_data(slot);
        }
        self.read();
        let seen = match event {
            Event::Head { slot, ends } => {
                self.begin(slot, ends);
                Seen::Head(slot, ends, fields)
            }
            Event::Trailers { slot } => {
                self.ended(slot);
                Seen::Trailers(slot, fields)
            }
            Event::End { slot } => {
                self.ended(slot);
                Seen::End(slot)
            }
            Event::WrongLength { slot, .. } => {
                self.ended(slot);
                Seen::WrongLength(slot)
            }
            Event::Reset { slot, code, by_peer } => {
                self.release(slot);
                Seen::Reset(slot, code, by_peer)
            }
            Event::Settings => {
                self.ask();
                Seen::Settings
            }
            Event::Pong(data) => Seen::Pong(data),
            Event::LastCallAnswered => {
                self.machine.finish(ErrorCode::NO_ERROR);
                Seen::LastCallAnswered
            }
            Event::GoneAway { last, code } => {
                while let Some(slot) = self.machine.take_unprocessed() {
                    self.release(slot);
                }
                Seen::GoneAway(last, code)
            }
            Event::Data { .. } => unreachable!("it is taken elsewhere"),
        };
        self.seen.push(seen);
    }

    fn release(&mut self, slot: Slot) {
        if self.owners.remove(&slot.index()).is_some() {
            self.machine.release(slot);
        }
    }

    fn ended(&mut self, slot: Slot) {
        if let Some((_, owner)) = self.owners.get_mut(&slot.index()) {
            owner.ended = true;
        }
    }

    // ---- what the owner does -------------------------------------------------------------------------------------------

    fn begin(&mut self, slot: Slot, ends: bool) {
        let plan = (self.options.plan ^ self.machine.stream_id(slot) as u8 >> 1) & 7;
        if self.options.role == Role::Client {
            if let Some((_, owner)) = self.owners.get_mut(&slot.index()) {
                owner.ended |= ends;
            }
            if plan == 3 {
                let _ = self.machine.reset(slot, ErrorCode::CANCEL, 0);
            }
            return;
        }
        let left = [0, 10, 70_000, 300, 0, 40, 5_000, 100][usize::from(plan)];
        let before = self.owners.insert(slot.index(), (slot, Owner { plan, ended: ends, sent_head: false, left }));
        assert!(before.is_none(), "a place is given away that its owner still uses");
        match plan {
            4 => {
                let _ = self.machine.reset(slot, ErrorCode::INTERNAL_ERROR, 0);
            }
            5 => self.machine.reset_at_end(slot, ErrorCode::PROTOCOL_ERROR),
            6 if !ends => self.machine.expect(slot, 5),
            7 => self.machine.stay_open(slot),
            _ => {}
        }
        if self.options.plan == 15 {
            self.machine.announce_end();
        }
    }

    /// A client's owner asks as often as the server allows.
    fn ask(&mut self) {
        while self.options.role == Role::Client && self.opened < 6 {
            let Some(slot) = self.machine.open() else { return };
            self.opened += 1;
            let plan = (self.options.plan ^ self.opened) & 7;
            let left = if plan & 1 == 0 { 0 } else { 3_000 };
            let before = self.owners.insert(slot.index(), (slot, Owner { plan, ended: false, sent_head: false, left }));
            assert!(before.is_none());
        }
    }

    /// Does what can be done now, and writes.
    fn act(&mut self) {
        let slots: Vec<Slot> = self.owners.values().map(|(slot, _)| *slot).collect();
        slots.into_iter().for_each(|slot| self.step(slot));
        while self.machine.take_woken().is_some() {}
        self.write();
        self.check();
    }

    fn step(&mut self, slot: Slot) {
        let Some((_, owner)) = self.owners.get_mut(&slot.index()) else { return };
        let (machine, role) = (&mut self.machine, self.options.role);
        if machine.is_reset(slot) {
            return self.release(slot);
        }
        let waits = role == Role::Server && matches!(owner.plan, 3 | 6 | 7) && !owner.ended;
        if !owner.sent_head {
            if waits && owner.plan != 7 {
                return;
            }
            owner.sent_head = true;
            let ends = owner.left == 0 && owner.plan != 7;
            machine.head(slot, ends, |encoder, out| match role {
                Role::Server => {
                    encoder.status(200, out);
                    encoder.field(b"server", b"freerun", out);
                }
                Role::Client => {
                    encoder.pseudo(Pseudo::Method, b"POST", out);
                    encoder.pseudo(Pseudo::Path, b"/path", out);
                }
            });
        }
        while owner.left > 0 && !waits {
            let room = machine.room(slot);
            assert!(room <= LARGEST_WINDOW as usize);
            let len = room.min(owner.left).min(7_000);
            if len == 0 {
                return;
            }
            owner.left -= len;
            let has_trailers = owner.plan == 3;
            machine.data(slot, Bytes::from(vec![b'x'; len]), owner.left == 0 && !has_trailers);
            if owner.left == 0 && has_trailers {
                machine.trailers(slot, vec![(Bytes::from_static(b"sum"), Bytes::from_static(b"1"))]);
            }
        }
        // A client keeps a stream until the response is complete, a tunnel lasts until the peer has ended.
        if owner.ended || role == Role::Server && owner.plan != 7 {
            self.release(slot);
        }
    }

    fn write(&mut self) {
        loop {
            self.machine.fill(1000);
            let pending = self.machine.pending();
            if pending == 0 {
                return;
            }
            let mut parts = [IoSlice::new(&[]); 3];
            let count = self.machine.parts(&mut parts);
            let len: usize = parts[..count].iter().map(|part| part.len()).sum();
            assert!(len > 0 && len <= pending);
            parts[..count].iter().for_each(|part| self.output.extend_from_slice(part));
            self.machine.wrote(len);
        }
    }

    // ---- what must hold ------------------------------------------------------------------------------------------------

    fn check(&self) {
        let machine = &self.machine;
        assert!(machine.used_slots() >= self.owners.len());
        if self.options.role == Role::Server {
            assert!(machine.open_streams() <= STREAMS as usize);
            assert!(machine.used_slots() <= 2 * STREAMS as usize);
        }
        assert!(machine.heap_bytes() <= MOST_MEMORY, "{} bytes", machine.heap_bytes());
    }

    /// The connection is over for its owner.
    fn end(&mut self, failure: Option<ConnectionError>) {
        if let Some(failure) = failure {
            let again = self.machine.receive(&mut &b"more"[..], 0, &mut Fields::default());
            assert_eq!(again, Err(failure), "it stays so");
        }
        let slots: Vec<Slot> = self.owners.values().map(|(slot, _)| *slot).collect();
        for slot in slots {
            assert!(failure.is_none() || self.machine.is_reset(slot));
            let _ = self.machine.reset(slot, ErrorCode::CANCEL, 0);
            self.release(slot);
        }
        self.write();
        // What is left waits for the peer's windows, or for its end.
        if failure.is_some() || self.options.window == DEFAULT_WINDOW && self.machine.open_streams() == 0 {
            assert_eq!(self.machine.used_slots(), 0);
            self.machine.release_memory(&mut self.spare);
            self.machine.reuse_memory(&mut self.spare);
        }
    }
}
