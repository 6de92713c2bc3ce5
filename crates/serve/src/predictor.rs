//! Whether something that is tried again and again is worth trying without asking first.

use std::cell::Cell;

/// How much is remembered. What is above its half is likely.
const MOST: u8 = 16;

/// A chance, as of the last tries. It belongs to one loop.
#[derive(Debug)]
pub struct SuccessPredictor {
    score: Cell<u8>,
    success: u8,
    failure: u8,
}

impl SuccessPredictor {
    /// What a success and a failure count, at most 16 each: what comes out well more often than `failure / (success + failure)` is
    /// likely. It is so to begin with.
    pub fn new(success: u8, failure: u8) -> SuccessPredictor {
        SuccessPredictor { score: Cell::new(MOST), success, failure }
    }

    /// Whether it has come out well often enough of late.
    #[inline]
    pub fn is(&self) -> bool {
        self.score.get() > MOST / 2
    }

    /// Remembers how a try came out.
    #[inline]
    pub fn came_out(&self, well: bool) {
        let score = self.score.get();
        self.score.set(if well { (score + self.success).min(MOST) } else { score.saturating_sub(self.failure) });
    }
}

/// One of how many tries that are not likely to come out well is made all the same: nothing else tells that they would.
const SAMPLE: u8 = 8;

/// A chance of what is left out where it is not likely, but for some tries.
#[derive(Debug)]
pub struct Sampled {
    likely: SuccessPredictor,
    left_out: Cell<u8>,
}

impl Sampled {
    /// As [`SuccessPredictor::new`].
    pub fn new(success: u8, failure: u8) -> Sampled {
        Sampled { likely: SuccessPredictor::new(success, failure), left_out: Cell::new(0) }
    }

    /// As [`SuccessPredictor::is`].
    #[inline]
    pub fn is_likely(&self) -> bool {
        self.likely.is()
    }

    /// Whether to try.
    #[inline]
    pub fn pays(&self) -> bool {
        if self.likely.is() {
            return true;
        }
        let left_out = self.left_out.get() + 1;
        self.left_out.set(left_out % SAMPLE);
        left_out == SAMPLE
    }

    /// Remembers how a try came out.
    #[inline]
    pub fn came_out(&self, well: bool) {
        self.likely.came_out(well);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_is_what_mostly_comes_out_well() {
        // One failure in five is what it bears.
        for (failures_of_ten, expected) in [(0, true), (1, true), (4, false), (10, false)] {
            let likely = SuccessPredictor::new(1, 4);
            for round in 0..100 {
                likely.came_out(round % 10 >= failures_of_ten);
            }
            assert_eq!(likely.is(), expected, "{failures_of_ten} of 10");
        }
    }

    #[test]
    fn what_was_not_likely_becomes_so_again() {
        let likely = SuccessPredictor::new(1, 4);
        (0..10).for_each(|_| likely.came_out(false));
        assert!(!likely.is());
        let tries = (1..).find(|_| {
            likely.came_out(true);
            likely.is()
        });
        assert_eq!(tries, Some(MOST / 2 + 1));
    }

    #[test]
    fn now_and_then_what_is_not_likely_is_tried_all_the_same() {
        let sampled = Sampled::new(3, 1);
        while sampled.is_likely() {
            sampled.came_out(false);
        }
        let tries: Vec<bool> = (0..2 * SAMPLE).map(|_| sampled.pays()).collect();
        assert_eq!(tries.iter().filter(|pays| **pays).count(), 2);
        sampled.came_out(true);
        assert!(sampled.pays() && sampled.pays());
    }
}
