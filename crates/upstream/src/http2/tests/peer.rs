//! A server of HTTP/2 that does what a test wants.

use std::io::IoSlice;
use std::os::unix::net::UnixStream;

use freerun_proto::h2::frame::DEFAULT_FRAME_SIZE;
use freerun_proto::h2::hpack::{BlockLimits, DecodedField, FieldSink};
use freerun_proto::h2::{Config, Event, Slot};
use freerun_transport::Transport;

use super::*;

/// What the server has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A request has begun; these are its fields.
    Head(Slot, bool, Vec<String>),
    Data(Slot, usize),
    End(Slot),
    Reset(Slot, ErrorCode),
    GoneAway(ErrorCode),
    /// The client has closed the connection.
    Closed,
}

#[derive(Default)]
struct Fields(Vec<String>);

impl FieldSink for Fields {
    fn field(&mut self, field: DecodedField<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.push(format!("{}: {}", text(field.name), text(field.value)));
    }
}

/// The server's end of a connection.
pub struct Peer {
    pub transport: Transport,
    pub machine: h2::Connection,
    pub seen: Vec<Seen>,
    fields: Fields,
    is_closed: bool,
}

/// A connection that carries 10 streams, and the server at its end.
pub fn pair() -> (Transport, Peer) {
    pair_with(10)
}

pub fn pair_with(max_streams: u32) -> (Transport, Peer) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let limits = BlockLimits { most_string: 100_000, most_total: 100_000, most_fields: 100 };
    let machine = h2::Connection::new(&Config {
        role: Role::Server,
        max_streams,
        initial_window: 20_000,
        chunk: DEFAULT_FRAME_SIZE,
        connect_protocol: false,
        limits,
        now: 0,
    });
    let (seen, fields, is_closed) = Default::default();
    (
        Transport::plain(ours.into()),
        Peer { transport: Transport::plain(theirs.into()), machine, seen, fields, is_closed },
    )
}

impl Peer {
    /// Writes what is to be written.
    pub async fn write(&mut self) {
        loop {
            self.machine.fill(usize::MAX);
            if self.machine.pending() == 0 {
                return;
            }
            let mut parts = [IoSlice::new(&[]); 16];
            let count = self.machine.parts(&mut parts);
            match self.transport.try_write(&parts[..count], false) {
                Ok(count) => self.machine.wrote(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.transport.writable_after_full().await.unwrap();
                }
                Err(_) => return,
            }
        }
    }

    /// Writes these bytes, which are not from the machine, after all others.
    pub async fn write_raw(&mut self, bytes: &[u8]) {
        self.write().await;
        assert_eq!(self.transport.try_write(&[IoSlice::new(bytes)], false).unwrap(), bytes.len());
    }

    /// Serves until something was seen.
    pub async fn until<T>(&mut self, mut find: impl FnMut(&Seen) -> Option<T>) -> T {
        let mut looked_at = 0;
        loop {
            while let Some(seen) = self.seen.get(looked_at) {
                if let Some(found) = find(seen) {
                    return found;
                }
                looked_at += 1;
            }
            assert!(!self.is_closed, "{:?}", self.seen);
            self.write().await;
            self.read().await;
        }
    }

    /// Serves until a request has come that was not asked for yet.
    pub async fn request(&mut self) -> Slot {
        let slot = self.until(|seen| if let Seen::Head(slot, ..) = seen { Some(*slot) } else { None }).await;
        self.seen.retain(|seen| !matches!(seen, Seen::Head(of, ..) if *of == slot));
        slot
    }

    /// Reads once and answers.
    pub async fn step(&mut self) {
        self.read().await;
        self.write().await;
    }

    async fn read(&mut self) {
        let mut buffer = Vec::with_capacity(100_000);
        if !matches!(self.transport.read(&mut buffer).await, Ok(1..)) {
            self.is_closed = true;
            self.seen.push(Seen::Closed);
            return;
        }
        let mut bytes = &buffer[..];
        while let Some(event) = self.machine.receive(&mut bytes, loops::millis(), &mut self.fields).unwrap() {
            let fields = std::mem::take(&mut self.fields.0);
            self.seen.push(match event {
                Event::Head { slot, ends } => Seen::Head(slot, ends, fields),
                Event::Data { slot, bytes } => {
                    self.machine.consumed(slot, bytes.len());
                    Seen::Data(slot, bytes.len())
                }
                Event::End { slot } => Seen::End(slot),
                Event::Reset { slot, code, .. } => Seen::Reset(slot, code),
                Event::GoneAway { code, .. } => Seen::GoneAway(code),
                _ => continue,
            });
        }
    }

    /// Sends the head of a response.
    pub fn head(&mut self, slot: Slot, status: u16, ends: bool) {
        self.machine.head(slot, ends, |encoder, out| {
            encoder.status(status, out);
            encoder.field(b"server", b"test", out);
        });
    }

    /// Sends a response with this body.
    pub fn answer(&mut self, slot: Slot, body: &[u8]) {
        self.head(slot, 200, body.is_empty());
        if !body.is_empty() {
            self.machine.data(slot, Bytes::copy_from_slice(body), true);
        }
    }
}
