//! Limits of a block of fields, and the reasons why one is not decoded.

use thiserror::Error;

use super::huffman::HuffmanError;
use super::integer::IntegerError;

/// Limits of a block. Everything is checked before memory is taken for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockLimits {
    /// The length of a name or of a value, decoded, in bytes.
    pub most_string: usize,
    /// The sum of all names and values in bytes, no matter how they are written: a byte of a block may stand for a whole
    /// field.
    pub most_total: usize,
    /// The number of fields. Each takes memory besides its text (32 bytes by RFC 9113 section 6.5.2).
    pub most_fields: usize,
}

/// Reason for which a block is not decoded to its end. The decoder is then of no more use, and neither is the
/// connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// The block is wrong: a connection error of type COMPRESSION_ERROR (RFC 9113 section 4.3). The text says what is
    /// wrong.
    #[error("{0}")]
    Compression(&'static str),
    /// The block passes a limit: the connection ends with ENHANCE_YOUR_CALM.
    #[error("a header block is too large")]
    TooLarge,
}

impl From<IntegerError> for DecodeError {
    #[cold]
    fn from(error: IntegerError) -> DecodeError {
        DecodeError::Compression(match error {
            IntegerError::Truncated => "a header block ends within an integer",
            IntegerError::Overflow => "an integer in a header block is too large",
        })
    }
}

impl From<HuffmanError> for DecodeError {
    #[cold]
    fn from(error: HuffmanError) -> DecodeError {
        match error {
            HuffmanError::Padding => DecodeError::Compression("a Huffman-coded string ends with wrong padding"),
            HuffmanError::Eos => DecodeError::Compression("a Huffman-coded string has EOS in it"),
            HuffmanError::TooLong => DecodeError::TooLarge,
        }
    }
}

/// The rest of the limits within a block.
pub(crate) struct RemainingLimits {
    total: usize,
    fields: usize,
    string: usize,
}

impl RemainingLimits {
    /// The limits of a block before its first field.
    #[inline(always)]
    pub(crate) fn new(limits: &BlockLimits) -> RemainingLimits {
        let BlockLimits { most_string: string, most_total: total, most_fields: fields } = *limits;
        RemainingLimits { total, fields, string }
    }

    /// Counts a field before it is handed over.
    #[inline(always)]
    pub(crate) fn count(&mut self, name: usize, value: usize) -> Result<(), DecodeError> {
        let size = name + value;
        if self.fields == 0 || size > self.total {
            return Err(DecodeError::TooLarge);
        }
        self.fields -= 1;
        self.total -= size;
        Ok(())
    }

    /// The longest string that may come next.
    pub(crate) fn string(&self) -> usize {
        self.string.min(self.total)
    }
}
