//! Events of a client's connection, and what its machine makes of the bytes.

use super::client::{Http3, code_of, number, quic};
use crate::http2::Fields;
use bytes::Bytes;
use freerun_proto::h3::qpack::{DecodedField, FieldSink};
use freerun_proto::h3::{H3ConnectionError, H3ErrorCode, H3Event, OwnStream, StreamId as Number};
use quinn_proto::{Dir, ReadError, StreamEvent, StreamId};

/// The fields of one section.
#[derive(Default)]
struct Section(Fields);

impl FieldSink for Section {
    fn field(&mut self, field: DecodedField<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.push((text(field.name), text(field.value)));
    }
}

impl Http3 {
    /// The time since the connection began, in milliseconds.
    pub(super) fn millis(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Sends what the machine and QUIC have.
    pub(super) fn flush(&mut self) {
        self.write_own();
        self.link.send();
    }

    fn write_own(&mut self) {
        if self.is_bare || !(self.link.is_established() || self.has_early) {
            return;
        }
        for own in OwnStream::ALL {
            let bytes = self.machine.output(own).to_vec();
            if bytes.is_empty() {
                continue;
            }
            let stream = match self.own[own.index()] {
                Some(stream) => stream,
                None => match self.link.connection().streams().open(Dir::Uni) {
                    Some(stream) => *self.own[own.index()].insert(stream),
                    None => return,
                },
            };
            if let Some(count) = self.link.write(stream, &bytes) {
                self.machine.wrote(own, count);
            }
        }
    }

    /// Takes what has happened, and sends what comes of it.
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.link.next_event() {
            match event {
                StreamEvent::Opened { dir } => {
                    while let Some(stream) = self.link.connection().streams().accept(dir) {
                        self.read(stream);
                    }
                }
                StreamEvent::Readable { id } => self.read(id),
                StreamEvent::Stopped { id, error_code } => {
                    let (stream, code) = (number(id), error_code.into_inner());
                    if let Some(message) = self.messages.get_mut(&stream) {
                        message.stopped = Some(code);
                    }
                    let now = self.millis();
                    if id.dir() == Dir::Bi || self.own.contains(&Some(id)) {
                        let result = self.machine.peer_stops(Number(stream), H3ErrorCode(code), now);
                        self.fail_if(result.err());
                    }
                }
                StreamEvent::Writable { .. } | StreamEvent::Finished { .. } | StreamEvent::Available { .. } => {}
            }
        }
        self.flush();
    }

    fn fail_if(&mut self, failure: Option<H3ConnectionError>) {
        if let Some(failure) = failure
            && self.failure.is_none()
        {
            self.failure = Some(failure);
            if !self.is_bare {
                self.link.close(failure.code.0, failure.what);
            }
        }
    }

    /// Reads what has come on a stream.
    pub(super) fn read(&mut self, stream: StreamId) {
        let id = number(stream);
        while !self.blocked.contains_key(&id) {
            if self.held.contains(&id) {
                self.passed.insert(id);
                return;
            }
            let mut received = self.link.connection().recv_stream(stream);
            let Ok(mut chunks) = received.read(true) else { return };
            let next = chunks.next(usize::MAX);
            let _ = chunks.finalize();
            match next {
                Ok(Some(chunk)) => self.received(id, chunk.bytes, false),
                Ok(None) => return self.received(id, Bytes::new(), true),
                Err(ReadError::Blocked) => return,
                Err(ReadError::Reset(code)) => {
                    let now = self.millis();
                    let result = self.machine.peer_resets(Number(id), H3ErrorCode(code.into_inner()), now);
                    self.fail_if(result.err());
                    if let Some(message) = self.messages.get_mut(&id) {
                        message.reset = Some(code.into_inner());
                    }
                    return;
                }
            }
        }
    }

    fn received(&mut self, stream: u64, bytes: Bytes, fin: bool) {
        self.give(stream, bytes, fin);
        while let Some(Number(stream)) = self.machine.take_unblocked() {
            let (rest, fin) = self.blocked.remove(&stream).unwrap_or_default();
            self.give(stream, rest, fin);
            self.read(quic(stream));
        }
    }

    fn give(&mut self, stream: u64, bytes: Bytes, fin: bool) {
        let now = self.millis();
        let mut rest = &bytes[..];
        loop {
            let mut section = Section::default();
            let event = match self.machine.receive(Number(stream), &mut rest, fin, now, &mut section) {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(failure) => return self.fail_if(Some(failure)),
            };
            if let H3Event::Blocked { .. } = event {
                self.blocked.insert(stream, (bytes.slice_ref(rest), fin));
                return;
            }
            self.take_event(event, section);
        }
    }

    fn take_event(&mut self, event: H3Event<'_>, section: Section) {
        match event {
            H3Event::Head { stream, ends } => {
                let Some(message) = self.messages.get_mut(&stream.0) else { return };
                let is_interim = section.0.iter().any(|(name, value)| name == ":status" && value.starts_with('1'));
                if is_interim {
                    message.interim.push(section.0);
                } else {
                    message.fields = section.0;
                    message.whole = ends;
                }
            }
            H3Event::Trailers { stream } => {
                if let Some(message) = self.messages.get_mut(&stream.0) {
                    message.trailers = section.0;
                }
            }
            H3Event::Data { stream, bytes } => {
                if let Some(message) = self.messages.get_mut(&stream.0) {
                    message.body.extend_from_slice(bytes);
                }
            }
            H3Event::End { stream } => {
                if let Some(message) = self.messages.get_mut(&stream.0) {
                    message.whole = true;
                }
            }
            H3Event::Reset { stream, code, .. } => {
                if let Some(message) = self.messages.get_mut(&stream.0) {
                    message.reset = Some(code.0);
                }
                let (id, code) = (quic(stream.0), code_of(code.0));
                let _ = self.link.connection().send_stream(id).reset(code);
                let _ = self.link.connection().recv_stream(id).stop(code);
            }
            H3Event::GoneAway { id } => self.away.push(id),
            H3Event::WrongLength { .. }
            | H3Event::TooLarge { .. }
            | H3Event::Blocked { .. }
            | H3Event::Stopped { .. }
            | H3Event::Priority { .. }
            | H3Event::Settings => {}
        }
    }
}
