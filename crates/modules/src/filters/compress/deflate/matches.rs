//! Finds repetitions.

use super::block::Block;
use super::{Effort, MAX};

/// The value for no position. The last position of the largest body has no four bytes to look for.
const NONE: u16 = u16::MAX;
/// The length of the shortest match that is looked for.
const MIN_MATCH: usize = 4;
/// The length of the longest match that one token can hold.
const MAX_MATCH: usize = 258;
/// The binary logarithm of the largest number of hash slots.
const MAX_BITS: u32 = 13;
const SLOTS: usize = 1 << MAX_BITS;
/// The bytes at the end that cannot be read in groups of eight.
const TAIL: usize = 8;

/// The hash tables.
pub struct Finder {
    /// The last position for each hash of four bytes.
    head: Box<[u16; SLOTS]>,
    /// The previous position with the same hash, for each position.
    before: Box<[u16; MAX]>,
}

impl Default for Finder {
    fn default() -> Finder {
        Finder { head: Box::new([NONE; SLOTS]), before: Box::new([NONE; MAX]) }
    }
}

struct BackReference {
    len: usize,
    distance: usize,
}

impl Finder {
    /// Splits the body into literals and matches.
    pub fn run(&mut self, body: &[u8], effort: Effort, block: &mut Block) {
        // As many slots as there are bytes, up to a limit: unused slots need not be cleared.
        let bits = (usize::BITS - body.len().leading_zeros()).clamp(8, MAX_BITS);
        self.head[..1 << bits].fill(NONE);
        let end = match effort {
            Effort::Fast => self.fast(body, 32 - bits, block),
            Effort::Chains { depth, good } => {
                let (head, before) = (&mut *self.head, &mut *self.before);
                Chains { head, before, body, shift: 32 - bits, depth, good }.run(block)
            }
        };
        for &byte in body.get(end..).unwrap_or_default() {
            block.literal(byte);
        }
    }

    fn fast(&mut self, body: &[u8], shift: u32, block: &mut Block) -> usize {
        let head = &mut *self.head;
        let limit = body.len().saturating_sub(TAIL);
        let mut at = 0;
        while at < limit {
            let now = four(body, at);
            let slot = slot(now, shift);
            let old = usize::from(std::mem::replace(&mut head[slot], at as u16));
            if old == usize::from(NONE) || four(body, old) != now {
                block.literal(body[at]);
                at += 1;
                continue;
            }
            let len = common(body, old, at, MAX_MATCH.min(body.len() - at));
            block.matched(len, at - old);
            // Some of the positions inside the match are enough: all of them would take as long as the rest of the
            // search.
            for inside in [at + 1, at + 2] {
                if inside < limit {
                    head[self::slot(four(body, inside), shift)] = inside as u16;
                }
            }
            at += len;
        }
        at
    }
}

struct Chains<'a> {
    head: &'a mut [u16; SLOTS],
    before: &'a mut [u16; MAX],
    body: &'a [u8],
    shift: u32,
    depth: u32,
    good: usize,
}

impl Chains<'_> {
    fn run(&mut self, block: &mut Block) -> usize {
        let limit = self.body.len().saturating_sub(TAIL);
        let mut at = 0;
        while at < limit {
            let Some(mut found) = self.longest(at, MIN_MATCH - 1) else {
                block.literal(self.body[at]);
                at += 1;
                continue;
            };
            let mut next = at + 1;
            while found.len < self.good && next < limit {
                let better = self.longest(next, found.len);
                next += 1;
                let Some(better) = better else { break };
                block.literal(self.body[at]);
                at += 1;
                found = better;
            }
            block.matched(found.len, found.distance);
            at += found.len;
            while next < at && next < limit {
                self.insert(next);
                next += 1;
            }
        }
        at
    }

    #[inline(always)]
    fn insert(&mut self, at: usize) -> u16 {
        let slot = slot(four(self.body, at), self.shift);
        let old = std::mem::replace(&mut self.head[slot], at as u16);
        self.before[at % MAX] = old;
        old
    }

    /// Finds the longest match that is longer than `at_least`, and enters the position into the tables.
    #[inline(always)]
    fn longest(&mut self, at: usize, at_least: usize) -> Option<BackReference> {
        let body = self.body;
        let mut old = self.insert(at);
        let now = four(body, at);
        let max = MAX_MATCH.min(body.len() - at);
        let mut found = None;
        let mut best = at_least;
        for _ in 0..self.depth {
            if old == NONE || best >= max {
                break;
            }
            let place = usize::from(old);
            // A longer match also has the same four bytes at the end of one more byte than the best length.
            let end = best.saturating_sub(MIN_MATCH - 1);
            if four(body, place) == now && four(body, place + end) == four(body, at + end) {
                let len = common(body, place, at, max);
                if len > best {
                    best = len;
                    found = Some(BackReference { len, distance: at - place });
                    if len >= self.good {
                        break;
                    }
                }
            }
            old = self.before[place % MAX];
        }
        found
    }
}

#[inline(always)]
fn slot(four: u32, shift: u32) -> usize {
    (four.wrapping_mul(0x9E37_79B1) >> shift) as usize % SLOTS
}

#[inline(always)]
fn four(body: &[u8], at: usize) -> u32 {
    body[at..at + 4].try_into().map_or(0, u32::from_le_bytes)
}

/// The number of equal bytes at both positions. The caller knows that the first [`MIN_MATCH`] are equal.
#[inline(always)]
fn common(body: &[u8], one: usize, two: usize, max: usize) -> usize {
    let eight = |at: usize| body[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    let mut len = MIN_MATCH;
    while len + 8 <= max {
        let differ = eight(one + len) ^ eight(two + len);
        if differ != 0 {
            return len + (differ.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    while len < max && body[one + len] == body[two + len] {
        len += 1;
    }
    len
}
