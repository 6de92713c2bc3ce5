//! Streams of a client, right or wrong: bytes as they are, resets, and reading that stops.

use super::client::{Http3, LOOK, code_of, number, quic};
use crate::PATIENCE;
use freerun_proto::h3::frame::{kind, write, write_varint};
use freerun_proto::h3::{H3ErrorCode, OwnStream, StreamId as Number};
use quinn_proto::Dir;
use std::time::Instant;

impl Http3 {
    /// Reads nothing of a stream from now on, so that the server's window of it closes.
    pub fn hold(&mut self, stream: u64) {
        self.held.insert(stream);
    }

    /// Reads a stream again.
    pub fn resume(&mut self, stream: u64) {
        self.held.remove(&stream);
        if self.passed.remove(&stream) {
            self.read(quic(stream));
        }
        self.flush();
    }

    /// Gives a request up: both sides of its stream are over.
    pub fn reset(&mut self, stream: u64, code: u64) {
        let _ = self.machine.reset(Number(stream), self.millis());
        let (id, code) = (quic(stream), code_of(code));
        let _ = self.link.connection().send_stream(id).reset(code);
        let _ = self.link.connection().recv_stream(id).stop(code);
        self.machine.release(Number(stream));
        self.messages.remove(&stream);
        self.flush();
    }

    /// Asks the server to send no more on a stream, and lets the request go on.
    pub fn stop(&mut self, stream: u64, code: u64) {
        let _ = self.link.connection().recv_stream(quic(stream)).stop(code_of(code));
        self.flush();
    }

    /// Opens a unidirectional stream. `None` if the server allows no further one.
    pub fn open_unidirectional(&mut self) -> Option<u64> {
        self.link.connection().streams().open(Dir::Uni).map(number)
    }

    /// Writes bytes on a stream, whatever they are, as the windows allow. Returns how many were taken before the stream or the
    /// connection was over.
    ///
    /// # Panics
    /// The window stays closed.
    #[track_caller]
    pub fn write_all(&mut self, stream: u64, bytes: &[u8]) -> usize {
        let mut written = 0;
        let mut end = Instant::now() + PATIENCE;
        while written < bytes.len() {
            match self.link.write(quic(stream), &bytes[written..]) {
                None => break,
                Some(0) if self.link.end().is_some() => break,
                Some(0) => {
                    assert!(Instant::now() < end, "the window of stream {stream} stays closed; {self:?}");
                    self.link.wait(LOOK);
                    self.take_events();
                }
                Some(count) => {
                    written += count;
                    end = Instant::now() + PATIENCE;
                }
            }
        }
        self.flush();
        written
    }

    /// Writes as much as the windows allow at once; returns how many bytes those were.
    pub fn write_some(&mut self, stream: u64, bytes: &[u8]) -> usize {
        let count = self.link.write(quic(stream), bytes).unwrap_or(0);
        self.flush();
        count
    }

    /// Ends the client's side of a stream, without a word to the machine.
    pub fn end_raw(&mut self, stream: u64) {
        let _ = self.link.connection().send_stream(quic(stream)).finish();
        self.flush();
    }

    /// The client's own control stream, or the streams of its table's instructions, once they are open.
    pub fn own(&self, stream: OwnStream) -> Option<u64> {
        self.own[stream.index()].map(number)
    }

    /// Sends a PRIORITY_UPDATE for a request (RFC 9218 section 7.2).
    ///
    /// # Panics
    /// There is no control stream.
    #[track_caller]
    pub fn prioritize(&mut self, stream: u64, priority: &str) {
        let mut payload = Vec::new();
        write_varint(stream, &mut payload);
        payload.extend_from_slice(priority.as_bytes());
        let mut frame = Vec::new();
        write(kind::PRIORITY_UPDATE, &payload, &mut frame);
        self.flush();
        let control = self.own(OwnStream::Control).expect("a control stream");
        self.write_all(control, &frame);
    }

    /// Sends frames of QUIC that the test has written, in one packet, and takes what comes meanwhile. They replace the
    /// bytes of a stream that the server never hears of. The options have to [allow](super::Http3Options::forging) it.
    ///
    /// # Panics
    /// No packet leaves that has room for them.
    #[track_caller]
    pub fn send_frames(&mut self, frames: &[u8]) {
        let forged = self.forged.clone().expect("a client that forges");
        let end = Instant::now() + PATIENCE;
        // What waits is sent first, so that the next packet carries the stream.
        self.step();
        forged.set(frames);
        let mut left = frames.len();
        while forged.are_left() && self.link.end().is_none() {
            assert!(Instant::now() < end, "the frames do not leave; {self:?}");
            let carrier = match self.carrier {
                Some(carrier) => carrier,
                None => self.link.connection().streams().open(Dir::Bi).expect("a stream"),
            };
            self.carrier = Some(carrier);
            let count = self.link.write(carrier, &frames[..left]).unwrap_or(0);
            left -= count;
            if left > 0 && count == 0 {
                // Its window is used up: the server knows nothing of it.
                self.carrier = None;
                left = frames.len();
            }
            self.step();
            if forged.are_left() {
                self.link.wait(LOOK);
            }
        }
    }

    /// Appends what has come on a stream that is [held](Http3::hold) to `bytes`. Returns whether that is all.
    pub fn read_raw(&mut self, stream: u64, bytes: &mut Vec<u8>) -> bool {
        let mut received = self.link.connection().recv_stream(quic(stream));
        let Ok(mut chunks) = received.read(true) else { return true };
        let is_whole = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        let _ = chunks.finalize();
        is_whole
    }

    /// Sends something that the server acknowledges.
    pub fn ping(&mut self) {
        self.link.connection().ping();
        self.flush();
    }

    /// Goes on with new keys (RFC 9001 section 6).
    pub fn update_keys(&mut self) {
        self.link.connection().force_key_update();
        self.flush();
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.link.close(H3ErrorCode::H3_NO_ERROR.0, "");
    }
}
