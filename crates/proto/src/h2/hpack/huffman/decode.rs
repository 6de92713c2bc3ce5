//! Decoding: a table gives the symbol of eight bits, which is all that the symbols of most texts take.

use thiserror::Error;

use super::code::{CODES, EOS, LENGTHS, LONGEST};

/// What is wrong with a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum HuffmanError {
    /// Its last bits are no code, and not the beginning of the code of EOS or more than seven bits of it.
    #[error("a Huffman-coded string ends with wrong padding")]
    Padding,
    /// The code of EOS is in it.
    #[error("a Huffman-coded string has EOS in it")]
    Eos,
    /// It is longer than the caller takes.
    #[error("a string is too long")]
    TooLong,
}

/// How long a string can be at most, whose code has `len` bytes: no code is shorter than five bits.
pub(crate) fn longest(len: usize) -> usize {
    len.saturating_mul(8) / 5
}

/// A symbol and the length of its code, in bits.
#[derive(Clone, Copy)]
struct Step {
    symbol: u8,
    /// 0 where the bits do not tell the symbol.
    bits: u8,
}

const UNTOLD: Step = Step { symbol: 0, bits: 0 };

/// The codes of at most 8 bits, by the next 8 bits.
static SHORT: [Step; 256] = steps(8, 0);

/// The bits with which codes of 9 to 15 bits begin, out of 15.
const MIDDLE_BEGIN: usize = 0x7f00;
/// The codes of 9 to 15 bits, by the next 15 bits less [`MIDDLE_BEGIN`].
static MIDDLE: [Step; 256] = steps(15, MIDDLE_BEGIN);

/// The steps of the codes of at most `width` bits, by that many bits less `begin`.
const fn steps(width: u8, begin: usize) -> [Step; 256] {
    let mut table = [UNTOLD; 256];
    let mut symbol = 0;
    while symbol < EOS {
        let bits = LENGTHS[symbol];
        if bits <= width {
            let first = (CODES[symbol] as usize) << (width - bits);
            let mut index = first;
            while index < first + (1 << (width - bits)) {
                if index >= begin {
                    table[index - begin] = Step { symbol: symbol as u8, bits };
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
    /// Where their symbols begin in [`LONG_SYMBOLS`].
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

/// How many symbols have longer codes.
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

/// The symbol at the beginning of `bits`, of which at least 30 are there, whose code has more than 8 bits; and how many
/// bits it has. `None` for EOS.
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

/// How many symbols are decoded before further bytes are looked at: each has at most 8 bits of the 56 that are there.
const BATCH: usize = 7;

/// How many bytes beyond the end of a string are written before it is seen that they are too many.
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

/// Decodes a string into `target`, which has to be longer than the string by [`SPARE`] bytes.
fn decode_into(text: &[u8], target: &mut [u8]) -> Result<usize, HuffmanError> {
    // The next bits, from the highest on, and how many of them are there. Those below are either 0 or those of the bytes
    // that come next, so that it does no harm to put them there again.
    let (mut bits, mut there) = (0u64, 0u32);
    let mut rest = text;
    let mut len = 0;
    while let Some(word) = rest.first_chunk() {
        bits |= u64::from_be_bytes(*word) >> there;
        let taken = (63 - there) / 8;
        rest = &rest[taken as usize..];
        there += taken * 8;
        let Some(batch) = target.get_mut(len..).and_then(|target| target.first_chunk_mut::<BATCH>()) else {
            return Err(HuffmanError::TooLong);
        };
        let mut done = 0;
        for place in batch {
            let step = SHORT[(bits >> 56) as usize];
            if step.bits == 0 {
                break;
            }
            *place = step.symbol;
            bits <<= step.bits;
            there -= u32::from(step.bits);
            done += 1;
        }
        if done == 0 {
            let (symbol, length) = longer(bits).ok_or(HuffmanError::Eos)?;
            target[len] = symbol;
            bits <<= length;
            there -= length;
            done = 1;
        }
        len += done;
    }
    decode_end(bits, there, rest, len, target)
}

/// Decodes what is left when there are fewer than eight further bytes.
fn decode_end(
    mut bits: u64,
    mut there: u32,
    mut rest: &[u8],
    mut len: usize,
    target: &mut [u8],
) -> Result<usize, HuffmanError> {
    loop {
        while there < 56
            && let Some((&byte, further)) = rest.split_first()
        {
            bits |= u64::from(byte) << (56 - there);
            there += 8;
            rest = further;
        }
        // What follows the last byte counts as padding, which consists of ones.
        let padded = bits | u64::MAX >> there;
        let step = SHORT[(padded >> 56) as usize];
        let (symbol, length) = match step.bits {
            // EOS is in the string only if all of it is.
            0 => match longer(padded) {
                Some(found) => found,
                None if there >= LONGEST as u32 => return Err(HuffmanError::Eos),
                None => (0, LONGEST as u32),
            },
            length => (step.symbol, length.into()),
        };
        if length > there {
            // The rest is no whole code, so it is padding, and less than a byte.
            return if there < 8 && padded == u64::MAX { Ok(len) } else { Err(HuffmanError::Padding) };
        }
        *target.get_mut(len).ok_or(HuffmanError::TooLong)? = symbol;
        len += 1;
        bits <<= length;
        there -= length;
    }
}
