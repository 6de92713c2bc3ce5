//! Cuts received bytes into frames, however the transport has split them.

use super::frame::{FRAME_HEAD, FrameHead, PREFACE};
use super::stream::Slot;
use crate::role::Role;

/// The next bytes that are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadStage {
    /// The bytes that a client sends first; this number of them has come.
    Preface(u8),
    /// The head of a frame; this number of its bytes has come.
    Head(u8),
    /// The payload of a frame that is looked at as a whole.
    Payload(FrameHead),
    /// The length of the padding of `DATA`.
    PadLength { slot: Option<Slot>, len: u32, ends: bool },
    /// The bytes of `DATA`, and the padding behind them.
    Data { slot: Option<Slot>, left: u32, padding: u32, ends: bool },
    /// Bytes that have no meaning.
    Skip(u32),
}

/// A block of fields that has begun.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends: bool,
    /// The number of its frames so far.
    pub(super) frames: u32,
    pub(super) fragment: Vec<u8>,
    /// The dependency of RFC 7540 was on itself.
    pub(super) is_self_dependent: bool,
}

/// The part of a payload that has come. It is in a box because few connections are ever left alone with one.
#[derive(Debug, Default)]
struct Partial(Vec<u8>);

/// The state of reading.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) stage: ReadStage,
    head: [u8; FRAME_HEAD],
    /// A payload that has come in part.
    partial: Option<Box<Partial>>,
    pub(super) block: Option<Box<Block>>,
    pub(super) had_settings: bool,
}

/// The result of looking at received bytes.
pub(super) enum PayloadRead<'b> {
    /// More bytes are needed.
    More,
    /// The whole payload of a frame.
    Payload(&'b [u8]),
}

impl Reader {
    pub(super) fn new(role: Role) -> Reader {
        let stage = match role {
            Role::Server => ReadStage::Preface(0),
            Role::Client => ReadStage::Head(0),
        };
        Reader { stage, head: [0; FRAME_HEAD], partial: None, block: None, had_settings: false }
    }

    pub(super) fn has_settings(&self) -> bool {
        self.had_settings
    }

    pub(super) fn is_in_block(&self) -> bool {
        let in_fields = matches!(self.stage, ReadStage::Payload(head) if head.kind == super::frame::kind::HEADERS);
        self.block.is_some() || in_fields
    }

    /// The stream whose head has begun and is not complete.
    pub(super) fn block_stream(&self) -> Option<u32> {
        match (&self.block, self.stage) {
            (Some(block), _) => Some(block.stream),
            (None, ReadStage::Payload(head)) if head.kind == super::frame::kind::HEADERS => Some(head.stream),
            _ => None,
        }
    }

    /// Whether a frame has begun and is not complete.
    pub(super) fn is_in_frame(&self) -> bool {
        !matches!(self.stage, ReadStage::Head(0)) || self.block.is_some()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let partial = self.partial.as_ref().map_or(0, |partial| size_of::<Partial>() + partial.0.capacity());
        let block = self.block.as_ref().map_or(0, |block| size_of::<Block>() + block.fragment.capacity());
        partial + block
    }

    /// Notes that a stream is gone: the rest of a frame that it is receiving is for nobody.
    pub(super) fn forget(&mut self, gone: Slot) {
        if let ReadStage::PadLength { slot, .. } | ReadStage::Data { slot, .. } = &mut self.stage
            && *slot == Some(gone)
        {
            *slot = None;
        }
    }

    /// Compares received bytes with the preface. `None` if they are others.
    pub(super) fn preface(&mut self, seen: u8, bytes: &mut &[u8]) -> Option<()> {
        debug_assert!(usize::from(seen) < PREFACE.len(), "the preface has come");
        let rest = &PREFACE[usize::from(seen).min(PREFACE.len())..];
        let len = rest.len().min(bytes.len());
        if bytes[..len] != rest[..len] {
            return None;
        }
        *bytes = &bytes[len..];
        self.stage = if len == rest.len() { ReadStage::Head(0) } else { ReadStage::Preface(seen + len as u8) };
        Some(())
    }

    /// Takes the head of a frame; `None` if more bytes are needed.
    #[inline]
    pub(super) fn head(&mut self, seen: u8, bytes: &mut &[u8]) -> Option<FrameHead> {
        if seen == 0
            && let Some((head, rest)) = bytes.split_first_chunk()
        {
            *bytes = rest;
            return Some(FrameHead::parse(head));
        }
        let seen = usize::from(seen).min(FRAME_HEAD);
        let len = (FRAME_HEAD - seen).min(bytes.len());
        debug_assert!(seen + len <= FRAME_HEAD && self.partial.is_none(), "a head comes within a payload");
        self.head[seen..seen + len].copy_from_slice(&bytes[..len]);
        *bytes = &bytes[len..];
        if seen + len < FRAME_HEAD {
            self.stage = ReadStage::Head((seen + len) as u8);
            return None;
        }
        Some(FrameHead::parse(&self.head))
    }

    /// Takes a payload of this length as a whole. A part of it is kept until the rest has come; then
    /// [`Reader::assembled`] has it.
    #[inline]
    pub(super) fn payload<'b>(&mut self, len: u32, bytes: &mut &'b [u8]) -> PayloadRead<'b> {
        let len = len as usize;
        if self.partial.is_none() && bytes.len() >= len {
            let (payload, rest) = bytes.split_at(len);
            *bytes = rest;
            return PayloadRead::Payload(payload);
        }
        if bytes.is_empty() {
            return PayloadRead::More;
        }
        let Partial(partial) = &mut **self.partial.get_or_insert_default();
        debug_assert!(partial.len() < len, "the part is a whole payload, or another frame's");
        let missing = len.saturating_sub(partial.len()).min(bytes.len());
        partial.extend_from_slice(&bytes[..missing]);
        *bytes = &bytes[missing..];
        PayloadRead::More
    }

    /// The payload of this length that has come in parts, if it is complete.
    pub(super) fn assembled(&mut self, len: u32) -> Option<Vec<u8>> {
        let Partial(partial) = *self.partial.take_if(|partial| partial.0.len() == len as usize)?;
        Some(partial)
    }
}
