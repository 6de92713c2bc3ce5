//! A block of literals and matches, and its encoding (RFC 1951 sections 3.2.3 to 3.2.7).

use super::huffman::{HuffmanCode, MAX_BITS};

/// The number of symbols for literals, the end of the block and lengths; the last two have words in the fixed code
/// only.
const SYMBOLS: usize = 288;
const END: usize = 256;
const FIRST_LENGTH: usize = 257;
/// The number of distance symbols; the last two have words in the fixed code only.
const DISTANCES: usize = 32;
/// The distance symbol of a token without a distance. It has no word in any code.
const NO_DISTANCE: u32 = 31;
/// The number of symbols of the precode, with which the lengths of words are written.
const PRECODE: usize = 19;
const PRECODE_BITS: usize = 7;
/// The order in which the lengths of the precode are written.
const PRECODE_ORDER: [usize; PRECODE] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// The number of extra bits after the precode symbols 16 to 18: repeat the last, zeros, many zeros.
const REPEAT_BITS: [u32; 3] = [2, 3, 7];

const LENGTHS: usize = 29;
const LENGTH_BASE: [u16; LENGTHS] =
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_EXTRA: [u8; LENGTHS] =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
/// The symbol of each length.
const LENGTH_SYMBOL: [u8; 259] = {
    let mut table = [0; 259];
    let mut symbol = 0;
    while symbol < LENGTHS {
        let mut len = LENGTH_BASE[symbol] as usize;
        while len < 259 {
            table[len] = symbol as u8;
            len += 1;
        }
        symbol += 1;
    }
    table
};

/// The symbol for a distance, and the number of its extra bits.
#[inline(always)]
fn distance_symbol(distance: u32) -> (u32, u32) {
    match distance {
        0..4 => (distance, 0),
        _ => {
            let top = 31 - distance.leading_zeros();
            (2 * top + (distance >> (top - 1) & 1), top - 1)
        }
    }
}

fn distance_extra(symbol: usize) -> u32 {
    (symbol as u32 / 2).saturating_sub(1)
}

/// The tokens of a body. A token is a symbol (9 bits), its extra bits (5), a distance symbol (5), and its extra bits
/// (13).
pub struct Block {
    tokens: Vec<u32>,
    symbols: [u32; SYMBOLS],
    distances: [u32; DISTANCES],
}

impl Default for Block {
    fn default() -> Block {
        Block { tokens: Vec::new(), symbols: [0; SYMBOLS], distances: [0; DISTANCES] }
    }
}

impl Block {
    /// Begins a new block of at most `most` tokens.
    pub fn clear(&mut self, most: usize) {
        self.tokens.clear();
        self.tokens.reserve(most);
        self.symbols = [0; SYMBOLS];
        self.distances = [0; DISTANCES];
        self.symbols[END] = 1;
    }

    /// Appends a literal byte.
    #[inline(always)]
    pub fn literal(&mut self, byte: u8) {
        self.symbols[usize::from(byte)] += 1;
        self.tokens.push(u32::from(byte) | NO_DISTANCE << 14);
    }

    /// Appends a match of `len` bytes (3 to 258) at `distance` bytes back (1 to 32768).
    #[inline(always)]
    pub fn matched(&mut self, len: usize, distance: usize) {
        let length = usize::from(LENGTH_SYMBOL[len]);
        let distance = distance as u32 - 1;
        let (symbol, extra) = distance_symbol(distance);
        self.symbols[FIRST_LENGTH + length] += 1;
        self.distances[symbol as usize % DISTANCES] += 1;
        let more = len as u32 - u32::from(LENGTH_BASE[length]);
        let further = distance & ((1 << extra) - 1);
        self.tokens.push((FIRST_LENGTH + length) as u32 | more << 9 | symbol << 14 | further << 19);
    }

