//! The streams of a connection: the table of those whose requests go on, and what is done with their halves in QUIC.

use std::cmp::Reverse;
use std::rc::Rc;

use bytes::Bytes;
use freerun_proto::h3::{H3ErrorCode, StreamId};
use freerun_quic::http3::{self, StreamOver, quic_code, quic_id};

use crate::protocol::h3::client::H3Client;
use crate::protocol::h3::stream::H3Stream;
use crate::protocol::h3::unread_rests::RestLimits;

impl H3Client {
    /// Enters the stream of a request.
    pub(super) fn enter(&self, id: StreamId, stream: Rc<H3Stream>) {
        let before = self.streams.borrow_mut().insert(id.0, stream);
        debug_assert!(before.is_none(), "a stream begins once");
    }

    /// The stream with this number, if its request has not ended.
    pub(super) fn stream(&self, id: StreamId) -> Option<Rc<H3Stream>> {
        self.streams.borrow().get(&id.0).cloned()
    }

    /// Whether no request goes on.
    pub(super) fn has_no_streams(&self) -> bool {
        self.streams.borrow().is_empty()
    }

    /// Notes that a request has ended.
    pub(super) fn release(&self, id: StreamId) {
        let stream = self.streams.borrow_mut().remove(&id.0);
        drop(stream);
        self.machine(|machine| machine.release(id));
        self.wake();
    }

    /// Resets both halves of a stream in QUIC.
    pub(super) fn reset_stream(&self, id: StreamId, code: H3ErrorCode) {
        self.unacknowledged.borrow_mut().remove(&id.0);
        self.blocked.borrow_mut().remove(&id.0);
        self.rests.borrow_mut().forget(id);
        self.with_quic(|quic| {
            let (id, code) = (quic_id(id), quic_code(code));
            // A half that is closed already needs nothing.
            let _ = quic.inner().send_stream(id).reset(code);
            let _ = quic.inner().recv_stream(id).stop(code);
        });
        self.wake();
    }

    /// Begins to throw away the rest of a request that was answered, or asks the client to stop if it is not to be read.
    pub(super) fn discard_rest(&self, id: StreamId, code: H3ErrorCode, limits: RestLimits) {
        if code != H3ErrorCode::H3_NO_ERROR {
            // A client that has broken the rules is not listened to.
            return self.stop_stream(id, code);
        }
        let given_up = self.rests.borrow_mut().add(id, limits);
        if let Some(given_up) = given_up {
            self.stop_stream(given_up, code);
        }
        // What has come already waits in QUIC, perhaps behind a full buffer.
        self.wanting.borrow_mut().push(id);
        self.wake();
    }

    /// Notes that bytes of a rest were thrown away, and whether it has ended.
    pub(super) fn discarded(&self, id: StreamId, has_ended: bool) {
        let mut rests = self.rests.borrow_mut();
        if has_ended { rests.forget(id) } else { rests.heard(id) }
    }

    /// Gives up the rests that have taken too long. Returns the time at which the next one has, in milliseconds since the
    /// process began.
    pub(super) fn give_up_rests(&self) -> Option<u64> {
        loop {
            let late = self.rests.borrow_mut().take_late();
            let Some(id) = late else { return self.rests.borrow().next_end() };
            self.stop_stream(id, H3ErrorCode::H3_NO_ERROR);
            self.wake_later();
        }
    }

    /// Reads no more of a stream.
    pub(super) fn stop_stream(&self, id: StreamId, code: H3ErrorCode) {
        self.with_quic(|quic| {
            let _ = quic.inner().recv_stream(quic_id(id)).stop(quic_code(code));
        });
    }

    /// Writes pieces on a stream as far as QUIC takes them. Returns how many bytes and how many whole pieces that were.
    ///
    /// # Errors
    /// The stream is over.
    pub(super) fn write(&self, id: StreamId, pieces: &mut [Bytes]) -> Result<(usize, usize), StreamOver> {
        let written = self.with_quic(|quic| http3::write_pieces(quic, id, pieces)).unwrap_or(Err(StreamOver));
        self.wake();
        if let Ok((bytes, _)) = written {
            self.written.set(self.written.get() + bytes as u64);
        }
        written
    }

    /// Ends this side of a stream.
    pub(super) fn finish_stream(&self, id: StreamId) {
        let finished = self.with_quic(|quic| quic.inner().send_stream(quic_id(id)).finish().is_ok());
        if finished == Some(true) {
            self.unacknowledged.borrow_mut().insert(id.0);
        }
        self.wake();
    }

    /// Sets the priority of a stream among the streams of the connection.
    pub(super) fn set_priority(&self, id: StreamId, priority: i32) {
        self.with_quic(|quic| {
            let _ = quic.inner().send_stream(quic_id(id)).set_priority(priority);
        });
    }

    /// Notes that QUIC has room for a stream.
    pub(super) fn note_writable(&self, id: StreamId) {
        self.writable.borrow_mut().push(id);
    }

    /// Has the streams that wait for room use it, the most urgent first (RFC 9218 section 10): all streams share the room.
    /// Streams that take turns begin behind the stream that was served last.
    pub(super) fn flush_writable(&self) {
        let waiting = self.writable.take();
        let mut streams: Vec<_> = waiting.into_iter().filter_map(|id| self.stream(id)).collect();
        let served = self.served.get();
        streams.sort_by_key(|stream| (Reverse(stream.priority()), stream.id().0 <= served, stream.id().0));
        if let Some(first) = streams.first() {
            self.served.set(first.id().0);
        }
        for (place, stream) in streams.iter().enumerate() {
            stream.flush();
            let others = &streams[place + 1..];
            if stream.has_drained() && others.iter().any(|other| other.priority() < stream.priority()) {
                // Its request may have more at once. The others have their turn when it did.
                self.writable.borrow_mut().extend(others.iter().map(|other| other.id()));
                return self.wake_later();
            }
        }
    }
}
