//! A short row of values, the oldest first, which forgets its oldest ones.

use std::collections::VecDeque;

/// The number of values that are kept: of a quarter of an hour.
pub const VALUES: usize = 180;

/// The last [`VALUES`] values of a figure. Memory is taken as values come.
#[derive(Debug, Clone)]
pub struct Ring<T>(VecDeque<T>);

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring(VecDeque::new())
    }
}

impl<T: Copy> Ring<T> {
    /// Adds the newest value.
    pub fn push(&mut self, value: T) {
        if self.0.len() == VALUES {
            self.0.pop_front();
        } else if self.0.len() == self.0.capacity() {
            // A row that is to be full takes no more memory than that.
            self.0.reserve_exact(self.0.len().max(8).min(VALUES - self.0.len()));
        }
        self.0.push_back(value);
        debug_assert!(self.0.len() <= VALUES, "a row is longer than a quarter of an hour");
    }

    /// The values, the oldest first.
    pub fn values(&self) -> Vec<T> {
        self.0.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_values_are_forgotten() {
        let mut ring = Ring::default();
        assert_eq!(ring.values(), [0; 0]);
        for value in 0..1000_u32 {
            ring.push(value);
        }
        let values = ring.values();
        assert_eq!((values.len(), values[0], values[VALUES - 1]), (VALUES, 820, 999));
        assert!(ring.0.capacity() < VALUES + 16, "{}", ring.0.capacity());
    }
}
