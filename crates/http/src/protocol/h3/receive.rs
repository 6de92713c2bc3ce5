//! Bytes of QUIC streams on their way to the machine, and what the machine makes of them.

use std::rc::Rc;
use std::task::Context;

use bytes::Bytes;
use freerun_proto::h3::{H3ConnectionError, H3ErrorCode, H3Event, StreamId};
use freerun_proto::head::{FieldFault, FieldRules};
use freerun_proto::priority::Priority;
use freerun_proto::{BodyFraming, HeadRules, HeaderId, Version, parse_request};
use freerun_quic::http3::{self, StreamPieces, quic_id};
use freerun_runtime::{arrival_era, loops};

use crate::connection::stream::StreamFault;
use crate::protocol::h3::client::H3Client;
use crate::protocol::h3::stream::{Framing, H3Stream};
use crate::protocol::multiplexed::head_sink::RequestHeadSink;
use crate::protocol::multiplexed::{ArrivedRequest, RequestTask, RequestWork, field_rules};
use crate::request::core_settings::CoreSettings;
use crate::request::{ClientStream, Head};
use crate::settings::http3::Http3Settings;

/// The longest line of a request without frames, in bytes.
const MOST_LINE: usize = 8 << 10;

/// The use of further bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamInterest {
    /// Further bytes are wanted.
    More,
    /// The stream is over. The machine would take further bytes for a new stream.
    Nothing,
}

/// The error that ends the connection, if there is one.
type ReceiveResult = Result<(), H3ConnectionError>;

impl H3Client {
    /// Takes the streams that the client has opened.
    pub(super) fn accept_streams(self: &Rc<Self>, context: &mut Context<'_>) -> ReceiveResult {
        // Each may be a request, and other tasks have their turn in between.
        while loops::poll_budget(context).is_ready()
            && let Some(id) = self.next_opened()
        {
            self.read_stream(id)?;
        }
        Ok(())
    }

