//! Huffman codes (RFC 1951 section 3.2.2).

/// The most symbols of a code.
const MAX_SYMBOLS: usize = 288;
/// The most bits of a word.
pub const MAX_BITS: usize = 15;

/// A code for `N` symbols.
pub struct HuffmanCode<const N: usize> {
    /// The number of bits of each symbol's word; 0 for symbols that do not occur.
    pub lengths: [u8; N],
    /// The words, ready to write: the first bit is the lowest.
    pub words: [u16; N],
}

impl<const N: usize> HuffmanCode<N> {
    /// The canonical code for given lengths.
    pub fn canonical(lengths: [u8; N]) -> HuffmanCode<N> {
        let mut count = [0_u16; MAX_BITS + 1];
        for &len in &lengths {
            count[usize::from(len) % (MAX_BITS + 1)] += 1;
        }
        count[0] = 0;
        let mut next = [0_u16; MAX_BITS + 1];
        let mut word = 0;
        for len in 1..=MAX_BITS {
            word = (word + count[len - 1]) << 1;
            next[len] = word;
        }
        let mut words = [0; N];
        for (word, &len) in words.iter_mut().zip(&lengths) {
            if len != 0 {
                let next = &mut next[usize::from(len) % (MAX_BITS + 1)];
                *word = next.reverse_bits() >> (16 - u32::from(len));
                *next += 1;
            }
        }
        HuffmanCode { lengths, words }
    }

    /// The code with the fewest bits for symbols with these frequencies, with words of at most `limit` bits. It has
    /// words for at least two symbols, because decoders may refuse a single one.
    pub fn optimal(frequencies: &[u32; N], limit: usize) -> HuffmanCode<N> {
        let mut lengths = [0; N];
        let mut order = [0_u32; MAX_SYMBOLS];
        let mut used = 0;
        for (symbol, &frequency) in frequencies.iter().enumerate() {
            if frequency != 0 {
                order[used] = frequency << 9 | symbol as u32;
                used += 1;
            }
        }
        if used < 2 {
            let only = (order[0] & 511) as usize;
            lengths[only] = 1;
            lengths[usize::from(only == 0)] = 1;
            return HuffmanCode::canonical(lengths);
        }
        let order = &mut order[..used];
        order.sort_unstable();
        let mut weights = [0_u32; MAX_SYMBOLS];
        let weights = &mut weights[..used];
        for (weight, entry) in weights.iter_mut().zip(&*order) {
            *weight = entry >> 9;
        }
        let mut count = depths(weights);
        shorten(&mut count, limit);
        // The rarest symbols come first, and get the longest words.
        let mut symbols = order.iter().map(|entry| (entry & 511) as usize);
        for (len, &count) in count.iter().enumerate().rev() {
            for symbol in symbols.by_ref().take(count as usize) {
                lengths[symbol] = len as u8;
            }
        }
        HuffmanCode::canonical(lengths)
    }
}

/// The number of leaves of Huffman's tree at each depth, for at least two weights in ascending order. The tree is built
/// in place of the weights (A. Moffat, J. Katajainen: In-place calculation of minimum-redundancy codes, 1995).
fn depths(weights: &mut [u32]) -> [u32; 33] {
    let n = weights.len();
    // A weight is at most the weight of a whole body, 2^15: no tree is deeper than 32.
    let mut count = [0; 33];
    let (mut leaf, mut root) = (0, 0);
    for next in 0..n - 1 {
        let mut sum = 0;
        for _ in 0..2 {
            if leaf >= n || root < next && weights[root] < weights[leaf] {
                sum += weights[root];
                weights[root] = next as u32;
                root += 1;
            } else {
                sum += weights[leaf];
                leaf += 1;
            }
        }
        weights[next] = sum;
    }
    // Converts parents to depths, from the root on.
    weights[n - 2] = 0;
    for node in (0..n - 2).rev() {
        weights[node] = weights[weights[node] as usize] + 1;
    }
    let mut nodes = weights[..n - 1].iter().rev().peekable();
    let (mut free, mut left) = (1, n as u32);
    let mut depth = 0;
    while left > 0 && depth < count.len() {
        let mut inner = 0;
        while nodes.next_if(|node| **node as usize == depth).is_some() {
            inner += 1;
        }
        let leaves = left.min(free - inner);
        count[depth] = leaves;
        left -= leaves;
        free = 2 * inner;
        depth += 1;
    }
    count
}

/// Shortens words that are too long, and lengthens some that are a little shorter than the limit.
fn shorten(count: &mut [u32; 33], limit: usize) {
    let (within, beyond) = count.split_at_mut(limit + 1);
    let too_long: u32 = beyond.iter().sum();
    if too_long == 0 {
        return;
    }
    beyond.fill(0);
    within[limit] += too_long;
    // The words must not take more code space than there is with `limit` bits.
    let mut taken: u32 = within.iter().enumerate().skip(1).map(|(len, count)| count << (limit - len)).sum();
    while taken > 1 << limit {
        let Some(len) = (1..limit).rev().find(|len| within[*len] > 0) else { return };
        within[len] -= 1;
        within[len + 1] += 2;
        within[limit] -= 1;
        taken -= 1;
    }
}
