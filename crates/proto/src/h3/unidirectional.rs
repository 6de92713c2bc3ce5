//! The peer's unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).

use super::connection::{H3Connection, H3ConnectionError};
use super::frame::{H3ErrorCode, stream_type};
use super::output::OwnStream;
use super::qpack::Instruction;
use super::reader::VarintReader;
use super::receive::H3Event;
use super::stream::StreamId;
use crate::flood::Flood;
use crate::role::Role;

/// The number of unidirectional streams that may have begun without their types: a peer has three to begin with.
const MOST_WITHOUT_TYPE: usize = 16;

/// The unidirectional streams of the peer.
#[derive(Debug, Default)]
pub(super) struct PeerStreams {
    /// The streams that the connection needs, by their kinds.
    needed: [Option<StreamId>; 3],
    /// Streams whose types have not come.
    without_type: Vec<(StreamId, VarintReader)>,
}

impl PeerStreams {
    /// The kind of a stream that the connection needs.
    #[inline]
    fn kind(&self, id: StreamId) -> Option<OwnStream> {
        OwnStream::ALL.into_iter().find(|kind| self.needed[kind.index()] == Some(id))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.without_type.capacity() * size_of::<(StreamId, VarintReader)>()
    }

    /// Takes the type of a stream; `None` if more bytes are needed.
    fn read_type(&mut self, id: StreamId, bytes: &mut &[u8]) -> Result<Option<u64>, Flood> {
        let at = match self.without_type.iter().position(|(other, _)| *other == id) {
            Some(at) => at,
            None => {
                let mut reader = VarintReader::new();
                if let Some(found) = reader.read(bytes) {
                    return Ok(Some(found));
                }
                if !reader.is_partial() {
                    return Ok(None);
                }
                if self.without_type.len() >= MOST_WITHOUT_TYPE {
                    return Err(Flood::Frames);
                }
                self.without_type.push((id, reader));
                return Ok(None);
            }
        };
        let found = self.without_type[at].1.read(bytes);
        if found.is_some() {
            self.forget(id);
        }
        Ok(found)
    }

    /// Forgets a stream without a type.
    fn forget(&mut self, id: StreamId) {
        self.without_type.retain(|(other, _)| *other != id);
        if self.without_type.is_empty() {
            self.without_type = Vec::new();
        }
    }
}

/// The end of a stream that the connection needs.
const CLOSED: H3ConnectionError =
    H3ConnectionError::new(H3ErrorCode::H3_CLOSED_CRITICAL_STREAM, "a stream was closed that the connection needs");

impl H3Connection {
    /// Takes bytes of a unidirectional stream.
    pub(super) fn receive_unidirectional<'b>(
        &mut self,
        id: StreamId,
        bytes: &mut &'b [u8],
        fin: bool,
        now: u64,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        let kind = match self.peer_streams.kind(id) {
            Some(kind) => kind,
            None => match self.peer_streams.read_type(id, bytes)? {
                // A stream may end before its type has come.
                None => {
                    if fin {
                        self.peer_streams.forget(id);
                        self.account.pay(0, now)?;
                    }
                    return Ok(None);
                }
                Some(code) => match self.begin_unidirectional(id, code)? {
                    Some(kind) => kind,
                    None => {
                        *bytes = &[];
                        self.account.pay(0, now)?;
                        let code = H3ErrorCode::H3_STREAM_CREATION_ERROR;
                        return Ok(Some(H3Event::Reset { stream: id, code, by_peer: false }));
                    }
                },
            },
        };
        let event = match kind {
            OwnStream::Control => self.receive_control(bytes, now)?,
            OwnStream::Encoder => self.encoder_instructions(bytes, now)?,
            OwnStream::Decoder => self.decoder_instructions(bytes, now)?,
        };
        if fin && bytes.is_empty() && event.is_none() { Err(CLOSED) } else { Ok(event) }
    }

    /// Looks at the type of a stream. `None` if it is to be refused.
    fn begin_unidirectional(&mut self, id: StreamId, code: u64) -> Result<Option<OwnStream>, H3ConnectionError> {
        let kind = match code {
            stream_type::CONTROL => OwnStream::Control,
            stream_type::ENCODER => OwnStream::Encoder,
            stream_type::DECODER => OwnStream::Decoder,
            stream_type::PUSH if self.role == Role::Server => {
                return Err(H3ConnectionError::new(
                    H3ErrorCode::H3_STREAM_CREATION_ERROR,
                    "a client pushes a response",
                ));
            }
            stream_type::PUSH => {
                return Err(H3ConnectionError::new(H3ErrorCode::H3_ID_ERROR, "a response is pushed"));
            }
            _ => return Ok(None),
        };
        if self.peer_streams.needed[kind.index()].replace(id).is_some() {
            let what = "a second stream of a type of which there is one";
            return Err(H3ConnectionError::new(H3ErrorCode::H3_STREAM_CREATION_ERROR, what));
        }
        Ok(Some(kind))
    }

    /// Carries out instructions of the peer's encoder, and finds the streams that have waited for them.
    fn encoder_instructions<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        now: u64,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        let before = self.decoder.inserted();
        loop {
            let done = self
                .decoder
                .instruction(bytes)
                .map_err(|error| H3ConnectionError::new(H3ErrorCode::QPACK_ENCODER_STREAM_ERROR, error.0))?;
            let Some(work) = done else { break };
            self.account.pay_for_work(work, now)?;
        }
        if self.decoder.inserted() > before {
            self.unblock();
            self.decoder.report();
            self.write_decoder_instructions()?;
        }
        Ok(None)
    }

    /// Lets go on whichever streams have waited for entries that are there.
    fn unblock(&mut self) {
        let inserted = self.decoder.inserted();
        let mut at = 0;
        while let Some((id, required)) = self.lists.blocked.get(at).copied() {
            if required > inserted {
                at += 1;
                continue;
            }
            self.lists.blocked.remove(at);
            if let Some(stream) = self.streams.get_mut(id) {
                stream.is_blocked = false;
                self.lists.unblocked.push_back(id);
            }
        }
    }

    /// Carries out instructions of the peer's decoder.
    fn decoder_instructions<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        now: u64,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        loop {
            let done = self
                .encoder
                .instruction(bytes)
                .map_err(|error| H3ConnectionError::new(H3ErrorCode::QPACK_DECODER_STREAM_ERROR, error.0))?;
            match done {
                None => return Ok(None),
                // There are no more of these than sections and entries.
                Some(Instruction::Progress) => {}
                Some(Instruction::Cancellation) => self.account.pay(0, now)?,
            }
        }
    }

    /// The peer has reset a unidirectional stream of its own.
    pub(super) fn unidirectional_reset(&mut self, id: StreamId, now: u64) -> Result<(), H3ConnectionError> {
        if self.peer_streams.kind(id).is_some() {
            return Err(CLOSED);
        }
        self.peer_streams.forget(id);
        self.account.pay(0, now)?;
        Ok(())
    }

    /// The peer does not read a unidirectional stream of this side. The connection needs each of them.
    pub(super) fn unidirectional_stopped(&mut self) -> H3ConnectionError {
        CLOSED
    }
}
