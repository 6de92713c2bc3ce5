//! Sets of bytes, as classes of a regular expression are.

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ByteSet([u128; 2]);

impl ByteSet {
    /// The bytes of a text.
    pub fn of(bytes: &[u8]) -> ByteSet {
        let mut set = ByteSet::default();
        bytes.iter().for_each(|byte| set.insert(*byte));
        set
    }

    /// Adds a byte.
    pub fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 7)] |= 1 << (byte & 0x7f);
    }

    /// Adds all bytes from one to another.
    pub fn insert_range(&mut self, first: u8, last: u8) {
        (first..=last).for_each(|byte| self.insert(byte));
    }

    /// Whether the byte is in the set.
    pub fn has(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 7)] & (1 << (byte & 0x7f)) != 0
    }

    /// The bytes of both.
    #[must_use]
    pub fn with(self, other: ByteSet) -> ByteSet {
        ByteSet([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// The bytes that are not in it.
    #[must_use]
    pub fn inverse(self) -> ByteSet {
        ByteSet([!self.0[0], !self.0[1]])
    }

    /// Whether the sets have a byte in common.
    pub fn meets(self, other: ByteSet) -> bool {
        self.0[0] & other.0[0] != 0 || self.0[1] & other.0[1] != 0
    }

    /// Whether there is no byte in it.
    pub fn is_empty(self) -> bool {
        self.0 == [0; 2]
    }

    /// The set with the letters of the other case.
    #[must_use]
    pub fn folded(self) -> ByteSet {
        let mut set = self;
        for byte in (b'a'..=b'z').chain(b'A'..=b'Z').filter(|byte| self.has(*byte)) {
            set.insert(byte ^ 0x20);
        }
        set
    }
}
