//! The part of a body that has come and is still in memory: pieces, one behind the other.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

/// Pieces smaller than this many bytes are copied: a piece keeps alive the whole buffer that it was read into.
const SMALL: usize = 4096;
/// The bytes that a piece costs besides its content.
const OVERHEAD: u64 = 128;

/// Bytes in all windows of the process.
static HELD: AtomicU64 = AtomicU64::new(0);

/// The bytes that all windows hold together.
pub(super) fn held() -> u64 {
    HELD.load(Relaxed)
}

/// The pieces of one body.
///
/// Invariants: each piece begins where the one before it ends, the last one ends at `end`, none is empty. `weight` is the
/// sum over the pieces, and a part of [`HELD`].
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Each piece with the place of its first byte in the body.
    pieces: VecDeque<(u64, Bytes)>,
    end: u64,
    weight: u64,
}

impl Window {
    /// The place of the first byte that is here; the end, if none is here.
    pub(super) fn start(&self) -> u64 {
        self.pieces.front().map_or(self.end, |(start, _)| *start)
    }

    /// Number of bytes of the body that have come.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The bytes of memory that are held.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        let piece = if piece.len() < SMALL { Bytes::copy_from_slice(&piece) } else { piece };
        let weight = piece.len() as u64 + OVERHEAD;
        let start = self.end;
        self.end += piece.len() as u64;
        self.weight += weight;
        HELD.fetch_add(weight, Relaxed);
        let joins = self.pieces.back().is_none_or(|(before, piece)| before + piece.len() as u64 == start);
        debug_assert!(joins, "there is a gap before byte {start}");
        self.pieces.push_back((start, piece));
    }

    fn index(&self, at: u64) -> Option<usize> {
        (self.start() <= at && at < self.end).then(|| self.pieces.partition_point(|(start, _)| *start <= at) - 1)
    }

    /// The rest of the piece from byte `at` on; `None` if that byte is not here.
    pub(super) fn get(&self, at: u64) -> Option<Bytes> {
        let (start, piece) = &self.pieces[self.index(at)?];
        Some(piece.slice(usize::try_from(at - start).ok()?..))
    }

    /// About `most` bytes from `at` on, for writing; nothing if that byte is not here.
    pub(super) fn batch(&self, at: u64, most: usize) -> Vec<Bytes> {
        let Some(first) = self.get(at) else { return Vec::new() };
        let Some(index) = self.index(at) else { return Vec::new() };
        let mut bytes = first.len();
        let mut batch = vec![first];
        for (_, piece) in self.pieces.iter().skip(index + 1) {
            if bytes >= most {
                break;
            }
            bytes += piece.len();
            batch.push(piece.clone());
        }
        batch
    }

    /// Takes all pieces out. The number of bytes that have come stays as it is.
    pub(super) fn take(&mut self) -> Window {
        let end = self.end;
        let taken = std::mem::take(self);
        self.end = end;
        debug_assert!(self.start() == end && self.weight == 0, "what was taken is still counted");
        taken
    }

    /// Drops the first piece, if all of it is before `offset`. Returns whether it was dropped.
    pub(super) fn drop_first(&mut self, offset: u64) -> bool {
        match self.pieces.front() {
            Some((start, piece)) if start + piece.len() as u64 <= offset => {
                let weight = piece.len() as u64 + OVERHEAD;
                debug_assert!(self.weight >= weight, "a piece weighs more than all");
                self.weight -= weight;
                let held = HELD.fetch_sub(weight, Relaxed);
                debug_assert!(held >= weight, "a piece weighs more than those of all windows");
                self.pieces.pop_front();
                debug_assert!(!self.pieces.is_empty() || self.weight == 0, "an empty window weighs {}", self.weight);
                true
            }
            _ => false,
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let held = HELD.fetch_sub(self.weight, Relaxed);
        debug_assert!(held >= self.weight, "a window weighs more than all windows");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_found_by_their_place() {
        let mut window = Window::default();
        assert_eq!((window.start(), window.end(), window.get(0)), (0, 0, None));
        for piece in ["ab", "", "cde", "f"] {
            window.push(Bytes::from_static(piece.as_bytes()));
        }
        let all = b"abcdef";
        for at in 0..6 {
            assert!(all[at..].starts_with(&window.get(at as u64).unwrap()));
            assert_eq!(window.batch(at as u64, 100).concat(), all[at..]);
        }
        assert_eq!((window.get(6), window.batch(6, 1).len()), (None, 0));
        assert_eq!(window.batch(0, 3).concat(), b"abcde");
        assert!(!window.drop_first(1) && window.drop_first(3));
        assert_eq!((window.start(), window.get(1), window.get(2)), (2, None, Some(Bytes::from_static(b"cde"))));
        let held = held();
        assert!(held >= window.weight() && window.weight() == 4 + 2 * OVERHEAD);
        assert!(window.drop_first(6) && window.drop_first(6) && !window.drop_first(6));
        assert_eq!((window.start(), window.end(), window.weight()), (6, 6, 0));
        window.push(Bytes::from_static(b"gh"));
        drop(window.take());
        assert_eq!((window.start(), window.end(), window.weight()), (8, 8, 0));
        assert_eq!((window.get(0), window.get(6)), (None, None));
    }
}
