//! Which lengths the names in a table have: most names that are looked up in vain have another one.

/// The bit of a length, in a number that says which lengths names in a table have.
pub(crate) fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}
