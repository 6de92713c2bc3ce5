//! Predictions whether a repeated attempt is worth making without a check first.

use std::cell::Cell;

/// The largest score. A score above half of it means that success is likely.
const MOST: u8 = 16;

/// A prediction from the last attempts. It belongs to one loop.
#[derive(Debug)]
pub struct SuccessPredictor {
    score: Cell<u8>,
    success: u8,
    failure: u8,
}

impl SuccessPredictor {
    /// A predictor with the weights of a success and a failure, at most 16 each: success is likely if it is clearly
    /// more frequent than `failure / (success + failure)`. At first it is likely.
    pub fn new(success: u8, failure: u8) -> SuccessPredictor {
        debug_assert!(
            success <= MOST && failure <= MOST,
            "a score has no room for the weights {success} and {failure}"
        );
        SuccessPredictor { score: Cell::new(MOST), success, failure }
    }

    /// Whether enough of the last attempts have succeeded.
    #[inline]
    pub fn is(&self) -> bool {
        self.score.get() > MOST / 2
    }

    /// Records the result of an attempt.
    #[inline]
    pub fn came_out(&self, well: bool) {
        let score = self.score.get();
        self.score.set(if well { (score + self.success).min(MOST) } else { score.saturating_sub(self.failure) });
    }
}

/// Of this many attempts that are unlikely to succeed one is made all the same, because only an attempt shows that they
/// would.
const SAMPLE: u8 = 8;

/// A prediction for attempts that are not made while success is unlikely, except for samples.
#[derive(Debug)]
pub struct SampledPredictor {
    likely: SuccessPredictor,
    left_out: Cell<u8>,
}

impl SampledPredictor {
    /// A prediction with the weights of [`SuccessPredictor::new`].
    pub fn new(success: u8, failure: u8) -> SampledPredictor {
        SampledPredictor { likely: SuccessPredictor::new(success, failure), left_out: Cell::new(0) }
    }

    /// Whether success is likely, as in [`SuccessPredictor::is`].
    #[inline]
    pub fn is_likely(&self) -> bool {
        self.likely.is()
    }

    /// Whether to make the attempt.
    #[inline]
    pub fn pays(&self) -> bool {
        if self.likely.is() {
            return true;
        }
        let left_out = self.left_out.get() + 1;
        self.left_out.set(left_out % SAMPLE);
        left_out == SAMPLE
    }

    /// Records the result of an attempt.
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
        // With these weights, one failure in five is the limit.
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
        let sampled = SampledPredictor::new(3, 1);
        while sampled.is_likely() {
            sampled.came_out(false);
        }
        let tries: Vec<bool> = (0..2 * SAMPLE).map(|_| sampled.pays()).collect();
        assert_eq!(tries.iter().filter(|pays| **pays).count(), 2);
        sampled.came_out(true);
        assert!(sampled.pays() && sampled.pays());
    }
}
