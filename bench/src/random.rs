//! Random numbers that are the same in each run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The step of the state: the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea, Flood 2014), which threads may share.
#[derive(Debug)]
pub struct RandomNumbers(AtomicU64);

impl RandomNumbers {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> RandomNumbers {
        RandomNumbers(AtomicU64::new(seed))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let state = self.0.fetch_add(STEP, Relaxed).wrapping_add(STEP);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_the_numbers_of_the_reference_implementation() {
        let numbers = RandomNumbers::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_| numbers.next()), expected);
    }
}
