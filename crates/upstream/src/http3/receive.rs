//! Bytes of streams on their way to the machine, and what the machine makes of them.

use freerun_proto::h3::{H3ConnectionError, H3ErrorCode, H3Event, StreamId};
use freerun_runtime::loops;

use super::connection::Http3State;
use crate::exchange::head::HeadSink;
use crate::exchange::record::ExchangeFault;

/// The fault with a code of HTTP/3. Those that are known have far fewer than 32 bits.
pub(super) fn fault_code(code: H3ErrorCode, fault: fn(u32) -> ExchangeFault) -> ExchangeFault {
    fault(u32::try_from(code.0).unwrap_or(u32::MAX))
}

/// The error that ends the connection, if there is one.
pub(super) type ReceiveResult = Result<(), H3ConnectionError>;

impl Http3State {
    /// Reads what has come on a stream, as long as somebody wants it.
    pub(super) fn read_stream(&self, id: StreamId, sink: &mut HeadSink) -> ReceiveResult {
        while !self.stream(id).is_some_and(|stream| stream.pauses()) {
            if !self.read_pieces(id, sink)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads everything that has come on all streams, before the connection is lost. A server may close the connection as soon
    /// as its responses are acknowledged, and their readers may be slower. No more has come than the window allowed.
    pub(super) fn read_rest(&self, sink: &mut HeadSink) {
        for id in self.open_ids() {
            // What breaks a rule here breaks a connection that is over.
            while let Ok(true) = self.read_pieces(id, sink) {}
        }
    }

    /// Reads pieces of a stream. Returns whether there may be more.
    fn read_pieces(&self, id: StreamId, sink: &mut HeadSink) -> Result<bool, H3ConnectionError> {
        let Some(pieces) = self.look(|streams| streams.read(id)) else { return Ok(false) };
        let last = pieces.bytes.len().saturating_sub(1);
        if pieces.bytes.is_empty() && pieces.fin {
            self.give(id, &[], true, sink)?;
        }
        for (number, piece) in pieces.bytes.iter().enumerate() {
            self.give(id, piece, pieces.fin && number == last, sink)?;
            // What has come is copied, and its reader is woken.
            loops::spend(piece.len() / 4);
        }
        if let Some(code) = pieces.reset {
            let event = self.look(|streams| streams.machine.peer_resets(id, code, loops::millis()))?;
            event.into_iter().for_each(|event| self.take(event, sink));
        }
        Ok(pieces.has_more)
    }

    fn give(&self, id: StreamId, bytes: &[u8], fin: bool, sink: &mut HeadSink) -> ReceiveResult {
        let mut rest = bytes;
        let now = loops::millis();
        loop {
            sink.clear();
            let event = self.look(|streams| streams.machine.receive(id, &mut rest, fin, now, sink))?;
            match event {
                Some(event) => self.take(event, sink),
                None => return Ok(()),
            }
        }
    }

    /// The server reads no more of a stream.
    pub(super) fn take_stop(&self, id: StreamId, code: H3ErrorCode, sink: &mut HeadSink) -> ReceiveResult {
        let event = self.look(|streams| streams.machine.peer_stops(id, code, loops::millis()))?;
        match event {
            Some(event) => self.take(event, sink),
            // The machine has sent everything, but QUIC may still have a part of it. It resets nothing by itself.
            None => self.stop_sending(id, code),
        }
        Ok(())
    }

    /// Sends nothing more on a stream.
    fn stop_sending(&self, id: StreamId, code: H3ErrorCode) {
        self.look(|streams| streams.reset(id, code));
        let Some(stream) = self.stream(id) else { return };
        if code == H3ErrorCode::H3_REQUEST_REJECTED {
            self.refused();
            stream.broken(&fault_code(code, ExchangeFault::Refused));
        } else {
            stream.stopped();
        }
    }

    fn take(&self, event: H3Event<'_>, sink: &mut HeadSink) {
        match event {
            H3Event::Head { stream: id, ends } => {
                let Some(stream) = self.stream(id) else { return };
                match sink.head() {
                    Ok((status, fields)) => stream.head(ends, status, fields),
                    Err(fault) => self.refuse(id, fault),
                }
            }
            H3Event::Trailers { stream: id } => {
                let Some(stream) = self.stream(id) else { return };
                match sink.trailers() {
                    Ok(fields) => stream.trailers(fields),
                    Err(fault) => self.refuse(id, fault),
                }
            }
            H3Event::Data { stream: id, bytes } => {
                self.stream(id).into_iter().for_each(|stream| stream.data(bytes));
            }
            H3Event::End { stream: id } => self.stream(id).into_iter().for_each(|stream| stream.ended()),
            H3Event::Reset { stream: id, code, by_peer } => self.take_reset(id, code, by_peer),
            H3Event::Stopped { stream: id, code } => self.stop_sending(id, code),
            H3Event::GoneAway { .. } => {
                self.break_unprocessed();
                self.tell_streams();
            }
            // No stream waits for entries of the table, and the others happen to servers alone.
            H3Event::Blocked { stream: id } => self.refuse(id, "upstream sent a blocked header".to_owned()),
            H3Event::Settings | H3Event::TooLarge { .. } | H3Event::WrongLength { .. } | H3Event::Priority { .. } => {}
        }
    }

    /// A stream was reset, by either side.
    fn take_reset(&self, id: StreamId, code: H3ErrorCode, by_peer: bool) {
        if !id.is_bidirectional() {
            return self.look(|streams| streams.stop(id, code));
        }
        self.look(|streams| {
            streams.reset(id, if by_peer { H3ErrorCode::H3_REQUEST_CANCELLED } else { code });
            streams.stop(id, code);
        });
        let how = match (by_peer, code) {
            (true, H3ErrorCode::H3_REQUEST_REJECTED) => {
                self.refused();
                fault_code(code, ExchangeFault::Refused)
            }
            (true, code) => fault_code(code, ExchangeFault::Reset),
            (false, code) => {
                ExchangeFault::Invalid(format!("upstream broke the rules of HTTP/3 on a stream ({})", code.name()))
            }
        };
        self.stream(id).into_iter().for_each(|stream| stream.broken(&how));
    }

    /// Resets a stream on which the server has sent something wrong.
    fn refuse(&self, id: StreamId, how: String) {
        self.give_up(id, H3ErrorCode::H3_MESSAGE_ERROR);
        self.stream(id).into_iter().for_each(|stream| stream.broken(&ExchangeFault::Invalid(how.clone())));
    }
}