    /// Writes the block as the last one, in the shortest of the three encodings, up to the end of the last byte.
    pub fn write(&self, body: &[u8], out: &mut Vec<u8>) {
        let symbols = HuffmanCode::optimal(&self.symbols, MAX_BITS);
        let distances = HuffmanCode::optimal(&self.distances, MAX_BITS);
        let header = Header::new(&symbols.lengths, &distances.lengths);
        let behind = self.bits_behind();
        let dynamic = header.bits() + bits(&symbols.lengths, &self.symbols) + bits(&distances.lengths, &self.distances);
        let fixed = bits(&FIXED, &self.symbols) + bits(&[5; DISTANCES], &self.distances);
        let stored = 32 + 8 * body.len() as u32;
        if stored < dynamic.min(fixed) + behind {
            // The bits of a final, stored block, padded to the end of the byte.
            out.push(1);
            let len = body.len() as u16;
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(&(!len).to_le_bytes());
            out.extend_from_slice(body);
            return;
        }
        let mut bits = Bits::new(out, 3 + dynamic.min(fixed) + behind);
        if fixed <= dynamic {
            bits.put(1 | 1 << 1, 3);
            self.write_tokens(&HuffmanCode::canonical(FIXED), &HuffmanCode::canonical([5; DISTANCES]), &mut bits);
        } else {
            bits.put(1 | 2 << 1, 3);
            header.write(&mut bits);
            self.write_tokens(&symbols, &distances, &mut bits);
        }
        bits.finish();
    }

    fn bits_behind(&self) -> u32 {
        let lengths = LENGTH_EXTRA.iter().zip(&self.symbols[FIRST_LENGTH..]);
        let lengths: u32 = lengths.map(|(extra, count)| u32::from(*extra) * count).sum();
        let distances = self.distances.iter().enumerate();
        lengths + distances.map(|(symbol, count)| distance_extra(symbol) * count).sum::<u32>()
    }

    fn write_tokens(&self, symbols: &HuffmanCode<SYMBOLS>, distances: &HuffmanCode<DISTANCES>, bits: &mut Bits<'_>) {
        // The word, its number of bits, and the number of bits with the extra bits, in one table entry.
        let entry =
            |word: u16, len: u8, extra: u32| u32::from(word) << 16 | u32::from(len) << 8 | (u32::from(len) + extra);
        let mut first = [0; 512];
        for (symbol, first) in first.iter_mut().take(SYMBOLS).enumerate() {
            let extra = symbol.checked_sub(FIRST_LENGTH).and_then(|length| LENGTH_EXTRA.get(length));
            *first = entry(symbols.words[symbol], symbols.lengths[symbol], extra.map_or(0, |extra| u32::from(*extra)));
        }
        let mut second = [0; DISTANCES];
        for (symbol, second) in second.iter_mut().enumerate() {
            *second = entry(distances.words[symbol], distances.lengths[symbol], distance_extra(symbol));
        }
        let word = |entry: u32, behind: u32| u64::from(entry >> 16) | u64::from(behind) << (entry >> 8 & 0xff);
        for &token in &self.tokens {
            let symbol = token & 511;
            let entry = first[symbol as usize];
            if symbol < END as u32 {
                bits.put(u64::from(entry >> 16), entry & 0xff);
            } else {
                let distance = second[(token >> 14) as usize % DISTANCES];
                let (one, two) = (word(entry, token >> 9 & 31), word(distance, token >> 19));
                bits.put(one | two << (entry & 0xff), (entry & 0xff) + (distance & 0xff));
            }
        }
        bits.put(u64::from(symbols.words[END]), u32::from(symbols.lengths[END]));
    }
}

/// The lengths of the words in the fixed code.
const FIXED: [u8; SYMBOLS] = {
    let mut lengths = [8; SYMBOLS];
    let mut symbol = 144;
    while symbol < 280 {
        lengths[symbol] = if symbol < 256 { 9 } else { 7 };
        symbol += 1;
    }
    lengths
};

/// The header with the two codes of a dynamic block.
struct Header {
    /// The number of lengths that are written of each code.
    symbols: usize,
    distances: usize,
    /// The lengths with repetitions: symbols of the precode, and their extra bits.
    items: Vec<(u8, u8)>,
    frequencies: [u32; PRECODE],
    precode: HuffmanCode<PRECODE>,
    /// The number of lengths of the precode that are written.
    precodes: usize,
}

