//! Received sections of fields: heads and trailers.

use super::connection::{H3Connection, H3ConnectionError};
use super::frame::H3ErrorCode;
use super::qpack::{DecodeError, DecodeOutcome, FieldSink};
use super::receive::H3Event;
use super::stream::{Fragment, MessagePart, StreamId};
use crate::compression::{DiscardSink, FieldObserver};
use crate::flood::Flood;
use crate::role::Role;

/// The most bytes of sections that are kept for all streams of a connection. A section that has come in part, or waits
/// for entries of the table, is one; few are of more than a few kilobytes.
pub(super) const MOST_KEPT: usize = 1024 * 1024;

impl H3Connection {
    /// Takes bytes of a section. `left` bytes of it were still to come; `ends` says that nothing follows.
    pub(super) fn fields<'b, S: FieldSink>(
        &mut self,
        id: StreamId,
        payload: &[u8],
        left: u64,
        ends: bool,
        now: u64,
        sink: &mut S,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        let is_whole = payload.len() as u64 == left;
        if is_whole && stream.fragment.is_none() {
            return match self.section(id, payload, ends, now, sink)? {
                Some(event) => {
                    if let H3Event::Blocked { .. } = event {
                        self.keep(id, payload)?;
                    }
                    Ok(Some(event))
                }
                None => Ok(None),
            };
        }
        self.keep(id, payload)?;
        if is_whole { self.kept_section(id, ends, now, sink) } else { Ok(None) }
    }

    /// Keeps bytes of a section.
    fn keep(&mut self, id: StreamId, payload: &[u8]) -> Result<(), Flood> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(()) };
        self.kept += payload.len();
        stream.fragment.get_or_insert_default().0.extend_from_slice(payload);
        if self.kept > MOST_KEPT.max(self.limits.most_total.saturating_mul(2)) {
            return Err(Flood::Fields);
        }
        Ok(())
    }

    /// Decodes the section that was kept.
    pub(super) fn kept_section<'b, S: FieldSink>(
        &mut self,
        id: StreamId,
        ends: bool,
        now: u64,
        sink: &mut S,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        let Some(fragment) = self.streams.get_mut(id).and_then(|stream| stream.fragment.take()) else {
            return Ok(None);
        };
        let Fragment(section) = &*fragment;
        self.kept -= section.len();
        let event = self.section(id, section, ends, now, sink)?;
        if let Some(H3Event::Blocked { .. }) = event
            && let Some(stream) = self.streams.get_mut(id)
        {
            self.kept += section.len();
            stream.fragment = Some(fragment);
        }
        Ok(event)
    }

    /// Decodes a whole section.
    fn section<'b, S: FieldSink>(
        &mut self,
        id: StreamId,
        section: &[u8],
        ends: bool,
        now: u64,
        sink: &mut S,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        let Some(stream) = self.streams.get(id) else { return Ok(None) };
        // Nobody wants what follows a malformed head, or a body of a wrong length.
        let is_wanted = stream.part == MessagePart::Head || stream.stops_at_end.is_none();
        let mut observed = FieldObserver::new(sink);
        let decoded = if is_wanted {
            self.decoder.decode(id.0, section, &self.limits, &mut observed)
        } else {
            self.decoder.decode(id.0, section, &self.limits, &mut DiscardSink)
        };
        let FieldObserver { has_pseudo, is_interim, .. } = observed;
        match decoded {
            Ok(DecodeOutcome::Whole) => {}
            Ok(DecodeOutcome::Blocked(required)) => return self.block(id, required).map(Some),
            Err(DecodeError::TooLarge) => return self.too_large(id, ends, now),
            Err(DecodeError::Compression(what)) => {
                return Err(H3ConnectionError::new(H3ErrorCode::QPACK_DECOMPRESSION_FAILED, what));
            }
        }
        self.write_decoder_instructions()?;
        self.section_len = section.len() as u32;
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if stream.part == MessagePart::Head {
            if self.role == Role::Client && is_interim {
                return Ok(Some(H3Event::Head { stream: id, ends: false }));
            }
            self.head_ends(id, ends);
            return Ok(Some(H3Event::Head { stream: id, ends }));
        }
        stream.part = MessagePart::End;
        if has_pseudo {
            return self.break_stream(id, H3ErrorCode::H3_MESSAGE_ERROR, now);
        }
        if !is_wanted {
            return Ok(None);
        }
        match stream.expected.filter(|left| *left > 0) {
            Some(missing) => self.wrong_length(id, missing, now),
            None => Ok(Some(H3Event::Trailers { stream: id })),
        }
    }

    /// Notes that a stream waits for entries of the table.
    fn block<'b>(&mut self, id: StreamId, required: u64) -> Result<H3Event<'b>, H3ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(H3Event::Blocked { stream: id }) };
        if self.lists.blocked.len() >= usize::from(self.blocked_streams) {
            let what = "more streams are blocked than were allowed";
            return Err(H3ConnectionError::new(H3ErrorCode::QPACK_DECOMPRESSION_FAILED, what));
        }
        stream.is_blocked = true;
        if self.role == Role::Server
            && stream.part == MessagePart::Head
            && !std::mem::replace(&mut stream.is_awaited, true)
        {
            self.lists.awaited.push_back((id, self.now));
        }
        self.lists.blocked.push((id, required));
        Ok(H3Event::Blocked { stream: id })
    }
}
