//! Messages that a stream sends: heads, bodies and trailers, and how they become frames.

use super::connection::H3Connection;
use super::frame::{DataHead, H3ErrorCode, kind, write_varint};
use super::qpack::QpackEncoder;
use super::stream::StreamId;
use crate::role::Role;

/// The room that is left for the head of a frame with fields: its type, and a length of two bytes.
const HEAD: usize = 3;

/// The length from which on two bytes do not suffice.
const LONG: usize = 1 << 14;

impl H3Connection {
    /// Appends a head to the bytes to write on the stream; `write` encodes its fields. A server may send heads of interim
    /// responses before the final one. Returns whether anything was appended: nothing is if the stream is over.
    pub fn head(
        &mut self,
        id: StreamId,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut QpackEncoder, &mut Vec<u8>),
    ) -> bool {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| !stream.is_reset && !stream.sent_end) else {
            return false;
        };
        let start = out.len();
        out.extend_from_slice(&[kind::HEADERS as u8, 0, 0]);
        let section = self.encoder.begin(id.0, out);
        debug_assert_eq!(section, start + HEAD, "a section does not begin behind its frame's head");
        write(&mut self.encoder, out);
        self.encoder.finish(section, out);
        let len = out.len() - section;
        if len < LONG {
            out[start + 1..section].copy_from_slice(&(len as u16 | 0x4000).to_be_bytes());
        } else {
            let mut head = Vec::with_capacity(DataHead::LARGEST);
            write_varint(kind::HEADERS, &mut head);
            write_varint(len as u64, &mut head);
            out.splice(start..section, head);
        }
        stream.sent += (out.len() - start) as u64;
        self.write_encoder_instructions();
        true
    }

    /// Appends trailers to the bytes to write on the stream, behind its body; `write` encodes their fields, without
    /// pseudo-fields. [`H3Connection::end`] follows.
    pub fn trailers(
        &mut self,
        id: StreamId,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut QpackEncoder, &mut Vec<u8>),
    ) -> bool {
        self.head(id, out, write)
    }

    /// Returns the bytes to write before a piece of a body with `len` bytes. They count as payload in the account of the
    /// peer's work, so a piece should be no longer than what the transport takes. `None` if nothing is to be sent,
    /// because the stream is over or the piece is empty.
    #[inline]
    pub fn data(&mut self, id: StreamId, len: usize) -> Option<DataHead> {
        let stream = self.streams.get_mut(id).filter(|stream| !stream.is_reset && !stream.sent_end && len > 0)?;
        let head = DataHead::new(len as u64);
        stream.sent += (head.as_bytes().len() + len) as u64;
        self.account.earn(len);
        Some(head)
    }

    /// Notes that everything was sent on the stream: the owner finishes its half. Returns a code if it also stops
    /// reading, because the request has not ended and nobody wants the rest.
    pub fn end(&mut self, id: StreamId) -> Option<H3ErrorCode> {
        let stream = self.streams.get_mut(id).filter(|stream| !stream.is_reset && !stream.sent_end)?;
        stream.sent_end = true;
        let is_malformed = stream.stops_at_end.is_some();
        let mut stops = None;
        if self.role == Role::Server {
            if !stream.received_end && (!stream.stays_open || is_malformed) {
                stops = Some(stream.stops_at_end.unwrap_or(H3ErrorCode::H3_NO_ERROR));
                stream.received_end = true;
                self.decoder.cancel(id.0);
            }
            if !is_malformed {
                self.account.answered();
            }
        }
        if stream.is_closed() {
            self.closed(id);
        }
        let flooded = self.write_decoder_instructions();
        let torn_down = if is_malformed { self.account.torn_down(self.now) } else { Ok(()) };
        if let Err(flood) = flooded.and(torn_down) {
            // Whoever gives the next bytes to the connection is told.
            self.fail(flood.into());
        }
        stops
    }
}