impl Header {
    fn new(symbols: &[u8; SYMBOLS], distances: &[u8; DISTANCES]) -> Header {
        let used =
            |lengths: &[u8], least: usize| lengths.iter().rposition(|len| *len != 0).map_or(least, |last| last + 1);
        let (symbols_used, distances_used) = (used(symbols, FIRST_LENGTH), used(distances, 1));
        let mut all = [0; SYMBOLS + DISTANCES];
        let total = symbols_used + distances_used;
        all[..symbols_used].copy_from_slice(&symbols[..symbols_used]);
        all[symbols_used..total].copy_from_slice(&distances[..distances_used]);
        let mut items = Vec::with_capacity(total);
        for run in all[..total].chunk_by(|one, two| one == two) {
            repeat(run[0], run.len(), &mut items);
        }
        let mut frequencies = [0; PRECODE];
        for (symbol, _) in &items {
            frequencies[usize::from(*symbol) % PRECODE] += 1;
        }
        let precode = HuffmanCode::optimal(&frequencies, PRECODE_BITS);
        let last = PRECODE_ORDER.iter().rposition(|symbol| precode.lengths[*symbol] != 0);
        let precodes = last.map_or(4, |last| (last + 1).max(4));
        Header { symbols: symbols_used, distances: distances_used, items, frequencies, precode, precodes }
    }

    fn bits(&self) -> u32 {
        let repeats = REPEAT_BITS.iter().zip(&self.frequencies[16..]);
        let repeats: u32 = repeats.map(|(bits, count)| bits * count).sum();
        14 + 3 * self.precodes as u32 + bits(&self.precode.lengths, &self.frequencies) + repeats
    }

    fn write(&self, bits: &mut Bits<'_>) {
        bits.put((self.symbols - FIRST_LENGTH) as u64, 5);
        bits.put(self.distances as u64 - 1, 5);
        bits.put(self.precodes as u64 - 4, 4);
        for symbol in &PRECODE_ORDER[..self.precodes] {
            bits.put(self.precode.lengths[*symbol].into(), 3);
        }
        for (symbol, behind) in &self.items {
            let symbol = usize::from(*symbol) % PRECODE;
            bits.put(self.precode.words[symbol].into(), self.precode.lengths[symbol].into());
            if let Some(len) = symbol.checked_sub(16).and_then(|repeat| REPEAT_BITS.get(repeat)) {
                bits.put((*behind).into(), *len);
            }
        }
    }
}

/// Appends a length that is repeated `times` times.
fn repeat(len: u8, mut times: usize, items: &mut Vec<(u8, u8)>) {
    if len != 0 {
        items.push((len, 0));
        times -= 1;
    }
    while times >= 3 {
        let (symbol, most) = match len {
            0 if times > 10 => (18, 138),
            0 => (17, 10),
            _ => (16, 6),
        };
        let now = times.min(most);
        items.push((symbol, (now - if symbol == 18 { 11 } else { 3 }) as u8));
        times -= now;
    }
    items.extend(std::iter::repeat_n((len, 0), times));
}

/// The total number of bits of symbols with these frequencies. A body is short enough for the sum.
fn bits(lengths: &[u8], frequencies: &[u32]) -> u32 {
    lengths.iter().zip(frequencies).map(|(len, count)| u32::from(*len) * count).sum()
}

/// A writer of bits into bytes, the lowest bit first.
struct Bits<'o> {
    out: &'o mut Vec<u8>,
    at: usize,
    /// The bits that are not written yet, and their number.
    bits: u64,
    count: u32,
}

impl Bits<'_> {
    /// A writer with room for this number of bits.
    fn new(out: &mut Vec<u8>, bits: u32) -> Bits<'_> {
        let at = out.len();
        // Eight bytes are written at once, and the caller appends eight more.
        out.reserve_exact(bits as usize / 8 + 1 + 8 + 8);
        out.resize(at + bits as usize / 8 + 1 + 8, 0);
        Bits { out, at, bits: 0, count: 0 }
    }

    /// Appends up to 48 bits.
    #[inline(always)]
    fn put(&mut self, value: u64, count: u32) {
        if self.count + count > 63 {
            self.flush();
        }
        self.bits |= value << self.count;
        self.count += count;
    }

    #[inline(always)]
    fn flush(&mut self) {
        if let Some(room) = self.out.get_mut(self.at..self.at + 8) {
            room.copy_from_slice(&self.bits.to_le_bytes());
        }
        let bytes = self.count / 8;
        self.at += bytes as usize;
        self.bits >>= 8 * bytes;
        self.count %= 8;
    }

    fn finish(mut self) {
        self.flush();
        // The last bits are in their byte already.
        self.out.truncate(self.at + usize::from(self.count > 0));
    }
}
