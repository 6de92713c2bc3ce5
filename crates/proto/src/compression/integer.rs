//! Integers that begin in the low bits of a byte: RFC 7541 section 5.1, which RFC 9204 section 4.1.1 takes over.

use thiserror::Error;

/// The greatest value that is read: what RFC 9204 section 4.1.1 asks for. Nothing of HTTP/2 comes near it.
const MOST: u64 = (1 << 62) - 1;

/// The number of bytes that may follow the first one, which [`MOST`] can need. More would be zeros without effect.
const MOST_FURTHER: usize = 9;

/// Fault of an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum IntegerError {
    /// The bytes end within it.
    #[error("an integer is cut off")]
    Truncated,
    /// The integer is greater than anything that could be meant, or written with more bytes than such a value needs.
    #[error("an integer is too large")]
    Overflow,
}

/// Reads an integer. It begins in the byte `first`, and `mask` has its bits in that byte.
/// `rest` is the text behind the byte; it is left behind the integer.
#[inline(always)]
pub(crate) fn read(first: u8, mask: u8, rest: &mut &[u8]) -> Result<u64, IntegerError> {
    let value = first & mask;
    if value == mask { read_further(mask, rest) } else { Ok(value.into()) }
}

/// Reads the bytes behind a first one whose bits are all set.
#[inline(never)]
fn read_further(mask: u8, rest: &mut &[u8]) -> Result<u64, IntegerError> {
    let mut value = u64::from(mask);
    for (place, &byte) in rest.iter().take(MOST_FURTHER).enumerate() {
        // The last shift is 56, so that all seven bits have room.
        value += u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            *rest = &rest[place + 1..];
            return if value <= MOST { Ok(value) } else { Err(IntegerError::Overflow) };
        }
    }
    Err(if rest.len() < MOST_FURTHER { IntegerError::Truncated } else { IntegerError::Overflow })
}

/// Writes an integer. `mask` has the bits of the integer in its first byte, and `pattern` the bits above them.
#[inline(always)]
pub(crate) fn write(pattern: u8, mask: u8, value: usize, out: &mut Vec<u8>) {
    if value < usize::from(mask) {
        out.push(pattern | value as u8);
    } else {
        write_further(pattern | mask, value - usize::from(mask), out);
    }
}

/// Writes the first byte, and what is left of the value behind it.
#[inline(never)]
fn write_further(first: u8, mut left: usize, out: &mut Vec<u8>) {
    out.push(first);
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pattern: u8, mask: u8, value: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write(pattern, mask, value, &mut out);
        out
    }

    fn read_all(bytes: &[u8], mask: u8) -> Result<(u64, usize), IntegerError> {
        let (&first, mut rest) = bytes.split_first().expect("a byte");
        read(first, mask, &mut rest).map(|value| (value, bytes.len() - rest.len()))
    }

    /// RFC 7541, appendix C.1.
    #[test]
    fn the_examples_of_the_rfc() {
        assert_eq!(written(0b1010_0000, 0x1f, 10), [0b1010_1010]);
        assert_eq!(written(0b1110_0000, 0x1f, 1337), [0b1111_1111, 0b1001_1010, 0b0000_1010]);
        assert_eq!(written(0, 0xff, 42), [0b0010_1010]);
        assert_eq!(read_all(&[0b1010_1010, 7], 0x1f), Ok((10, 1)));
        assert_eq!(read_all(&[0b1111_1111, 0b1001_1010, 0b0000_1010, 7], 0x1f), Ok((1337, 3)));
        assert_eq!(read_all(&[42], 0xff), Ok((42, 1)));
    }

    #[test]
    fn what_is_written_is_read() {
        for mask in [0x07, 0x0f, 0x1f, 0x3f, 0x7f, 0xff] {
            for shift in 0..62 {
                for value in [(1usize << shift) - 1, 1 << shift, usize::from(mask) + (1 << shift)] {
                    let value = value.min(MOST as usize);
                    let bytes = written(0, mask, value);
                    assert_eq!(read_all(&bytes, mask), Ok((value as u64, bytes.len())), "{value} in {mask:#x}");
                }
            }
        }
    }

    #[test]
    fn cut_off_and_too_large() {
        assert_eq!(read_all(&[0x7f], 0x7f), Err(IntegerError::Truncated));
        assert_eq!(read_all(&[0x7f, 0x80, 0xff], 0x7f), Err(IntegerError::Truncated));
        // Zeros that mean nothing are borne with for as long as a value could still come.
        assert_eq!(read_all(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0], 0x7f), Ok((0x7f, 6)));
        assert_eq!(read_all(&[[0x7f].as_slice(), &[0x80; 9], &[0]].concat(), 0x7f), Err(IntegerError::Overflow));
        assert_eq!(read_all(&[[0x7f].as_slice(), &[0xff; 8], &[0x7f]].concat(), 0x7f), Err(IntegerError::Overflow));
        assert_eq!(read_all(&[[0x7f].as_slice(), &[0xff; 20]].concat(), 0x7f), Err(IntegerError::Overflow));
        let most = written(0, 0x7f, MOST as usize);
        assert_eq!(read_all(&most, 0x7f), Ok((MOST, most.len())));
        assert_eq!(read_all(&written(0, 0x7f, MOST as usize + 1), 0x7f), Err(IntegerError::Overflow));
    }
}
