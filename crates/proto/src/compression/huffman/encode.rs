//! Encoding.

use super::code::{CODES, LENGTHS};

/// The code of a byte and its length: together, so that one place of memory is looked at.
#[derive(Clone, Copy)]
struct Code {
    code: u32,
    bits: u32,
}

static TABLE: [Code; 256] = {
    let mut table = [Code { code: 0, bits: 0 }; 256];
    let mut symbol = 0;
    while symbol < 256 {
        table[symbol] = Code { code: CODES[symbol], bits: LENGTHS[symbol] as u32 };
        symbol += 1;
    }
    table
};

/// The number of bytes in the code of a string. With `LOWER`, the string counts as if it were in lower case.
pub(crate) fn encoded_len<const LOWER: bool>(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| code::<LOWER>(byte).bits as usize).sum();
    bits.div_ceil(8)
}

#[inline(always)]
fn code<const LOWER: bool>(byte: u8) -> Code {
    TABLE[usize::from(if LOWER { byte.to_ascii_lowercase() } else { byte })]
}

/// Encodes a string into the beginning of `target`, and says how many bytes that took; `None` if they are more than
/// `target` has. With `LOWER`, it is brought into lower case.
pub(crate) fn encode<const LOWER: bool>(text: &[u8], target: &mut [u8]) -> Option<usize> {
    // The bits that are not written yet, in the lowest places, and how many they are: fewer than 32 between two symbols,
    // and a code has at most 30.
    let (mut bits, mut count) = (0u64, 0u32);
    let mut len = 0;
    for &byte in text {
        let code = code::<LOWER>(byte);
        bits = bits << code.bits | u64::from(code.code);
        count += code.bits;
        if count >= 32 {
            count -= 32;
            *target.get_mut(len..)?.first_chunk_mut()? = ((bits >> count) as u32).to_be_bytes();
            len += 4;
        }
    }
    if count > 0 {
        // The last byte is filled up with ones, as EOS begins.
        let last = ((bits << (32 - count)) as u32 | u32::MAX >> count).to_be_bytes();
        let bytes = count.div_ceil(8) as usize;
        target.get_mut(len..len + bytes)?.copy_from_slice(&last[..bytes]);
        len += bytes;
    }
    Some(len)
}
