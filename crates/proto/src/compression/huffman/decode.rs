//! Decoding: a table gives the symbol of eight bits, which is all that the symbols of most texts take.

use thiserror::Error;

use super::code::{CODES, EOS, LENGTHS, LONGEST};

/// Fault of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum HuffmanError {
    /// Its last bits are no code, and not the beginning of the code of EOS or more than seven bits of it.
    #[error("a Huffman-coded string ends with wrong padding")]
    Padding,
    /// The code of EOS is in it.
    #[error("a Huffman-coded string has EOS in it")]
    Eos,
    /// The string is longer than the caller takes.
    #[error("a string is too long")]
    TooLong,
}

/// The longest string whose code has `len` bytes: no code is shorter than five bits.
pub(crate) fn longest(len: usize) -> usize {
    len.saturating_mul(8) / 5
}

/// A symbol and the length of its code, in bits.
#[derive(Clone, Copy)]
struct CodedSymbol {
    symbol: u8,
    /// 0 where the bits do not tell the symbol.
    bits: u8,
}

const UNTOLD: CodedSymbol = CodedSymbol { symbol: 0, bits: 0 };

/// The codes of at most 8 bits, by the next 8 bits.
static SHORT: [CodedSymbol; 256] = steps(8, 0);

/// The bits with which codes of 9 to 15 bits begin, out of 15.
const MIDDLE_BEGIN: usize = 0x7f00;
/// The codes of 9 to 15 bits, by the next 15 bits less [`MIDDLE_BEGIN`].
static MIDDLE: [CodedSymbol; 256] = steps(15, MIDDLE_BEGIN);

/// The steps of the codes of at most `width` bits, by that many bits less `begin`.
const fn steps(width: u8, begin: usize) -> [CodedSymbol; 256] {
    let mut table = [UNTOLD; 256];
    let mut symbol = 0;
    while symbol < EOS {
        let bits = LENGTHS[symbol];
        if bits <= width {
            let first = (CODES[symbol] as usize) << (width - bits);
            let mut index = first;
            while index < first + (1 << (width - bits)) {
                if index >= begin {
                    table[index - begin] = CodedSymbol { symbol: symbol as u8, bits };
                }
                index += 1;
            }
        }
        symbol += 1;
    }
    table
}

/// The longer codes of one length.
#[derive(Clone, Copy)]
struct Long {
    /// The first of them.
    code: u32,
    /// The first 32 bits of what follows the last of them.
    end: u64,
    /// The begin of their symbols in [`LONG_SYMBOLS`].
    symbols: u16,
}

/// The shortest of the longer codes.
const LONG_BEGIN: usize = 16;

/// The longer codes, by length.
static LONG: [Long; LONGEST + 1 - LONG_BEGIN] = {
    let mut table = [Long { code: 0, end: 0, symbols: 0 }; LONGEST + 1 - LONG_BEGIN];
    let mut bits = LONG_BEGIN;
    let mut symbols = 0;
    let mut code = 0;
    while bits <= LONGEST {
        // Codes of one length are consecutive numbers in the order of their symbols.
        let mut count = 0;
        let mut symbol = 0;
        while symbol <= EOS {
            if LENGTHS[symbol] as usize == bits {
                if count == 0 {
                    code = CODES[symbol];
                }
                count += 1;
            }
            symbol += 1;
        }
        let end = if count == 0 { 0 } else { ((code + count) as u64) << (32 - bits) };
        table[bits - LONG_BEGIN] = Long { code, end, symbols };
        symbols += count as u16;
        bits += 1;
    }
    table
};

/// The number of symbols with longer codes.
const LONG_COUNT: usize = {
    let mut count = 0;
    let mut symbol = 0;
    while symbol <= EOS {
        if LENGTHS[symbol] as usize >= LONG_BEGIN {
            count += 1;
        }
        symbol += 1;
    }
    count
};

/// The symbols of longer codes, in the order of their codes.
static LONG_SYMBOLS: [u16; LONG_COUNT] = {
    let mut table = [0; LONG_COUNT];
    let mut at = 0;
    let mut bits = LONG_BEGIN;
    while bits <= LONGEST {
        let mut symbol = 0;
        while symbol <= EOS {
            if LENGTHS[symbol] as usize == bits {
                table[at] = symbol as u16;
                at += 1;
            }
            symbol += 1;
        }
        bits += 1;
    }
    table
};