    /// Reads what has come on a stream, as long as somebody wants it.
    pub(super) fn read_stream(self: &Rc<Self>, id: StreamId) -> ReceiveResult {
        if self.rests.borrow().contains(id) {
            self.discard_pieces(id);
            return Ok(());
        }
        loop {
            let is_blocked = !self.is_bare() && self.blocked.borrow().contains_key(&id.0);
            if is_blocked && let Some(code) = self.reset_of(id) {
                return self.peer_has_reset(id, code);
            }
            if is_blocked || self.stream(id).is_some_and(|stream| stream.pauses()) {
                return Ok(());
            }
            let mut pieces = StreamPieces::default();
            if !self.take_pieces(id, &mut pieces) {
                return Ok(());
            }
            let StreamPieces { bytes, fin, reset, has_more } = &mut pieces;
            let (fin, reset, has_more) = (*fin, *reset, *has_more);
            let last = bytes.len().saturating_sub(1);
            if bytes.is_empty() && fin {
                let _ = self.received(id, Bytes::new(), true)?;
            }
            for (number, piece) in bytes.drain(..).enumerate() {
                if self.received(id, piece, fin && number == last)? == StreamInterest::Nothing {
                    return Ok(());
                }
            }
            if let Some(code) = reset {
                self.peer_has_reset(id, code)?;
            }
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Throws away what has come of the rest of a request that was answered.
    fn discard_pieces(&self, id: StreamId) {
        let (mut has_ended, mut has_more) = (false, true);
        while has_more && !has_ended {
            let mut pieces = StreamPieces::default();
            let is_open = self.take_pieces(id, &mut pieces);
            (has_ended, has_more) = (!is_open || pieces.fin || pieces.reset.is_some(), pieces.has_more);
        }
        self.discarded(id, has_ended);
    }

    /// Takes the reset of a stream. Only QUIC knows the other half of a stream that has not begun, so it ends here: when both
    /// have ended, the client may open another stream.
    fn peer_has_reset(&self, id: StreamId, code: H3ErrorCode) -> ReceiveResult {
        let event =
            if self.is_bare() { None } else { self.machine(|machine| machine.peer_resets(id, code, loops::millis()))? };
        match event {
            Some(event) => self.take_event(event),
            None if id.is_bidirectional() && self.stream(id).is_none() => {
                self.reset_stream(id, H3ErrorCode::H3_REQUEST_CANCELLED);
            }
            None => {}
        }
        Ok(())
    }

    /// The code of the client's reset of a stream, whatever was read of it.
    fn reset_of(&self, id: StreamId) -> Option<H3ErrorCode> {
        let reset = self.with_quic(|quic| quic.inner().recv_stream(quic_id(id)).received_reset().ok().flatten());
        reset.flatten().map(|code| H3ErrorCode(code.into()))
    }

    /// Whether nothing more of a stream is wanted that has begun. Its response may be complete already, so the machine would
    /// take further bytes for a new stream.
    fn is_done_with(&self, id: StreamId) -> bool {
        id.is_bidirectional() && self.machine(|machine| machine.is_reset(id))
    }

    /// Goes on with the streams whose readers want more.
    pub(super) fn read_wanted(self: &Rc<Self>) -> ReceiveResult {
        let wanting = self.wanting.take();
        wanting.into_iter().try_for_each(|id| self.read_stream(id))
    }

    /// Takes pieces of a stream out of QUIC. False if the stream is closed.
    fn take_pieces(&self, id: StreamId, pieces: &mut StreamPieces) -> bool {
        self.with_quic(|quic| http3::take_pieces(quic, id, pieces)) == Some(true)
    }

    /// Takes bytes of a stream.
    fn received(self: &Rc<Self>, id: StreamId, bytes: Bytes, fin: bool) -> Result<StreamInterest, H3ConnectionError> {
        // They may have been sent after the loop last looked for changes of files.
        arrival_era::begin();
        if self.is_bare() {
            self.give_bare(id, bytes, fin);
            return Ok(StreamInterest::More);
        }
        let wanted = self.give(id, bytes, fin)?;
        if !id.is_bidirectional() {
            while let Some(id) = self.machine(|machine| machine.take_unblocked()) {
                let (rest, fin) = self.blocked.borrow_mut().remove(&id.0).unwrap_or_default();
                if self.give(id, rest, fin)? == StreamInterest::More {
                    self.read_stream(id)?;
                }
            }
        }
        Ok(wanted)
    }

    fn give(self: &Rc<Self>, id: StreamId, bytes: Bytes, fin: bool) -> Result<StreamInterest, H3ConnectionError> {
        let Some((_, servers, still_listens)) = self.driver.http.servers_of(&self.facts, || self.local()) else {
            return Ok(StreamInterest::Nothing);
        };
        let settings = &servers.entry.settings;
        let rules = field_rules(settings, settings.get::<Http3Settings>().http3_extended_connect);
        let runners = self.driver.runners.clone();
        let mut sink = RequestHeadSink::new(&rules, &runners);
        let now = loops::millis();
        let mut rest = &bytes[..];
        loop {
            let event = self.machine(|machine| machine.receive(id, &mut rest, fin, now, &mut sink))?;
            match event {
                None => return Ok(StreamInterest::More),
                Some(head @ (H3Event::Head { stream, ends } | H3Event::TooLarge { stream, ends })) => {
                    if let H3Event::TooLarge { .. } = head {
                        sink.too_large();
                    }
                    self.begin(stream, ends, &mut sink, &rules, &servers.entry.core);
                    if !still_listens {
                        self.announce_end();
                    }
                    if ends || self.is_done_with(stream) {
                        return Ok(StreamInterest::Nothing);
                    }
                }
                Some(H3Event::Data { stream, bytes: piece }) => {
                    if let Some(stream) = self.stream(stream) {
                        stream.received(bytes.slice_ref(piece));
                    }
                }
                Some(H3Event::Blocked { stream }) => {
                    // A copy keeps nothing else of its datagram.
                    self.blocked.borrow_mut().insert(stream.0, (Bytes::copy_from_slice(rest), fin));
                    return Ok(StreamInterest::More);
                }
                Some(event) => {
                    if let H3Event::Trailers { stream } = event
                        && let Some(fault) = sink.fault()
                    {
                        self.refuse_trailers(stream, fault);
                    }
                    let is_last = matches!(event, H3Event::End { .. } | H3Event::Reset { .. });
                    self.take_event(event);
                    sink.clear();
                    if is_last {
                        return Ok(StreamInterest::Nothing);
                    }
                }
            }
        }
    }

    /// Malformed trailers make the request malformed, which is an error of its stream (RFC 9114 section 4.1.2).
    fn refuse_trailers(&self, id: StreamId, fault: &FieldFault) {
        self.machine(|machine| machine.stop_at_end(id, H3ErrorCode::H3_MESSAGE_ERROR));
        if let Some(stream) = self.stream(id) {
            stream.failed(StreamFault::Trailers(fault.clone()));
        }
    }

    /// Takes an event of the machine that begins nothing.
    pub(super) fn take_event(&self, event: H3Event<'_>) {
        let stream = |id: StreamId| self.stream(id);
        match event {
            // Valid trailers of requests are read and dropped, as nginx does.
            H3Event::End { stream: id } => stream(id).into_iter().for_each(|stream| stream.ended()),
            H3Event::WrongLength { stream: id, missing } => {
                stream(id).into_iter().for_each(|stream| stream.failed(StreamFault::Length { missing }));
            }
            H3Event::Reset { stream: id, code, by_peer } => {
                let figures = &self.facts.loop_state.shared.http3;
                if by_peer {
                    figures.reset_by_clients.add()
                } else {
                    figures.reset_here.add()
                }
                let code = if by_peer { H3ErrorCode::H3_REQUEST_CANCELLED } else { code };
                if id.is_bidirectional() {
                    self.reset_stream(id, code);
                } else {
                    self.stop_stream(id, code);
                }
                stream(id).into_iter().for_each(|stream| stream.leave());
            }
            H3Event::Priority { stream: id, priority } => {
                stream(id).into_iter().for_each(|stream| stream.set_priority(priority));
            }
            H3Event::Head { .. }
            | H3Event::TooLarge { .. }
            | H3Event::Data { .. }
            | H3Event::Trailers { .. }
            | H3Event::Blocked { .. }
            | H3Event::Stopped { .. }
            | H3Event::Settings
            | H3Event::GoneAway { .. } => {}
        }
    }

    /// Begins a request.
    fn begin(
        self: &Rc<Self>,
        id: StreamId,
        ends: bool,
        sink: &mut RequestHeadSink<'_>,
        rules: &FieldRules,
        core: &CoreSettings,
    ) {
        let serial = self.facts.requests.get() + 1;
        self.facts.requests.set(serial);
        let head = sink.take().finish(Version::Http3, rules, ends);
        let (fault, received) = (head.fault, head.received);
        let declared = match head.parsed.body {
            BodyFraming::Length(length) => Some(length),
            BodyFraming::None | BodyFraming::Chunked => None,
        };
        let is_tunnel = head.is_extended_connect;
        let mut head = Head::new(head.buffer, head.parsed);
        head.parsed.set_wire_len(self.machine(|machine| machine.section_len()));
        let priority = self.machine(|machine| {
            if let Some(length) = declared {
                machine.expect(id, length);
            }
            if fault.is_some() {
                machine.stop_at_end(id, H3ErrorCode::H3_MESSAGE_ERROR);
            }
            if let Some(priority) = head.value(HeaderId::Priority) {
                machine.set_first_priority(id, Priority::parse(priority));
            }
            if self.is_last(serial, core) {
                machine.announce_end();
            }
            machine.priority(id)
        });
        let stream = H3Stream::new(self.clone(), id, Framing::Http3, ends);
        stream.set_priority(priority);
        let has_body = !ends && !is_tunnel;
        self.start(id, stream, ArrivedRequest { head, has_body, declared, serial, fault, received });
    }

    /// Starts the task of a request.
    fn start(self: &Rc<Self>, id: StreamId, stream: Rc<H3Stream>, arrived: ArrivedRequest) {
        self.enter(id, stream.clone());
        let client = ClientStream::of_facts(self.facts.clone(), stream.clone());
        let work = RequestWork { http: self.driver.http.clone(), client, arrived };
        self.facts.loop_state.shared.http3.streams.add();
        let runners = &self.driver.runners;
        runners.start(self.facts.number, RequestTask::new(stream, work));
    }

    /// Takes bytes of a request without frames (`http3_hq`): a line with the method and the path, as in HTTP/0.9.
    fn give_bare(self: &Rc<Self>, id: StreamId, bytes: Bytes, fin: bool) {
        if !id.is_bidirectional() {
            return;
        }
        let (before, has_begun) = self.blocked.borrow_mut().remove(&id.0).unwrap_or_default();
        if has_begun {
            // What follows the line is nobody's. The response may be complete, and on its way.
            if !fin {
                self.blocked.borrow_mut().insert(id.0, (Bytes::new(), true));
            }
            return;
        }
        let line = [&before[..], &bytes[..]].concat();
        let end = line.iter().position(|byte| *byte == b'\n');
        if end.is_none() && !fin && line.len() < MOST_LINE {
            self.blocked.borrow_mut().insert(id.0, (line.into(), false));
            return;
        }
        let line = line[..end.unwrap_or(line.len())].trim_ascii_end();
        let buffer = [line, b" HTTP/1.0\r\n\r\n"].concat();
        let Ok(Some(parsed)) = parse_request(&buffer, &HeadRules::default()) else {
            return self.reset_stream(id, H3ErrorCode::H3_MESSAGE_ERROR);
        };
        if !fin {
            self.blocked.borrow_mut().insert(id.0, (Bytes::new(), true));
        }
        let serial = self.facts.requests.get() + 1;
        self.facts.requests.set(serial);
        let head = Head::new(buffer, parsed);
        let stream = H3Stream::new(self.clone(), id, Framing::Bare, true);
        let arrived = ArrivedRequest { head, has_body: false, declared: None, serial, fault: None, received: 0 };
        self.start(id, stream, arrived);
    }
}
