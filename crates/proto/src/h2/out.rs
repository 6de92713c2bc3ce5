//! The bytes that are to be written next: frames in their final order, with large payloads where they are, not copied.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

use super::payload::{Elsewhere, Payload};

/// Payloads up to this size are copied behind the head of their frame: that costs less than one more part to write.
const COPIED: usize = 1024;

/// Bytes of memory that are kept for later frames when everything was written.
const KEPT: usize = 4096;

const _: () = assert!(COPIED < KEPT, "a payload that is copied fits into the memory that is kept");

/// Frames in the order in which they are written; a pointer as long as there were none.
///
/// Invariants: `pending` is the sum of the small bytes that are not written and of all large payloads. The places of large
/// payloads ascend from `written` to the end of the small bytes. No large payload is empty.
#[derive(Debug, Default)]
pub struct Out(Option<Box<Frames>>);

#[derive(Debug, Default)]
struct Frames {
    /// Heads of frames, and small payloads.
    small: Vec<u8>,
    /// Number of the small bytes that were written.
    written: usize,
    /// Large payloads and payloads of other places, each with the number of small bytes in front of it.
    large: VecDeque<(usize, Payload)>,
    /// Number of bytes that are to be written.
    pending: usize,
}

impl Out {
    /// Number of bytes that are to be written.
    #[inline]
    pub fn pending(&self) -> usize {
        self.0.as_ref().map_or(0, |frames| frames.pending)
    }