/// The symbol at the beginning of `bits` if its code has more than 8 bits, and the number of its bits. At least 30 of
/// `bits` are there. `None` for EOS.
#[inline(never)]
fn longer(bits: u64) -> Option<(u8, u32)> {
    let step = MIDDLE[((bits >> 49) as usize).wrapping_sub(MIDDLE_BEGIN) & 0xff];
    if step.bits != 0 {
        return Some((step.symbol, step.bits.into()));
    }
    let head = bits >> 32;
    let place = LONG.iter().position(|long| head < long.end)?;
    let (long, length) = (LONG[place], place + LONG_BEGIN);
    let code = (head >> (32 - length)) as u32;
    let symbol = LONG_SYMBOLS.get(usize::from(long.symbols) + (code - long.code) as usize)?;
    Some((u8::try_from(*symbol).ok()?, length as u32))
}

/// The number of symbols that are decoded before further bytes are looked at: each has at most 8 bits of the 56 that
/// are there.
const BATCH: usize = 7;

/// The number of bytes beyond the end of a string that are written before it is seen that they are too many.
pub(crate) const SPARE: usize = BATCH + 1;

/// Decodes a string and appends it to `out`; if it is wrong, or longer than `most`, `out` is left as it was. Meanwhile
/// `out` is longer by no more than the lesser of `most` and [`longest`], and [`SPARE`].
pub(crate) fn decode(text: &[u8], most: usize, out: &mut Vec<u8>) -> Result<(), HuffmanError> {
    let start = out.len();
    let room = longest(text.len()).min(most);
    out.resize(start + room + SPARE, 0);
    let decoded = decode_into(text, &mut out[start..]);
    let len = decoded.and_then(|len| if len <= room { Ok(len) } else { Err(HuffmanError::TooLong) });
    out.truncate(start + len.unwrap_or(0));
    len.map(|_| ())
}

/// Decodes a string into `target`, which has to be longer than the string by [`SPARE`] bytes. The bytes of the text count
/// as if ones without end came behind them, which is what padding consists of: no short code begins with eight of them.
fn decode_into(text: &[u8], target: &mut [u8]) -> Result<usize, HuffmanError> {
    // The next bits, from the highest on, and how many of them are there. Those below are either 0 or those that come
    // next, so that it does no harm to put them there again.
    let (mut bits, mut there) = (0u64, 0u32);
    // How many bits of the text are not decoded yet.
    let mut left = text.len() * 8;
    let mut rest = text;
    let mut len = 0;
    loop {
        let word = rest.first_chunk().map_or_else(|| last_word(text, rest.len()), |word| u64::from_be_bytes(*word));
        bits |= word >> there;
        let taken = (63 - there) / 8;
        rest = rest.get(taken as usize..).unwrap_or_default();
        there += taken * 8;
        let Some(batch) = target.get_mut(len..).and_then(|target| target.first_chunk_mut::<BATCH>()) else {
            return Err(HuffmanError::TooLong);
        };
        let before = there;
        let mut done = 0;
        while done < BATCH {
            let step = SHORT[(bits >> 56) as usize];
            if step.bits == 0 {
                break;
            }
            batch[done] = step.symbol;
            bits <<= step.bits;
            there -= u32::from(step.bits);
            done += 1;
        }
        len += done;
        // Only the beginning of a code is in the text.
        left = left.checked_sub((before - there) as usize).ok_or(HuffmanError::Padding)?;
        if done == 0 {
            if left < 8 {
                // Eight ones are next, and some of them are the padding.
                return Ok(len);
            }
            let (symbol, length) = match longer(bits) {
                Some(found) => found,
                None if left >= LONGEST => return Err(HuffmanError::Eos),
                // A whole byte of padding is one bit more than RFC 7541 section 5.2 allows. There are encoders that append it
                // to a string that ends with a byte, and nginx lets them.
                None if left == 8 => return Ok(len),
                None => return Err(HuffmanError::Padding),
            };
            left = left.checked_sub(length as usize).ok_or(HuffmanError::Padding)?;
            target[len] = symbol;
            len += 1;
            bits <<= length;
            there -= length;
        }
    }
}

/// The last `len` bytes of a text, fewer than eight, and ones behind them.
fn last_word(text: &[u8], len: usize) -> u64 {
    let ones = u64::MAX >> (len * 8);
    if len == 0 {
        return ones;
    }
    let bytes = match text.last_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => text.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    bytes << (64 - len * 8) | ones
}
