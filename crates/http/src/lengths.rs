//! Bit sets of the lengths of the names in a table: most names that are looked up in vain have another length.

/// The bit that stands for a length, in the set of the lengths of a table's names.
pub(crate) fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}