    /// Appends what this function writes; it must not remove anything.
    #[inline]
    pub(super) fn with<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let frames = self.0.get_or_insert_default();
        let before = frames.small.len();
        let result = write(&mut frames.small);
        debug_assert!(frames.small.len() >= before, "frames are only appended");
        frames.pending += frames.small.len() - before;
        result
    }

    /// Appends a payload.
    #[inline]
    pub(super) fn payload(&mut self, payload: Payload) {
        let frames = self.0.get_or_insert_default();
        debug_assert!(frames.large.back().is_none_or(|(at, _)| *at <= frames.small.len()), "payloads change places");
        frames.pending += payload.len();
        match payload {
            Payload::Memory(bytes) if bytes.len() <= COPIED => frames.small.extend_from_slice(&bytes),
            payload => frames.large.push_back((frames.small.len(), payload)),
        }
    }

    /// The bytes to write next, if they are not in memory.
    pub(super) fn elsewhere(&self) -> Option<&Elsewhere> {
        let frames = self.0.as_ref()?;
        match frames.large.front() {
            Some((position, Payload::Elsewhere(elsewhere))) if *position == frames.written => Some(elsewhere),
            _ => None,
        }
    }

    /// Puts these bytes in the place of as many of those that are next and not in memory.
    pub(super) fn supply(&mut self, bytes: Bytes) {
        let Some(next) = self.elsewhere() else { return };
        debug_assert!(bytes.len() <= next.len, "more bytes than were asked for");
        let Some(frames) = &mut self.0 else { return };
        if let Some((_, payload)) = frames.large.front_mut() {
            payload.split_to(bytes.len());
            if payload.len() == 0 {
                frames.large.pop_front();
            }
        }
        debug_assert!(frames.large.front().is_none_or(|(at, _)| *at >= frames.written), "it was written already");
        frames.large.push_front((frames.written, Payload::Memory(bytes)));
        self.check_invariants();
    }

    /// Fills `parts` with the bytes to write, in their order, as far as they are in memory, and returns how many parts there
    /// are.
    pub fn parts<'o>(&'o self, parts: &mut [IoSlice<'o>]) -> usize {
        let Some(frames) = &self.0 else { return 0 };
        let (mut at, mut count) = (frames.written, 0);
        let mut put = |bytes: &'o [u8]| match parts.get_mut(count) {
            Some(_) if bytes.is_empty() => true,
            Some(part) => {
                *part = IoSlice::new(bytes);
                count += 1;
                true
            }
            None => false,
        };
        for (position, payload) in &frames.large {
            let bytes: &[u8] = match payload {
                Payload::Memory(bytes) => bytes,
                Payload::Elsewhere(_) => {
                    put(&frames.small[at..*position]);
                    return count;
                }
            };
            if !put(&frames.small[at..*position]) || !put(bytes) {
                return count;
            }
            at = *position;
        }
        put(&frames.small[at..]);
        count
    }

    /// Notes that the first `count` bytes were written.
    pub fn wrote(&mut self, mut count: usize) {
        debug_assert!(count <= self.pending(), "more was written than there is");
        let Some(frames) = &mut self.0 else { return };
        frames.pending -= count.min(frames.pending);
        while let Some((position, payload)) = frames.large.front_mut() {
            let small = (*position - frames.written).min(count);
            frames.written += small;
            count -= small;
            if frames.written < *position || count == 0 {
                return;
            }
            let large = payload.len().min(count);
            count -= large;
            if large < payload.len() {
                drop(payload.split_to(large));
                return;
            }
            frames.large.pop_front();
        }
        frames.written += count;
        debug_assert!(frames.written <= frames.small.len(), "more was written than there is");
        if frames.written == frames.small.len() {
            debug_assert_eq!(frames.pending, 0, "everything was written");
            frames.written = 0;
            frames.small.clear();
            frames.small.shrink_to(KEPT);
        }
    }

    /// Compares the number of bytes with the bytes: a wrong one would end a response too early, or never. It looks at all
    /// payloads, so only tests, fuzzing and debug builds call it.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Some(frames) = &self.0 else { return };
        debug_assert!(frames.written <= frames.small.len(), "more was written than there is");
        let large: usize = frames.large.iter().map(|(_, payload)| payload.len()).sum();
        debug_assert_eq!(frames.pending, frames.small.len() - frames.written + large, "the account of bytes is wrong");
        let mut before = frames.written;
        for (at, _) in &frames.large {
            debug_assert!(before <= *at && *at <= frames.small.len(), "a payload at {at} stands behind {before}");
            before = *at;
        }
    }

    /// Number of bytes of memory on the heap besides payloads.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |frames| {
            size_of::<Frames>() + frames.small.capacity() + frames.large.capacity() * size_of::<(usize, Payload)>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `most` bytes at a time, in at most `parts` parts.
    fn written(out: &mut Out, most: usize, parts: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while out.pending() > 0 {
            let mut slices = vec![IoSlice::new(&[]); parts];
            let count = out.parts(&mut slices);
            assert!(count > 0);
            let bytes: Vec<u8> = slices[..count].iter().flat_map(|part| part.iter().copied()).take(most).collect();
            out.wrote(bytes.len());
            all.extend(bytes);
        }
        all
    }

    #[test]
    fn any_number_of_bytes_is_written_in_order() {
        for (most, parts) in [(1, 1), (7, 2), (1000, 3), (5000, 64), (100_000, 64)] {
            let (mut out, mut expected) = (Out::default(), Vec::new());
            for round in 0..3 {
                for len in [0_usize, 3, 2000, 1024, 1025, 5000, 1] {
                    let head = [round as u8; 9];
                    let payload: Vec<u8> = (0..len).map(|at| (at * 7 + round) as u8).collect();
                    out.with(|small| small.extend_from_slice(&head));
                    out.payload(Bytes::from(payload.clone()).into());
                    expected.extend_from_slice(&head);
                    expected.extend_from_slice(&payload);
                }
                if round == 0 {
                    // Some is written before more is appended.
                    let mut slices = [IoSlice::new(&[]); 1];
                    assert_eq!(out.parts(&mut slices), 1);
                    let len = slices[0].len().min(5);
                    assert_eq!(slices[0][..len], expected[..len]);
                    out.wrote(len);
                    expected.drain(..len);
                }
            }
            assert_eq!(out.pending(), expected.len());
            assert_eq!(written(&mut out, most, parts), expected, "{most} {parts}");
            assert!(out.heap_bytes() <= size_of::<Frames>() + KEPT + 64 * size_of::<(usize, Payload)>());
        }
    }

    #[test]
    fn bytes_of_other_places_are_written_by_the_owner_or_supplied() {
        let what: std::rc::Rc<dyn std::any::Any> = std::rc::Rc::new(());
        let mut out = Out::default();
        let elsewhere = |at, len| Payload::Elsewhere(Elsewhere { what: what.clone(), at, len });
        out.with(|small| small.extend_from_slice(b"head"));
        out.payload(elsewhere(1000, 10));
        out.with(|small| small.extend_from_slice(b"tail"));
        assert_eq!(out.pending(), 18);
        let mut parts = [IoSlice::new(&[]); 8];
        assert_eq!(out.parts(&mut parts), 1);
        assert_eq!(&*parts[0], b"head");
        assert!(out.elsewhere().is_none());
        out.wrote(4);
        assert_eq!(out.parts(&mut [IoSlice::new(&[]); 8]), 0);
        let next = |out: &Out| out.elsewhere().map(|next| (next.at, next.len));
        assert_eq!(next(&out), Some((1000, 10)));
        out.wrote(3);
        assert_eq!(next(&out), Some((1003, 7)));
        out.supply(Bytes::from_static(b"abcd"));
        assert!(out.elsewhere().is_none());
        let mut parts = [IoSlice::new(&[]); 8];
        assert_eq!(out.parts(&mut parts), 1);
        assert_eq!(&*parts[0], b"abcd");
        out.wrote(4);
        assert_eq!(next(&out), Some((1007, 3)));
        out.supply(Bytes::from_static(b"xyz"));
        assert_eq!(written(&mut out, 100, 8), b"xyztail");
    }
}
